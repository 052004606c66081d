package noise

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/services/detector/logtemplate"
)

// classes are the kinds of patterns whose similar templates count together, each separately.
const classes = string(ofLogs) + string(ofTools) + string(ofToolErrors)

// mined is an index of an app's mined rules by the lines that they match. It is derived from
// the app's rules.
type mined struct {
	index [len(classes)]logtemplate.Index[*rule]
	rules int
	// epoch changes with the rules and makes earlier verdicts obsolete.
	epoch uint64

	line *logtemplate.Line // nil while there are no such rules
	hits []*rule
}

// verdict is the rule that matches a pattern, as found at an epoch, from 1 on.
type verdict struct {
	rule  *rule
	epoch uint64
}

// minedSize is about how many bytes the index takes in addition to the rules.
const minedSize = 24*logtemplate.MaxTokens + 512

func (m *mined) size() int {
	if m == nil || m.rules == 0 {
		return 0
	}
	return minedSize
}

// of returns the index of the rules about patterns of a key's class, or nil.
func (m *mined) of(key string) *logtemplate.Index[*rule] {
	if m == nil || key == "" {
		return nil
	}
	if i := strings.IndexByte(classes, key[0]); i >= 0 {
		return &m.index[i]
	}
	return nil
}

// current returns the current epoch, 0 without mined rules.
func (m *mined) current() uint64 {
	if m == nil {
		return 0
	}
	return m.epoch + 1
}

// changed starts another epoch, because rules were added, removed or applied.
func (m *mined) changed() {
	if m != nil {
		m.epoch++
	}
}

func (m *mined) add(r *rule) bool {
	if !m.of(r.key).Add(r.template, r) {
		return false
	}
	if m.changed(); m.rules == 0 {
		m.line = &logtemplate.Line{}
	}
	m.rules++
	return true
}

func (m *mined) delete(r *rule) {
	m.of(r.key).Delete(r.template)
	m.changed()
	if m.rules--; m.rules == 0 {
		m.line, m.hits = nil, nil
	}
}

// knows reports whether a pattern can have a key with the app's noise rule.
func (a *App) knows(key string) bool {
	return key != "" && (a.mined != nil || key[0] != ofToolErrors && !logtemplate.Varies(key))
}

// bind parses the template of a rule with holes in its key, and reports whether the key is
// valid.
func (a *App) bind(r *rule) (ok bool) {
	if !logtemplate.Varies(r.key) {
		return true
	}
	if r.template, ok = logtemplate.Parse(r.key[1:]); !ok || a.mined.of(r.key) == nil {
		r.template = nil
		return false
	}
	return true
}

// under returns the mined rule that matches a line, given as the key of its pattern, or
// nil. Applied rules come first, then narrower ones. The pattern, if it is not nil, has a
// cached verdict.
func (a *App) under(key []byte, p *pattern) *rule {
	m := a.mined
	if m == nil {
		return nil
	}
	if p != nil && p.under.epoch == m.current() {
		return p.under.rule
	}
	i := strings.IndexByte(classes, key[0])
	if i < 0 || m.index[i].Len() == 0 || !m.line.Cut(key[1:]) {
		return nil
	}
	if m.hits = m.index[i].Find(m.hits[:0], m.line); len(m.hits) == 0 {
		return nil
	}
	return slices.MinFunc(m.hits, func(a, b *rule) int {
		if a.applied != b.applied {
			if a.applied {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.template.Width(), b.template.Width()), cmp.Compare(a.key, b.key))
	})
}

// isRedundant reports whether a mined rule makes a rule about a pattern that occurred n
// times superfluous.
func (a *App) isRedundant(key string, p *pattern, n int, t int64) bool {
	if a.mined == nil || a.mined.rules == 0 {
		return false
	}
	r := a.under([]byte(key), p)
	return r != nil && (r.applied || baseConfidence+n < minApplied || a.mustWait(r, t))
}

