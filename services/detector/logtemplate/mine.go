// Package logtemplate finds the templates that lines have in common which differ in whole
// words: of "user alice signed in" and "user bob signed in" it makes "user <*> signed in".
// Package template has replaced what can be recognized by its form before (numbers, ids,
// quoted strings). This package is about names, which only a comparison of lines can find.
//
// It is Drain's tree (He, Zhu, Zheng and Lyu: Drain, an online log parsing approach with
// fixed depth tree, ICWS 2017): lines are separated by their number of words and by a
// leading word, and within such a leaf a line joins the group that it has the most words in
// common with. Six things differ, because a rule that hides lines is made of the result:
//
//   - The tree is built from a set of different lines with their counts, in the
//     order of their text, and not as lines come. So the templates follow from the
//     lines alone, nothing else has to be remembered, and a template never becomes
//     wider after it was shown to people.
//   - A leaf is found by the first, the second or the last word, so that a name
//     may be in front.
//   - Words end at punctuation, too, as in paths and user=alice. Punctuation never
//     varies, nor does the name of a value (user=<*>).
//   - A line has fewer varying places than fixed words, without the placeholders of
//     package template; at least minFirm words are fixed. Varying words in a row are
//     one place if they are a list. Lines of few words don't vary.
//   - Lines that begin and end alike and are of several lengths hold a list (<...>),
//     if they are in no other group. Drain, which begins with the length, has no
//     such thing.
//   - A place varies if it has minValues different words or more, none of which
//     makes up two thirds of the lines. Otherwise the words mean a state, such as
//     opened and closed, or an exception; the lines with each of them are a group of
//     their own.
//
// Everything is bounded (MaxTokens, maxLeaf), because the senders write the lines. The
// package has no clock, and does not know what templates are for.
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
	// with varying words in a row.
	minFirm        = 3
	minFirmInLists = 4
	// minValues is the number of different words from which on a place varies.
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

// Cluster is lines with a common template. Each template has one cluster.
type Cluster struct {
	*Template
	// N is the number of occurrences of all lines.
	N int
	// Lines are those lines, in the order of their text.
	Lines []string
}

// Mine returns the clusters of lines with at least so many occurrences, in the order of
// their first lines. The lines are different, each at most 65,535 bytes long; their order
// makes no difference.
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

// same reports whether two lines have the same word in a place.
func (l *counted) same(o *counted, i int) bool { return l.equal(i, o, i) }

// group is lines that are alike. Its words are those of the first one, apart from the
// places that vary.
type group struct {
	first *counted
	holes spots
	lines []*counted
	// seen is the last line that was compared with it: several leaves lead to a group.
	seen *counted
}

// leaf is a place in the tree: lines of a number of words with a word in one of the first,
// second and last places. It is a hash; a collision only costs comparisons.
type leaf uint64

func leafOf(tokens, place int, word uint64) leaf {
	h := (word ^ uint64(tokens)<<8 ^ uint64(place)) * prime
	return leaf(h ^ h>>32)
}

// slot spreads the leaves over a table.
func (l leaf) slot(of int) int { return int(uint64(l) % uint64(of)) }

// wordsOfLine is how many words most lines have at most.
const wordsOfLine = 16

// spots are the places of some of the words of a line.
type spots [MaxTokens / 64]uint64

func (s *spots) has(i int) bool { return s[i/64]>>(i%64)&1 == 1 }

func (s *spots) add(i int) { s[i/64] |= 1 << (i % 64) }

// miner holds one run.
type miner struct {
	lines  []counted
	groups []*group
	leaves map[leaf][]*group
	least  int
	found  []Cluster
	known  map[string]int // where in found a template is
}

// read takes the lines apart, in the order of their text.
func (m *miner) read(lines []Counted) {
	m.lines = make([]counted, 0, len(lines))
	words := make([]token, 0, wordsOfLine*len(lines))
	var crowd [1 << 14]uint8 // how many lines share a leaf, or one of the same slot
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
	// Lines that have a template in common share one of its leaves.
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
				return -1 // most that are looked at are not alike: no need to look further
			}
		}
	}
	if !f.ok() {
		return -1
	}
	return same
}

// form counts the fixed and the varying parts of a template.
type form struct {
	firm, holes, runs int
	inRun, rooted     bool
}

// word counts a fixed word at a place.
func (f *form) word(firm bool, place, of int) {
	f.inRun = false
	if firm {
		f.firm++
		f.rooted = f.rooted || place < 2 || place == of-1
	}
}

func (f *form) hole() {
	f.holes++
	if !f.inRun {
		f.runs++
	}
	f.inRun = true
}

// ok reports whether enough is fixed, with a word by which the template is found.
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

// split makes clusters of lines that are alike: one, or one for each word of a place with
// few words, and so on.
func (m *miner) split(lines []*counted) {
	var holes spots
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

// survey returns lines with different words in a place, up to minValues, and one with a
// word that makes up more than two thirds, if there is one.
func survey(lines []*counted, place, total int) (values []*counted, most *counted) {
	values = make([]*counted, 0, minValues)
	weight := 0 // of the word that may make up more than half (Boyer and Moore)
	for _, l := range lines {
		if len(values) < minValues && !slices.ContainsFunc(values, func(v *counted) bool { return v.same(l, place) }) {
			values = append(values, l)
		}
		switch {
		case weight == 0:
			most, weight = l, l.n
		case most.same(l, place):
			weight += l.n
		case weight >= l.n:
			weight -= l.n
		default:
			most, weight = l, l.n-weight
		}
	}
	n := 0
	for _, l := range lines {
		if most.same(l, place) {
			n += l.n
		}
	}
	if 3*n <= 2*total {
		most = nil
	}
	return values, most
}

// part splits each part of the lines: those with each of some words in a place, and
// those with none of them.
func (m *miner) part(lines []*counted, place int, values []*counted) {
	rest := lines
	for _, v := range values {
		var with, without []*counted
		for _, l := range rest {
			if v.same(l, place) {
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

// add makes a cluster of lines that vary in the holes.
func (m *miner) add(lines []*counted, holes spots, n int) {
	if t, ok := lines[0].template(holes); ok {
		m.emit(t, lines, n)
	}
}

// emit adds a cluster, or adds to the one with that template.
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

// template returns a line with holes, or nil if it varies nowhere or too much.
func (l *counted) template(holes spots) (*Template, bool) {
	if holes == (spots{}) {
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
