package redact

import "strings"

// Bounds of the search around a name that is in another field than its value.
const (
	// maxValueDistance is how far after its name a value may begin, in bytes.
	maxValueDistance = 512
	// maxSecretDistance is how far the kind of a Kubernetes Secret may be from its data, in
	// bytes.
	maxSecretDistance = 4 << 10
	// maxQueryDistance is how far a GraphQL query may extend before and after its variables,
	// in bytes.
	maxQueryDistance = 4 << 10
	// maxBoundVariables is how many variables of a query are examined.
	maxBoundVariables = 64
)

// nameInOtherField matches a value whose name is in another field: {"name": "x-api-key",
// "value": "abc"} in any notation, the fields of a multipart form, the variables of a GraphQL
// query, and the data of a Kubernetes Secret. f is the field before the cursor, with a harmless
// name.
func nameInOtherField(c cursor, f field) hit {
	start := len(f.name)
	for start > 0 && isLetter(f.name[start-1]) && len(f.name)-start <= len("stringData") {
		start--
	}
	switch label := f.name[start:]; len(label) {
	case len("k"), len("key"), len("data"), len("value"), len("header"), len("variables"), len("stringData"):
		switch {
		case isNameLabel(label):
			if h := multipart(c, f); h.to > 0 {
				return h
			}
			return valueAfterName(c, f)
		case isValueLabel(label):
			return valueBeforeName(c, f)
		case label == "data" || label == "stringData":
			return secretManifest(c, f)
		case label == "variables":
			return variables(c, f)
		}
	}
	return hit{}
}

func isNameLabel(label string) bool {
	switch label {
	case "name", "k", "Name", "key", "Key", "header", "Header", "NAME", "KEY", "field":
		return true
	}
	return false
}

func isValueLabel(label string) bool {
	switch label {
	case "value", "v", "Value", "val", "VALUE":
		return true
	}
	return false
}

// fieldValue is the value of a field and its position in the text.
type fieldValue struct {
	text      string
	quoted    bool
	from, end int // end is after the closing quote
}

// shortValue reads the value at i, if it is at most far bytes long.
func shortValue(s string, i int, quotedName bool, far int) (fieldValue, bool) {
	from := skipSpace(s, i, quotedName)
	stop := min(len(s), from+far)
	escapes := runEndOf(s[:stop], from, '\\')
	if escapes < stop && isQuote(s[escapes]) {
		to := quotedEnd(s[:stop], escapes+1, escapes-from)
		if to >= stop {
			return fieldValue{}, false
		}
		return fieldValue{s[escapes+1 : to], true, escapes + 1, to + (escapes - from) + 1}, true
	}
	to := from
	for to < stop && !is(s[to], classShortEnd) {
		to++
	}
	return fieldValue{s[from:to], false, from, to}, to > from && to < stop
}

// nextLabel reads the label of the field after a value.
func nextLabel(s string, i int) (f field, ok bool) {
	const far = 64
	stop := min(len(s), i+far)
	for i < stop {
		if is(s[i], classSpace) || strings.IndexByte(",;&", s[i]) >= 0 {
			i++
		} else if n := lineBreak(s, i); n > 0 {
			i += n
		} else {
			break
		}
	}
	f.start = i
	escapes := runEndOf(s[:stop], i, '\\')
	if escapes < stop && isQuote(s[escapes]) {
		f.quote = s[i : escapes+1]
		i = escapes + 1
	}
	to := i
	for to < stop && is(s[to], classLabel) {
		to++
	}
	f.name = s[i:to]
	if f.name == "" || !strings.HasPrefix(s[to:], f.quote) {
		return f, false
	}
	to = skipSpace(s, to+len(f.quote), f.quote != "")
	if c := byteAt(s, to); c != ':' && c != '=' {
		return f, false
	}
	f.colon, f.value = s[to] == ':', to+1
	return f, true
}

