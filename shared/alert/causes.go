package alert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// CauseWindow is how far from its cause an alert may have begun, before or after
// it and inclusive, to be told under it.
const CauseWindow = 10 * time.Second

// Pending is an alert that waits to be told.
type Pending struct {
	Alert
	// Since is when the first came of what was merged into it; zero is its
	// Timestamp, which is the newest one's.
	Since time.Time
}

func (p Pending) since() time.Time {
	if p.Since.IsZero() || p.Since.After(p.Timestamp) {
		return p.Timestamp
	}
	return p.Since
}

// Alerts is what is to be told of what was pending.
func Alerts(all []Pending) []Alert {
	alerts := make([]Alert, len(all))
	for i, p := range all {
		alerts[i] = p.Alert
	}
	return alerts
}

// Causes tells alerts under what probably brought them about: those of one app
// that began within CauseWindow of the cause, and name the same endpoint, page or
// deploy as it does, or as one does that is told under it already. A CI result is
// of no app: it is the cause of alerts of any app whose release is of its commit.
//
// The cause is the one of the first kind (a deploy or CI result, then failed
// requests, then errors, then slow pages), of equals the most severe, then the
// earliest. What is of its own kind is not told under it, as that doesn't explain
// it; nor is what is over.
//
// It remembers what was told in the last CauseWindow, so that a symptom that
// comes after its cause was told is known for one. The zero value remembers
// nothing. It is not safe for concurrent use.
type Causes struct{ told []findings }

// maxTold is how many alerts that were told are remembered, each by what it names.
// Past it those go first that were told under a cause, then those that began
// first; what comes of them later is told as if it had no cause.
const maxTold = 16

// Digest is what a reader is told of alerts: a regression and an anomaly that
// belong together become one alert, and then they are Sorted.
func (c *Causes) Digest(pending []Pending) []Pending { return c.Sorted(correlate(pending)) }

// Sorted is alerts in the order in which they are told: the most severe first,
// within that the newest. Of equal severity those that have one cause stand where the
// first of them would, the cause first. What a CI result brought about stands with
// it whatever its severity, where the most severe of all that would. Titles and details are cut to MaxTitle and MaxDetail.
// The input stays as it is, and is told nothing by this: see Told.
func (c *Causes) Sorted(pending []Pending) []Pending {
	sorted := inOrder(pending)
	all := make([]findings, 0, len(c.told)+len(sorted))
	all = append(all, c.told...)
	for i := range sorted {
		sorted[i].InhibitedBy, sorted[i].Symptoms, sorted[i].Reason = "", 0, ""
		all = append(all, findingsOf(sorted[i]))
	}
	of := make([]*cause, len(sorted)) // whose group each is in
	for _, g := range group(all) {
		g.mark(all, len(c.told), sorted, of)
	}
	told := make([]Pending, 0, len(sorted))
	placed := make([]bool, len(sorted))
	for i, g := range of {
		if placed[i] {
			continue
		}
		stands := func(m int) bool {
			return m == i || g != nil && of[m] == g && !placed[m] && (g.whole || sorted[m].Severity == sorted[i].Severity)
		}
		if g != nil && stands(g.first) {
			told, placed[g.first] = append(told, sorted[g.first]), true
		}
		for m := i; m < len(sorted); m++ {
			if stands(m) && !placed[m] {
				told, placed[m] = append(told, sorted[m]), true
			}
		}
	}
	return told
}

// mark says on the alerts that are to be told what is under which. They stand in
// all behind so many that were told. Where the cause was told, there is no group.
func (g *cause) mark(all []findings, told int, sorted []Pending, of []*cause) {
	g.members = slices.DeleteFunc(g.members, func(m int) bool { return m < told })
	if len(g.members) == 0 {
		return
	}
	for _, m := range g.members {
		sorted[m-told].InhibitedBy = all[g.first].id
	}
	if g.first < told {
		return
	}
	first := &sorted[g.first-told]
	g.whole = all[g.first].kind == deployed
	first.Symptoms, first.Reason = len(g.members), g.reason(all, first.Alert)
	g.first -= told
	of[g.first] = g
	for _, m := range g.members {
		of[m-told] = g
	}
}

