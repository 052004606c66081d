package config

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/redact"
)

// expansion is a use of an environment variable in a value of the file.
type expansion struct{ name, value string }

// ServerSecrets returns the values of the environment variables that the transport of an entry of
// mcp_servers names, because what stands in the environment may be secret. It leaves out what the
// results of a server are full of: paths of files, names of clusters and the like, and hosts, where
// a name and the form of the value agree on that.
func (c *Config) ServerSecrets(name string) []string {
	transport := join(join("mcp_servers", name), "transport") + "."
	engine := redact.New()
	var secrets []string
	for path, uses := range c.expanded {
		key, isTransport := strings.CutPrefix(path, transport)
		if !isTransport {
			continue
		}
		field, variable, _ := strings.Cut(key, ".")
		for _, use := range uses {
			names := []string{use.name}
			if field == "env" {
				names = append(names, variable)
			}
			if field == "custom_headers" || field == "bearer_token" || field == "url" && strings.ContainsAny(c.raw[path], "?#@") || !isPlain(engine, use.value, names) {
				secrets = append(secrets, use.value)
			}
		}
	}
	slices.Sort(secrets)
	return slices.Compact(secrets)
}

// plainForms are the forms of values that are no secrets, by the last words of their names.
var plainForms = []struct {
	words string
	form  func(string) bool
}{
	{"path file dir directory folder home kubeconfig config", isPathList},
	{"namespace namespaces cluster context region zone environment stage profile project", plainName.MatchString},
	{"host hostname url uri endpoint address addr server", isHost},
}

var (
	// plainName is a name of Kubernetes or of a cloud, or several of them.
	plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@,-]{0,252}$`)
	plainPath = regexp.MustCompile(`^(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][A-Za-z0-9._ @-]+)+[/\\]?$`)
)

// isPlain reports whether a value is no secret: one of its names ends in a word of plainForms,
// the value has the form of that, and none of the names is that of a secret.
func isPlain(engine *redact.Engine, value string, names []string) bool {
	plain := false
	for _, name := range names {
		if pair := name + ": " + value; engine.String(pair) != pair {
			return false
		}
		word := strings.ToLower(name[strings.LastIndexAny(name, "_-.")+1:])
		for _, form := range plainForms {
			plain = plain || slices.Contains(strings.Fields(form.words), word) && form.form(value)
		}
	}
	return plain
}

// isPathList reports whether a value is a path, or several as in PATH.
func isPathList(value string) bool {
	if plainPath.MatchString(value) {
		return true
	}
	for path := range strings.SplitSeq(value, ":") {
		if !plainPath.MatchString(path) {
			return false
		}
	}
	return true
}

// isHost reports whether a value is a host, or an address without user, path and query: those may
// hold a secret.
func isHost(value string) bool {
	address := value
	if !strings.Contains(value, "://") {
		address = "//" + value
	}
	u, err := url.Parse(address)
	return err == nil && u.Hostname() != "" && plainName.MatchString(u.Hostname()) && u.User == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" && !u.ForceQuery && u.Fragment == ""
}
