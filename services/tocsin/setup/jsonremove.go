package setup

import (
	"bytes"

	"github.com/tailscale/hujson"
)

func (jsonFormat) empty() []byte { return []byte("{}\n") }

func (f jsonFormat) containers(src []byte) func(path ...string) bool {
	d, err := parse(src)
	return func(path ...string) bool {
		if err != nil {
			return false
		}
		v := &d.root
		for _, name := range path {
			n, err := member(v, name)
			if err != nil || n < 0 {
				return false
			}
			v = members(v).items[n].value
		}
		return true
	}
}

func (f jsonFormat) remove(src []byte, existed func(path ...string) bool) ([]byte, error) {
	d, err := parse(src)
	if err != nil {
		return nil, err
	}
	if f.serversKey != "" {
		if err := f.removeServer(d, existed); err != nil {
			return nil, err
		}
	}
	if f.hooks != nil {
		if err := f.removeHooks(d, existed); err != nil {
			return nil, err
		}
	}
	if string(bytes.TrimSpace(d.src)) == "{}" && !existed() {
		return nil, nil
	}
	return d.src, nil
}

func (f jsonFormat) removeServer(d *document, existed func(path ...string) bool) error {
	if s, err := f.findServer(d); err != nil || !s.IsTocsin() {
		return err
	}
	servers, err := d.find('{', f.serversKey)
	if err != nil {
		return err
	}
	if err := d.dropMember(servers, ServerName); err != nil {
		return err
	}
	return d.dropEmpty(existed, f.serversKey)
}

func (f jsonFormat) removeHooks(d *document, existed func(path ...string) bool) error {
	removed := false
	for {
		hooks, err := f.findHooks(d)
		if err != nil {
			return err
		}
		if len(hooks) == 0 {
			break
		}
		removed = true
		p := hooks[0]
		list, err := d.find('[', "hooks", p.event)
		if err != nil {
			return err
		}
		if err := f.removeHook(d, list, p); err != nil {
			return err
		}
		if err := d.dropEmpty(existed, "hooks", p.event); err != nil {
			return err
		}
	}
	if !removed {
		return nil
	}
	if err := d.dropEmpty(existed, "hooks"); err != nil {
		return err
	}
	if l := members(&d.root); f.version == 0 || existed("version") || len(l.items) != 1 || l.items[0].name != "version" {
		return nil
	}
	return d.drop(&d.root, 0)
}

// removeHook removes a hook from an event's list, and its group if that has no other hook.
func (f jsonFormat) removeHook(d *document, list *hujson.Value, p jsonHook) error {
	if f.ungrouped {
		return d.drop(list, p.group)
	}
	group := members(list).items[p.group].value
	n, err := member(group, "hooks")
	if err != nil {
		return err
	}
	hooks := members(group).items[n].value
	if len(members(hooks).items) == 1 {
		return d.drop(list, p.group)
	}
	return d.drop(hooks, p.item)
}

func (d *document) dropMember(v *hujson.Value, name string) error {
	n, err := member(v, name)
	if err != nil || n < 0 {
		return err
	}
	return d.drop(v, n)
}

// dropEmpty removes an object or an array that has become empty, unless it existed before
// the install or has a comment.
func (d *document) dropEmpty(existed func(path ...string) bool, path ...string) error {
	up := &d.root
	if len(path) > 1 {
		var err error
		if up, err = d.find('{', path[:len(path)-1]...); err != nil || up == nil {
			return err
		}
	}
	n, err := member(up, path[len(path)-1])
	if err != nil || n < 0 || existed(path...) {
		return err
	}
	v := members(up).items[n].value
	if v.EndOffset-v.StartOffset > len("{}") {
		return nil
	}
	return d.drop(up, n)
}
