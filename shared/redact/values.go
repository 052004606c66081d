package redact

import "strings"

// value returns the value of a sensitive field and its replacement. An empty value is none.
func value(c cursor, f field) hit {
	s, from := c.text, f.value
	plainOnly := f.quote == "" && c.mode != modeText
	if !plainOnly {
		from = skipSpace(s, from, f.quote != "")
	}
	if from >= len(s) {
		return hit{}
	}
	if f.quote == "" && c.mode == modeText {
		if h := blockScalar(s, f, from); h.to > 0 {
			return h
		}
		from = wrapped(s, from)
	}
	escapes := runEndOf(s, from, '\\')
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
		if h := tripleQuoted(s, from, escapes); h.to > 0 {
			return h
		}
		return hit{from: escapes + 1, to: quotedEnd(s, escapes+1, escapes-from), text: Mask}
	}
	if f.digits(s, from) {
		return hit{}
	}
	to := from
	if b := s[from]; (b == '{' || b == '[') && !plainOnly {
		to = nestedEnd(s, from)
	}
	if f.quote != "" {
		if to = scalarEnd(s, to); to == from {
			return hit{}
		}
		if word := s[from:to]; saysNone(word) || isLetter(word[0]) && c.engine.names.isName(word) {
			return hit{} // "db-token" : secret "db-token" not found
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
		switch {
		case wholeLine(s[from:to], f):
			to = lineEnd(s, to, byteAt(s, f.start-1))
		case f.hasOtherName && f.colon, !f.colon && f.value < from && startsLine(s, f.start) && byteAt(s, f.value-2) == ' ':
			to = wordsEnd(s, to)
		}
		to = c.engine.tokensEnd(c, from, to)
	}
	return hit{from: from, to: to, text: Mask}
}

// endsOuter reports whether the quote before i does not begin a value but ends the JSON text
// with a name without a value: {"log":"token: ","n":1}.
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

// isCount reports whether a text is a number of any form, with a short unit, a ratio such as
// 12/4096, or a word for a number, and not the beginning of a longer value.
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

// listOfText reports whether an array begins with a string.
func listOfText(s string) bool {
	rest, ok := strings.CutPrefix(s, "[")
	return ok && isQuote(byteAt(strings.TrimLeft(rest, " \t\r\n\\"), 0))
}

// quotedEnd returns where the quoted text at i ends; its quote has depth backslashes before it. A
// quote with fewer ends an outer text and so this one.
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

// nestedEnd returns where the object or array at i ends: at the end of the text if it is truncated.
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

// saysNone reports whether a value is no secret but a word for none, or for whether there is one,
// which is often what a reader looks for.
func saysNone(s string) bool {
	switch s {
	case "null", "true", "false", "undefined", "None", "nil", "await", "new":
		return true
	default:
		return stands(s)
	}
}

// stands reports whether a value is a placeholder: the parameter of a statement or format, or
// asterisks.
func stands(s string) bool {
	switch {
	case s == "":
		return false
	case s[0] == '$':
		return len(s) > 1 && runEnd(s, 1, classDigit) == len(s)
	case s[0] == '%':
		return len(s) == 2 && strings.IndexByte("svdq", s[1]) >= 0
	default:
		return s == "?" || runEndOf(s, 0, '*') == len(s)
	}
}

// saysWrong reports whether a word after a name and a colon continues in prose: "invalid token:
// unexpected end".
func saysWrong(s string) bool {
	switch strings.ToLower(s) {
	case "not", "no", "is", "must", "missing", "invalid", "expired", "malformed", "required", "unexpected", "expected",
		"failed", "empty", "string", "enabled", "disabled", "cannot", "could", "yes", "unknown", "forbidden", "denied", "unauthorized",
		"none", "read", "write", "inherit":
		return true
	default:
		return false
	}
}

// scalarEnd returns where a JSON number or word ends.
func scalarEnd(s string, i int) int {
	for i < len(s) && !is(s[i], classSpace) && strings.IndexByte(",}]\"\\", s[i]) < 0 {
		i++
	}
	return i
}

