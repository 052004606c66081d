// Package logtemplate finds the common templates of lines that differ in whole words: of
// "user alice signed in" and "user bob signed in" it makes "user <*> signed in". The lines
// are templates of package template, which has replaced values that are recognized by their
// form, such as numbers, ids and quoted strings. Names are found by comparing lines only.
//
// It uses Drain's tree (He, Zhu, Zheng and Lyu: Drain, an online log parsing approach with
// fixed depth tree, ICWS 2017): lines are separated by their number of words and by a
// leading word, and within such a leaf a line joins the group that it has the most words in
// common with. It differs from Drain in six ways, because rules that hide lines are made
// from the templates:
//
//   - The tree is built from a set of different lines with their counts, in the order of
//     their text. So the templates depend on the lines only, and a template never becomes
//     wider after people have seen it.
//   - A leaf is found by the first, the second or the last word, so the first may vary.
//   - Words also end at punctuation, as in paths and user=alice. Punctuation never varies,
//     nor does the name of a value (user=<*>).
//   - A template has fewer varying positions than fixed words, not counting placeholders of
//     package template, and at least minFirm fixed words. Varying words in a row are one
//     position if they are a list. Lines of few words don't vary.
//   - Lines with the same beginning and end but different lengths have a list (<...>)
//     between, if they are in no other group.
//   - A position varies if it has minValues different words or more and no word is in two
//     thirds of the lines. Otherwise its words are states, such as opened and closed, or an
//     exception, and the lines with each word are a group of their own.
//
// Everything is bounded (MaxTokens, maxLeaf), because the senders write the lines. The
// package has no clock and does not know what templates are used for.
package logtemplate

import (
	"cmp"
	"slices"
	"strings"
)

// Bounds.
const (
	// MinTokens is the least number of words of lines with a common template. From
	// MaxTokens on, the rest of a line is one word that does not vary.
	MinTokens = 4
	MaxTokens = 128
	// minFirm is the least number of fixed words of a template, minFirmInLists that of one
	// with several varying words in a row.
	minFirm        = 3
	minFirmInLists = 4
	// minValues is the number of different words from which on a position varies.
	minValues = 4
	// maxLeaf is the most groups or templates in a leaf. A further group is found by
	// another leaf or not at all.
	maxLeaf = 24
)

// Counted is a line and its number of occurrences.
type Counted struct {
	Text string
	N    int
}

// Cluster is a set of lines with a common template.
type Cluster struct {
	*Template
	// N is the number of occurrences of all lines.
	N int
	// Lines has the texts of the lines, in order.
	Lines []string
}

// Mine returns the clusters with at least that many occurrences, in the order of their first
// lines. The lines are different, each at most 65,535 bytes long; their order makes no
// difference.
func Mine(lines []Counted, least int) []Cluster {
	m := miner{leaves: map[leaf][]*group{}, least: least, known: map[string]int{}}
	m.read(lines)
	for i := range m.lines {
		m.learn(&m.lines[i])
	}
	for _, g := range m.groups {
		if len(g.lines) >= minValues {
			m.split(g.lines)
		}
	}
	m.lists()
	return m.found
}

// counted is a line with its words.
type counted struct {
	text   string
	n      int
	tokens []token
	found  bool // it is in a cluster
}

func (l *counted) word(i int) string { return l.text[l.tokens[i].start:l.tokens[i].end] }

// same reports whether two lines have the same word at an index.
func (l *counted) same(o *counted, i int) bool { return l.equal(i, o, i) }

// group is a set of similar lines. They have the words of the first one, except at the
// holes.
type group struct {
	first *counted
	holes indexSet
	lines []*counted
	// seen is the last line that was compared with it: several leaves lead to a group.
	seen *counted
}

// leaf is a leaf of the tree: the lines with a number of words and a given first, second or
// last word. It is a hash; a collision only costs comparisons.
type leaf uint64

