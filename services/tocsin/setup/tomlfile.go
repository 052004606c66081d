package setup

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlFormat is Codex's config.toml. Install appends Tocsin's table as text. The decoded
// settings before and after an edit are compared, so that no other setting changes.
type tomlFormat struct{}

func (tomlFormat) find(src []byte) (Entries, error) {
	config, err := decodeTOML(src)
	if err != nil {
		return Entries{}, err
	}
	var found Entries
	if features, ok := config["features"].(map[string]any); ok {
		for _, name := range []string{"hooks", "codex_hooks"} {
			if on, ok := features[name].(bool); ok && !on {
				found.HooksOff = "features." + name
			}
		}
	}
	servers, ok := config["mcp_servers"].(map[string]any)
	if !ok || servers[ServerName] == nil {
		return found, nil
	}
	found.Server = &Server{}
	table, ok := servers[ServerName].(map[string]any)
	if !ok {
		return found, nil
	}
	found.Server.Command, _ = table["command"].(string)
	found.Server.URL, _ = table["url"].(string)
	found.Server.Args, found.Server.Variables = stringList(table["args"]), stringList(table["env_vars"])
	env, _ := table["env"].(map[string]any)
	headers, _ := table["http_headers"].(map[string]any)
	found.Server.Env, found.Server.Headers = stringValues(env), stringValues(headers)
	if on, ok := table["enabled"].(bool); ok && !on {
		found.Server.Off = "mcp_servers." + ServerName + ".enabled"
	}
	return found, nil
}

// stringList returns the elements of a decoded list as strings.
func stringList(v any) []string {
	var out []string
	elements, _ := v.([]any)
	for _, e := range elements {
		out = append(out, fmt.Sprint(e))
	}
	return out
}

func (f tomlFormat) install(src []byte, o Options) ([]byte, error) {
	found, err := f.find(src)
	if err != nil {
		return nil, err
	}
	if found.Server != nil {
		return f.update(src, found.Server, o)
	}
	newline := "\n"
	if bytes.Contains(src, []byte("\r\n")) {
		newline = "\r\n"
	}
	var b strings.Builder
	b.Write(src)
	if len(src) > 0 && src[len(src)-1] != '\n' {
		b.WriteString(newline)
	}
	if len(src) > 0 {
		b.WriteString(newline)
	}
	command, err := tomlString(o.Program)
	if err != nil {
		return nil, err
	}
	args, err := tomlList(o.gatewayArgs())
	if err != nil {
		return nil, err
	}
	lines := []string{"[mcp_servers." + ServerName + "]", "command = " + command, "args = " + args}
	if len(o.Variables) > 0 {
		variables, err := tomlList(o.Variables)
		if err != nil {
			return nil, err
		}
		lines = append(lines, "env_vars = "+variables)
	}
	for _, line := range lines {
		b.WriteString(line + newline)
	}
	out := []byte(b.String())
	return out, checkOtherSettings(src, out)
}

// remove removes Tocsin's table and its subtables, such as the approvals that Codex stores
// there. A subtable alone would be a server without a command, with which Codex does not
// start.
func (f tomlFormat) remove(src []byte, existed func(path ...string) bool) ([]byte, error) {
	at, err := locate(src)
	if err != nil {
		return nil, err
	}
	if len(at.blocks) == 0 {
		return nil, errNotTable
	}
	out := bytes.Clone(src)
	for i := len(at.blocks) - 1; i >= 0; i-- {
		b := at.blocks[i]
		for _, blank := range []string{"\r\n", "\n"} {
			before := out[:b.start]
			if bytes.HasSuffix(before, []byte(blank)) && (len(before) == len(blank) || bytes.HasSuffix(before[:len(before)-len(blank)], []byte("\n"))) {
				b.start -= len(blank)
				break
			}
		}
		out = splice(out, b.start, b.end, "")
	}
	if len(bytes.TrimSpace(out)) == 0 && !existed() {
		return nil, checkOtherSettings(src, nil)
	}
	return out, checkOtherSettings(src, out)
}

func (tomlFormat) empty() []byte { return []byte{} }

func (tomlFormat) containers([]byte) func(path ...string) bool {
	return func(path ...string) bool { return len(path) == 0 } // the file itself
}