// valueAfterName matches the value that comes after a sensitive name.
func valueAfterName(c cursor, f field) hit {
	name, ok := shortValue(c.text, f.value, f.quote != "", maxName)
	if !ok {
		return hit{}
	}
	g := c.gradeOtherField(name.text)
	if g == harmless {
		return hit{}
	}
	for end := name.end; end-c.pos < maxValueDistance; {
		next, ok := nextLabel(c.text, end)
		if !ok || f.quote != "" && next.quote == "" {
			return hit{}
		}
		if isValueLabel(next.name) {
			next.name, next.grade, next.hasOtherName = name.text, g, true
			return c.maskOtherField(next)
		}
		if isNameLabel(next.name) {
			return hit{}
		}
		between, ok := shortValue(c.text, next.value, next.quote != "", maxValueDistance)
		if !ok {
			return hit{}
		}
		end = between.end
	}
	return hit{}
}

// valueBeforeName matches the value directly before a sensitive name.
func valueBeforeName(c cursor, f field) hit {
	if f.quote == "" {
		return hit{} // what people and encoders write without quotes begins with the name
	}
	value, ok := shortValue(c.text, f.value, true, 2*maxValueDistance)
	if !ok || !value.quoted {
		return hit{}
	}
	next, ok := nextLabel(c.text, value.end)
	if !ok || !isNameLabel(next.name) {
		return hit{}
	}
	name, ok := shortValue(c.text, next.value, next.quote != "", maxName)
	if !ok || c.gradeOtherField(name.text) == harmless {
		return hit{}
	}
	f.name, f.grade, f.hasOtherName = name.text, strong, true
	return c.maskOtherField(f)
}

// gradeOtherField grades a name that is the value of a field.
func (c cursor) gradeOtherField(name string) grade {
	if len(name) < len("pin") || strings.ContainsAny(name, " \t\n") || strings.HasPrefix(name, "[REDACTED") {
		return harmless
	}
	g, last := c.engine.names.grade(name)
	switch {
	case g == strong && last, g == weak && last:
		return strong
	case g == strong:
		return strong
	case g == count:
		return count
	default:
		return harmless
	}
}

// maskOtherField masks the value of a field whose name is in another field. Numbers are not
// masked: metrics have this form too.
func (c cursor) maskOtherField(f field) hit {
	from := skipSpace(c.text, f.value, true)
	end := scalarEnd(c.text, from)
	if end > from && (isNumeric(c.text[from:end]) || saysNone(c.text[from:end])) {
		return hit{}
	}
	h := value(c, f)
	if h.to <= h.from {
		return hit{}
	}
	return h
}

func isNumeric(s string) bool {
	for i := range len(s) {
		if !is(s[i], classDigit) && strings.IndexByte("+-.eE", s[i]) < 0 {
			return false
		}
	}
	return true
}

// secretManifest matches the data of a Kubernetes Secret: every value in it is a secret.
func secretManifest(c cursor, f field) hit {
	s := c.text
	from := skipSpace(s, f.value, true)
	if !hasSecretKind(s[max(0, c.pos-maxSecretDistance):c.pos]) && !hasSecretKind(s[c.pos:min(len(s), c.pos+maxSecretDistance)]) {
		return hit{}
	}
	var values []fieldValue
	if byteAt(s, from) == '{' {
		end := nestedEnd(s, from)
		for i := from + 1; i < end; {
			next, ok := nextLabel(s[:end], i)
			if !ok {
				break
			}
			v, ok := shortValue(s[:end], next.value, true, end)
			if !ok {
				break
			}
			values = append(values, v)
			i = v.end
		}
		return maskValues(s, values, c.floor)
	}
	indent := indentOf(s, f.start)
	for i := skipSpace(s, f.value, false); lineBreak(s, i) > 0; {
		line := i + lineBreak(s, i)
		i = line
		for byteAt(s, i) == ' ' {
			i++
		}
		colon := i
		for colon < len(s) && (isAlnum(s[colon]) || strings.IndexByte("-_.", s[colon]) >= 0) {
			colon++
		}
		if i-line <= indent || byteAt(s, colon) != ':' {
			break
		}
		i = skipSpace(s, colon+1, false)
		to := yamlLineEnd(s, i)
		values = append(values, fieldValue{from: i, end: to, text: s[i:to]})
		i = to
	}
	return maskValues(s, values, c.floor)
}