// mine adds and strengthens rules for similar templates.
func (a *App) mine(t int64, found *Found) {
	if a.mined == nil {
		return
	}
	var all []*rule
	for _, r := range a.rules.All() {
		if (*r).template != nil {
			all = append(all, *r)
		}
	}
	for _, r := range all {
		n := r.seen.minutes.sum(t)
		if n >= minLogs && a.ruleOf(r.key) == r { // not replaced by a wider rule meanwhile
			a.strengthen(r, int(min(n, arrivals)), t, found)
		}
	}
	var lines [len(classes)][]logtemplate.Counted
	for key, p := range a.patterns.All() {
		i := strings.IndexByte(classes, key[0])
		if i < 0 {
			continue
		}
		if n := (*p).within(t-Window.Milliseconds(), t); n > 0 && !a.under([]byte(key), *p).applies() {
			lines[i] = append(lines[i], logtemplate.Counted{Text: key[1:], N: n})
		}
	}
	for i := range lines {
		clusters := logtemplate.Mine(lines[i], minLogs)
		// The widest come first: the narrower ones that they cover are not announced.
		slices.SortFunc(clusters, func(a, b logtemplate.Cluster) int {
			return cmp.Or(cmp.Compare(b.Width(), a.Width()), cmp.Compare(a.Text(), b.Text()))
		})
		for _, c := range clusters {
			a.considerMined(classes[i:i+1], c, t, found)
		}
	}
}

// considerMined adds or strengthens the rule about a cluster of lines.
func (a *App) considerMined(class string, c logtemplate.Cluster, t int64, found *Found) {
	if r := a.ruleOf(class + c.Text()); r != nil {
		a.strengthen(r, c.N, t, found)
		return
	}
	warned := slices.ContainsFunc(c.Lines, func(text string) bool {
		p := a.patterns.Peek(class + text)
		return p != nil && (*p).warnedSince(t-Window.Milliseconds())
	})
	r := a.newRule(class+c.Text(), c.N, t, warned)
	r.template = c.Template
	if a.isRemoved(r) || a.isCovered(r) {
		return
	}
	if !a.makeRoom(t) {
		a.leftOut++
		return
	}
	for _, text := range c.Lines {
		if p := a.patterns.Peek(class + text); p != nil {
			r.countPast(*p, t)
			if len(r.seen.examples) < maxExamples {
				r.seen.addExample(cmp.Or((*p).example, text))
			}
		}
	}
	if len(r.seen.examples) > 0 {
		r.example = r.seen.examples[0]
	}
	if !a.addRule(r) {
		a.leftOut++
		return
	}
	a.takeOver(r)
	found.add(r)
}

// isCovered reports whether another mined rule hides every line that a rule would hide. For
// a rule that would only be proposed, a proposed rule is enough.
func (a *App) isCovered(r *rule) bool {
	for _, known := range a.rules.All() {
		if other := *known; other.template != nil && other.key[0] == r.key[0] && (other.applied || !r.applied) && other.template.Covers(r.template) {
			return true
		}
	}
	return false
}

// takeOver removes the rules that a mined rule covers, and adds the counts of applied ones
// to its own. A proposed rule only replaces other proposed ones.
func (a *App) takeOver(r *rule) {
	if r.template == nil {
		return
	}
	for key, known := range a.rules.All() {
		other := *known
		if other == r || key[0] != r.key[0] || other.applied && !r.applied || other.accepted && !r.accepted {
			continue
		}
		template := other.template
		if template == nil {
			template, _ = logtemplate.Parse(key[1:])
		}
		if template == nil || !r.template.Covers(template) {
			continue
		}
		if other.applied {
			r.seen.join(&other.seen)
		}
		a.deleteRule(other)
	}
}

// overlapsRemoved reports whether a rule would hide a line of a removed one.
func (m *mined) overlapsRemoved(a *App, r *rule) bool {
	if m == nil || r.key[0] == ofRequests || a.removed.Len() == 0 {
		return false
	}
	own := r.template
	if own == nil {
		own, _ = logtemplate.Parse(r.key[1:])
	}
	if own == nil {
		return false
	}
	for _, was := range a.removed.All() {
		if was.template != nil && was.key[0] == r.key[0] && was.template.Overlaps(own) {
			return true
		}
	}
	return false
}
