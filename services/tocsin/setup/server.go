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
	// Env are the environment variables that the entry sets, Headers its HTTP headers.
	Env, Headers map[string]string
	// Variables are the variables that the client passes to the server, for clients that
	// pass only those that the entry lists.
	Variables []string
	// Off is the setting in the entry itself that turns it off, or empty.
	Off string
}

// pathMCP is the path at which a gateway serves MCP on HTTP. There, headerClient or the
// query parameter client has the client's name.
const (
	pathMCP      = "/mcp"
	headerClient = "Tocsin-Client"
)

// IsTocsin reports whether it is a gateway of Tocsin.
func (s *Server) IsTocsin() bool {
	if s == nil {
		return false
	}
	if s.IsHTTP() {
		u, err := url.Parse(s.URL)
		return err == nil && u.Path == pathMCP && httpguard.Loopback(u.Hostname())
	}
	return len(s.Args) > 0 && s.Args[0] == "gateway"
}

// String describes the server for an error. It has only the host of a URL, because the
// rest may contain a secret.
func (s *Server) String() string {
	if !s.IsHTTP() {
		return fmt.Sprintf("command %q", s.Command)
	}
	u, err := url.Parse(s.URL)
	if err != nil {
		return "a URL"
	}
	return fmt.Sprintf("a URL of %q", u.Host)
}

// IsHTTP reports whether it is at a URL, so the client does not start it.
func (s *Server) IsHTTP() bool { return s.URL != "" }

// Client returns the name of the client's inbox in the entry, or nothing if it has none.
func (s *Server) Client() string {
	switch {
	case s == nil:
		return ""
	case !s.IsHTTP():
		if name := argumentValue(s.Args, "--client"); name != "" {
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

// StateDir returns the state directory in the entry, or nothing if it has none.
func (s *Server) StateDir() string {
	if s == nil || s.IsHTTP() {
		return ""
	}
	if dir := argumentValue(s.Args, flagStateDir); dir != "" {
		return dir
	}
	return s.Env["TOCSIN_STATE_DIR"]
}

// Namespaces returns the Kubernetes namespaces whose alerts the gateway delivers,
// separated by commas, or nothing if the entry has none.
func (s *Server) Namespaces() string {
	if s == nil || s.IsHTTP() {
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

// argumentValue returns the value of a flag in arguments, or nothing.
func argumentValue(args []string, flag string) string {
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

// setArgument returns a copy of the arguments with the flag set to that value.
func setArgument(args []string, flag, value string) []string {
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

// stringValues returns the members of a decoded JSON or TOML object that are strings.
func stringValues(open map[string]any) map[string]string {
	out := map[string]string{}
	for name, value := range open {
		if text, ok := value.(string); ok {
			out[name] = text
		}
	}
	return out
}
