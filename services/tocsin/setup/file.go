package setup

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// File is one configuration file of a client.
type File struct {
	// Path is where it lies; Holds says what of ours goes into it.
	Path, Holds string
	format      format
}

// format edits one kind of file. A nil text stands for a file that is not
// there.
type format interface {
	find(src []byte) (Found, error)
	install(src []byte, w Wanted) ([]byte, error)
	// remove takes ours out, and with it what would stay behind empty, except
	// the containers that kept knows from before.
	remove(src []byte, kept func(path ...string) bool) ([]byte, error)
	// had says which containers a text has.
	had(src []byte) func(path ...string) bool
	// empty is a text without any setting.
	empty() []byte
}

// Find says what a text of the file has of ours.
func (f File) Find(src []byte) (Found, error) {
	if src == nil {
		return Found{}, nil
	}
	found, err := f.format.find(src)
	if err != nil {
		return Found{}, fmt.Errorf("%s can't be parsed: %w", f.Path, err)
	}
	return found, nil
}

// editable is Find for a text that is to be edited.
func (f File) editable(src []byte) (Found, error) {
	if src == nil {
		return Found{}, nil
	}
	found, err := f.format.find(src)
	if err != nil {
		return Found{}, f.refuse(err)
	}
	return found, nil
}

// Install makes the new text of the file: equal to src when all is there. A
// nil src is a file that is not there.
func (f File) Install(src []byte, w Wanted) ([]byte, error) {
	found, err := f.editable(src)
	if err != nil {
		return nil, err
	}
	if found.Server != nil && !found.Server.Ours() {
		return nil, fmt.Errorf("%s has another MCP server named %s (%s): rename or remove it, then run this again", f.Path, ServerName, found.Server)
	}
	out, err := f.format.install(src, w)
	if err != nil {
		return nil, f.refuse(err)
	}
	return out, nil
}

// Uninstall makes the text of the file without ours; nil when nothing of the
// file is left. Earlier are texts that the file had before it was installed to,
// the newest first: where one of them led to src, it is what comes back.
func (f File) Uninstall(src []byte, earlier [][]byte) ([]byte, error) {
	found, err := f.editable(src)
	if err != nil || !found.Any() {
		return src, err
	}
	kept := func(...string) bool { return false }
	knows := false
	w := found.wanted()
	for _, before := range earlier {
		had, err := f.Find(before)
		if err != nil || had.Any() {
			continue // no text to go back to
		}
		if again, err := f.Install(before, w); err == nil && bytes.Equal(again, src) {
			return before, nil
		}
		if !knows {
			kept, knows = f.format.had(before), true
		}
	}
	out, err := f.format.remove(src, kept)
	if err != nil {
		return nil, f.refuse(err)
	}
	return out, nil
}

// Fresh says whether a text is what installing made of no file at all, so that
// nothing is lost with it.
func (f File) Fresh(src []byte) bool {
	found, err := f.Find(src)
	if err != nil || !found.Any() {
		return false
	}
	again, err := f.Install(nil, found.wanted())
	return err == nil && bytes.Equal(again, src)
}

// wanted is what would write what was found.
func (f Found) wanted() Wanted {
	w := Wanted{
		Program: f.Program(), Hooks: len(f.Hooks) > 0, StateDir: f.Server.StateDir(),
		Rewake: slices.ContainsFunc(f.Hooks, func(h Hook) bool { return h.Rewake }),
	}
	if f.Server != nil {
		w.Variables = f.Server.Variables
	}
	if w.Hooks {
		w.Inbox, w.Namespaces, w.StateDir = f.Hooks[0].Inbox, f.Hooks[0].Namespaces, cmp.Or(w.StateDir, f.Hooks[0].StateDir)
	}
	return w
}

// errMarked is about a file that some editors write and no client takes.
var errMarked = errors.New("it has a byte order mark: save it as UTF-8 without one")

// marked says whether a text begins with a byte order mark, of UTF-8 or UTF-16.
func marked(src []byte) bool {
	for _, mark := range []string{"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(src, []byte(mark)) {
			return true
		}
	}
	return false
}

// refuse says what to do about a file that is better left alone.
func (f File) refuse(err error) error {
	return fmt.Errorf("%s was not changed, because %w: fix that, or move the file away, and run this again", f.Path, err)
}
