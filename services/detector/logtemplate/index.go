package logtemplate

// Index finds the templates that match a line. Each template has a value. The zero value is
// empty.
type Index[V any] struct {
	leaves map[leaf][]entry[V]
	n      int
}

type entry[V any] struct {
	template *Template
	value    V
}

// Len returns the number of templates.
func (x *Index[V]) Len() int { return x.n }

// Add adds a new template that varies, and reports whether its leaf had room.
func (x *Index[V]) Add(t *Template, value V) bool {
	if x.leaves == nil {
		x.leaves = map[leaf][]entry[V]{}
	}
	at := t.leaf()
	if len(x.leaves[at]) == maxLeaf {
		return false
	}
	x.leaves[at] = append(x.leaves[at], entry[V]{t, value})
	x.n++
	return true
}

// Delete removes the template with the text of t.
func (x *Index[V]) Delete(t *Template) {
	at := t.leaf()
	entries := x.leaves[at]
	for i := range entries {
		if entries[i].template.text == t.text {
			entries[i] = entries[len(entries)-1]
			clear(entries[len(entries)-1:])
			x.leaves[at] = entries[:len(entries)-1]
			x.n--
			break
		}
	}
	if len(x.leaves[at]) == 0 {
		delete(x.leaves, at)
	}
}

// Find appends the values of the templates that match a line to dst, in no particular
// order.
func (x *Index[V]) Find(dst []V, l *Line) []V {
	for _, at := range leavesOf(l.tokens[:l.n]) {
		dst = x.find(dst, at, l)
	}
	return x.find(dst, listLeaf(l.tokens[:l.n]), l)
}

func (x *Index[V]) find(dst []V, at leaf, l *Line) []V {
	entries := x.leaves[at]
	for i := range entries {
		if entries[i].template.Matches(l) {
			dst = append(dst, entries[i].value)
		}
	}
	return dst
}

// leaf returns the leaf of a template: the first one of a fixed word.
func (t *Template) leaf() leaf {
	if t.list > 0 {
		return listLeaf(t.tokens)
	}
	all := leavesOf(t.tokens)
	for i, word := range keyWords(len(t.tokens)) {
		if t.tokens[word].firm {
			return all[i]
		}
	}
	return all[0] // not reached: Parse refuses templates without such a word
}
