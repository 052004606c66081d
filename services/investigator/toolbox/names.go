package toolbox

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// maxModelName is the longest name of a tool that all providers take.
const maxModelName = 64

// separator stands between the names of server and tool in a name for the model.
const separator = "__"

// nameTools sets the ModelName of the offered tools. A name depends on the server's and the
// tool's names and on whether it clashes, not on the order. A tool whose name clashes even with
// a suffix is withheld.
func nameTools(tools []*Tool) {
	plain := map[string]int{}
	for _, t := range tools {
		if t.Offered {
			plain[plainName(t)]++
		}
	}
	taken := map[string]bool{}
	for _, t := range tools {
		if !t.Offered {
			continue
		}
		if name := plainName(t); plain[name] == 1 && len(name) <= maxModelName {
			t.ModelName = name
			taken[name] = true
		}
	}
	for _, t := range tools {
		if !t.Offered || t.ModelName != "" {
			continue
		}
		name := suffixedName(t)
		if taken[name] {
			t.Offered, t.WhyNot = false, "its name clashes with that of another tool"
			continue
		}
		t.ModelName = name
		taken[name] = true
	}
}

// plainName has only characters that providers take, and may be too long.
func plainName(t *Tool) string {
	name := t.Name
	if t.Server != "" {
		name = t.Server + separator + t.Name
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, name)
}

func suffixedName(t *Tool) string {
	const digits = 8
	sum := sha256.Sum256([]byte(t.Server + "\x00" + t.Name))
	name := plainName(t)
	return name[:min(len(name), maxModelName-digits-1)] + "_" + hex.EncodeToString(sum[:])[:digits]
}

// resolve returns the tool with a name as a model or a person writes it: the ModelName,
// server.tool or server__tool. A name that several tools have is none's, unless it is
// the ModelName of one.
func resolve(tools []*Tool, name string) (*Tool, bool) {
	var found *Tool
	for _, t := range tools {
		if t.Offered && t.ModelName == name {
			return t, true
		}
	}
	for _, t := range tools {
		if t.Offered && (t.FullName() == name || t.Server != "" && t.Server+separator+t.Name == name) {
			if found != nil {
				return nil, false
			}
			found = t
		}
	}
	return found, found != nil
}
