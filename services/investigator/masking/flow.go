package masking

import "strings"

// flow reads the objects that braces enclose: JSON, YAML's flow style, and what Python prints.
// It takes what is nearly one of them, and reads a text once.
type flow struct {
	text  string
	layer int

	stack []flowObject
	// lists is how many objects of the stack are lists.
	lists int
	edits []edit
	// regions are the outermost objects, quoted the strings that were read as a text of their
	// own, and read the positions of the kinds that were understood.
	regions, quoted []edit
	read            map[int]bool
	// patches is set if the text may have a JSON patch of a Secret.
	patches bool
}

// flowObject is an object and the place in it that was read.
type flowObject struct {
	object
	open int
	// value is where the value of the key begins, -1 before it, and end is where the last token
	// ends.
	value, end int
	// inValue is set behind a colon. tokens are those since the last comma or colon.
	inValue bool
	tokens  int
	// token is the last one: its text and position.
	token     string
	tokenFrom int
}

func (f *flow) scan() {
	for i := 0; i < len(f.text); {
		if len(f.stack) == 0 {
			i = f.outside(i)
		} else {
			i = f.inside(i)
		}
	}
	f.abandon(len(f.text))
}

// outside goes on to the next brace. It reads a quoted string on the way if that has a Secret in
// it.
func (f *flow) outside(i int) int {
	n := strings.IndexAny(f.text[i:], `{"`)
	if n < 0 {
		return len(f.text)
	}
	i += n
	if f.text[i] == '{' {
		f.push(i, false)
		return i + 1
	}
	if i > 0 && strings.IndexByte(" \t\n=:([,", f.text[i-1]) < 0 {
		return i + 1
	}
	if end, closed := f.stringEnd(i); f.string(i, end, closed) {
		return end
	}
	return i + 1
}

func (f *flow) push(i int, list bool) {
	o := flowObject{open: i, value: -1, end: i, inValue: list}
	o.list = list
	if len(f.stack) > 0 {
		parent := &f.stack[len(f.stack)-1]
		switch {
		case !parent.list:
			o.role = parent.key
		case parent.role == roleItems:
			o.role = roleItem
		}
	}
	if list {
		f.lists++
	}
	f.stack = append(f.stack, o)
}

func (f *flow) inside(i int) int {
	top := &f.stack[len(f.stack)-1]
	switch c := f.text[i]; c {
	case ' ', '\t', '\r':
		return i + 1
	case '\n':
		if strings.HasPrefix(f.text[i+1:], "---") {
			f.abandon(i)
		}
		return i + 1
	case '{', '[':
		if c == '{' && !top.list && (!top.inValue || top.tokens > 0 && !strings.HasPrefix(top.token, "!") && !strings.HasPrefix(top.token, "&")) {
			f.abandon(i)
			return i
		}
		if len(f.stack) == maxDepth {
			f.edits = append(f.edits, edit{from: f.stack[0].open, to: len(f.text), text: Withheld})
			f.stack = nil
			return len(f.text)
		}
		top.begin(i, "")
		f.push(i, c == '[')
		return i + 1
	case '}', ']':
		return f.close(i, c == ']')
	case ',':
		f.endEntry(top)
		return i + 1
	case ':':
		if !top.list {
			top.colon()
		}
		return i + 1
	case '"', '\'':
		end, closed := f.stringEnd(i)
		if !closed {
			top.spoil(top.open)
		}
		text := f.text[i+1 : max(end-1, i+1)]
		if c == '"' {
			f.string(i, end, closed)
			if decoded, ok := unquote(text); ok {
				text = decoded
			}
		}
		top.begin(i, text)
		top.end = end
		f.announced(top, i+1)
		return end
	default:
		end := f.plainEnd(i)
		top.begin(i, strings.TrimSpace(f.text[i:end]))
		top.end = i + len(strings.TrimRight(f.text[i:end], " \t\r"))
		f.announced(top, i)
		return end
	}
}

// begin records a token or the start of an object.
func (o *flowObject) begin(i int, token string) {
	if !o.inValue && o.tokens > 0 && o.role == roleData {
		o.spoil(o.open) // two keys in a row
	}
	if o.inValue && o.value < 0 {
		o.value = i
	}
	o.token, o.tokenFrom = token, i
	o.tokens++
}

// colon makes the last token a key.
func (o *flowObject) colon() {
	if o.inValue {
		o.spoil(o.open)
	}
	o.key, o.inValue, o.value, o.tokens = roleOf(o.token), true, -1, 0
}

// announced records the last token if it is a kind or version.
func (f *flow) announced(o *flowObject, at int) {
	if !o.inValue || o.list || o.key != roleKind && o.key != roleVersion {
		return
	}
	value := o.token
	if i := strings.LastIndexByte(value, ' '); i >= 0 {
		at, value = at+i+1, value[i+1:]
	}
	o.announce(o.key, value, o.end == len(f.text))
	if o.key == roleKind {
		f.read[at] = true
	}
}

