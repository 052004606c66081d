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

// passedOn are the variables that say which bus to join. Codex gives a server
// no other variables than those that its entry names.
var passedOn = []string{
	"TOCSIN_STATE_DIR", "TOCSIN_NATS_URL", "TOCSIN_NATS_CREDS", "TOCSIN_CLIENT", "TOCSIN_AUTOSTART", "TOCSIN_LOG_LEVEL", "XDG_STATE_HOME",
}

// tomlFormat is Codex's config.toml. Our table is a block of text at its end;
// what the text means before and after is compared, so that no other setting
// can change.
type tomlFormat struct{}

func (tomlFormat) find(src []byte) (Found, error) {
	config, err := decodeTOML(src)
	if err != nil {
		return Found{}, err
	}
	var found Found
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
	args, _ := table["args"].([]any)
	for _, arg := range args {
		found.Server.Args = append(found.Server.Args, fmt.Sprint(arg))
	}
	return found, nil
}

func (f tomlFormat) install(src []byte, w Wanted) ([]byte, error) {
	found, err := f.find(src)
	if err != nil {
		return nil, err
	}
	command, err := tomlString(w.Program)
	if err != nil {
		return nil, err
	}
	switch {
	case found.Server != nil && found.Server.Command == w.Program:
		return src, nil
	case found.Server != nil:
		at, err := locate(src)
		if err != nil {
			return nil, err
		}
		if at.command.Length == 0 {
			return nil, errors.New("its table mcp_servers.tocsin is not written as a table with a command")
		}
		out := splice(src, int(at.command.Offset), int(at.command.Offset+at.command.Length), command)
		return out, unchangedElsewhere(src, out)
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
	for _, line := range []string{
		"[mcp_servers." + ServerName + "]",
		"command = " + command,
		`args = ["gateway"]`,
		`env_vars = ["` + strings.Join(passedOn, `", "`) + `"]`,
	} {
		b.WriteString(line + newline)
	}
	out := []byte(b.String())
	return out, unchangedElsewhere(src, out)
}

// remove takes out our table and the tables in it, such as the approvals that
// Codex notes there: left behind they would be a server without a command, with
// which Codex does not start.
func (f tomlFormat) remove(src []byte, kept func(path ...string) bool) ([]byte, error) {
	at, err := locate(src)
	if err != nil {
		return nil, err
	}
	if len(at.blocks) == 0 {
		return nil, errors.New("its table mcp_servers.tocsin is not written as a table")
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
	if len(bytes.TrimSpace(out)) == 0 && !kept() {
		return nil, unchangedElsewhere(src, nil)
	}
	return out, unchangedElsewhere(src, out)
}

func (tomlFormat) empty() []byte { return []byte{} }

func (tomlFormat) had([]byte) func(path ...string) bool {
	return func(path ...string) bool { return len(path) == 0 } // the file itself
}

func splice(src []byte, at, end int, text string) []byte {
	return bytes.Join([][]byte{src[:at], []byte(text), src[end:]}, nil)
}

// tomlString writes a basic string, which a JSON string of a path is too.
func tomlString(s string) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(s)
	return strings.TrimSuffix(b.String(), "\n"), err
}

func decodeTOML(src []byte) (map[string]any, error) {
	if len(src) > maxFile {
		return nil, fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	}
	config := map[string]any{}
	if err := toml.Unmarshal(src, &config); err != nil {
		where := ""
		var at *toml.DecodeError
		if errors.As(err, &at) {
			row, column := at.Position()
			where = fmt.Sprintf(" at line %d, column %d", row, column)
		}
		return nil, fmt.Errorf("it is no TOML%s: %s", where, strings.TrimPrefix(err.Error(), "toml: "))
	}
	return config, nil
}

// unchangedElsewhere says whether two texts mean the same but for our table.
func unchangedElsewhere(before, after []byte) error {
	var means [2]map[string]any
	for i, src := range [][]byte{before, after} {
		config, err := decodeTOML(src)
		if err != nil {
			return fmt.Errorf("our table can't be written into it as a table of its own (%w)", err)
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
		return errors.New("changing our table would change other settings")
	}
	return nil
}

// span is a part of a text.
type span struct{ start, end int }

// located is where our table stands: its blocks of whole lines, and the value
// of its command.
type located struct {
	blocks  []span
	command unstable.Range
}

func locate(src []byte) (located, error) {
	var p unstable.Parser
	p.Reset(src)
	var at located
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
			if path, _ := key(e); own && len(path) == 1 && path[0] == "command" && e.Value().Kind == unstable.String {
				at.command = e.Value().Raw
			}
		default:
		}
	}
	return at, p.Error()
}

// key is the dotted key of a table or a setting, and where it begins.
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

// lineEnd is behind the line break of the line that holds an offset.
func lineEnd(src []byte, at int) int {
	if n := bytes.IndexByte(src[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(src)
}
