package redact

import "strings"

// value is the value of a sensitive field, and what to put in its place. An
// empty value is none.
func value(c cursor, f field) hit {
	s, from := c.text, f.value
	plainOnly := f.quote == "" && c.mode != modeText
	if !plainOnly {
		from = skipSpace(s, from, f.quote != "")
	}
	if from >= len(s) {
		return hit{}
	}
	escapes := from
	for byteAt(s, escapes) == '\\' {
		escapes++
	}
	quoted := isQuote(byteAt(s, escapes)) && !plainOnly
	if quoted && (f.quote == "" || len(f.quote)-1 > escapes-from) && endsOuter(s, escapes+1) {
		return hit{}
	}
	if f.grade == counted && !quoted && !listOfText(s[from:]) && (c.mode == modeText || is(s[from], classDigit)) {
		return hit{}
	}
	if f.grade == count && (!quoted && isCount(s[from:]) || quoted && isCount(s[escapes+1:])) {
		return hit{}
	}
	if quoted {
		return hit{from: escapes + 1, to: quotedEnd(s, escapes+1, escapes-from), text: Mask}
	}
	to := from
	if b := s[from]; (b == '{' || b == '[') && !plainOnly {
		to = nestedEnd(s, from)
	}
	if f.quote != "" {
		to = scalarEnd(s, to)
		if saysNone(s[from:to]) {
			return hit{}
		}
		to = c.engine.tokensEnd(c, from, to)
		return hit{from: from, to: to, text: f.quote + Mask + f.quote}
	}
	if strings.HasPrefix(s[from:], Mask+`\`) {
		return hit{} // done, and an escaped line end comes next
	}
	to = plainEnd(s, to, c.mode)
	if word := s[from:to]; saysNone(word) || f.colon && from > f.value && saysWrong(word) {
		return hit{}
	}
	if c.mode == modeText {
		if wholeLine(s[from:to], f) {
			to = lineEnd(s, to, byteAt(s, f.start-1))
		}
		to = c.engine.tokensEnd(c, from, to)
	}
	return hit{from: from, to: to, text: Mask}
}

// endsOuter says that the quote before i does not begin a value but ends the
// JSON text that a name without a value stands in: {"log":"token: ","n":1}.
func endsOuter(s string, i int) bool {
	if c := byteAt(s, i); c == '\n' || c == '\r' {
		i = skipSpace(s, i, true)
	}
	next := byteAt(s, i)
	after := byteAt(s, skipSpace(s, i+1, true))
	switch next {
	case ',', ':':
		return is(after, classDigit) || strings.IndexByte("\"\\{[-", after) >= 0
	case '}', ']':
		return after == 0 || strings.IndexByte(",}]\"\\", after) >= 0
	default:
		return false
	}
}

func skipSpace(s string, i int, lines bool) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\t' || lines && (s[i] == '\n' || s[i] == '\r')) {
		i++
	}
	return i
}

// isCount says that a text begins with a number, of whatever form and with a
// short unit, or one of another as in 12/4096, or with a word for one, and that
// nothing of a longer value follows.
func isCount(s string) bool {
	s = strings.TrimLeft(s, "+-~")
	end := 0
	for end < len(s) && (is(s[end], classDigit) || end > 0 && strings.IndexByte("./_:", s[end]) >= 0) {
		end++
	}
	if number := end; number > 0 {
		if exponent := runEnd(s, end+1, classDigit); byteAt(s, end)|0x20 == 'e' && exponent > end+1 {
			return endsValue(s, exponent)
		}
		const unit = 3 // ms, GB, %
		for end < len(s) && end < number+unit && (isLetter(s[end]) || s[end] == '%') {
			end++
		}
	} else {
		end = runEnd(s, 0, classLetter)
		switch strings.ToLower(s[:end]) {
		case "nan", "infinity", "inf", "unlimited", "none", "null", "unknown":
		default:
			return false
		}
	}
	return endsValue(s, end)
}

func endsValue(s string, i int) bool {
	return i >= len(s) || strings.IndexByte(" \t\r\n,;&#|)}]<\\\"'`", s[i]) >= 0
}

// listOfText says that an array begins with a string.
func listOfText(s string) bool {
	rest, ok := strings.CutPrefix(s, "[")
	return ok && isQuote(byteAt(strings.TrimLeft(rest, " \t\r\n\\"), 0))
}

// quotedEnd is where the text ends that begins at i, behind a quote with depth
// backslashes before it. A quote with fewer ends an outer text and so this one.
func quotedEnd(s string, i, depth int) int {
	quote := s[i-1]
	run := 0
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			run++
			continue
		case c == quote && (run < depth || run%(2*(depth+1)) == depth):
			return i - min(run, depth)
		case c == '"' && c != quote && endsOuter(s, i+1): // an apostrophe in JSON
			return i - run
		}
		run = 0
	}
	return len(s)
}

