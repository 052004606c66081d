package config

import (
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	envUse  = regexp.MustCompile(`\{\{\s*\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}`)
	envSlip = regexp.MustCompile(`\{\{\s*\$?([A-Za-z_][A-Za-z0-9_]*)\s*\}\}`)
	// envOpen is what is left of a use that is misspelt.
	envOpen = regexp.MustCompile(`\{\{\s*\.`)
	// proseKeys end the paths of texts for models, which may quote the templates of others.
	proseKeys = regexp.MustCompile(`(^|[._])(instructions|runbook|description)$`)
)

// expand returns the text of a scalar with the environment in the place of {{.NAME}}. It
// works on the parsed value, so that a variable can't add keys. The values appear in no
// message.
func (d *decoder) expand(n *yaml.Node, path string) (string, bool) {
	if !strings.Contains(n.Value, "{{") {
		return n.Value, true
	}
	ok := true
	if m := envSlip.FindStringSubmatch(n.Value); m != nil {
		d.fail(n.Line, path, "%s is no environment variable: want {{.%s}}", m[0], m[1])
		ok = false
	}
	if !proseKeys.MatchString(path) && envOpen.MatchString(envUse.ReplaceAllString(n.Value, "")) {
		d.fail(n.Line, path, "has a {{. that names no environment variable: want {{.NAME}}, with letters, digits and _")
		ok = false
	}
	text := envUse.ReplaceAllStringFunc(n.Value, func(use string) string {
		name := envUse.FindStringSubmatch(use)[1]
		value, set := d.lookup(name)
		if !set {
			d.fail(n.Line, path, "the environment variable %s is not set", name)
			ok = false
		}
		d.expanded[path] = append(d.expanded[path], expansion{name, value})
		return value
	})
	if text != n.Value {
		d.raw[path] = n.Value
	}
	return text, ok
}
