package redact

import (
	"encoding/base64"
	"strings"
)

// values matches the values of sensitive columns in INSERT INTO t (name,
// password) VALUES ('ann', 'abc'), of every row.
func values(c cursor) hit {
	s, from := c.text, skipBlank(c.text, c.pos+len("values"))
	if byteAt(s, from) != '(' || !wordStart(s, c.pos) {
		return hit{}
	}
	columns := sensitiveColumns(c)
	if len(columns) == 0 {
		return hit{retry: from}
	}
	var out strings.Builder
	first, copied, i := -1, 0, from
	for byteAt(s, i) == '(' {
		i++
		for column := 0; i < len(s); column++ {
			start := skipBlank(s, i)
			i = sqlValueEnd(s, start)
			end := start + len(strings.TrimRight(s[start:i], " \t\r\n"))
			if columns[column] {
				if f, t := sqlSecret(s, start, end); t > f {
					if first < 0 {
						first, copied = f, f
					}
					out.WriteString(s[copied:f])
					out.WriteString(Mask)
					copied = t
				}
			}
			if byteAt(s, i) != ',' {
				break
			}
			i++
		}
		if byteAt(s, i) != ')' {
			break
		}
		if i = skipBlank(s, i+1); byteAt(s, i) != ',' {
			break
		}
		i = skipBlank(s, i+1)
	}
	if first < 0 {
		return hit{retry: min(i, len(s))}
	}
	return hit{from: first, to: copied, text: out.String()}
}

// sensitiveColumns returns which columns in the parentheses before the cursor have a sensitive name.
func sensitiveColumns(c cursor) map[int]bool {
	const longest = 2048
	end := c.pos
	for end > 0 && c.pos-end < 64 && (is(c.text[end-1], classSpace) || end > 1 && c.text[end-2] == '\\' && isLetter(c.text[end-1])) {
		if is(c.text[end-1], classSpace) {
			end--
		} else {
			end -= 2
		}
	}
	if byteAt(c.text, end-1) != ')' {
		return nil
	}
	list := c.text[max(0, end-longest) : end-1]
	open := strings.LastIndexByte(list, '(')
	if open < 0 {
		return nil
	}
	var columns map[int]bool
	n := 0
	for name := range strings.SplitSeq(list[open+1:], ",") {
		if g, last := c.engine.names.grade(strings.Trim(name, " \t\r\n\"'`[]\\")); g >= weak && last {
			if columns == nil {
				columns = map[int]bool{}
			}
			columns[n] = true
		}
		n++
	}
	return columns
}

// sqlValueEnd returns where a value of a row ends. One of unusual length or depth ends early.
func sqlValueEnd(s string, i int) int {
	const longest, deepest = 4 << 10, 8
	open := 0
	s = s[:min(len(s), i+longest)]
	for i < len(s) {
		switch s[i] {
		case '\'', '"', '`':
			depth := 0
			for i-1-depth >= 0 && s[i-1-depth] == '\\' {
				depth++
			}
			i = quotedEnd(s, i+1, depth)
			if i >= len(s) {
				return len(s)
			}
			i += depth
		case '(':
			if open++; open > deepest {
				return i
			}
		case ')':
			if open--; open < 0 {
				return i
			}
		case ',':
			if open == 0 {
				return i
			}
		}
		i++
	}
	return len(s)
}

// sqlSecret returns the secret in a value: without quotes, and nothing for a parameter or NULL.
func sqlSecret(s string, from, to int) (int, int) {
	value := s[from:to]
	escapes := runEndOf(s, from, '\\')
	if q := byteAt(s, escapes); escapes < to && isQuote(q) {
		if end := quotedEnd(s, escapes+1, escapes-from); end <= to {
			return escapes + 1, end
		}
		return escapes + 1, to
	}
	if value == "" || value == Mask || strings.IndexByte("?$:@%", value[0]) >= 0 {
		return 0, 0
	}
	switch strings.ToLower(value) {
	case "null", "default", "true", "false":
		return 0, 0
	}
	return from, to
}

