package logtemplate

import "slices"

const (
	// minLengths is the least number of different lengths of the lines with a list.
	minLengths = 3
	// minFirmAround is the least number of fixed words before and behind a list, together.
	minFirmAround = 4
)

// ends has the hashes of the first and the last word of a line.
type ends struct{ first, last uint64 }

// listing is a set of lines with the same beginning and end, and any number of words
// between.
type listing struct {
	first *counted
	// before and behind are how many words all lines have in common at the beginning and
	// the end. shortest is the number of words of the shortest line.
	before, behind, shortest int
	lines                    []*counted
}

// lists makes clusters of the remaining lines that have a list: the same words before and
// behind, and a varying number of words between.
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

// with returns the listing as it would be with another line, but without adding the line.
func (g *listing) with(l *counted) listing {
	with, n, length := *g, len(g.first.tokens), len(l.tokens)
	with.shortest = min(g.shortest, length)
	for i := range min(g.before, length) {
		if !g.first.equal(i, l, i) {
			with.before = i
			break
		}
	}
	for i := range min(g.behind, length) {
		if !g.first.equal(n-1-i, l, length-1-i) {
			with.behind = i
			break
		}
	}
	with.before, with.behind = min(with.before, length), min(with.behind, length)
	return with
}

// around returns how many fixed words are before and behind the list, which has at least one
// word in every line.
func (g *listing) around() (before, behind int) {
	behind = min(g.behind, g.shortest-2)
	return min(g.before, g.shortest-1-behind), behind
}

// stays returns the number of fixed words.
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

// list makes a cluster of a listing if its lines are numerous and different enough. It
// leaves out a line with more than two thirds of the occurrences.
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

// equal reports whether token i of a line equals token j of another one.
func (l *counted) equal(i int, o *counted, j int) bool {
	return l.tokens[i].hash == o.tokens[j].hash && l.word(i) == o.word(j)
}
