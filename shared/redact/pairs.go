package redact

import "strings"

// field is a name and a separator in a text, of which the value comes next.
type field struct {
	name  string
	start int
	// quote is what ends the name, "" when it isn't quoted: a quote, with as
	// many backslashes before it as the JSON is deep within other JSON.
	quote string
	// value is where the value begins, before white space.
	value int
	grade grade
	colon bool
}

// pair matches the value after a sensitive name and = or :, be it in a query, a
// form, JSON or a log line. It begins at the separator.
func pair(c cursor) hit {
	f, ok := fieldBefore(c)
	if !ok {
		return hit{}
	}
	var last bool
	if f.grade, last = c.names.grade(f.name); f.grade == harmless {
		return multipart(c, f)
	}
	if f.quote == "" && f.colon && (c.mode != modeText || onlyLooksNamed(c, f, last)) {
		return hit{}
	}
	h := value(c, f)
	if h.to <= h.from {
		return hit{}
	}
	return h
}

// fieldBefore finds the name before the separator, and where the value begins.
func fieldBefore(c cursor) (field, bool) {
	s, i := c.text, c.at
	f := field{value: c.at + 1, colon: s[i] == ':'}
	spaceFrom := i
	for i > c.floor && is(s[i-1], classSpace) {
		i--
	}
	if i == c.floor || inMask(s, i) {
		return f, false
	}
	if q := s[i-1]; isQuote(q) {
		end := i - 1
		for end > max(c.floor, i-1-maxQuote) && s[end-1] == '\\' {
			end--
		}
		f.quote = s[end:i]
		from := max(c.floor, end-maxName)
		open := strings.LastIndexByte(s[from:end], q)
		if open < 0 {
			return f, false
		}
		f.start = from + open
		f.name = s[f.start+1 : end]
	} else {
		if strings.ContainsAny(s[i:spaceFrom], "\r\n") {
			return f, false
		}
		f.start = i
		for f.start > c.floor && i-f.start < maxName && is(s[f.start-1], className) {
			f.start--
		}
		f.name = s[f.start:i]
	}
	return f, len(f.name) > 2 && f.separated(s)
}

// inMask says that what stands before i is a mask or the beginning of one, the
// words of which name nothing.
func inMask(s string, i int) bool {
	const opening, longest = "[REDACTED", 32
	if strings.HasSuffix(s[:i], opening) {
		return true
	}
	if s[i-1] != ']' {
		return false
	}
	s = s[max(0, i-longest) : i-1]
	open := strings.LastIndexByte(s, '[')
	return open >= 0 && strings.HasPrefix(s[open:], opening)
}

// separated says that what follows the name separates it from a value, and
// isn't a comparison, a path or a scheme. It moves on behind := and =>.
func (f *field) separated(s string) bool {
	next := byteAt(s, f.value)
	if f.colon {
		switch next {
		case ':':
			return false
		case '=':
			f.value++
		}
		return !strings.HasPrefix(s[f.value:], "//")
	}
	if next == '>' {
		f.value++
	}
	if next == '=' && f.quote == "" {
		end := f.value
		for end < f.value+2 && byteAt(s, end) == '=' {
			end++
		}
		return end < len(s) && !is(s[end], classSpace)
	}
	return true
}

// onlyLooksNamed says that a word and a colon in prose are not a name and its
// value: a path, a host and its port, a place in a file, a plain word.
func onlyLooksNamed(c cursor, f field, last bool) bool {
	s, before := c.text, byteAt(c.text, f.start-1)
	if before == '/' {
		return true
	}
	const unexpected = "unexpected "
	if n := f.start - len(unexpected); n >= 0 && strings.EqualFold(s[n:f.start], unexpected) {
		return true
	}
	if !last && (is(byteAt(s, f.value), classDigit) || isErrorType(f.name)) {
		return true
	}
	if f.grade != weak && (last || !isTypeName(f.name)) {
		return false
	}
	from := f.value
	for from < len(s) && is(s[from], classSpace) {
		from++
	}
	to := runEnd(s, from, classBase64)
	return f.grade == weak && !last || to > from && !looksSecret(s[from:to])
}

// isErrorType says that a name is that of an error type, such as
// TokenExpiredError; its message comes next.
func isErrorType(name string) bool {
	return strings.HasSuffix(name, "Error") || strings.HasSuffix(name, "Exception") || strings.HasSuffix(name, "Warning")
}

// isTypeName says that a name is written like that of a type: PasswordService.
func isTypeName(name string) bool {
	small := false
	for i := range len(name) {
		if !isAlnum(name[i]) {
			return false
		}
		small = small || !digitOrUpper(name[i])
	}
	return small && isUpper(name[0])
}

// multipart matches the value of a form field in a multipart body: after
// name="password" come the end of the headers, the value and the boundary.
func multipart(c cursor, f field) hit {
	const headers, boundary = 512, "\n--"
	s := c.text
	if f.name != "name" || f.colon || byteAt(s, f.value) != '"' {
		return hit{}
	}
	end := strings.IndexByte(s[f.value+1:min(len(s), f.value+1+maxName)], '"')
	if end < 0 {
		return hit{}
	}
	end += f.value + 1
	if g, _ := c.names.grade(s[f.value+1 : end]); g < weak {
		return hit{}
	}
	head, _, ok := strings.Cut(s[end:min(len(s), end+headers)], "\n\r\n")
	if !ok {
		return hit{}
	}
	from := end + len(head) + len("\n\r\n")
	to := len(s)
	if n := strings.Index(s[from:], boundary); n >= 0 {
		to = from + n
		if to > from && s[to-1] == '\r' {
			to--
		}
	}
	if to == from {
		return hit{}
	}
	return hit{from: from, to: to, text: Mask}
}

// element matches the text of an XML element with a sensitive name. Without
// its end it is as likely a type parameter, and stays.
func element(c cursor) hit {
	s, from := c.text, c.at+1
	end := from
	for end < len(s) && end-from < maxName && (isAlnum(s[end]) || strings.IndexByte("_-.:", s[end]) >= 0) {
		end++
	}
	if g, _ := c.names.grade(s[from:end]); g != strong {
		return hit{}
	}
	stop := strings.IndexAny(s[end:], "<>")
	if stop < 0 || s[end+stop] == '<' || s[end+stop-1] == '/' {
		return hit{}
	}
	from = end + stop + 1
	if data := "<![CDATA["; strings.HasPrefix(s[from:], data) {
		from += len(data)
		to := len(s)
		if length := strings.Index(s[from:], "]]>"); length >= 0 {
			to = from + length
		}
		if to == from {
			return hit{}
		}
		return hit{from: from, to: to, text: Mask}
	}
	length := strings.IndexByte(s[from:], '<')
	for i := from; i < from+length; i++ {
		if s[i] == '"' && endsOuter(s, i+1) {
			return hit{}
		}
	}
	if length <= 0 || byteAt(s, from+length+1) != '/' || strings.TrimSpace(s[from:from+length]) == "" {
		return hit{}
	}
	return hit{from: from, to: from + length, text: Mask}
}