func leafOf(tokens, key int, word uint64) leaf {
	h := (word ^ uint64(tokens)<<8 ^ uint64(key)) * prime
	return leaf(h ^ h>>32)
}

// slot maps the leaf to an index of a table with so many slots.
func (l leaf) slot(slots int) int { return int(uint64(l) % uint64(slots)) }

// typicalWords is more words than most lines have.
const typicalWords = 16

// indexSet is a set of indexes of words of a line.
type indexSet [MaxTokens / 64]uint64

func (s *indexSet) has(i int) bool { return s[i/64]>>(i%64)&1 == 1 }

func (s *indexSet) add(i int) { s[i/64] |= 1 << (i % 64) }

// miner is the state of one run of Mine.
type miner struct {
	lines  []counted
	groups []*group
	leaves map[leaf][]*group
	least  int
	found  []Cluster
	known  map[string]int // indexes in found, by the text of the template
}

// read splits the lines into words and sorts them by text. It drops lines that share no leaf
// with enough others.
func (m *miner) read(lines []Counted) {
	m.lines = make([]counted, 0, len(lines))
	words := make([]token, 0, typicalWords*len(lines))
	var crowd [1 << 14]uint8 // number of lines in the leaves of each slot, up to minValues
	var line Line
	var text []byte
	for _, l := range lines {
		if text = append(text[:0], l.Text...); !line.Cut(text) {
			continue
		}
		begin := len(words)
		words = append(words, line.tokens[:line.n]...)
		m.lines = append(m.lines, counted{text: l.Text, n: l.N, tokens: words[begin:len(words):len(words)]})
		for _, at := range allLeaves(line.tokens[:line.n]) {
			if slot := at.slot(len(crowd)); crowd[slot] < minValues {
				crowd[slot]++
			}
		}
	}
	// Lines with a common template share one of its leaves.
	m.lines = slices.DeleteFunc(m.lines, func(l counted) bool {
		for _, at := range allLeaves(l.tokens) {
			if crowd[at.slot(len(crowd))] >= minValues {
				return false
			}
		}
		return true
	})
	slices.SortFunc(m.lines, func(a, b counted) int { return cmp.Compare(a.text, b.text) })
}

// learn adds a line to the group that it is most like, or to a new one.
func (m *miner) learn(l *counted) {
	var best *group
	most := -1
	for _, at := range leavesOf(l.tokens) {
		for _, g := range m.leaves[at] {
			if g.seen == l {
				continue
			}
			g.seen = l
			if same := g.alike(l); same > most {
				best, most = g, same
			}
		}
	}
	if best != nil {
		best.take(l)
		return
	}
	g := &group{first: l, lines: []*counted{l}, seen: l}
	m.groups = append(m.groups, g)
	for _, at := range leavesOf(l.tokens) {
		if groups := m.leaves[at]; len(groups) < maxLeaf {
			m.leaves[at] = append(groups, g)
		}
	}
}

// alike returns how many words a line has in common with a group, or -1 if it cannot join.
func (g *group) alike(l *counted) int {
	if len(l.tokens) != len(g.first.tokens) {
		return -1
	}
	same := 0
	var f form
	for i := range l.tokens {
		own, other := &g.first.tokens[i], &l.tokens[i]
		switch {
		case !g.holes.has(i) && g.first.same(l, i):
			same++
			f.word(own.firm, i, len(l.tokens))
		case !fits(g.first.text, own, l.text, other):
			return -1
		default:
			if f.hole(); 5*f.holes > 3*len(l.tokens) {
				return -1 // too many differences; most groups end here
			}
		}
	}
	if !f.ok() {
		return -1
	}
	return same
}

// form counts the fixed and the varying words of a template.
type form struct {
	firm, holes, runs int
	inRun, rooted     bool
}

// word counts the fixed word at an index of n words.
func (f *form) word(firm bool, index, n int) {
	f.inRun = false
	if firm {
		f.firm++
		f.rooted = f.rooted || index < 2 || index == n-1
	}
}

