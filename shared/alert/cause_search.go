package alert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// cause is a cause with its symptoms, by their indexes.
type cause struct {
	first int
	// members are the symptoms. Each shares a name with the cause, or with a member
	// before it.
	members []int
	// names are those names, each once.
	names []string
	// whole means that the cause and all symptoms are shown in one place.
	whole bool
}

// group finds causes. Each alert is under at most one, and a cause is under none. It takes
// time in the number of alerts and of the names that they share; an inbox holds 50.
func group(all []facts) []*cause {
	names, namedBy := namesOf(all)
	order := make([]int, 0, len(all))
	for i := range all {
		if len(namedBy[i]) > 0 && !all[i].grouped {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := &all[i], &all[j]
		return cmp.Or(
			cmp.Compare(a.kind, b.kind), cmp.Compare(b.severity.Rank(), a.severity.Rank()),
			a.since.Compare(b.since), cmp.Compare(a.seq, b.seq), cmp.Compare(a.id, b.id),
		)
	})
	s := search{all: all, names: names, namedBy: namedBy, taken: make([]bool, len(all))}
	for len(order) > 0 {
		n := slices.IndexFunc(order, func(i int) bool { return all[i].kind != all[order[0]].kind })
		if n < 0 {
			n = len(order)
		}
		s.ofKind(order[:n])
		order = order[n:]
	}
	return s.found
}

// search is the state of group.
type search struct {
	all     []facts
	names   []name
	namedBy [][]int
	// taken are causes and members.
	taken []bool
	found []*cause
}

// ofKind finds the symptoms of alerts of one kind, which are in order of precedence: first
// by the most specific name they share (an endpoint before a page), then by names that
// they share with those symptoms.
func (s *search) ofKind(firsts []int) {
	firsts = slices.DeleteFunc(slices.Clone(firsts), func(i int) bool { return s.taken[i] })
	causes := make([]cause, len(firsts))
	for i, first := range firsts {
		causes[i].first = first
	}
	for w := byCommit; w <= byDeploy; w++ {
		for i := range causes {
			s.reach(&causes[i], firsts[i], w)
		}
	}
	for i := range causes {
		g := &causes[i]
		for next := 0; next < len(g.members); next++ {
			for w := byEndpoint; w <= byDeploy; w++ { // a commit links to the CI result alone
				s.reach(g, g.members[next], w)
			}
		}
		if len(g.members) > 0 {
			s.taken[g.first] = true
			s.found = append(s.found, g)
		}
	}
}

// reach adds to a cause the alerts that share a name of a kind with one alert.
func (s *search) reach(g *cause, from int, by nameKind) {
	first := &s.all[g.first]
	if by == byCommit && first.kind != deployed {
		return
	}
	for _, n := range s.namedBy[from] {
		if s.names[n].kind != by {
			continue
		}
		reached := false
		for _, m := range s.names[n].by {
			if f := &s.all[m]; s.taken[m] || f.kind <= first.kind || f.since.Sub(first.since).Abs() > CauseWindow {
				continue
			}
			s.taken[m], reached = true, true
			g.members = append(g.members, m)
		}
		if shown := s.names[n].shown(); reached && !slices.Contains(g.names, shown) {
			g.names = append(g.names, shown)
		}
	}
}

// nameKind is what a name is of, the most specific first.
type nameKind int

const (
	byCommit nameKind = iota
	byEndpoint
	byPage
	byDeploy
)

// name is a name and the alerts that have it.
type name struct {
	kind       nameKind
	app, value string
	by         []int
}

// shown returns the name for a reader.
func (n *name) shown() string {
	text := n.value
	switch n.kind {
	case byCommit:
		if isHash(text) {
			text = text[:min(len(text), 12)]
		}
		text = "commit " + text
	case byEndpoint:
		_, text, _ = strings.Cut(text, " ")
	case byDeploy:
		text = "release " + text
	case byPage:
	}
	const maxShown = 80 // characters
	return sanitize.Cut(sanitize.Visible(text), maxShown)
}

// namesOf returns the names in alerts, and for each alert the indexes of its names.
func namesOf(all []facts) (names []name, namedBy [][]int) {
	type key struct {
		kind       nameKind
		app, value string
	}
	known := map[key]int{}
	namedBy = make([][]int, len(all))
	add := func(n, by int) {
		if !slices.Contains(namedBy[by], n) {
			names[n].by = append(names[n].by, by)
			namedBy[by] = append(namedBy[by], n)
		}
	}
	index := func(w nameKind, app, value string, by int) {
		if value == "" {
			return
		}
		k := key{w, app, value}
		n, ok := known[k]
		if !ok {
			n = len(names)
			known[k] = n
			names = append(names, name{kind: w, app: app, value: value})
		}
		add(n, by)
	}
	for i := range all {
		f := &all[i]
		index(byCommit, "", f.commit, i)
		index(byEndpoint, f.app, f.endpoint, i)
	}
	// A commit may be a part of a release, an endpoint a path in a text; pages and deploys
	// are equal or not.
	for i := range names {
		n := names[i]
		_, template, _ := strings.Cut(n.value, " ")
		for by := range all {
			f := &all[by]
			switch {
			case n.kind == byCommit && deploys(n.value, f.release), n.kind == byEndpoint && f.app == n.app && f.quotesPath(template):
				add(i, by)
			}
		}
	}
	for i := range all {
		f := &all[i]
		index(byPage, f.app, f.page, i)
		index(byDeploy, f.app, f.deploy, i)
	}
	return names, namedBy
}

func (f *facts) quotesPath(template string) bool {
	return slices.ContainsFunc(f.paths, func(path string) bool { return matchesTemplate(path, template) })
}

// reason returns in words why alerts are grouped under the first of them.
func (g *cause) reason(all []facts, first Alert) string {
	var apps []string
	earliest := true
	for _, m := range append(slices.Clone(g.members), g.first) {
		f := &all[m]
		if f.kind != deployed && !slices.Contains(apps, f.app) {
			apps = append(apps, f.app)
		}
		if m != g.first {
			earliest = earliest && all[g.first].before(f)
		}
	}
	const maxApp = 80 // characters
	where := fmt.Sprintf("%d apps", len(apps))
	if len(apps) == 1 {
		where = sanitize.Cut(sanitize.Visible(apps[0]), maxApp)
	}
	named := g.names[0]
	switch more := len(g.names) - 2; {
	case more > 0:
		named += fmt.Sprintf(", %s or %d more", g.names[1], more)
	case more == 0:
		named += " or " + g.names[1]
	}
	role := "is the likely cause"
	if earliest {
		role = "came first"
	}
	return fmt.Sprintf("%d alerts of %s within %d s name %s; %s %s", 1+len(g.members), where, int(CauseWindow.Seconds()), named, words(first), role)
}

// before reports whether an alert began before another one.
func (f *facts) before(other *facts) bool {
	return f.since.Before(other.since) || f.since.Equal(other.since) && 0 < f.seq && f.seq < other.seq
}