// Told remembers that alerts were told, as Digest or Sorted returned them.
func (c *Causes) Told(alerts []Pending) {
	told := slices.Clone(c.told)
	for _, p := range alerts {
		if f := findingsOf(p); f.kind != apart {
			told = append(told, f)
		}
	}
	var newest time.Time
	for _, f := range told {
		if f.since.After(newest) {
			newest = f.since
		}
	}
	told = slices.DeleteFunc(told, func(f findings) bool { return newest.Sub(f.since) > CauseWindow })
	slices.SortStableFunc(told, func(a, b findings) int {
		switch {
		case a.under == b.under:
			return a.since.Compare(b.since)
		case a.under:
			return -1
		default:
			return 1
		}
	})
	told = told[max(len(told)-maxTold, 0):]
	for i := range told { // what is kept keeps no texts
		for n, path := range told[i].quotes {
			told[i].quotes[n] = strings.Clone(path)
		}
	}
	c.told = slices.Clone(told)
}

// cause is one that was found, by places in what was looked at.
type cause struct {
	first int
	// members are told under it, each reached by a name that it has in common with
	// the cause, or with one that was reached before.
	members []int
	// names are those names, each once.
	names []string
	// whole says that it is told with all that it brought about in one place.
	whole bool
}

// group finds causes. Each alert is under one at most, and a cause is under none.
// It takes time in the number of alerts and the names that they have in common:
// an inbox holds 50.
func group(all []findings) []*cause {
	names, namedBy := namesOf(all)
	order := make([]int, 0, len(all))
	for i := range all {
		if len(namedBy[i]) > 0 && !all[i].under {
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

// search is the finding of causes.
type search struct {
	all     []findings
	names   []name
	namedBy [][]int
	// taken are causes, and what is under one.
	taken []bool
	found []*cause
}

// ofKind finds what is under the alerts of one kind, which come in the order in
// which one is a cause before the other: first what says most of it, the same
// endpoint before the same page, then what has something in common with that.
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

// reach takes under a cause what shares a name with an alert.
func (s *search) reach(g *cause, from int, by what) {
	first := &s.all[g.first]
	if by == byCommit && first.kind != deployed {
		return
	}
	for _, n := range s.namedBy[from] {
		if s.names[n].what != by {
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

// what a name is of, from what says most of a cause to what says least.
type what int

const (
	byCommit what = iota
	byEndpoint
	byPage
	byDeploy
)

// name is one that alerts have, and those which have it.
type name struct {
	what       what
	app, value string
	by         []int
}

// shown is the name for a reader.
func (n *name) shown() string {
	text := n.value
	switch n.what {
	case byCommit:
		if hash(text) {
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

// namesOf lists what alerts name, and for each alert which of these.
func namesOf(all []findings) (names []name, namedBy [][]int) {
	type key struct {
		what       what
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
	say := func(w what, app, value string, by int) {
		if value == "" {
			return
		}
		k := key{w, app, value}
		n, ok := known[k]
		if !ok {
			n = len(names)
			known[k] = n
			names = append(names, name{what: w, app: app, value: value})
		}
		add(n, by)
	}
	for i := range all {
		f := &all[i]
		say(byCommit, "", f.commit, i)
		say(byEndpoint, f.app, f.endpoint, i)
	}
	for i := range names { // pages and deploys are equal or not
		of := names[i]
		_, template, _ := strings.Cut(of.value, " ")
		for by := range all {
			f := &all[by]
			switch {
			case of.what == byCommit && deploys(of.value, f.release), of.what == byEndpoint && f.app == of.app && f.quotesPath(template):
				add(i, by)
			}
		}
	}
	for i := range all {
		f := &all[i]
		say(byPage, f.app, f.page, i)
		say(byDeploy, f.app, f.deploy, i)
	}
	return names, namedBy
}

func (f *findings) quotesPath(template string) bool {
	return slices.ContainsFunc(f.quotes, func(path string) bool { return isOf(path, template) })
}

// reason says in words why alerts are told under the first of them.
func (g *cause) reason(all []findings, first Alert) string {
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
	of := fmt.Sprintf("%d apps", len(apps))
	if len(apps) == 1 {
		of = sanitize.Cut(sanitize.Visible(apps[0]), maxApp)
	}
	named := g.names[0]
	switch more := len(g.names) - 2; {
	case more > 0:
		named += fmt.Sprintf(", %s or %d more", g.names[1], more)
	case more == 0:
		named += " or " + g.names[1]
	}
	is := "is the likely cause"
	if earliest {
		is = "came first"
	}
	return fmt.Sprintf("%d alerts of %s within %d s name %s; %s %s", 1+len(g.members), of, int(CauseWindow.Seconds()), named, words(first), is)
}

// before says that an alert came before another one.
func (f *findings) before(other *findings) bool {
	return f.since.Before(other.since) || f.since.Equal(other.since) && 0 < f.seq && f.seq < other.seq
}
