package alert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// causeGroup is a cause with its symptoms, all as indexes into the alerts.
type causeGroup struct {
	cause int
	// symptoms each share a name with the cause, or with a symptom before them.
	symptoms []int
	// names are the shared names, each once.
	names []string
	// together means that the cause and all symptoms are shown in one place.
	together bool
}

// findGroups finds causes. Each alert is under at most one, and a cause is under none. It takes
// time in the number of alerts and of the names that they share; an inbox holds 50.
func findGroups(all []facts) []*causeGroup {
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
	s := search{all: all, names: names, namedBy: namedBy, assigned: make([]bool, len(all))}
	for len(order) > 0 {
		n := slices.IndexFunc(order, func(i int) bool { return all[i].kind != all[order[0]].kind })
		if n < 0 {
			n = len(order)
		}
		s.groupKind(order[:n])
		order = order[n:]
	}
	return s.found
}

// search is the state of findGroups.
type search struct {
	all     []facts
	names   []name
	namedBy [][]int
	// assigned reports which alerts are in a group already.
	assigned []bool
	found    []*causeGroup
}

// groupKind finds the symptoms of alerts of one kind, which are in order of precedence: first
// by the most specific name they share (an endpoint before a page), then by names that
// they share with those symptoms.
func (s *search) groupKind(firsts []int) {
	firsts = slices.DeleteFunc(slices.Clone(firsts), func(i int) bool { return s.assigned[i] })
	causes := make([]causeGroup, len(firsts))
	for i, first := range firsts {
		causes[i].cause = first
	}
	for w := commitName; w <= deployName; w++ {
		for i := range causes {
			s.addNamed(&causes[i], firsts[i], w)
		}
	}
	for i := range causes {
		g := &causes[i]
		for next := 0; next < len(g.symptoms); next++ {
			for w := endpointName; w <= deployName; w++ { // a commit links to the CI result alone
				s.addNamed(g, g.symptoms[next], w)
			}
		}
		if len(g.symptoms) > 0 {
			s.assigned[g.cause] = true
			s.found = append(s.found, g)
		}
	}
}

// addNamed adds to a group the alerts that share a name of one kind with the alert from.
func (s *search) addNamed(g *causeGroup, from int, by nameKind) {
	causeFacts := &s.all[g.cause]
	if by == commitName && causeFacts.kind != kindDeploy {
		return
	}
	for _, n := range s.namedBy[from] {
		if s.names[n].kind != by {
			continue
		}
		added := false
		for _, m := range s.names[n].by {
			if f := &s.all[m]; s.assigned[m] || f.kind <= causeFacts.kind || f.since.Sub(causeFacts.since).Abs() > CauseWindow {
				continue
			}
			s.assigned[m], added = true, true
			g.symptoms = append(g.symptoms, m)
		}
		if shown := s.names[n].shown(); added && !slices.Contains(g.names, shown) {
			g.names = append(g.names, shown)
		}
	}
}

// nameKind is what a name belongs to, the most specific first.
type nameKind int

const (
	commitName nameKind = iota
	endpointName
	pageName
	deployName
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
	case commitName:
		if isHash(text) {
			text = text[:min(len(text), 12)]
		}
		text = "commit " + text
	case endpointName:
		_, text, _ = strings.Cut(text, " ")
	case deployName:
		text = "release " + text
	case pageName:
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
		index(commitName, "", f.commit, i)
		index(endpointName, f.app, f.endpoint, i)
	}
	// A commit may be a part of a release, an endpoint a path in a text; pages and deploys
	// are equal or not.
	for i := range names {
		n := names[i]
		_, template, _ := strings.Cut(n.value, " ")
		for by := range all {
			f := &all[by]
			switch {
			case n.kind == commitName && isCommitOf(n.value, f.release), n.kind == endpointName && f.app == n.app && f.quotesPath(template):
				add(i, by)
			}
		}
	}
	for i := range all {
		f := &all[i]
		index(pageName, f.app, f.page, i)
		index(deployName, f.app, f.deploy, i)
	}
	return names, namedBy
}

func (f *facts) quotesPath(template string) bool {
	return slices.ContainsFunc(f.paths, func(path string) bool { return matchesTemplate(path, template) })
}

// reason returns in words why alerts are grouped under the first of them.
func (g *causeGroup) reason(all []facts, first Alert) string {
	var apps []string
	earliest := true
	for _, m := range append(slices.Clone(g.symptoms), g.cause) {
		f := &all[m]
		if f.kind != kindDeploy && !slices.Contains(apps, f.app) {
			apps = append(apps, f.app)
		}
		if m != g.cause {
			earliest = earliest && all[g.cause].before(f)
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
	return fmt.Sprintf("%d alerts of %s within %d s name %s; %s %s", 1+len(g.symptoms), where, int(CauseWindow.Seconds()), named, causeName(first), role)
}

// before reports whether an alert began before another one.
func (f *facts) before(other *facts) bool {
	return f.since.Before(other.since) || f.since.Equal(other.since) && 0 < f.seq && f.seq < other.seq
}
