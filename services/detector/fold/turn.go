package fold

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/network"
	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// turn is the application of one message.
type turn struct {
	fold  *Fold
	seq   uint64
	stamp time.Time
	now   time.Time
	// index is that of the event in the message, or beforeEvents; ordinal is that of the
	// next alert within the event.
	index, ordinal int
	// of is the current event, nil for alerts that no event raises.
	of *telemetry.Event
	// tool reports whether a log comes from a browser extension or a development tool.
	tool   bool
	alerts []alert.Alert
}

// events applies the events of a message, which are mostly of one app.
func (t *turn) events(events []telemetry.Event) {
	var a *app
	for i := range events {
		e := &events[i]
		if name := appName(e.App); a == nil || a.name != name {
			t.fold.changed(a)
			a = t.fold.app(name)
		}
		t.index, t.ordinal, t.of, t.tool = i, 0, e, false
		if a.untracked {
			t.untracked(a, e)
			continue
		}
		t.fold.seen(a)
		a.releases.Heard(e.Release, t.now)
		t.observe(a, e)
	}
	t.of = nil
	t.fold.changed(a)
	t.fold.shrink()
}

// observe gives an event to the noise rules, and what they do not hide to the detection
// rules.
func (t *turn) observe(a *app, e *telemetry.Event) {
	var hidden bool
	switch {
	case e.Log != nil:
		hidden = t.log(a, e)
	case e.Network != nil:
		hidden = t.request(a, e)
	default:
		t.noiseFound(a, a.noise.Tick(t.now))
	}
	if hidden {
		return
	}
	event := t.event(a, e)
	for i, r := range a.rules {
		if found := r.Observe(event, t.now); len(found) > 0 {
			t.found(a, i, found)
		}
	}
}

// event returns an event as rules see it.
func (t *turn) event(a *app, e *telemetry.Event) *rule.Event {
	t.fold.event = rule.Event{Event: e, App: a.name, Template: t.fold.template, Tool: t.tool, Young: a.young()}
	return &t.fold.event
}

// log reports whether a log is hidden.
func (t *turn) log(a *app, e *telemetry.Event) bool {
	f := t.fold
	f.template = template.Append(f.template[:0], e.Log.Message)
	t.tool = noise.FromTool(e)
	hidden, found := a.noise.Log(e.Log, t.tool, f.template, t.now)
	t.noiseFound(a, found)
	failed := e.Log.Level == telemetry.LevelError
	seen := noise.Sighting{Text: e.Log.Message, Level: e.Log.Level}
	if failed {
		seen.Severity = alert.Error
	}
	if t.hidden(a, hidden, telemetry.KindLog, seen) {
		return true
	}
	if failed {
		a.noise.Failed(t.now)
	}
	return false
}

// request reports whether a request is hidden.
func (t *turn) request(a *app, e *telemetry.Event) bool {
	f := t.fold
	f.template = template.AppendPage(f.template[:0], e.Network.URL)
	seen := requestSighting(e)
	hidden, found := a.noise.Request(e.Network.URL, f.template, seen.Severity, t.now)
	t.noiseFound(a, found)
	return t.hidden(a, hidden, telemetry.KindNetwork, seen)
}

func requestSighting(e *telemetry.Event) noise.Sighting {
	severity, _ := network.Severity(e.Network.Status)
	return noise.Sighting{Text: e.Network.URL, Severity: severity}
}

// hidden reports whether a noise rule hides an event. found reports whether one that was
// found does; here those that were added by hand are asked.
func (t *turn) hidden(a *app, found bool, kind telemetry.Kind, s noise.Sighting) bool {
	if found || t.fold.manual.Hides(a.name, kind, s, t.now) {
		t.fold.count.hidden++
		return true
	}
	return false
}

// noiseFound announces the noise rules that were found, if any of them applies.
func (t *turn) noiseFound(a *app, found *noise.Found) {
	if news, ok := found.Alert(); ok {
		t.offer(a, news)
	}
}

// result applies a CI result. One that is suppressed is only seen among the CI results,
// until the next of its job is published.
func (t *turn) result(result *ci.Result) {
	taken := t.fold.ci.Take(result)
	if id, left := t.publishAlone(telemetry.DefaultApp, taken.Alert); left {
		t.fold.ci.Delivered(taken, id)
	}
}

// external applies the alerts of other systems that came in one message.
func (t *turn) external(alerts []external.Alert) {
	for i := range alerts {
		e := &alerts[i]
		t.index, t.ordinal = i, 0
		taken := t.fold.others.Take(e)
		if id, left := t.publishAlone(appName(e.App), taken.Alert); left {
			t.fold.others.Delivered(taken, id)
		}
	}
}

// publishAlone publishes an alert that no rule of an app raised, unless its storm is held
// back, and returns its id.
func (t *turn) publishAlone(app string, a alert.Alert) (id string, left bool) {
	key, held, leaves := t.admit(app, a, false)
	if !leaves {
		return "", false
	}
	a.DedupKey = key
	if known := t.fold.apps.Peek(app); known != nil {
		t.fold.raised(*known)
	}
	return t.publish(app, a, held).ID, true
}