func (f *form) hole() {
	f.holes++
	if !f.inRun {
		f.runs++
	}
	f.inRun = true
}

// ok reports whether enough words are fixed, among them one by which a leaf is found.
func (f *form) ok() bool {
	enough := f.firm >= minFirm && f.firm > f.holes || f.firm >= minFirmInLists && f.firm > f.runs && 2*f.holes <= 3*f.firm
	return f.holes == 0 || enough && f.rooted
}

func (g *group) take(l *counted) {
	g.lines = append(g.lines, l)
	for i := range l.tokens {
		if !g.first.same(l, i) {
			g.holes.add(i)
		}
	}
}

// split makes clusters of similar lines: one cluster, or one for each word at an index with
// few different words, recursively.
func (m *miner) split(lines []*counted) {
	var holes indexSet
	total := 0
	for _, l := range lines {
		total += l.n
	}
	if total < m.least {
		return
	}
	for i := range lines[0].tokens {
		values, most := survey(lines, i, total)
		switch {
		case len(values) < minValues:
			if len(values) > 1 {
				m.part(lines, i, values)
				return
			}
		case most != nil:
			m.part(lines, i, []*counted{most})
			return
		default:
			holes.add(i)
		}
	}
	m.add(lines, holes, total)
}

// survey returns lines with different words at an index, up to minValues, and a line with
// the word that is in more than two thirds of the lines, if there is one.
func survey(lines []*counted, index, total int) (values []*counted, most *counted) {
	values = make([]*counted, 0, minValues)
	weight := 0 // of the word that may be in more than half (majority vote of Boyer and Moore)
	for _, l := range lines {
		if len(values) < minValues && !slices.ContainsFunc(values, func(v *counted) bool { return v.same(l, index) }) {
			values = append(values, l)
		}
		switch {
		case weight == 0:
			most, weight = l, l.n
		case most.same(l, index):
			weight += l.n
		case weight >= l.n:
			weight -= l.n
		default:
			most, weight = l, l.n-weight
		}
	}
	n := 0
	for _, l := range lines {
		if most.same(l, index) {
			n += l.n
		}
	}
	if 3*n <= 2*total {
		most = nil
	}
	return values, most
}

// part splits the lines by their word at an index: those with the word of each value, and
// the rest.
func (m *miner) part(lines []*counted, index int, values []*counted) {
	rest := lines
	for _, v := range values {
		var with, without []*counted
		for _, l := range rest {
			if v.same(l, index) {
				with = append(with, l)
			} else {
				without = append(without, l)
			}
		}
		m.split(with)
		rest = without
	}
	if len(rest) > 0 {
		m.split(rest)
	}
}

// add makes a cluster of lines that vary at the holes.
func (m *miner) add(lines []*counted, holes indexSet, n int) {
	if t, ok := lines[0].template(holes); ok {
		m.emit(t, lines, n)
	}
}

// emit adds a cluster, or adds the lines to the cluster with that template.
func (m *miner) emit(t *Template, lines []*counted, n int) {
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i], l.found = l.text, true
	}
	if i, ok := m.known[t.text]; ok {
		m.found[i].N += n
		m.found[i].Lines = append(m.found[i].Lines, texts...)
		slices.Sort(m.found[i].Lines)
		return
	}
	m.known[t.text] = len(m.found)
	m.found = append(m.found, Cluster{Template: t, N: n, Lines: texts})
}

// template returns the line as a template with holes. It returns false if there are no holes
// or too many.
func (l *counted) template(holes indexSet) (*Template, bool) {
	if holes == (indexSet{}) {
		return nil, false
	}
	var b strings.Builder
	for i := range l.tokens {
		if !holes.has(i) {
			b.WriteString(l.word(i))
			continue
		}
		b.WriteString(l.tokens[i].between(l.text))
		b.WriteByte(Hole)
	}
	return Parse(b.String())
}