// maskValues returns one hit that replaces each value by a mask.
func maskValues(s string, values []fieldValue, floor int) hit {
	var out strings.Builder
	first, copied := -1, 0
	for _, v := range values {
		if v.from < floor || v.text == "" || v.text == Mask || strings.HasPrefix(v.text, "|") {
			continue
		}
		if first < 0 {
			first, copied = v.from, v.from
		}
		out.WriteString(s[copied:v.from])
		out.WriteString(Mask)
		copied = v.from + len(v.text)
	}
	if first < 0 {
		return hit{}
	}
	return hit{from: first, to: copied, text: out.String()}
}

// hasSecretKind reports whether a text contains the kind of a Kubernetes Secret.
func hasSecretKind(s string) bool {
	const word, most = "Secret", 8
	for range most {
		i := strings.Index(s, word)
		if i < 0 {
			return false
		}
		before := strings.TrimRight(s[:i], " \t\"'\\")
		before, colon := strings.CutSuffix(before, ":")
		if s = s[i+len(word):]; colon && !isAlnum(byteAt(s, 0)) && strings.HasSuffix(strings.TrimRight(before, " \t\"'\\"), "kind") {
			return true
		}
	}
	return false
}

// indentOf returns the indentation of the name at i in a YAML text.
func indentOf(s string, i int) int {
	n := 0
	for i > 0 && n < maxName && (s[i-1] == ' ' || s[i-1] == '-') {
		i--
		n++
	}
	return n
}

// yamlLineEnd returns the end of the line at i, real or escaped in JSON.
func yamlLineEnd(s string, i int) int {
	for i < len(s) && s[i] != '\n' && s[i] != '\r' && s[i] != '"' {
		if s[i] == '\\' {
			if end := runEndOf(s, i, '\\'); lineBreak(s, i) > 0 || byteAt(s, end) == '"' {
				return i
			}
		}
		i++
	}
	return i
}

// variables matches the variables of a GraphQL query that are sensitive arguments: login(password:
// $p) has the password in the variable p.
func variables(c cursor, f field) hit {
	s := c.text
	from := skipSpace(s, f.value, true)
	if byteAt(s, from) != '{' {
		return hit{}
	}
	end := min(nestedEnd(s[:min(len(s), from+maxQueryDistance)], from), len(s))
	bound := map[string]bool{}
	collectBound(&c.engine.names, s[max(0, c.pos-maxQueryDistance):c.pos], bound)
	collectBound(&c.engine.names, s[end:min(len(s), end+maxQueryDistance)], bound)
	if len(bound) == 0 {
		return hit{}
	}
	var values []fieldValue
	for i := from + 1; i < end; {
		next, ok := nextLabel(s[:end], i)
		if !ok {
			break
		}
		v, ok := shortValue(s[:end], next.value, true, end)
		if !ok {
			break
		}
		if bound[next.name] && v.quoted {
			values = append(values, v)
		}
		i = v.end
	}
	return maskValues(s, values, c.floor)
}

// collectBound adds to bound the variables of a query that are sensitive arguments.
func collectBound(n *names, query string, bound map[string]bool) {
	for range maxBoundVariables {
		i := strings.IndexByte(query, '$')
		if i < 0 {
			return
		}
		before := strings.TrimRight(query[:i], " ")
		query = query[i+1:]
		before, colon := strings.CutSuffix(before, ":")
		if !colon {
			continue
		}
		start := len(before)
		for start > 0 && (isAlnum(before[start-1]) || before[start-1] == '_') {
			start--
		}
		end := 0
		for end < len(query) && (isAlnum(query[end]) || query[end] == '_') {
			end++
		}
		if g, _ := n.grade(before[start:]); g >= weak && end > 0 {
			bound[query[:end]] = true
		}
	}
}