// identifiedBy matches the password in IDENTIFIED BY 'abc', and a quoted one directly after the word
// password.
func identifiedBy(c cursor) hit {
	s := c.text
	if !wordStart(s, c.pos) {
		return hit{}
	}
	if strings.EqualFold(s[c.pos:c.pos+len("password")], "password") {
		from := skipSpace(s, c.pos+len("password "), false)
		if !isQuote(byteAt(s, runEndOf(s, from, '\\'))) {
			return hit{}
		}
		return quotedSecret(s, from)
	}
	i := skipBlank(s, c.pos+len("identified "))
	word, next := sqlWord(s, i)
	if strings.EqualFold(word, "with") {
		_, next = sqlWord(s, next) // the plugin
		word, next = sqlWord(s, next)
	}
	if !strings.EqualFold(word, "by") && !strings.EqualFold(word, "as") {
		return hit{}
	}
	if word, after := sqlWord(s, next); strings.EqualFold(word, "password") || strings.EqualFold(word, "values") {
		next = after
	}
	if h := quotedSecret(s, next); h.to > 0 {
		return h
	}
	return plainSecret(c, next, func(string) bool { return true })
}

// quotedSecret masks the quoted text at i.
func quotedSecret(s string, i int) hit {
	escapes := runEndOf(s, i, '\\')
	if !isQuote(byteAt(s, escapes)) || endsOuter(s, escapes+1) {
		return hit{}
	}
	to := quotedEnd(s, escapes+1, escapes-i)
	if to <= escapes+1 {
		return hit{}
	}
	return hit{from: escapes + 1, to: to, text: Mask}
}

// sqlWord returns the word at i, and where the next one begins.
func sqlWord(s string, i int) (string, int) {
	end := i
	for end < len(s) && (isAlnum(s[end]) || s[end] == '_') {
		end++
	}
	return s[i:end], skipBlank(s, end)
}

// skipBlank returns where the white space at i ends, real or escaped in JSON.
func skipBlank(s string, i int) int {
	for i < len(s) {
		if is(s[i], classSpace) {
			i++
		} else if n := lineBreak(s, i); n > 0 {
			i += n
		} else {
			return i
		}
	}
	return i
}

// lineBreak returns the length of the line break at i, real or escaped in JSON, or 0.
func lineBreak(s string, i int) int {
	switch byteAt(s, i) {
	case '\n':
		return 1
	case '\r':
		if byteAt(s, i+1) == '\n' {
			return 2
		}
		return 1
	case '\\':
		end := runEndOf(s, i, '\\')
		if end-i > maxQuote {
			return 0
		}
		switch byteAt(s, end) {
		case 'n':
			return end - i + 1
		case 'r':
			if n := lineBreak(s, end+1); n > 0 && s[end+1] == '\\' {
				return end - i + 1 + n
			}
			return end - i + 1
		}
	}
	return 0
}

// authCommand matches the argument of AUTH PLAIN and the like.
func authCommand(c cursor) hit {
	const shortest = 8
	s := c.text
	if !wordStart(s, c.pos) {
		return hit{}
	}
	from := c.pos + len("auth ")
	word := s[from:runEnd(s, from, classToken)]
	switch strings.ToUpper(word) {
	case "PLAIN", "LOGIN", "XOAUTH2", "OAUTHBEARER":
	default:
		return hit{}
	}
	from += len(word)
	if byteAt(s, from) != ' ' {
		return hit{}
	}
	from = skipSpace(s, from, false)
	to := runEnd(s, from, classBase64)
	if to-from < shortest {
		return hit{}
	}
	value := strings.TrimRight(s[from:to], "=")
	if _, err := base64.RawStdEncoding.DecodeString(value[:len(value)&^3]); err != nil || !strings.ContainsAny(s[from:to], "0123456789=") {
		return hit{}
	}
	return hit{from: from, to: to, text: Mask}
}
