package redact

import "strings"

// field is a name, a separator and the position of the value in a text.
type field struct {
	name  string
	start int
	// quote ends the name, "" when it is not quoted: a quote, with backslashes before it for
	// JSON nested in JSON.
	quote string
	// value is where the value begins, before white space.
	value int
	grade grade
	colon bool
	// hasOtherName is set if the name is in another field.
	hasOtherName bool
}

// namedValue matches the value after a sensitive name and = or :, in a query, a form, JSON or a log line.
// The cursor is at the separator.
func namedValue(c cursor) hit {
	if rest := c.text[c.pos:]; strings.HasPrefix(rest, "://") || strings.HasPrefix(rest, "::") {
		return hit{} // most colons of logs
	}
	f, ok := fieldBefore(c)
	if !ok {
		return hit{}
	}
	var last bool
	if f.grade, last = c.engine.names.grade(f.name); f.grade == harmless {
		if h := nameInOtherField(c, f); h.to > 0 {
			return h
		}
		return spacedPair(c, f)
	}
	if f.quote == "" && f.colon && (c.mode != modeText && !headerInURL(c, f) || onlyLooksNamed(c, f, last)) {
		return hit{}
	}
	if namesOther(c, f, last) {
		return hit{}
	}
	h := value(c, f)
	if h.to <= h.from {
		return hit{}
	}
	return h
}

// namesOther reports whether a sensitive name means something else here: the
// working directory, a file that is renamed, a part of an identifier of AWS.
func namesOther(c cursor, f field, last bool) bool {
	const far = 128
	s := c.text
	switch {
	case strings.HasSuffix(f.name, "PWD") && (f.name == "PWD" || f.name == "$PWD" || f.name == "OLDPWD"):
		return byteAt(s, f.value) == '/'
	case !last && f.quote == "" && !f.colon && s[f.value-1] == '>':
		return true
	case f.colon && f.quote == "" && byteAt(s, f.start-1) == ':':
		before := s[max(0, f.start-far):f.start]
		return strings.Contains(before[strings.LastIndexAny(before, " \t\n\"'=[(")+1:], "arn:")
	}
	return false
}

// headerInURL reports whether a header is in a URL, such as "X-Api-Key:+abc".
func headerInURL(c cursor, f field) bool {
	return f.grade == strong && byteAt(c.text, f.value) == '+'
}

// spacedPair matches the value after a name of several words, as in "API key: abc1" and "Incorrect
// API key provided: abc1".
func spacedPair(c cursor, f field) hit {
	if f.quote != "" || c.mode != modeText || !spacedName(c, f.name, f.start) {
		return hit{}
	}
	from := skipSpace(c.text, f.value, false)
	if strings.IndexByte("/.~", byteAt(c.text, from)) >= 0 {
		return hit{} // a file
	}
	return plainSecret(c, from, looksSecret)
}

// fieldBefore finds the name before the separator, and where the value begins.
func fieldBefore(c cursor) (field, bool) {
	s, i := c.text, c.pos
	f := field{value: c.pos + 1, colon: s[i] == ':'}
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
		f.start += afterEscape(s[f.start:i])
		f.name = s[f.start:i]
	}
	return f, (len(f.name) > 2 || f.name == "is" || f.name == "k" || f.name == "v") && f.separated(s)
}

// inMask reports whether the text before i is a mask or the beginning of one, whose
// words name nothing.
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

// separated reports whether a separator follows the name, and not a comparison, a path or a
// scheme. It skips := and =>.
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

// onlyLooksNamed reports whether a word and a colon in prose are not a name and its
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
	if from := skipSpace(s, f.value, false); !last && from > f.value && strings.IndexByte(f.name, '.') >= 0 &&
		!looksSecret(s[from:runEnd(s, from, classBase64)]) {
		return true // aws_secretsmanager_secret.db: Creation complete
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

// isErrorType reports whether a name is that of an error type, such as
// TokenExpiredError; its message comes next.
func isErrorType(name string) bool {
	return strings.HasSuffix(name, "Error") || strings.HasSuffix(name, "Exception") || strings.HasSuffix(name, "Warning")
}

// isTypeName reports whether a name is written like that of a type: PasswordService.
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

// multipart matches the value of a form field in a multipart body: after name="password" follow the
// end of the headers, the value and the boundary.
func multipart(c cursor, f field) hit {
	const headers, boundary = 512, "\n--"
	s := c.text
	if f.name != "name" || f.colon || f.quote != "" {
		return hit{}
	}
	name, ok := shortValue(s, f.value, false, maxName)
	if !ok {
		return hit{}
	}
	if g, _ := c.engine.names.grade(name.text); g < weak {
		return hit{}
	}
	end := name.end
	head := s[end:min(len(s), end+headers)]
	from := end
	for _, blank := range []string{"\n\r\n", "\n\n", `\n\r\n`, `\n\n`, `\\n\\r\\n`, `\\n\\n`} {
		if i := strings.Index(head, blank); i >= 0 && (from == end || end+i+len(blank) < from) {
			from = end + i + len(blank)
		}
	}
	if from == end {
		return hit{}
	}
	to := len(s)
	if n := strings.Index(s[from:], boundary); n >= 0 {
		to = from + n
	} else if n := strings.Index(s[from:], "--"); n >= 0 && strings.HasSuffix(s[:from], "n") {
		to = from + n // the text is JSON within JSON, and so are its line ends
	}
	to = from + len(strings.TrimRight(s[from:to], "\r"))
	for _, end := range []string{`\n`, `\r`} {
		for strings.HasSuffix(s[from:to], end) {
			to = from + len(strings.TrimRight(strings.TrimSuffix(s[from:to], end), `\`))
		}
	}
	if to == from {
		return hit{}
	}
	// Further headers between the name and the value may hold a secret.
	between := s[end:from]
	if c.nesting < maxNesting {
		between = c.engine.scan(between, c.mode, c.nesting+1)
	}
	return hit{from: end, to: to, text: between + Mask}
}

// element matches the text of an XML element with a sensitive name. Without an end tag it is as
// likely a type parameter, and stays.
func element(c cursor) hit {
	s, from := c.text, c.pos+1
	if byteAt(s, from) == '<' {
		return heredoc(c)
	}
	end := from
	for end < len(s) && end-from < maxName && (isAlnum(s[end]) || strings.IndexByte("_-.:", s[end]) >= 0) {
		end++
	}
	if g, _ := c.engine.names.grade(s[from:end]); g != strong {
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

// heredoc matches the lines after a sensitive name and <<, up to the line with their delimiter.
func heredoc(c cursor) hit {
	s := c.text
	if !announcedBy(c, c.pos) {
		return hit{}
	}
	from := c.pos + len("<<")
	word := s[from:runEnd(s, from, classToken)]
	from += len(word)
	n := lineBreak(s, from)
	if word == "" || n == 0 {
		return hit{}
	}
	from += n
	to := len(s)
	if i := strings.Index(s[from:], word); i > 0 {
		to = from + i
	}
	to = from + len(strings.TrimRight(s[from:to], "\r\n"))
	for _, end := range []string{`\n`, `\r`} {
		to = from + len(strings.TrimSuffix(s[from:to], end))
	}
	if to <= from {
		return hit{}
	}
	return hit{from: from, to: to, text: Mask}
}