// nestedEnd is where the object or array ends that begins at i: at the end of
// the text if it was cut off.
func nestedEnd(s string, i int) int {
	open := 0
	for i < len(s) {
		switch s[i] {
		case '{', '[':
			open++
		case '}', ']':
			if open--; open == 0 {
				return i + 1
			}
		case '"':
			depth := 0
			for s[i-1-depth] == '\\' {
				depth++
			}
			if i = quotedEnd(s, i+1, depth); i >= len(s) {
				return len(s)
			}
			i += depth
		}
		i++
	}
	return len(s)
}

// saysNone says that a value is no secret: that there is none, or whether there
// is one, is often just what the reader looks for.
func saysNone(s string) bool {
	switch s {
	case "null", "true", "false", "undefined", "None", "nil":
		return true
	default:
		return false
	}
}

// saysWrong says that a word behind a name and a colon goes on in prose:
// "invalid token: unexpected end".
func saysWrong(s string) bool {
	switch strings.ToLower(s) {
	case "not", "no", "is", "must", "missing", "invalid", "expired", "malformed", "required", "unexpected", "expected",
		"failed", "empty", "string", "enabled", "disabled", "cannot", "could":
		return true
	default:
		return false
	}
}

// scalarEnd is where a JSON number or word ends.
func scalarEnd(s string, i int) int {
	for i < len(s) && !is(s[i], classSpace) && strings.IndexByte(",}]\"\\", s[i]) < 0 {
		i++
	}
	return i
}

// plainEnd is where a value without quotes ends.
func plainEnd(s string, i int, m mode) int {
	for ; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '&', c == '#' && m == modeURL:
			return i
		case m != modeText:
		case is(c, classSpace), c == '"', c == '<', c == '>', c == '`':
			return i
		case c == '\\':
			end := runEndOf(s, i, '\\')
			if isQuote(byteAt(s, end)) || strings.HasPrefix(s[end-1:], `\u0026`) {
				return i
			}
			i = end - 1
		case strings.IndexByte("',;)}]|", c) >= 0 && closes(s, i+1):
			return i
		}
	}
	return i
}

// closes says that the punctuation before i is none within a value: nothing of
// a value comes after it.
func closes(s string, i int) bool {
	next := byteAt(s, i)
	return i >= len(s) || is(next, classSpace) || isQuote(next) || strings.IndexByte(",;)}]\\", next) >= 0
}

func runEndOf(s string, i int, b byte) int {
	for i < len(s) && s[i] == b {
		i++
	}
	return i
}

// wholeLine says that the value goes on behind its first word: that is an
// authentication scheme, or the first of several cookies.
func wholeLine(first string, f field) bool {
	switch strings.ToLower(first) {
	case "basic", "bearer", "digest", "token", "negotiate", "ntlm", "apikey", "hawk", "oauth", "hoba",
		"mutual", "dpop", "aws4-hmac-sha256", "signature":
		return true
	}
	name := strings.ToLower(f.name)
	return f.colon && (strings.HasSuffix(name, "cookie") || strings.HasSuffix(name, "cookies")) &&
		strings.IndexByte(first, '=') > 0
}

// lineEnd is where a header in a text ends: with the line, real or escaped, or
// with the quotation that it stands in. Quotes after = are a parameter's.
func lineEnd(s string, i int, before byte) int {
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\n', c == '\r':
			return i
		case c == '\\' && (byteAt(s, i+1) == 'n' || byteAt(s, i+1) == 'r'):
			return i
		case c == '\'' && before == c:
			return i
		case c == '"' || c == '\\':
			opening := runEndOf(s, i, '\\')
			if byteAt(s, opening) != '"' {
				continue
			}
			if (opening-i)%2 == 0 && opening > i {
				return opening // the backslashes are the value's own
			}
			if s[i-1] != '=' || !isAlnum(byteAt(s, i-2)) || closes(s, opening+1) || byteAt(s, opening+1) == ':' {
				return i
			}
			i = opening + 1
			end := strings.IndexByte(s[min(i, len(s)):], '"')
			if end < 0 {
				return len(s)
			}
			i += end
		}
	}
	return i
}
