package setup

import (
	"cmp"
	"slices"

	"github.com/tailscale/hujson"
)

// jsonFormat is a client's JSON file: an object of MCP servers, an object of
// hooks by event, or both.
type jsonFormat struct {
	// serversKey is the name of the object of MCP servers, or empty.
	serversKey string
	// parents are the names of the objects around that object and around the settings,
	// outermost first, in a file that is only read.
	parents []string
	// serverType is the "type" of a server that the client starts, or empty if the format
	// has none.
	serverType string
	// hooks returns the hooks to install, in the order of a session. It is nil if the file
	// has no hooks.
	hooks func(Options) []hookEntry
	// ungrouped reports whether an event's list has the hooks themselves, instead of
	// groups of hooks with a matcher.
	ungrouped bool
	// version is the required "version" of a file with hooks, or 0.
	version int
	// readSettings reads more settings, such as the one that turns hooks off. It may be nil.
	readSettings func(settings, *Entries)
}

// stdioServer is an MCP server that the client starts.
type stdioServer struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

// hookEntry is a hook to install, with its event.
type hookEntry struct {
	event, matcher string
	handler        handler
}

// handler is a hook in the format of most clients.
type handler struct {
	Name        string `json:"name,omitempty"`
	Type        string `json:"type,omitempty"`
	Command     string `json:"command"`
	AsyncRewake bool   `json:"asyncRewake,omitempty"`
	Timeout     int    `json:"timeout,omitempty"`
}

// hookGroup is a list of hooks with a pattern of the tools that they run for.
type hookGroup struct {
	Matcher string    `json:"matcher,omitempty"`
	Hooks   []handler `json:"hooks"`
}

// settings are the settings of clients that turn hooks and servers on and off.
type settings struct {
	DisableAllHooks bool           `json:"disableAllHooks"`
	EnabledPlugins  map[string]any `json:"enabledPlugins"`
	HooksConfig     struct {
		Enabled  *bool    `json:"enabled"`
		Disabled []string `json:"disabled"`
	} `json:"hooksConfig"`
	MCP struct {
		Allowed  []string `json:"allowed"`
		Excluded []string `json:"excluded"`
	} `json:"mcp"`
	DisabledServers        []string `json:"disabledMcpServers"`
	DisabledMcpjsonServers []string `json:"disabledMcpjsonServers"`
}

func (f jsonFormat) find(src []byte) (Entries, error) {
	d, err := parse(src)
	if err != nil {
		return Entries{}, err
	}
	var found Entries
	if f.serversKey != "" {
		if found.Server, err = f.findServer(d); err != nil {
			return Entries{}, err
		}
	}
	if f.readSettings != nil {
		root := &d.root
		if len(f.parents) > 0 {
			if root, err = d.find('{', f.parents...); err != nil {
				return Entries{}, err
			}
		}
		// Settings of an unknown shape turn off nothing that we know of.
		var s settings
		if root != nil && decode(root, &s) == nil {
			f.readSettings(s, &found)
		}
	}
	if f.hooks == nil {
		return found, nil
	}
	hooks, err := f.findHooks(d)
	if err != nil {
		return Entries{}, err
	}
	for _, h := range hooks {
		found.Hooks = append(found.Hooks, h.hook())
	}
	return found, nil
}

func (f jsonFormat) findServer(d *document) (*Server, error) {
	v, err := d.find('{', append(slices.Clone(f.parents), f.serversKey, ServerName)...)
	if err != nil || v == nil {
		return nil, err
	}
	var s struct {
		Command string         `json:"command"`
		Args    []string       `json:"args"`
		URL     string         `json:"url"`
		HTTPURL string         `json:"httpUrl"` // Gemini CLI's
		Env     map[string]any `json:"env"`
		Headers map[string]any `json:"headers"`
	}
	if err := decode(v, &s); err != nil {
		return &Server{}, nil //nolint:nilerr // a server of an unknown shape is not ours
	}
	return &Server{Command: s.Command, Args: s.Args, URL: cmp.Or(s.URL, s.HTTPURL), Env: stringValues(s.Env), Headers: stringValues(s.Headers)}, nil
}

// jsonHook is a hook of Tocsin in a JSON file.
type jsonHook struct {
	event string
	// group is its index in the event's list, item its index in the group, or -1 if the
	// file has no groups.
	group, item int
	value       *hujson.Value
	// line is its command line, program the first word of it, and rest the other words.
	line, program, rest string
	async               bool
}

func (p jsonHook) hook() Hook {
	return Hook{
		Event: p.event, Program: p.program, Inbox: flagValue(p.rest, flagInbox), StateDir: flagValue(p.rest, flagStateDir),
		Namespaces: flagValue(p.rest, flagNamespaces), Rewake: p.rewake(),
	}
}

func (p jsonHook) rewake() bool { return p.async || flagValue(p.rest, "--wait") != "" }

