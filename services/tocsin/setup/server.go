package setup

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

// Server is an MCP server of a client: one that it starts, or one at a URL.
type Server struct {
	Command string
	Args    []string
	URL     string
	// Env is the environment that the entry sets, Headers what it sends to a URL.
	Env, Headers map[string]string
	// Variables are those that the entry lets through, where that has to be said.
	Variables []string
	// Off is the setting in the entry itself that turns it off, or empty.
	Off string
}

// pathMCP is where a gateway serves MCP on HTTP, and headerClient how a client
// names itself there, beside the query parameter client.
const (
	pathMCP      = "/mcp"
	headerClient = "Tocsin-Client"
)

// Ours says whether it is Tocsin's gateway.
func (s *Server) Ours() bool {
	if s == nil {
		return false
	}
	if s.HTTP() {
		u, err := url.Parse(s.URL)
		return err == nil && u.Path == pathMCP && httpguard.Loopback(u.Hostname())
	}
	return len(s.Args) > 0 && s.Args[0] == "gateway"
}

// String is what tells it apart from another. Of a URL the host is enough: there
// may be a secret in the rest.
func (s *Server) String() string {
	if !s.HTTP() {
		return fmt.Sprintf("command %q", s.Command)
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return "a URL"
	}
	return fmt.Sprintf("a URL of %q", u.Host)
}

// HTTP says whether it is not the client that starts it.
func (s *Server) HTTP() bool { return s.URL != "" }

// Client is the name of the inbox that the entry gives its client; empty where it
// gives none.
func (s *Server) Client() string {
	switch {
	case s == nil:
		return ""
	case !s.HTTP():
		if name := argument(s.Args, "--client"); name != "" {
			return name
		}
		return s.Env["TOCSIN_CLIENT"]
	}
	for name, value := range s.Headers {
		if strings.EqualFold(name, headerClient) && value != "" {
			return value
		}
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return ""
	}
	return u.Query().Get("client")
}

// StateDir is the state directory that the entry says; empty where it says none.
func (s *Server) StateDir() string {
	if s == nil || s.HTTP() {
		return ""
	}
	if dir := argument(s.Args, flagStateDir); dir != "" {
		return dir
	}
	return s.Env["TOCSIN_STATE_DIR"]
}

// Namespaces are those of Kubernetes whose alerts the entry's gateway tells, with
// commas between; empty where it says none.
func (s *Server) Namespaces() string {
	if s == nil || s.HTTP() {
		return ""
	}
	var all []string
	for i, arg := range s.Args { // it may be repeated
		if names, ok := strings.CutPrefix(arg, flagNamespaces+"="); ok {
			all = append(all, names)
		}
		if arg == flagNamespaces && i+1 < len(s.Args) {
			all = append(all, s.Args[i+1])
		}
	}
	if len(all) > 0 {
		return strings.Join(all, ",")
	}
	return s.Env["TOCSIN_KUBERNETES_NAMESPACES"]
}

// argument is the value of a flag among arguments; empty without it.
func argument(args []string, flag string) string {
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, flag+"="); ok {
			return value
		}
		if arg == flag && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// withArgument is arguments with a flag of that value.
func withArgument(args []string, flag, value string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		if strings.HasPrefix(arg, flag+"=") {
			out[i] = flag + "=" + value
			return out
		}
		if arg == flag && i+1 < len(out) {
			out[i+1] = value
			return out
		}
	}
	return append(out, flag, value)
}

// texts are the members of an open JSON or TOML object that are text.
func texts(open map[string]any) map[string]string {
	out := map[string]string{}
	for name, value := range open {
		if text, ok := value.(string); ok {
			out[name] = text
		}
	}
	return out
}
