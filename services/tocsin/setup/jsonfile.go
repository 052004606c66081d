package setup

import (
	"cmp"
	"slices"

	"github.com/tailscale/hujson"
)

// jsonFormat is a client's JSON file: an object of MCP servers, an object of
// hooks by event, or both.
type jsonFormat struct {
	// servers is the name of the object of MCP servers, or empty.
	servers string
	// under are the names that lead to that object, and to the settings, in a file
	// that is only read.
	under []string
	// kind is the type of a server that the client starts, where that has to be
	// said.
	kind string
	// hooks are the hooks that are wanted, in the order of a session; nil
	// where the file has none.
	hooks func(Wanted) []hookEntry
	// flat says that an event's hooks stand in its list themselves, not in
	// groups with a matcher.
	flat bool
	// version is the number that a file with hooks has to have, or 0.
	version int
	// more reads settings beside those, such as the one that turns hooks off.
	more func(settings, *Found)
}

// stdioServer is an MCP server that the client starts.
type stdioServer struct {
	Type    string   `json:"type,omitempty"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

// hookEntry is a hook with its event.
type hookEntry struct {
	event, matcher string
	handler        handler
}

// handler is a hook as most clients write it.
type handler struct {
	Name        string `json:"name,omitempty"`
	Type        string `json:"type,omitempty"`
	Command     string `json:"command"`
	AsyncRewake bool   `json:"asyncRewake,omitempty"`
	Timeout     int    `json:"timeout,omitempty"`
}

// hookGroup is a list of hooks with the tools that they are for.
type hookGroup struct {
	Matcher string    `json:"matcher,omitempty"`
	Hooks   []handler `json:"hooks"`
}

// settings are those of clients that say whether hooks run.
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

func (f jsonFormat) find(src []byte) (Found, error) {
	d, err := parse(src)
	if err != nil {
		return Found{}, err
	}
	var found Found
	if f.servers != "" {
		if found.Server, err = f.findServer(d); err != nil {
			return Found{}, err
		}
	}
	if f.more != nil {
		root := &d.root
		if len(f.under) > 0 {
			if root, err = d.at('{', f.under...); err != nil {
				return Found{}, err
			}
		}
		// Settings of another shape turn nothing off that we know of.
		var s settings
		if root != nil && decode(root, &s) == nil {
			f.more(s, &found)
		}
	}
	if f.hooks == nil {
		return found, nil
	}
	ours, err := f.ours(d)
	if err != nil {
		return Found{}, err
	}
	for _, h := range ours {
		found.Hooks = append(found.Hooks, h.hook())
	}
	return found, nil
}

func (f jsonFormat) findServer(d *document) (*Server, error) {
	v, err := d.at('{', append(slices.Clone(f.under), f.servers, ServerName)...)
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
		return &Server{}, nil //nolint:nilerr // one of another shape is somebody else's
	}
	return &Server{Command: s.Command, Args: s.Args, URL: cmp.Or(s.URL, s.HTTPURL), Env: texts(s.Env), Headers: texts(s.Headers)}, nil
}

// place is where a hook of ours stands.
type place struct {
	event string
	// group is its place in the event's list, item that in the group's, -1 in
	// a flat file.
	group, item int
	value       *hujson.Value
	// line is its command line, program the first word of it and rest what follows.
	line, program, rest string
	async               bool
}

func (p place) hook() Hook {
	return Hook{
		Event: p.event, Program: p.program, Inbox: flagOf(p.rest, flagInbox), StateDir: flagOf(p.rest, flagStateDir),
		Namespaces: flagOf(p.rest, flagNamespaces), Rewake: p.rewake(),
	}
}

func (p place) rewake() bool { return p.async || flagOf(p.rest, "--wait") != "" }

// ours finds our hooks, in the order of the file.
func (f jsonFormat) ours(d *document) ([]place, error) {
	hooks, err := d.at('{', "hooks")
	if err != nil || hooks == nil {
		return nil, err
	}
	var out []place
	for _, event := range members(hooks).items {
		list, err := d.at('[', "hooks", event.name)
		if err != nil {
			if f.owns(event.name) {
				return nil, err
			}
			continue // not ours to judge, such as a setting among the events
		}
		for g, group := range members(list).items {
			if f.flat {
				out = appendOurs(out, place{event: event.name, group: g, item: -1, value: group.value})
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
				out = appendOurs(out, place{event: event.name, group: g, item: i, value: it.value})
			}
		}
	}
	return out, nil
}

// owns says whether an event is one that we have a hook for.
func (f jsonFormat) owns(event string) bool {
	return slices.ContainsFunc(f.hooks(Wanted{Hooks: true, Rewake: true}), func(e hookEntry) bool { return e.event == event })
}

func appendOurs(out []place, p place) []place {
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

func (f jsonFormat) install(src []byte, w Wanted) ([]byte, error) {
	d, err := parse(src)
	if err != nil {
		return nil, err
	}
	was := string(d.src)
	if f.servers != "" {
		if err := f.installServer(d, w); err != nil {
			return nil, err
		}
	}
	if f.hooks != nil && w.Hooks {
		if err := f.installHooks(d, w); err != nil {
			return nil, err
		}
	}
	if string(d.src) == was {
		return src, nil
	}
	return d.src, nil
}

func (f jsonFormat) installServer(d *document, w Wanted) error {
	old, err := f.findServer(d)
	if err != nil {
		return err
	}
	if old == nil {
		servers, err := d.container('{', f.servers)
		if err != nil {
			return err
		}
		return d.add(servers, ServerName, stdioServer{f.kind, w.Program, w.args()})
	}
	if old.HTTP() {
		return nil // how it is reached is not ours to say
	}
	if w.StateDir != "" && old.StateDir() != w.StateDir {
		args, err := d.at('[', f.servers, ServerName, "args")
		if err != nil {
			return err
		}
		if err := d.replace(args, withArgument(old.Args, flagStateDir, w.StateDir)); err != nil {
			return err
		}
	}
	if old.Command == w.Program {
		return nil
	}
	command, err := d.at('"', f.servers, ServerName, "command")
	if err != nil {
		return err
	}
	if command != nil {
		return d.replace(command, w.Program)
	}
	server, err := d.at('{', f.servers, ServerName)
	if err != nil {
		return err
	}
	return d.add(server, "command", w.Program)
}

func (f jsonFormat) installHooks(d *document, w Wanted) error {
	if f.version > 0 {
		if n, err := member(&d.root, "version"); err != nil {
			return err
		} else if n < 0 {
			if err := d.add(&d.root, "version", f.version); err != nil {
				return err
			}
		}
	}
	if err := f.repoint(d, w); err != nil {
		return err
	}
	for _, e := range f.hooks(w) {
		ours, err := f.ours(d)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(ours, func(p place) bool { return p.event == e.event && p.rewake() == e.handler.AsyncRewake }) {
			continue
		}
		list, err := d.container('[', "hooks", e.event)
		if err != nil {
			return err
		}
		var entry any = e.handler
		if !f.flat {
			entry = hookGroup{e.matcher, []handler{e.handler}}
		}
		if err := d.add(list, "", entry); err != nil {
			return err
		}
	}
	return nil
}

// repoint makes hooks of ours run the program, with the flags that are wanted,
// where they don't.
func (f jsonFormat) repoint(d *document, w Wanted) error {
	ours, err := f.ours(d)
	if err != nil {
		return err
	}
	for i, p := range ours {
		line := p.line
		if p.program != w.Program {
			line = quote(w.Program) + p.rest
		}
		if line = w.flagged(line); line == p.line {
			continue
		}
		if ours, err = f.ours(d); err != nil { // what was replaced has moved them
			return err
		}
		n, err := member(ours[i].value, "command")
		if err != nil {
			return err
		}
		if err := d.replace(members(ours[i].value).items[n].value, line); err != nil {
			return err
		}
	}
	return nil
}

// container finds an object or an array, or makes it and what leads to it.
func (d *document) container(kind hujson.Kind, path ...string) (*hujson.Value, error) {
	v, err := d.at(kind, path...)
	if err != nil || v != nil {
		return v, err
	}
	up := &d.root
	if len(path) > 1 {
		if up, err = d.container('{', path[:len(path)-1]...); err != nil {
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
	return d.at(kind, path...)
}
