package toolbox

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/shared/redact"
)

// withheld stands for text that could not be masked.
const withheld = "[withheld: the text could not be masked]"

// masked returns valid UTF-8 that passed the mask, or withheld.
func masked(mask func(string) string, text string) (result string) {
	if text == "" {
		return ""
	}
	if mask == nil {
		return withheld
	}
	defer func() {
		if recover() != nil {
			result = withheld
		}
	}()
	return valid(mask(valid(text)))
}

// minSecret is the shortest secret of a configuration that is hidden wherever it stands, in bytes: a
// shorter one may stand in words.
const minSecret = 6

var engine = sync.OnceValue(redact.New)

// hiding returns the server with a mask that first hides the server's own token and other secrets,
// the query of its address, and those headers, variables, arguments and parameters that are secrets by
// their names or forms: a server may repeat them in results, in errors and on standard error, where the
// name is missing. Secrets are hidden in the forms of JSON and of addresses too.
func (s Server) hiding() Server {
	if s.Mask == nil {
		return s
	}
	secrets := append([]string{s.BearerToken}, s.Secrets...)
	var pairs []string
	if u, err := url.Parse(s.URL); err == nil {
		if u.RawQuery != "" { // errors show the address
			pairs = append(pairs, "?"+u.RawQuery, "?"+redact.Mask)
		}
		if password, ok := u.User.Password(); ok {
			secrets = append(secrets, password)
		}
		for name, values := range u.Query() {
			for _, value := range values {
				if isSecret(name, value) {
					secrets = append(secrets, value)
				}
			}
		}
	}
	for _, values := range []map[string]string{s.Headers, s.Env} {
		for name, value := range values {
			if isSecret(name, value) {
				secrets = append(secrets, value, value[strings.LastIndexByte(value, ' ')+1:]) // Bearer and a token
			}
		}
	}
	for i, arg := range s.Args {
		name, value, joined := strings.Cut(arg, "=")
		flag := strings.TrimLeft(name, "-")
		if !joined && flag != name && i+1 < len(s.Args) && !strings.HasPrefix(s.Args[i+1], "-") {
			value = s.Args[i+1]
		}
		if value != "" && isSecret(flag, value) {
			secrets = append(secrets, value, value[strings.LastIndexByte(value, ' ')+1:])
		}
	}
	for _, secret := range slices.Clone(secrets) {
		secret = strings.TrimSpace(secret)
		secrets = append(secrets, secret, url.QueryEscape(secret), url.PathEscape(secret), inJSON(secret, false), inJSON(secret, true))
	}
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) }) // one may begin with another
	for _, secret := range secrets {
		if len(secret) >= minSecret {
			pairs = append(pairs, secret, redact.Mask)
		}
	}
	mask, replacer := s.Mask, strings.NewReplacer(pairs...)
	s.Mask = func(text string) string { return mask(replacer.Replace(text)) }
	return s
}

// ofSecrets are the last words of names of what belongs to a secret and is none, such as TOKEN_FILE.
var ofSecrets = []string{"audience", "class", "dir", "file", "issuer", "mode", "name", "namespace", "path", "provider", "stdin", "store", "ttl", "type"}

// isSecret reports whether a value is a secret by its name or its form.
func isSecret(name, value string) bool {
	if slices.Contains(ofSecrets, strings.ToLower(name[strings.LastIndexAny(name, "_-.")+1:])) {
		return engine().String(value) != value
	}
	pair := name + ": " + value
	return engine().String(pair) != pair
}

// inJSON returns a text as it stands within a string of JSON, with or without the escapes of HTML.
func inJSON(text string, html bool) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	if e.Encode(text) != nil { // a text always encodes
		return ""
	}
	return strings.TrimSuffix(strings.TrimPrefix(b.String(), `"`), "\"\n")
}

func valid(text string) string { return strings.ToValidUTF8(text, string(utf8.RuneError)) }

// cutText returns at most limit bytes of text and cuts no character.
func cutText(text string, limit int) string {
	const ellipsis = "…"
	if len(text) <= limit {
		return text
	}
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}