// tomlString returns a TOML basic string. JSON strings of valid UTF-8 are such strings.
func tomlString(s string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(s)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// tomlList returns a TOML array of strings on one line.
func tomlList(elements []string) (string, error) {
	quoted := make([]string, len(elements))
	for i, e := range elements {
		var err error
		if quoted[i], err = tomlString(e); err != nil {
			return "", err
		}
	}
	return "[" + strings.Join(quoted, ", ") + "]", nil
}

func decodeTOML(src []byte) (map[string]any, error) {
	if len(src) > maxFile {
		return nil, fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	if hasByteOrderMark(src) {
		return nil, errByteOrderMark
	}
	config := map[string]any{}
	if err := toml.Unmarshal(src, &config); err != nil {
		where := ""
		var at *toml.DecodeError
		if errors.As(err, &at) {
			row, column := at.Position()
			where = fmt.Sprintf(" at line %d, column %d", row, column)
		}
		return nil, fmt.Errorf("it is not TOML%s: %s", where, strings.TrimPrefix(err.Error(), "toml: "))
	}
	return config, nil
}

// checkOtherSettings returns an error if two texts differ in a setting outside of Tocsin's
// table.
func checkOtherSettings(before, after []byte) error {
	var means [2]map[string]any
	for i, src := range [][]byte{before, after} {
		config, err := decodeTOML(src)
		if err != nil {
			return fmt.Errorf("the table of tocsin can't be added, as when mcp_servers is an inline table, { ... }: write it as tables, [mcp_servers.NAME] (%w)", err)
		}
		if servers, ok := config["mcp_servers"].(map[string]any); ok {
			delete(servers, ServerName)
			if len(servers) == 0 {
				delete(config, "mcp_servers")
			}
		}
		means[i] = config
	}
	if !reflect.DeepEqual(means[0], means[1]) {
		return errors.New("changing the table of tocsin would change other settings")
	}
	return nil
}

// errNotTable is returned if the user has written Tocsin's settings in another form.
var errNotTable = errors.New("its mcp_servers.tocsin is not a table [mcp_servers.tocsin] with command and args on lines of their own")

// span is a part of a text, from start to before end.
type span struct{ start, end int }

// tableLocation is where Tocsin's table is in the text: its blocks of whole lines, and the
// values that install changes.
type tableLocation struct {
	blocks          []span
	command         unstable.Range
	args, variables span
}

func locate(src []byte) (tableLocation, error) {
	var p unstable.Parser
	p.Reset(src)
	var at tableLocation
	open, own := false, false
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			path, first := key(e)
			open = len(path) >= 2 && path[0] == "mcp_servers" && path[1] == ServerName
			own = open && len(path) == 2
			if open {
				at.blocks = append(at.blocks, span{lineStart(src, int(first.Offset)), lineEnd(src, int(first.Offset))})
			}
		case unstable.KeyValue:
			if !open {
				continue
			}
			at.blocks[len(at.blocks)-1].end = lineEnd(src, int(e.Raw.Offset+e.Raw.Length)-1)
			path, _ := key(e)
			if !own || len(path) != 1 {
				continue
			}
			switch kind := e.Value().Kind; {
			case path[0] == "command" && kind == unstable.String:
				at.command = e.Value().Raw
			case path[0] == "args" && kind == unstable.Array:
				at.args = valueOf(src, e)
			case path[0] == "env_vars" && kind == unstable.Array:
				at.variables = valueOf(src, e)
			}
		default:
		}
	}
	return at, p.Error()
}

// valueOf returns the span of the array that is the value of a key.
func valueOf(src []byte, e *unstable.Node) span {
	start, end := int(e.Raw.Offset), int(e.Raw.Offset+e.Raw.Length)
	text := src[start:end]
	return span{start + bytes.IndexByte(text, '['), start + bytes.LastIndexByte(text, ']') + 1}
}

// key returns the dotted key of a table or a setting, and where it begins.
func key(e *unstable.Node) (path []string, first unstable.Range) {
	for it := e.Key(); it.Next(); {
		if len(path) == 0 {
			first = it.Node().Raw
		}
		path = append(path, string(it.Node().Data))
	}
	return path, first
}

func lineStart(src []byte, at int) int { return bytes.LastIndexByte(src[:at], '\n') + 1 }

// lineEnd returns the offset after the line break of the line of an offset.
func lineEnd(src []byte, at int) int {
	if n := bytes.IndexByte(src[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(src)
}
