package masking

import (
	"strings"
	"unicode/utf8"
)

// block reads YAML's block style, line by line, also where other lines surround it. What braces
// enclose it leaves to flow.
type block struct {
	text    string
	regions []edit
	read    map[int]bool

	stack []blockObject
	edits []edit
	// diff is set where indented lines and ones that begin with + or - alternate, as in a diff. What
	// is indented then is not what it seems.
	diff bool
	// noQuote are the positions up to which no string ends that begins behind the text's
	// unclosed one: for " and '.
	noQuote [2]int
}

// blockObject is an object at a column.
type blockObject struct {
	object
	col int
	// value is where the value to mask begins, -1 if there is none; it reaches at least to least.
	value, least int
	// keep is set for a value that a map under it replaces: that has the values to mask.
	keep bool
}

// breaks are YAML's other ends of a line.
const breaks = "\r\u0085\u2028\u2029"

func (b *block) scan() {
	plain := !strings.ContainsAny(strings.ReplaceAll(b.text, "\r\n", "\n"), breaks)
	for at := 0; at < len(b.text); {
		end := len(b.text)
		if n := strings.IndexByte(b.text[at:], '\n'); n >= 0 {
			end = at + n
		}
		for len(b.regions) > 0 && b.regions[0].to <= at {
			b.regions = b.regions[1:]
		}
		if len(b.regions) == 0 || b.regions[0].from >= at {
			line := strings.TrimSuffix(b.text[at:end], "\r")
			if plain && !b.line(at, line) || !plain && !b.lines(at, line) {
				return
			}
		}
		at = end + 1
	}
	b.closeTo(-1, len(b.text))
}

// lines reads a line with other ends of a line in it. Not every reader takes them for one: what
// would end an object behind them is taken as part of it.
func (b *block) lines(from int, line string) bool {
	for first := true; ; first = false {
		end := strings.IndexAny(line, breaks)
		part := line
		if end >= 0 {
			part = line[:end]
		}
		if top := b.top(); first || top == nil || spaces(part, 0) >= top.col {
			if !b.line(from, part) {
				return false
			}
		}
		if end < 0 {
			return true
		}
		_, size := utf8.DecodeRuneInString(line[end:])
		from, line = from+end+size, line[end+size:]
	}
}

// line reads the line at from, and reports whether to go on.
func (b *block) line(from int, line string) bool {
	i := spaces(line, 0)
	if i == len(line) || line[i] == '#' {
		return true
	}
	if i == 0 && (line == "---" || line == "..." || strings.HasPrefix(line, "--- ")) {
		b.closeTo(-1, from)
		return true
	}
	if i == 0 && len(b.stack) > 0 && b.stack[0].col > 0 && (line[0] == '+' || line[0] == '-' && !strings.HasPrefix(line, "---") && spaces(line, 1) != 2) {
		b.diff = true // an entry of a list has one space
	}
	dash := false
	for i < len(line) && line[i] == '-' && (i+1 == len(line) || line[i+1] == ' ' || line[i+1] == '\t') {
		dash = true
		b.closeTo(i+1, from)
		if top := b.top(); top == nil || top.col < i || !top.list {
			if !b.push(i, true, from) {
				return false
			}
		}
		i = spaces(line, i+1)
	}
	if i == len(line) {
		return true
	}
	b.closeTo(i+1, from)
	if top := b.top(); top != nil && !dash && strings.HasPrefix(line[i:], "? ") {
		top.spoil(from)
	}
	key, v, ok := splitKey(line, i)
	if !ok {
		return true
	}
	if !dash {
		b.closeLists(i, from)
	}
	if top := b.top(); top == nil || top.col < i || top.list {
		if !b.push(i, false, from) {
			return false
		}
	}
	b.entry(from, line, key, v)
	return true
}

// entry reads a key and the value behind it, which begins at v of the line.
func (b *block) entry(from int, line, key string, v int) {
	o := b.top()
	role := roleOf(key)
	if o.keep && o.value >= 0 && role == roleNone && key != "type" && key != "immutable" && strings.TrimSpace(b.text[o.value:from]) == "" {
		o.spoil(from) // an entry of the data that is not indented
	}
	b.endValue(o, from)
	o.key = role
	for v < len(line) && (line[v] == '!' || line[v] == '&') { // a tag, an anchor
		for v < len(line) && line[v] != ' ' && line[v] != '\t' {
			v++
		}
		v = spaces(line, v)
	}
	empty := v == len(line) || line[v] == '#'
	if o.key == roleKind || o.key == roleVersion {
		value, at := scalar(line, v)
		o.announce(o.key, value, from+len(line) == len(b.text))
		if o.key == roleKind {
			b.read[from+at] = true
		}
	}
	if o.role != roleData && o.key != roleData && o.key != roleApplied {
		return
	}
	if empty {
		o.value, o.least, o.keep = from+len(line), 0, o.key == roleData && o.role != roleData
		return
	}
	o.value, o.keep = from+v, false
	o.least = b.valueEnd(o, from+v, from+len(line))
}