// endEntry ends an entry of a map or list.
func (f *flow) endEntry(o *flowObject) {
	if o.inValue && o.key == roleResource && o.token == "secrets" {
		o.refers = true
	}
	if f.patches && o.inValue && o.value >= 0 {
		switch o.key {
		case roleOperation:
			o.operation = true
		case rolePath:
			o.patches = inData(o.token)
		case roleValue:
			if value := f.text[o.value:o.end]; value != "null" && value != `"`+SecretData+`"` {
				o.patched = append(o.patched, edit{from: o.value, to: o.end, text: `"` + SecretData + `"`})
			}
		case roleNone, roleKind, roleVersion, roleData, roleItems, roleItem, roleMetadata, roleAnnotations, roleApplied, roleReviewed, roleReference, roleResource:
		}
	}
	switch {
	case o.inValue && o.value >= 0 && (o.role == roleData || o.key == roleApplied || o.key == roleData && f.text[o.value] != '{'):
		if value := f.text[o.value:o.end]; value != "null" && value != "{}" {
			o.secrets = append(o.secrets, edit{from: o.value, to: o.end, text: `"` + SecretData + `"`})
		}
	case !o.inValue && o.tokens > 0 && o.role == roleData:
		o.spoil(o.open)
	}
	o.value, o.tokens, o.inValue = -1, 0, o.list
}

// close ends the innermost object of a bracket's kind. Those that the bracket leaves open can't be
// read.
func (f *flow) close(i int, list bool) int {
	if list && f.lists == 0 || !list && f.lists == len(f.stack) {
		return i + 1
	}
	k := len(f.stack) - 1
	for f.stack[k].list != list {
		k--
	}
	for len(f.stack)-1 > k {
		top := &f.stack[len(f.stack)-1]
		top.end = i
		top.spoil(top.open)
		f.pop(i)
	}
	f.pop(i + 1)
	return i + 1
}

// pop ends the innermost object.
func (f *flow) pop(end int) {
	k := len(f.stack) - 1
	top := &f.stack[k]
	f.endEntry(top)
	if top.list {
		f.lists--
	}
	if k == 0 {
		f.edits = append(f.edits, top.object.end(nil)...)
		f.regions = append(f.regions, edit{from: top.open, to: end})
		f.stack = f.stack[:0]
		return
	}
	parent := &f.stack[k-1]
	f.edits = append(f.edits, top.object.end(&parent.object)...)
	parent.end = end
	f.stack = f.stack[:k]
}

// abandon ends all objects where the text breaks off.
func (f *flow) abandon(at int) {
	for k := len(f.stack) - 1; k >= 0; k-- {
		top := &f.stack[k]
		f.endEntry(top)
		top.spoil(top.open)
		var parent *object
		if k > 0 {
			parent = &f.stack[k-1].object
			f.stack[k-1].end = at
		}
		f.edits = append(f.edits, top.object.end(parent)...)
	}
	f.stack, f.lists = f.stack[:0], 0
}

// stringEnd returns the end of the quoted string at i, or of its line.
func (f *flow) stringEnd(i int) (end int, closed bool) {
	q := f.text[i]
	for i++; i < len(f.text); i++ {
		switch c := f.text[i]; {
		case c == '\n':
			return i, false
		case c == '\\' && q == '"':
			i++
		case c == q && q == '\'' && i+1 < len(f.text) && f.text[i+1] == q:
			i++
		case c == q:
			return i + 1, true
		}
	}
	return len(f.text), false
}

// string reads a quoted string that has an object in it as a text of its own, and reports whether
// it did. The end of the text may cut it.
func (f *flow) string(from, end int, closed bool) bool {
	if !closed && end < len(f.text) {
		return false
	}
	inside, decode := f.text[from+1:end], unquoteCut
	if closed {
		inside, decode = inside[:len(inside)-1], unquote
	}
	if !strings.Contains(inside, secretKind) && !strings.Contains(inside, "apiVersion") || !strings.ContainsAny(inside, "\\{") {
		return false
	}
	decoded, ok := decode(inside)
	if !ok {
		return false
	}
	masked := Withheld
	if f.layer < maxLayers {
		masked = maskSecrets(decoded, f.layer+1)
	}
	f.quoted = append(f.quoted, edit{from: from, to: end})
	if masked != decoded {
		text := quote(masked)
		if !closed {
			text = strings.TrimSuffix(text, `"`)
		}
		f.edits = append(f.edits, edit{from: from, to: end, text: text})
	}
	return true
}

// plainEnd returns the end of the token without quotes at i.
func (f *flow) plainEnd(i int) int {
	for i++; i < len(f.text); i++ {
		switch f.text[i] {
		case ',', '{', '}', '[', ']', '\n':
			return i
		case ':':
			if i+1 == len(f.text) || strings.IndexByte(" \t\r\n\"'{[,}", f.text[i+1]) >= 0 {
				return i
			}
		}
	}
	return len(f.text)
}
