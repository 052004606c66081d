package redact

import "strings"

// nameBefore returns the name that ends at i, and where it begins.
func nameBefore(c cursor, i int) (string, int) {
	start := i
	for start > 0 && i-start < maxName && is(c.text[start-1], className) {
		start--
	}
	start += afterEscape(c.text[start:i])
	return c.text[start:i], start
}

// afterEscape returns where a name begins after an escaped line end or tab, which are letters like
// any other in a text within JSON.
func afterEscape(name string) int {
	if strings.IndexByte(name, '\\') < 0 {
		return 0
	}
	for i := len(name) - 2; i > 0; i-- {
		if name[i-1] == '\\' && (name[i] == 'n' || name[i] == 'r' || name[i] == 't') {
			return i + 1
		}
	}
	if len(name) > 1 && name[0] == '\\' && (name[1] == 'n' || name[1] == 'r' || name[1] == 't') {
		return 2
	}
	return 0
}

// announcedBy reports whether the value of the name before i follows in plain words: the name is
// always that of a secret, ends in the sensitive word, and is not in a path.
func announcedBy(c cursor, i int) bool {
	name, start := nameBefore(c, i)
	if len(name) < len("pin") || byteAt(c.text, start-1) == '/' || strings.HasPrefix(name, "[REDACTED") {
		return false
	}
	g, last := c.engine.names.grade(name)
	return g == strong && last
}

// arrow matches the value in "password -> abc1".
func arrow(c cursor) hit {
	end := c.pos
	for end > 0 && is(c.text[end-1], classSpace) && c.pos-end < 8 {
		end--
	}
	for end > 0 && isQuote(c.text[end-1]) && c.pos-end < 10 {
		end--
	}
	if !announcedBy(c, end) {
		return hit{}
	}
	return plainSecret(c, skipSpace(c.text, c.pos+len("->"), false), looksSecret)
}

// cell matches the second cell of a row of a table whose first cell is a sensitive name:
// | password | abc1 |.
func cell(c cursor) hit {
	const longest = 512
	s := c.text
	from := skipSpace(s, c.pos+1, false)
	to := from
	for to < len(s) && to-from < maxName && is(s[to], className) {
		to++
	}
	next := skipSpace(s, to, false)
	if to-from < len("pin") || byteAt(s, next) != '|' || !startsLine(s, c.pos) || !announcedBy(c, to) {
		return hit{}
	}
	from = skipSpace(s, next+1, false)
	length := strings.IndexAny(s[from:min(len(s), from+longest)], "|\r\n")
	if length < 0 {
		return hit{}
	}
	value := strings.TrimRight(s[from:from+length], " \t")
	if strings.ContainsAny(value, " \t(<") || !looksSecret(value) {
		return hit{}
	}
	return hit{from: from, to: from + len(value), text: Mask}
}

// tabbed matches the value after a sensitive name and a tab.
func tabbed(c cursor) hit {
	if !is(byteAt(c.text, c.pos-1), className) || !announcedBy(c, c.pos) {
		return hit{}
	}
	from := c.pos + 1
	if c.text[c.pos] == '\\' { // of a text in JSON
		from++
	}
	return plainSecret(c, skipSpace(c.text, from, false), looksSecret)
}

// isValue matches the value in "the password is abc1". Plain sentences about a password stay, such as
// that it is required.
func isValue(c cursor) hit {
	from := skipSpace(c.text, c.pos+len(" is "), false)
	if b := byteAt(c.text, from); !isQuote(b) && b != '\\' && !looksPassword(c.text[from:plainEnd(c.text, from, modeText)]) {
		return hit{} // most sentences
	}
	name, start := nameBefore(c, c.pos)
	if !announcedBy(c, c.pos) && !spacedName(c, name, start) {
		return hit{}
	}
	return plainSecret(c, from, looksPassword)
}

// plainSecret masks the word or the quoted text at from where it looks like a
// secret.
func plainSecret(c cursor, from int, secret func(string) bool) hit {
	s := c.text
	escapes := runEndOf(s, from, '\\')
	if isQuote(byteAt(s, escapes)) {
		if endsOuter(s, escapes+1) {
			return hit{}
		}
		to := quotedEnd(s, escapes+1, escapes-from)
		if value := s[escapes+1 : to]; strings.TrimSpace(value) == "" || strings.ContainsAny(value, " \n") || strings.IndexFunc(value, func(r rune) bool { return isAlnum(byte(r)) }) < 0 || placeholder(value) {
			return hit{}
		}
		return hit{from: escapes + 1, to: to, text: Mask}
	}
	to := plainEnd(s, from, modeText)
	for to > from && strings.IndexByte(".,;:!?", s[to-1]) >= 0 {
		to--
	}
	if to == from || saysNone(s[from:to]) || saysWrong(s[from:to]) || !secret(s[from:to]) || placeholder(s[from:to]) {
		return hit{}
	}
	to = c.engine.tokensEnd(c, from, to)
	return hit{from: from, to: to, text: Mask}
}

