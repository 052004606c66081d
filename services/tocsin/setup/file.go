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
	// Path is its path. Contents describes the entries of Tocsin in it, for messages.
	Path, Contents string
	format         format
}

// format edits one kind of file. A nil text is a missing file.
type format interface {
	find(src []byte) (Entries, error)
	install(src []byte, o Options) ([]byte, error)
	// remove removes the entries of Tocsin, and the containers that then are empty,
	// except those at the paths that existed before the install.
	remove(src []byte, existed func(path ...string) bool) ([]byte, error)
	// containers returns a function that reports whether src has a container at a path.
	containers(src []byte) func(path ...string) bool
	// empty returns the text of a file without settings.
	empty() []byte
}

// Find returns the entries of Tocsin in a text of the file.
func (f File) Find(src []byte) (Entries, error) {
	if src == nil {
		return Entries{}, nil
	}
	found, err := f.format.find(src)
	if err != nil {
		return Entries{}, fmt.Errorf("%s can't be parsed: %w", f.Path, err)
	}
	return found, nil
}

// editable is [File.Find] for a text that will be edited. Its error names the fix.
func (f File) editable(src []byte) (Entries, error) {
	if src == nil {
		return Entries{}, nil
	}
	found, err := f.format.find(src)
	if err != nil {
		return Entries{}, f.refuse(err)
	}
	return found, nil
}

// Install returns the text of the file with the entries of Tocsin. It is equal to src if
// nothing is missing. A nil src is a missing file.
func (f File) Install(src []byte, o Options) ([]byte, error) {
	found, err := f.editable(src)
	if err != nil {
		return nil, err
	}
	if found.Server != nil && !found.Server.IsTocsin() {
		return nil, fmt.Errorf("%s has another MCP server named %s (%s): rename or remove it, then run this again", f.Path, ServerName, found.Server)
	}
	out, err := f.format.install(src, o)
	if err != nil {
		return nil, f.refuse(err)
	}
	return out, nil
}

// Uninstall returns the text of the file without the entries of Tocsin, or nil if nothing
// else is in it. Earlier are the file's texts before each install, newest first. If
// Install makes src of one of them, Uninstall returns that text.
func (f File) Uninstall(src []byte, earlier [][]byte) ([]byte, error) {
	found, err := f.editable(src)
	if err != nil || !found.Any() {
		return src, err
	}
	existed := func(...string) bool { return false }
	knows := false
	o := found.options()
	for _, before := range earlier {
		had, err := f.Find(before)
		if err != nil || had.Any() {
			continue // not a text without Tocsin
		}
		if again, err := f.Install(before, o); err == nil && bytes.Equal(again, src) {
			return before, nil
		}
		if !knows {
			existed, knows = f.format.containers(before), true
		}
	}
	out, err := f.format.remove(src, existed)
	if err != nil {
		return nil, f.refuse(err)
	}
	return out, nil
}

// CreatedByInstall reports whether src is exactly what [File.Install] writes for a missing
// file, so that its removal loses nothing.
func (f File) CreatedByInstall(src []byte) bool {
	found, err := f.Find(src)
	if err != nil || !found.Any() {
		return false
	}
	again, err := f.Install(nil, found.options())
	return err == nil && bytes.Equal(again, src)
}

// options returns the options with which Install writes these entries.
func (e Entries) options() Options {
	o := Options{
		Program: e.Program(), Hooks: len(e.Hooks) > 0, StateDir: e.Server.StateDir(),
		Rewake: slices.ContainsFunc(e.Hooks, func(h Hook) bool { return h.Rewake }),
	}
	if e.Server != nil {
		o.Variables = e.Server.Variables
	}
	if o.Hooks {
		o.Inbox, o.Namespaces, o.StateDir = e.Hooks[0].Inbox, e.Hooks[0].Namespaces, cmp.Or(o.StateDir, e.Hooks[0].StateDir)
	}
	return o
}

// errByteOrderMark is returned for a file that some editors write and no client reads.
var errByteOrderMark = errors.New("it has a byte order mark: save it as UTF-8 without one")

// hasByteOrderMark reports whether a text begins with a byte order mark, of UTF-8 or UTF-16.
func hasByteOrderMark(src []byte) bool {
	for _, mark := range []string{"\xef\xbb\xbf", "\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(src, []byte(mark)) {
			return true
		}
	}
	return false
}

// refuse returns the error for a file that was not changed because of err.
func (f File) refuse(err error) error {
	return fmt.Errorf("%s was not changed, because %w: fix that, or move the file away, and run this again", f.Path, err)
}
