package fold

import (
	"github.com/tocsin-bus/tocsin/services/detector/anomaly"
	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// maxSpikes is how many spikes of all apps are watched for their end, which each
// message pays for. Past it, the one whose newest alert is the oldest is watched
// no more and never ends; so it is with those of an app that is forgotten.
const maxSpikes = 100

// spikes are the spikes that are not over, each with the id of its newest alert.
// They end by the passing of time, which every message tells, whatever it is of.
type spikes struct {
	open    *lru.Map[source, string]
	evicted uint64
}

// source is whose errors a spike is of.
type source struct {
	app    *app
	signal string
}

func (s source) counter() *anomaly.Counter {
	if s.signal == alert.SignalLogs {
		return s.app.logs
	}
	return s.app.requests
}

func newSpikes() spikes { return spikes{open: lru.New[source, string](maxSpikes)} }

// begin notes the newest alert of a spike.
func (s *spikes) begin(of source, id string) {
	if _, gone := s.open.Add(of, id); gone != nil {
		s.evicted++
	}
}

// forget watches an app no more.
func (s *spikes) forget(a *app) {
	s.open.Delete(source{a, alert.SignalLogs})
	s.open.Delete(source{a, alert.SignalRequests})
}

// spike publishes that a spike began.
func (t *turn) spike(a *app, signal string, found anomaly.Spike) {
	if id, left := t.offer(a, found.Alert(a.name, signal)); left {
		t.fold.spikes.begin(source{a, signal}, id)
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
		counted, over, moved := of.counter().Over(t.now)
		if moved {
			t.fold.changed(of.app)
		}
		if !over {
			continue
		}
		if _, left := t.offer(of.app, counted.Resolution(of.app.name, of.signal, *id)); left {
			t.fold.spikes.open.Delete(of)
		}
	}
	t.index, t.ordinal = 0, 0
}

// save writes the open spikes, by the names of their apps.
func (s *spikes) save(w *snapshot.Writer) {
	w.Len(s.open.Len())
	for of, id := range s.open.All() {
		w.String(of.app.name)
		w.Bool(of.signal == alert.SignalLogs)
		w.String(*id)
	}
}

// restoreSpikes reads what save wrote. Fewer apps than before may be known, when
// there is less room for them now. Errors are in r.
func restoreSpikes(apps *lru.Map[string, *app], r *snapshot.Reader) spikes {
	s := newSpikes()
	if !r.Has(snapshot.Resolutions) {
		return s
	}
	for range r.Len(maxSpikes) {
		name, logs, id := r.String(maxApp), r.Bool(), r.String(idLen)
		known := apps.Peek(name)
		switch {
		case known == nil:
		case logs:
			s.begin(source{*known, alert.SignalLogs}, id)
		default:
			s.begin(source{*known, alert.SignalRequests}, id)
		}
	}
	return s
}
