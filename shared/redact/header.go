package redact

import "strings"

// Header masks the value of a header: as a whole when the name is sensitive, else the secrets in it.
func (e *Engine) Header(name, value string) string {
	if g, _ := e.names.grade(name); g >= weak || g == count && !isCount(value) {
		return Mask
	}
	switch strings.ToLower(name) {
	case "location", "content-location", "referer", "referrer", "origin":
		return e.URL(value)
	default:
		return e.String(value)
	}
}

// headers masks headers in place.
func (e *Engine) headers(h map[string]string) {
	for name, value := range h {
		clean := e.Header(name, value)
		if key := e.String(name); key != name {
			delete(h, name)
			name = key
		} else if clean == value {
			continue
		}
		h[name] = clean
	}
}
