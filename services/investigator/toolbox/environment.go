package toolbox

import (
	"maps"
	"slices"
	"strings"
)

// passed are the variables that a stdio server gets from the investigator. Names that end with an
// underscore are prefixes. Proxies are passed in lower case too.
var passed = []string{"PATH", "HOME", "USER", "LANG", "LC_", "TMPDIR", "TZ", "SSL_CERT_",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}

// Environment returns the variables of a stdio server: those of environ, in the form
// of os.Environ, that hold no secrets, and own, which wins. It is sorted.
func Environment(environ []string, own map[string]string) []string {
	all := map[string]string{}
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if ok && slices.ContainsFunc(passed, func(p string) bool {
			return name == p || strings.HasSuffix(p, "_") && strings.HasPrefix(name, p)
		}) {
			all[name] = value
		}
	}
	maps.Copy(all, own)
	env := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}