// valueEnd returns where the quotes or braces at i end. Where they don't, the object can't be
// read.
func (b *block) valueEnd(o *blockObject, i, lineEnd int) int {
	switch c := b.text[i]; c {
	case '{':
		if len(b.regions) == 0 || b.regions[0].from > i {
			o.spoil(i)
			return len(b.text)
		}
		for _, r := range b.regions {
			if r.from == i {
				return r.to
			}
			if r.from > i {
				break
			}
		}
		o.spoil(i)
		return len(b.text)
	case '"', '\'':
		k := 0
		if c == '\'' {
			k = 1
		}
		if i < b.noQuote[k] {
			o.spoil(i)
			return len(b.text)
		}
		for at := i + 1; at < len(b.text); at++ {
			switch {
			case b.text[at] == '\\' && c == '"':
				at++
			case b.text[at] == c && c == '\'' && at+1 < len(b.text) && b.text[at+1] == c:
				at++
			case b.text[at] == c:
				return max(at+1, lineEnd)
			case b.text[at] == '\n' && strings.HasPrefix(b.text[at+1:], "---"):
				b.noQuote[k] = at
				o.spoil(i)
				return at
			}
		}
		b.noQuote[k] = len(b.text)
		o.spoil(i)
		return len(b.text)
	}
	return lineEnd
}

// endValue ends the value that a line at to follows.
func (b *block) endValue(o *blockObject, to int) {
	if o.value < 0 {
		return
	}
	from, to := o.value, max(to, o.least)
	o.value = -1
	value := strings.TrimRight(b.text[from:max(from, to)], " \t\r\n")
	switch strings.TrimSpace(value) {
	case "", "null", "~", "{}", Withheld:
		return
	}
	text := SecretData
	if value[0] == '\n' || value[0] == '\r' {
		text = " " + SecretData
	}
	o.secrets = append(o.secrets, edit{from: from, to: from + len(value), text: text})
}

func (b *block) top() *blockObject {
	if len(b.stack) == 0 {
		return nil
	}
	return &b.stack[len(b.stack)-1]
}

// push begins a map or list at a column, on the line at from. It reports false at the bound.
func (b *block) push(col int, list bool, from int) bool {
	if len(b.stack) == maxDepth {
		b.closeTo(-1, from)
		b.edits = append(b.edits, edit{from: from, to: len(b.text), text: Withheld})
		return false
	}
	o := blockObject{col: col, value: -1}
	o.list = list
	if parent := b.top(); parent != nil {
		switch {
		case !parent.list:
			o.role = parent.key
		case parent.role == roleItems:
			o.role = roleItem
		}
		if parent.keep && !list {
			if lead := strings.TrimRight(b.text[parent.value:from], " \t\r\n"); lead != "" && strings.TrimSpace(lead) != "" {
				parent.secrets = append(parent.secrets, edit{from: parent.value, to: parent.value + len(lead)})
			}
			parent.value, parent.keep = -1, false
		}
	}
	b.stack = append(b.stack, o)
	return true
}

// closeTo ends the objects at columns of col and more.
func (b *block) closeTo(col, to int) {
	for top := b.top(); top != nil && top.col >= col; top = b.top() {
		b.pop(to)
	}
}

// closeLists ends the list at a column where a key follows.
func (b *block) closeLists(col, to int) {
	for top := b.top(); top != nil && top.list && top.col == col; top = b.top() {
		b.pop(to)
	}
}

func (b *block) pop(to int) {
	k := len(b.stack) - 1
	top := &b.stack[k]
	b.endValue(top, to)
	var parent *object
	if k > 0 {
		parent = &b.stack[k-1].object
	}
	b.edits = append(b.edits, top.end(parent)...)
	b.stack = b.stack[:k]
}

func spaces(line string, i int) int {
	for i < len(line) && (line[i] == ' ' || line[i] == '\t') {
		i++
	}
	return i
}

// splitKey returns the key at i of a line, and where its value begins.
func splitKey(line string, i int) (key string, value int, ok bool) {
	end := i
	if c := line[i]; c == '{' || c == '[' || c == '}' || c == ']' {
		return "", 0, false
	} else if c == '"' || c == '\'' {
		n := strings.IndexByte(line[i+1:], c)
		if n < 0 {
			return "", 0, false
		}
		key, end = line[i+1:i+1+n], spaces(line, i+n+2)
		if end == len(line) || line[end] != ':' {
			return "", 0, false
		}
	} else {
		for end < len(line) && (line[end] != ':' || end+1 < len(line) && line[end+1] != ' ' && line[end+1] != '\t') {
			end++
		}
		if end == len(line) {
			return "", 0, false
		}
		key = strings.TrimRight(line[i:end], " \t")
	}
	return key, spaces(line, end+1), true
}

// scalar returns the scalar at v of a line, without quotes and comment, and where it begins.
func scalar(line string, v int) (string, int) {
	value := line[v:]
	if value != "" && (value[0] == '"' || value[0] == '\'') {
		if n := strings.IndexByte(value[1:], value[0]); n >= 0 {
			inside := value[1 : 1+n]
			if value[0] == '"' {
				if decoded, ok := unquote(inside); ok {
					inside = decoded
				}
			}
			return inside, v + 1
		}
	}
	if n := strings.Index(value, " #"); n >= 0 {
		value = value[:n]
	}
	return strings.TrimSpace(value), v
}
