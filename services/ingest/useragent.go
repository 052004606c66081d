package ingest

import (
	"strings"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// maxProduct is the longest name of a product, in bytes.
const maxProduct = 64

// browsers lists the texts in a User-Agent that identify browsers. The first match counts,
// because a browser also has the texts of those below it.
var browsers = []struct{ mark, name string }{
	{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"FxiOS/", "Firefox"},
	{"HeadlessChrome/", "Chrome"}, {"Chrome/", "Chrome"}, {"CriOS/", "Chrome"}, {"Safari/", "Safari"},
}

// productOf returns the name of the product in a User-Agent, such as curl or Firefox, or
// "". It masks the whole before it cuts, because the masker would not recognize half a
// secret.
func productOf(userAgent string, m Masker) string {
	userAgent = m.String(sanitize.Strip(userAgent))
	if strings.HasPrefix(userAgent, "Mozilla/") {
		for _, b := range browsers {
			if strings.Contains(userAgent, b.mark) {
				return b.name
			}
		}
	}
	name := strings.TrimSpace(userAgent)
	if end := strings.IndexAny(name, "/ \t(;,"); end >= 0 {
		name = name[:end]
	}
	out := make([]byte, 0, min(len(name), maxProduct))
	for i := range len(name) {
		if len(out) == maxProduct {
			break
		}
		c := name[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-' {
			out = append(out, c)
		} else {
			out = append(out, '_')
		}
	}
	return string(out)
}
