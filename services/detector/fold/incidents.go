package fold

import (
	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
)

// maxIncidents is how many incidents of one rule may be open in all apps, because each
// message checks all of them for their end. Past it, the one with the oldest opening
// alert is forgotten and never ends. So are the incidents of a forgotten app.
const maxIncidents = 100

// incidents are the open incidents of each rule of the table. Each message lets time pass for
// them.
type incidents struct {
	open    []*lru.Map[incidentKey, rule.Incident]
	evicted uint64
}

// incidentKey identifies an incident of one rule.
type incidentKey struct {
	app *app
	key uint64
}

func newIncidents() (i incidents) {
	for range table {
		i.open = append(i.open, lru.New[incidentKey, rule.Incident](maxIncidents))
	}
	return i
}

// add adds an incident that a rule of an app has opened.
func (i *incidents) add(a *app, index int, opened rule.Incident) {
	if _, evicted := i.open[index].Add(incidentKey{a, opened.Key}, opened); evicted != nil {
		i.evicted++
	}
}

// forget removes the incidents of an app.
func (i *incidents) forget(a *app) {
	for _, open := range i.open {
		for key := range open.All() {
			if key.app == a {
				open.Delete(key)
			}
		}
	}
}

// any reports whether an incident is open.
func (i *incidents) any() bool {
	for _, open := range i.open {
		if open.Len() > 0 {
			return true
		}
	}
	return false
}

// openIncidents are the open incidents of one rule and app. It implements [rule.Incidents].
type openIncidents struct {
	open *lru.Map[incidentKey, rule.Incident]
	app  *app
}

// Find implements [rule.Incidents].
func (o openIncidents) Find(key uint64) (rule.Incident, bool) {
	if found := o.open.Peek(incidentKey{o.app, key}); found != nil {
		return *found, true
	}
	return rule.Incident{}, false
}

// Any implements [rule.Incidents].
func (o openIncidents) Any() bool {
	for key := range o.open.All() {
		if key.app == o.app {
			return true
		}
	}
	return false
}

// beforeEvents stands for an event's index in the ids of alerts that a message raises by its
// time alone.
const beforeEvents = -1

// tick publishes the ends of incidents, and summaries that are due. A suppressed end is tried
// again with the next message.
func (t *turn) tick() {
	t.index = beforeEvents
	for i := len(table) - 1; i >= 0; i-- {
		open := t.fold.incidents.open[i]
		for key, incident := range open.All() {
			ends, changed := key.app.rules[i].Tick(*incident, t.now)
			if changed {
				t.fold.recordChange(key.app)
			}
			for _, end := range ends {
				if t.publishFinding(key.app, i, end) {
					open.Delete(key)
					if key.app.switchRules(t.now) { // it may need fewer of them
						t.fold.recordChange(key.app)
					}
				}
			}
		}
	}
	t.summarizeDue()
	t.index, t.ordinal = 0, 0
}
