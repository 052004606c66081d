package fold

import (
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/anomaly"
	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/ratetail"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// maxSpikes is how many spikes of all apps are watched for their end, which each
// message pays for. Past it, the one whose newest alert is the oldest is watched
// no more and never ends; so it is with those of an app that is forgotten.
const maxSpikes = 100

// spikes are the spikes, bursts that recur and drifts that are not over, each with the
// id of its first alert. They end by the passing of time, which every message tells,
// whatever it is of.
//
// They outlive a change of the rules in force: what found a spike is fed until that has
// ended (app.settle).
type spikes struct {
	open    *lru.Map[source, string]
	evicted uint64
}

// source is whose errors a spike is of, and what found it.
type source struct {
	app    *app
	signal string
	by     finder
}

// finder is what finds something that has an end.
type finder uint8

const (
	byRatio finder = iota // anomaly.Counter
	byTail                // ratetail.Counter: a spike
	byDrift               // ratetail.Counter: a drift
	finders
)

func (s source) counters() *signal {
	if s.signal == alert.SignalLogs {
		return &s.app.logs
	}
	return &s.app.requests
}

// end lets time pass for what found a spike, and returns the end of the one that
// the alert with an id told of, if it is over. moved says that something was
// counted anew.
func (s source) end(id string, now time.Time) (end alert.Alert, over, moved bool) {
	counters := s.counters()
	if s.by == byRatio {
		if counters.ratio == nil {
			return s.dropped(id), true, false
		}
		counted, over, moved := counters.ratio.Over(now)
		if over {
			end = counted.Resolution(s.app.name, s.signal, id)
		}
		return end, over, moved
	}
	if counters.tail == nil {
		return s.dropped(id), true, false
	}
	ask := counters.tail.Over
	if s.by == byDrift {
		ask = counters.tail.DriftOver
	}
	found, over, moved := ask(now)
	if over {
		end = found.Resolution(s.app.name, s.signal, id)
	}
	return end, over, moved
}

// dropped is the end of what nothing counts any more, as a snapshot of an older version
// can have it.
func (s source) dropped(id string) (end alert.Alert) {
	switch s.by {
	case byTail:
		end = ratetail.Finding{Kind: ratetail.SpikeOver}.Resolution(s.app.name, s.signal, id)
	case byDrift:
		end = ratetail.Finding{Kind: ratetail.DriftOver}.Resolution(s.app.name, s.signal, id)
	default:
		end = anomaly.Spike{}.Resolution(s.app.name, s.signal, id)
	}
	end.Detail, end.Context = "The app is judged by another rule now", map[string]any{alert.SignalKey: s.signal}
	return end
}

func newSpikes() spikes { return spikes{open: lru.New[source, string](maxSpikes)} }

// begin notes the first alert of a spike.
func (s *spikes) begin(of source, id string) {
	if _, gone := s.open.Add(of, id); gone != nil {
		s.evicted++
	}
}

// forget watches an app no more.
func (s *spikes) forget(a *app) {
	for by := range finders {
		s.open.Delete(source{a, alert.SignalLogs, by})
		s.open.Delete(source{a, alert.SignalRequests, by})
	}
}

// has reports whether a spike is open.
func (s *spikes) has(of source) bool { return s.open.Peek(of) != nil }

// openOf are the open alerts of an app.
func (f *Fold) openOf(a *app) (open opened) {
	has := func(signal string, by ...finder) bool {
		return slices.ContainsFunc(by, func(by finder) bool { return f.spikes.has(source{a, signal, by}) })
	}
	open.logs.ratio, open.logs.tail = has(alert.SignalLogs, byRatio), has(alert.SignalLogs, byTail, byDrift)
	open.requests.ratio, open.requests.tail = has(alert.SignalRequests, byRatio), has(alert.SignalRequests, byTail, byDrift)
	open.escalations = f.escalations.has(a)
	return open
}

// raises reports whether what found a spike may raise an alert of it: its rule is in
// force, and the other has none open, which it ends by itself.
func (t *turn) raises(of source) bool {
	rule, other := ruleset.RateTail, source{of.app, of.signal, byRatio}
	if of.by == byRatio {
		rule, other.by = ruleset.Ratio3x, byTail
	}
	if of.app.ruleset.Anomaly.InForce(of.app.young()) != rule {
		return false
	}
	return of.by == byDrift || !t.fold.spikes.has(other)
}

// failed counts an error of a signal of an app, by each rule that the app needs.
func (t *turn) failed(a *app, name string, counters *signal) {
	if counters.ratio != nil {
		of := source{a, name, byRatio}
		if found, ok := counters.ratio.Add(t.now); ok && t.raises(of) {
			t.spike(of, found.Alert(a.name, name))
		}
	}
	if counters.tail == nil {
		return
	}
	found, ok := counters.tail.Add(t.now, a.outcomes.failing(t.now))
	if !ok {
		return
	}
	of := source{a, name, byTail}
	if found.Kind == ratetail.Drift {
		of.by = byDrift
	}
	open := t.fold.spikes.open.Peek(of)
	raises := found.Raises && open != nil // the severity of the alert that is open
	if !raises && !t.raises(of) {
		return
	}
	news := found.Alert(a.name, name)
	if found.Kind == ratetail.Spike && name == alert.SignalLogs {
		t.lead(a, &news)
	}
	if raises {
		news.Revises = *open
		t.offer(a, news)
		return
	}
	t.spike(of, news)
}

// spike publishes that a spike began.
func (t *turn) spike(of source, news alert.Alert) {
	if id, left := t.offer(of.app, news); left {
		t.fold.spikes.begin(of, id)
	}
}

// beforeEvents is the index of the alerts that the time of a message raises
// before what is in it.
const beforeEvents = -1

// watch publishes the ends of spikes. One that is held back is tried again with
// the next message.
func (t *turn) watch() {
	t.index = beforeEvents
	for of, id := range t.fold.spikes.open.All() {
		if end, over := t.over(of, *id); over {
			if _, left := t.offer(of.app, end); left {
				t.fold.spikes.open.Delete(of)
				t.settle(of.app)
			}
		}
	}
	t.calm()
	t.summarizeDue()
	t.index, t.ordinal = 0, 0
}

// settle lets go of what an app no longer needs after an alert of it has ended.
func (t *turn) settle(a *app) {
	if a.settle(t.fold.openOf(a), t.now) {
		t.fold.changed(a)
	}
}

func (t *turn) over(of source, id string) (end alert.Alert, over bool) {
	end, over, moved := of.end(id, t.now)
	if moved {
		t.fold.changed(of.app)
	}
	return end, over
}
