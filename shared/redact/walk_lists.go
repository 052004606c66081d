package redact

import "strings"

// list masks the elements of an array in place. A console call passes a name and its value side by
// side: "token:", "abc". So do lists of headers and of command arguments. A format has its
// values further on, and a long token may be split over several elements.
func (e *Engine) list(values []any, depth int) {
	due := e.due(values)
	e.joined(values)
	for i, v := range values {
		if due[i] && v != nil && v != "" {
			values[i] = Mask
			continue
		}
		values[i] = e.any(v, depth+1)
	}
}

// due returns which elements of an array are secrets named by another element, or nil.
func (e *Engine) due(values []any) map[int]bool {
	var due map[int]bool
	mark := func(i int) {
		if due == nil {
			due = map[int]bool{}
		}
		due[i] = true
	}
	command := ""
	for i, v := range values {
		s, ok := v.(string)
		if !ok || i+1 == len(values) {
			continue
		}
		if i == 0 {
			command = s
		}
		next := values[i+1]
		switch says := e.names.certaintyOf(s); {
		case says == notName:
			if k := e.formatted(s); k > 0 && i+k < len(values) {
				mark(i + k)
			}
			if e.announcesCount(s) && !isNumber(next) {
				mark(i + 1)
			}
		case strings.ContainsAny(s[len(strings.TrimRight(s, ":= \t")):], ":="):
			mark(i + 1)
		default:
			switch next := next.(type) {
			case string:
				if e.plainPair(says, s, next, len(values)) {
					mark(i + 1)
				}
			case map[string]any, []any:
				if says == surelyName {
					mark(i + 1)
				}
			}
		}
		if len(s) == 2 && s[0] == '-' && takesPassword(command, s[1]) {
			if text, ok := next.(string); ok && !placeholder(text) && !strings.HasPrefix(text, "-") && (s[1] == 'p' || s[1] == 'a' || strings.Contains(text, ":")) {
				mark(i + 1)
			}
		}
	}
	for i, v := range values {
		if s, ok := v.(string); ok && i > 0 && len(s) > 2 && strings.HasPrefix(s, "-p") && takesPassword(command, 'p') && !placeholder(s[2:]) {
			values[i] = "-p" + Mask
		}
	}
	return due
}

// plainPair reports whether a text is the value of the name before it. A pair
// of two holds a name and a value; a longer list of plain words lists names.
func (e *Engine) plainPair(says nameCertainty, name, value string, n int) bool {
	if e.names.isValueOf(says, name, value) {
		return true
	}
	word, _, _ := strings.Cut(value, " ")
	return n == 2 && !saysWrong(word) && !strings.HasPrefix(name, "--") && !strings.HasPrefix(value, "--") && e.names.certaintyOf(value) == notName
}

// announcesCount reports whether a text ends in the name of a count: what comes
// next is masked unless it is a number.
func (e *Engine) announcesCount(s string) bool {
	name := strings.TrimRight(s, ":= \t")
	if !strings.ContainsAny(s[len(name):], ":=") {
		return false
	}
	g, last := e.names.grade(name[strings.LastIndexAny(name, " \t\n,;/")+1:])
	return last && g == count
}

// formatted returns the number of the argument, from 1, that a format puts after a sensitive name,
// as in "password: %s" and "token={}", or 0.
func (e *Engine) formatted(s string) int {
	const most = 16
	n, from := 0, 0
	for i := 0; i+1 < len(s) && n < most; i++ {
		if s[i] != '%' && s[i] != '{' {
			continue
		}
		if s[i] == '%' && s[i+1] == '%' {
			i++
			continue
		}
		if s[i] == '%' && strings.IndexByte("sdifjoOvqxX+#", s[i+1]) < 0 || s[i] == '{' && s[i+1] != '}' {
			continue
		}
		n++
		before := strings.TrimRight(s[from:i], "\"'`")
		if e.names.certaintyOf(before) == surelyName && strings.ContainsAny(before[len(strings.TrimRight(before, ":= \t")):], ":=") {
			return n
		}
		from = i + 2
	}
	return 0
}

// joined masks tokens and private keys that are split over adjacent elements of an array, in place.
func (e *Engine) joined(values []any) {
	for i := 0; i+1 < len(values); i++ {
		s, ok := values[i].(string)
		if !ok {
			continue
		}
		if at := strings.Index(s, "-----BEGIN"); at >= 0 && !strings.Contains(s[at:], "-----END") {
			i = e.joinedKey(values, i, at)
			continue
		}
		at := len(s)
		for at > 0 && len(s)-at < maxName && (is(s[at-1], classToken) || s[at-1] == '.') {
			at--
		}
		if at == len(s) || e.candidates(s, at)&e.shapeRules == 0 {
			continue
		}
		if h, _ := e.tryRules(&cursor{engine: e, text: s, pos: at}, e.shapeRules&e.candidates(s, at), new(retries)); h.to > 0 {
			continue // all of it is here
		}
		i = e.joinedToken(values, i, at)
	}
	for i, v := range values {
		if s, ok := v.(string); ok && i > 0 && strings.Contains(s, "-----END") && strings.Contains(s, "PRIVATE KEY") {
			for k := i - 1; k >= 0; k-- {
				line, ok := values[k].(string)
				if !ok || !isKeyLine(line) {
					break
				}
				values[k] = maskOf("private_key")
			}
		}
	}
}

// joinedKey masks a private key that begins at a byte of element i. It returns the last element that
// it masked.
func (e *Engine) joinedKey(values []any, i, at int) int {
	s, _ := values[i].(string)
	h, _ := e.tryRules(&cursor{engine: e, text: s, pos: at}, e.shapeRules&e.candidates(s, at), new(retries))
	if h.to == 0 {
		return i
	}
	mask := h.text
	values[i] = s[:at] + mask
	last := i
	for k := i + 1; k < len(values); k++ {
		line, ok := values[k].(string)
		if !ok {
			break
		}
		ends := strings.Contains(line, "-----END")
		if !ends && !isKeyLine(line) {
			break
		}
		values[k] = mask
		if last = k; ends {
			break
		}
	}
	return last
}

// joinedToken masks a token that begins at a byte of element i and continues in the next ones. It
// returns the last element that it masked.
func (e *Engine) joinedToken(values []any, i, at int) int {
	const most = 16
	var text strings.Builder
	s, _ := values[i].(string)
	text.WriteString(s[at:])
	var ends []int
	for k := i + 1; k < len(values) && k-i < most; k++ {
		part, ok := values[k].(string)
		if !ok || part == "" {
			break
		}
		text.WriteString(part)
		ends = append(ends, text.Len())
		if runEnd(part, 0, classBase64) < len(part) {
			break
		}
	}
	whole := text.String()
	set := e.shapeRules & e.candidates(whole, 0)
	h, _ := e.tryRules(&cursor{engine: e, text: whole}, set&^e.looseRules, new(retries))
	if h.to <= len(s)-at || len(ends) == 0 {
		return i
	}
	values[i] = s[:at] + h.text
	from, last := len(s)-at, i
	for k, end := range ends {
		if from >= h.to {
			break
		}
		part, _ := values[i+1+k].(string)
		values[i+1+k] = h.text + part[min(h.to, end)-from:]
		from, last = end, i+1+k
	}
	return last
}

// isKeyLine reports whether a text is a line of a private key.
func isKeyLine(s string) bool {
	const shortest = 4
	s = strings.TrimSpace(s)
	return len(s) >= shortest && runEnd(s, 0, classBase64) == len(s)
}