// findHooks returns the hooks that run Tocsin, in the order of the file.
func (f jsonFormat) findHooks(d *document) ([]jsonHook, error) {
	hooks, err := d.find('{', "hooks")
	if err != nil || hooks == nil {
		return nil, err
	}
	var out []jsonHook
	for _, event := range members(hooks).items {
		list, err := d.find('[', "hooks", event.name)
		if err != nil {
			if f.hasHookFor(event.name) {
				return nil, err
			}
			continue // unknown to us, such as a setting among the events
		}
		for g, group := range members(list).items {
			if f.ungrouped {
				out = appendIfTocsin(out, jsonHook{event: event.name, group: g, item: -1, value: group.value})
				continue
			}
			n, err := member(group.value, "hooks")
			if err != nil {
				return nil, err
			}
			if n < 0 {
				continue
			}
			for i, it := range members(members(group.value).items[n].value).items {
				out = appendIfTocsin(out, jsonHook{event: event.name, group: g, item: i, value: it.value})
			}
		}
	}
	return out, nil
}

// hasHookFor reports whether install writes a hook for an event.
func (f jsonFormat) hasHookFor(event string) bool {
	return slices.ContainsFunc(f.hooks(Options{Hooks: true, Rewake: true}), func(e hookEntry) bool { return e.event == event })
}

func appendIfTocsin(out []jsonHook, p jsonHook) []jsonHook {
	var h handler
	if p.value.Value.Kind() != '{' || decode(p.value, &h) != nil {
		return out
	}
	program, rest, ok := hookProgram(h.Command)
	if !ok {
		return out
	}
	p.line, p.program, p.rest, p.async = h.Command, program, rest, h.AsyncRewake
	return append(out, p)
}

func (f jsonFormat) install(src []byte, o Options) ([]byte, error) {
	d, err := parse(src)
	if err != nil {
		return nil, err
	}
	was := string(d.src)
	if f.serversKey != "" {
		if err := f.installServer(d, o); err != nil {
			return nil, err
		}
	}
	if f.hooks != nil && o.Hooks {
		if err := f.installHooks(d, o); err != nil {
			return nil, err
		}
	}
	if string(d.src) == was {
		return src, nil
	}
	return d.src, nil
}

func (f jsonFormat) installServer(d *document, o Options) error {
	old, err := f.findServer(d)
	if err != nil {
		return err
	}
	if old == nil {
		servers, err := d.findOrAdd('{', f.serversKey)
		if err != nil {
			return err
		}
		return d.add(servers, ServerName, stdioServer{f.serverType, o.Program, o.gatewayArgs()})
	}
	if old.IsHTTP() {
		return nil // the user decides how to reach it
	}
	if o.StateDir != "" && old.StateDir() != o.StateDir {
		args, err := d.find('[', f.serversKey, ServerName, "args")
		if err != nil {
			return err
		}
		if err := d.replace(args, setArgument(old.Args, flagStateDir, o.StateDir)); err != nil {
			return err
		}
	}
	if old.Command == o.Program {
		return nil
	}
	command, err := d.find('"', f.serversKey, ServerName, "command")
	if err != nil {
		return err
	}
	if command != nil {
		return d.replace(command, o.Program)
	}
	server, err := d.find('{', f.serversKey, ServerName)
	if err != nil {
		return err
	}
	return d.add(server, "command", o.Program)
}

func (f jsonFormat) installHooks(d *document, o Options) error {
	if f.version > 0 {
		if n, err := member(&d.root, "version"); err != nil {
			return err
		} else if n < 0 {
			if err := d.add(&d.root, "version", f.version); err != nil {
				return err
			}
		}
	}
	if err := f.updateHooks(d, o); err != nil {
		return err
	}
	for _, e := range f.hooks(o) {
		hooks, err := f.findHooks(d)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(hooks, func(p jsonHook) bool { return p.event == e.event && p.rewake() == e.handler.AsyncRewake }) {
			continue
		}
		list, err := d.findOrAdd('[', "hooks", e.event)
		if err != nil {
			return err
		}
		var entry any = e.handler
		if !f.ungrouped {
			entry = hookGroup{e.matcher, []handler{e.handler}}
		}
		if err := d.add(list, "", entry); err != nil {
			return err
		}
	}
	return nil
}

// updateHooks sets the program and the flags of the installed hooks.
func (f jsonFormat) updateHooks(d *document, o Options) error {
	hooks, err := f.findHooks(d)
	if err != nil {
		return err
	}
	for i, p := range hooks {
		line := p.line
		if p.program != o.Program {
			line = quote(o.Program) + p.rest
		}
		if line = o.withFlags(line); line == p.line {
			continue
		}
		if hooks, err = f.findHooks(d); err != nil { // their offsets have changed
			return err
		}
		n, err := member(hooks[i].value, "command")
		if err != nil {
			return err
		}
		if err := d.replace(members(hooks[i].value).items[n].value, line); err != nil {
			return err
		}
	}
	return nil
}

// findOrAdd returns the object or array at a path, after adding what is missing of the
// path.
func (d *document) findOrAdd(kind hujson.Kind, path ...string) (*hujson.Value, error) {
	v, err := d.find(kind, path...)
	if err != nil || v != nil {
		return v, err
	}
	up := &d.root
	if len(path) > 1 {
		if up, err = d.findOrAdd('{', path[:len(path)-1]...); err != nil {
			return nil, err
		}
	}
	var empty any = struct{}{}
	if kind == '[' {
		empty = []struct{}{}
	}
	if err := d.add(up, path[len(path)-1], empty); err != nil {
		return nil, err
	}
	return d.find(kind, path...)
}
