package setup

import (
	"bytes"
	"slices"
	"strings"
)

// update sets the program, the state directory and the variables of an existing entry.
func (tomlFormat) update(src []byte, is *Server, o Options) ([]byte, error) {
	if is.IsHTTP() {
		return src, nil // the user decides how to reach it
	}
	at, err := locate(src)
	if err != nil {
		return nil, err
	}
	var edits []edit
	if is.Command != o.Program {
		if at.command.Length == 0 {
			return nil, errNotTable
		}
		command, err := tomlString(o.Program)
		if err != nil {
			return nil, err
		}
		edits = append(edits, edit{span{int(at.command.Offset), int(at.command.Offset + at.command.Length)}, command})
	}
	if o.StateDir != "" && is.StateDir() != o.StateDir {
		args, err := tomlList(setArgument(is.Args, flagStateDir, o.StateDir))
		if err != nil {
			return nil, err
		}
		if at.args.end == 0 {
			return nil, errNotTable
		}
		edits = append(edits, edit{at.args, args})
	}
	if more, err := at.addVariables(src, is, o.Variables); err != nil {
		return nil, err
	} else if more != nil {
		edits = append(edits, *more)
	}
	if len(edits) == 0 {
		return src, nil
	}
	slices.SortFunc(edits, func(a, b edit) int { return b.start - a.start })
	out := src
	for _, e := range edits {
		out = splice(out, e.start, e.end, e.text)
	}
	return out, checkOtherSettings(src, out)
}

// edit is a new text for a part of the old.
type edit struct {
	span
	text string
}

// addVariables returns the edit that adds the missing variables to env_vars, or nil if
// none is missing or the entry has no command to add them after.
func (at tableLocation) addVariables(src []byte, is *Server, variables []string) (*edit, error) {
	missing := slices.DeleteFunc(slices.Clone(variables), func(name string) bool {
		return slices.Contains(is.Variables, name) || is.Env[name] != ""
	})
	if len(missing) == 0 || at.command.Length == 0 {
		return nil, nil
	}
	list, err := tomlList(missing)
	switch {
	case err != nil:
		return nil, err
	case at.variables.end > 0 && len(is.Variables) > 0:
		// Before the other elements, where no comment or comma has to be considered.
		return &edit{span{at.variables.start, at.variables.start + 1}, strings.TrimSuffix(list, "]") + ", "}, nil
	case at.variables.end > 0:
		return &edit{at.variables, list}, nil
	}
	end := lineEnd(src, int(at.command.Offset+at.command.Length)-1)
	text := "env_vars = " + list
	switch line := src[:end]; {
	case bytes.HasSuffix(line, []byte("\r\n")):
		text += "\r\n"
	case bytes.HasSuffix(line, []byte("\n")):
		text += "\n"
	default:
		text = "\n" + text
	}
	return &edit{span{end, end}, text}, nil
}

func splice(src []byte, at, end int, text string) []byte {
	return bytes.Join([][]byte{src[:at], []byte(text), src[end:]}, nil)
}