// listElement matches the element of a list after a sensitive name: the value in ["x-api-key",
// "abc"]. The cursor is at the quote that ends the name.
func listElement(c cursor) hit {
	const longest = 128
	s := c.text
	from := skipSpace(s, c.pos+len(`",`), true)
	escapes := runEndOf(s, from, '\\')
	end := c.pos
	for end > 0 && s[end-1] == '\\' && c.pos-end <= maxQuote {
		end--
	}
	if byteAt(s, escapes) != s[c.pos] || escapes-from != c.pos-end {
		return hit{}
	}
	window := s[max(0, end-longest):end]
	open := strings.LastIndexByte(window, s[c.pos])
	if open < 0 || len(window)-open-1 < len("pin") {
		return hit{}
	}
	before := end - len(window) + open - (c.pos - end)
	for before > 0 && is(s[before-1], classSpace) {
		before--
	}
	if before > 0 && strings.IndexByte("[(,", s[before-1]) < 0 {
		return hit{}
	}
	name := window[open+1:]
	if format, ok := strings.CutSuffix(name, "%s"); ok && strings.IndexByte(format, '%') < 0 {
		name = format
	}
	certainty := c.engine.names.certaintyOf(name)
	if certainty == notName {
		return hit{}
	}
	to := quotedEnd(s, escapes+1, escapes-from)
	value := s[escapes+1 : to]
	if byteAt(s, skipSpace(s, to+escapes-from+1, true)) == ':' || to == escapes+1 || !c.engine.names.isValueOf(certainty, name, value) {
		return hit{}
	}
	return hit{from: escapes + 1, to: to, text: Mask}
}

// nameCertainty is how certain it is that an element of a list is the name of the next one.
type nameCertainty int

const (
	notName nameCertainty = iota
	// plainWord is a word such as password, which lists of names contain too.
	plainWord
	// surelyName is a text that is rarely anything but a name: x-api-key, --password,
	// "password:", "Authorization: Bearer".
	surelyName
)

// certaintyOf returns how certain it is that an element of a list is the name of the next one.
func (n *names) certaintyOf(s string) nameCertainty {
	if len(s) < len("pin") || strings.HasPrefix(s, "[REDACTED") {
		return notName
	}
	trimmed := strings.TrimRight(s, ":= \t")
	if strings.ContainsAny(s[len(trimmed):], ":=") {
		name := trimmed[strings.LastIndexAny(trimmed, " \t\n,;/")+1:]
		if g, last := n.grade(name); g >= weak && last {
			return surelyName
		}
		return notName
	}
	if i := strings.LastIndexByte(trimmed, ' '); i >= 0 {
		if name := strings.TrimRight(trimmed[:i], ":= \t"); isScheme(trimmed[i+1:]) && name != "" {
			if g, last := n.grade(name[strings.LastIndexAny(name, " \t\n,;/")+1:]); g >= weak && last {
				return surelyName
			}
		}
		return notName
	}
	if strings.EqualFold(trimmed, "bearer") {
		return surelyName
	}
	name, flag := strings.CutPrefix(trimmed, "--")
	for i := range len(name) {
		if !isAlnum(name[i]) && strings.IndexByte("-_.[]", name[i]) < 0 {
			return notName
		}
	}
	switch g, last := n.grade(name); {
	case g != strong || !last:
		return notName
	case flag || strings.ContainsAny(name, "-_.") || strings.EqualFold(name, "authorization"):
		return surelyName
	default:
		return plainWord
	}
}

func isScheme(word string) bool {
	switch strings.ToLower(word) {
	case "bearer", "basic", "token", "digest", "apikey":
		return true
	}
	return false
}

// isValueOf reports whether a text is the value of the name before it in a list,
// and not the next of several names or the rest of a sentence.
func (n *names) isValueOf(certainty nameCertainty, name, value string) bool {
	word, _, _ := strings.Cut(value, " ")
	if saysWrong(word) || strings.HasPrefix(name, "--") && placeholder(word) || strings.HasPrefix(value, "--") {
		return false
	}
	if certainty == surelyName && !strings.ContainsAny(name, "_.") {
		return true
	}
	if g, _ := n.grade(value); g > harmless && strings.IndexFunc(value, func(r rune) bool { return r >= '0' && r <= '9' }) < 0 {
		return false
	}
	return looksSecret(value)
}