// plainEnd returns where a value without quotes ends.
func plainEnd(s string, i int, m mode) int {
	for ; i < len(s); i++ {
		c := s[i]
		switch {
		case !is(c, classPlainEnd):
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

// closes reports whether the punctuation before i ends a value.
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

// wholeLine reports whether the value continues after its first word, which is an
// authentication scheme or the first of several cookies.
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

// lineEnd returns where a header in a text ends: with the line, real or escaped, or with the quotes
// around it. Quotes after = are a parameter's.
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

// digits reports whether the text at i is the size of a secret: kubectl describes one as "password:
// 12 bytes".
func (f field) digits(s string, i int) bool {
	end := runEnd(s, i, classDigit)
	return end > i && strings.HasPrefix(s[end:], " byte")
}

// startsLine reports whether the name at i is the first on its line or of an error message.
func startsLine(s string, i int) bool {
	for i > 0 && (s[i-1] == ' ' || s[i-1] == '\t') {
		i--
	}
	return i == 0 || isQuote(s[i-1]) || s[i-1] == ':' || s[i-1] == '\n' || s[i-1] == '\r' || s[i-1] == 'n' && byteAt(s, i-2) == '\\'
}

// wordsEnd returns where a value of several words ends: with the line, or before a comment or
// another name and its value. The first word ends at i.
func wordsEnd(s string, i int) int {
	for byteAt(s, i) == ' ' {
		from := skipSpace(s, i, false)
		to := plainEnd(s, from, modeText)
		if to == from || s[from] == '#' || s[from] == ';' || strings.ContainsAny(s[from:to], "=:{") || byteAt(s, skipSpace(s, to, false)) == '=' {
			break
		}
		i = to
	}
	return i
}

// blockScalar matches a YAML value on the lines below its name: after | or >, or a single word.
func blockScalar(s string, f field, from int) hit {
	if !f.colon {
		return hit{}
	}
	i, block := from, false
	if b := byteAt(s, i); b == '|' || b == '>' {
		block = true
		for i++; strings.IndexByte("+-0123456789", byteAt(s, i)) >= 0 && i < len(s); {
			i++
		}
		i = skipSpace(s, i, false)
	}
	first, indent := -1, indentOf(s, f.start)
	end, escaped := 0, byteAt(s, i) == '\\'
	for n := lineBreak(s, i); n > 0; n = lineBreak(s, i) {
		line := i + n
		i = line
		for byteAt(s, i) == ' ' || byteAt(s, i) == '\t' {
			i++
		}
		if i-line <= indent && lineBreak(s, i) == 0 {
			break
		}
		content := i
		for i < len(s) && s[i] != '\n' && s[i] != '\r' && (!escaped || s[i] != '\\' && s[i] != '"') {
			i++
		}
		if i > content {
			if end = i; first < 0 {
				first = content
			}
		}
		if !block {
			break
		}
	}
	if first < 0 {
		return hit{}
	}
	if !block {
		if word := s[first:end]; strings.ContainsAny(word, " \t:=({[<") || strings.HasPrefix(word, "-") || saysWrong(word) || !looksSecret(word) {
			return hit{}
		}
	}
	return hit{from: first, to: end, text: Mask}
}

// wrapped returns the position of the quote that begins a value within a call or after the prefix of
// a string literal: Some("abc"), b"abc". It returns i where there is none.
func wrapped(s string, i int) int {
	const deepest, longest = 4, 32
	at := i
	for range deepest {
		end := at
		for end < len(s) && end-at < longest && (isAlnum(s[end]) || strings.IndexByte("_.:&*@$", s[end]) >= 0) {
			end++
		}
		quote := runEndOf(s, end, '\\')
		if isQuote(byteAt(s, quote)) {
			switch {
			case end == at && at > i:
				return at
			case at < end && end-at <= 2 && isAlnum(byteAt(s, quote+1)) && !endsOuter(s, quote+1) && strings.Trim(s[at:end], "bBrRuUfFL@$&") == "":
				return end
			}
		}
		if end == at || byteAt(s, end) != '(' {
			break
		}
		at = end + 1
	}
	return i
}

// tripleQuoted matches a value in three quotes.
func tripleQuoted(s string, from, quote int) hit {
	mark := s[from : quote+1]
	if !strings.HasPrefix(s[quote+1:], mark+mark) || s[quote] == '`' {
		return hit{}
	}
	begin := quote + 1 + 2*len(mark)
	to := len(s)
	if i := strings.Index(s[begin:], mark+mark+mark); i >= 0 {
		to = begin + i
	}
	for begin < to && lineBreak(s, begin) > 0 {
		begin += lineBreak(s, begin)
	}
	to = begin + len(strings.TrimRight(s[begin:max(to, begin)], "\r\n"))
	for _, end := range []string{`\n`, `\r`} {
		if strings.HasSuffix(s[begin:to], end) {
			to = begin + len(strings.TrimRight(strings.TrimSuffix(s[begin:to], end), `\`))
		}
	}
	if to <= begin {
		return hit{}
	}
	return hit{from: begin, to: to, text: Mask}
}
