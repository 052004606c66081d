package logtemplate

import "slices"

const (
	// minLengths is how many different lengths the lines with a list have, at least.
	minLengths = 3
	// minFirmAround is how many fixed words there are before and behind a list, at least
	// and together.
	minFirmAround = 4
)

// ends are the first word of a line and the last.
type ends struct{ first, last uint64 }

// listing is lines that begin and end alike, with any number of words between.
type listing struct {
	first *counted
	// before and behind are how many words all lines have in common with the first, and
	// shortest is the number of words of the shortest line.
	before, behind, shortest int
	lines                    []*counted
}

// lists makes clusters of the remaining lines that hold a list: the same words before and
// behind, and between them words of varying number.
func (m *miner) lists() {
	var all []*listing
	alike := map[ends][]*listing{}
	for i := range m.lines {
		l := &m.lines[i]
		if l.found || !l.tokens[0].firm {
			continue
		}
		at := ends{l.tokens[0].hash, l.tokens[len(l.tokens)-1].hash}
		var best *listing
		most := 0
		for _, g := range alike[at] {
			if with := g.with(l); with.ok() && with.stays() > most {
				best, most = g, with.stays()
			}
		}
		if best != nil {
			*best = best.with(l)
			best.lines = append(best.lines, l)
			continue
		}
		if len(alike[at]) < maxLeaf {
			g := &listing{first: l, before: len(l.tokens), behind: len(l.tokens), shortest: len(l.tokens), lines: []*counted{l}}
			all, alike[at] = append(all, g), append(alike[at], g)
		}
	}
	for _, g := range all {
		m.list(g)
	}
}

// with returns the listing with what it would have in common with another line.
func (g *listing) with(l *counted) listing {
	with, n, of := *g, len(g.first.tokens), len(l.tokens)
	with.shortest = min(g.shortest, of)
	for i := range min(g.before, of) {
		if !g.first.equal(i, l, i) {
			with.before = i
			break
		}
	}
	for i := range min(g.behind, of) {
		if !g.first.equal(n-1-i, l, of-1-i) {
			with.behind = i
			break
		}
	}
	with.before, with.behind = min(with.before, of), min(with.behind, of)
	return with
}

// around returns how many words are fixed before and behind, with a word between in every
// line.
func (g *listing) around() (before, behind int) {
	behind = min(g.behind, g.shortest-2)
	return min(g.before, g.shortest-1-behind), behind
}

func (g *listing) stays() int {
	before, behind := g.around()
	return before + behind
}

// ok reports whether enough words are fixed.
func (g *listing) ok() bool {
	before, behind := g.around()
	firm := 0
	for i := range g.first.tokens {
		if (i < before || i >= len(g.first.tokens)-behind) && g.first.tokens[i].firm {
			firm++
		}
	}
	return before > 0 && behind > 0 && firm >= minFirmAround
}

// list makes a cluster of a listing, if it is one. A line that makes up two thirds is left
// out: the others are exceptions.
func (m *miner) list(g *listing) {
	total := 0
	for _, l := range g.lines {
		total += l.n
	}
	if i := slices.IndexFunc(g.lines, func(l *counted) bool { return 3*l.n > 2*total }); i >= 0 {
		total -= g.lines[i].n
		g.lines = slices.Delete(g.lines, i, i+1)
	}
	lengths := map[int]bool{}
	for _, l := range g.lines {
		lengths[len(l.tokens)] = true
	}
	if len(lengths) < minLengths || len(g.lines) < minValues || total < m.least {
		return
	}
	before, behind := g.around()
	tokens := g.first.tokens
	text := g.first.text[:tokens[before-1].end] + " " + string(rune(List)) + g.first.text[tokens[len(tokens)-behind].start:]
	if t, ok := Parse(text); ok {
		m.emit(t, g.lines, total)
	}
}

// equal reports whether a word of a line is another's.
func (l *counted) equal(i int, o *counted, j int) bool {
	return l.tokens[i].hash == o.tokens[j].hash && l.word(i) == o.word(j)
}