// looksPassword reports whether a word after "is" is unlikely to belong to the sentence. It is
// stricter than looksSecret, because sentences mention sizes and algorithms.
func looksPassword(word string) bool {
	const shortest, phrase = 6, 21
	if len(word) < shortest {
		return false
	}
	digits, letters, others := 0, 0, 0
	for i := range len(word) {
		switch {
		case is(word[i], classDigit):
			digits++
		case isLetter(word[i]):
			letters++
		default:
			others++
		}
	}
	if digits == 0 {
		return len(word) >= phrase && letters > 0
	}
	if letters == 0 && others > 0 || is(word[0], classDigit) && letters <= 5 && others <= 1 {
		return false // a date, a version, an address, a size with its unit
	}
	return !technical(word)
}

// technical reports whether a word names an algorithm, an encoding or the like.
func technical(word string) bool {
	word = strings.ToLower(word)
	for _, start := range []string{
		"base", "sha", "md", "utf", "bcrypt", "scrypt", "argon", "pbkdf", "rs", "hs", "es", "ps", "eddsa", "ed", "oauth", "x", "x.", "aes", "rsa", "ecdsa", "http", "tls", "ssl",
		"pkcs", "iso", "rfc", "ipv", "v", "k8s",
	} {
		if rest, ok := strings.CutPrefix(word, start); ok && (rest == "" || !isLetter(rest[0])) {
			return true
		}
	}
	return false
}

// placeholder reports whether a word is a placeholder for a secret: a variable, a metavariable of a
// help text, a name, asterisks.
func placeholder(word string) bool {
	if word == "" {
		return true
	}
	switch word[0] {
	case '<', '{', '[', '(', '*', '-', '|':
		return !strings.HasPrefix(word, "-----")
	case '$':
		next := byteAt(word, 1)
		return isUpper(next) || next == '{' || next == '(' || next == '_'
	case '%':
		return len(word) <= 3 || word[len(word)-1] == '%'
	}
	if strings.Trim(word, "xX.*_•") == "" {
		return true
	}
	bare := strings.Trim(word, ".,;:'\"`)]")
	switch strings.ToLower(bare) {
	case "password", "passwd", "pass", "pwd", "token", "secret", "passphrase", "apikey", "api_key", "api-key", "key", "user", "username", "value",
		"your_password", "yourpassword", "your-token", "your_token", "mypassword", "auth", "credentials", "access_token", "string", "text", "env", "stdin":
		return true
	}
	return prose(bare)
}

// prose reports whether a word continues a sentence about a flag.
func prose(word string) bool {
	if saysWrong(word) {
		return true
	}
	switch strings.ToLower(word) {
	case "a", "an", "the", "to", "or", "and", "flag", "flags", "option", "options", "from", "instead", "file", "via", "as", "in", "on", "with", "for", "if",
		"when", "was", "are", "be", "been", "should", "can", "may", "might", "will", "would", "argument", "arguments", "parameter", "parameters", "environment",
		"variable", "has", "had", "have", "without", "using", "then", "that", "which", "isn't", "wasn't", "doesn't", "provided", "given", "specified",
		"set", "unset", "here", "per", "by", "at", "of", "does", "did", "supplied", "alias", "deprecated", "ignored", "instead,", "but", "also", "both",
		"you", "it", "this", "only", "into", "again", "manually", "interactively", "prompt", "prompts", "prompting", "means", "uses", "use", "takes", "accepts", "expects", "needs",
		"requires", "works", "twice", "once", "too", "so", "because", "before", "after", "where", "never", "always", "default", "changed", "reset", "updated", "rotated", "stored",
		"still", "already", "now", "unknown", "unsupported", "none", "null", "true", "false", "undefined", "int", "bool", "bytes":
		return true
	}
	return false
}

// spacedName reports whether a name of several words ends before i, such as "API key" or "API key
// provided". Its words begin before start.
func spacedName(c cursor, last string, start int) bool {
	if byteAt(c.text, start-1) != ' ' || len(last) < len("is") || len(last) > len("provided") {
		return false
	}
	switch {
	case foldedIn(last, "provided", "given", "supplied", "received", "used", "is"):
		word, from := nameBefore(c, start-1)
		if g, ends := c.engine.names.grade(word); g == strong && ends {
			return true
		}
		return spacedName(c, word, from)
	case foldedIn(last, "key", "keys", "code", "phrase", "number"):
		word, from := nameBefore(c, start-1)
		if word == "" || len(word) > maxName/2 || strings.HasPrefix(word, "[REDACTED") || byteAt(c.text, from-1) == '=' {
			return false // service=api key=user:42
		}
		g, ends := c.engine.names.grade(word + " " + last)
		return g == strong && ends
	default:
		return false
	}
}

// foldedIn reports whether a word is one of several, ignoring case.
func foldedIn(word string, words ...string) bool {
	for _, w := range words {
		if len(w) == len(word) && w[0] == word[0]|0x20 && strings.EqualFold(w, word) {
			return true
		}
	}
	return false
}
