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

// turn is the application of one message to the state.
type turn struct {
	fold  *Fold
	seq   uint64
	stamp time.Time
	now   time.Time
	// index is the index of the current event in the message, or beforeEvents. ordinal is
	// the number of alerts that the event has raised.
	index, ordinal int
	// event is the current event, and nil for alerts that no event raises.
	event *telemetry.Event
	// tool reports whether the event is a log of a browser extension or a development tool.
	tool   bool
	alerts []alert.Alert
}

// applyEvents applies the events of a message. Usually all are of one app.
func (t *turn) applyEvents(events []telemetry.Event) {
	var a *app
	for i := range events {
		e := &events[i]
		if name := appName(e.App); a == nil || a.name != name {
			t.fold.recordChange(a)
			a = t.fold.app(name)
		}
		t.index, t.ordinal, t.event, t.tool = i, 0, e, false
		if a.untracked {
			t.observeUntracked(a, e)
			continue
		}
		t.fold.recordEvent(a)
		a.releases.observe(e.Release, t.now)
		t.observe(a, e)
	}
	t.event = nil
	t.fold.recordChange(a)
	t.fold.evictToFit()
}

// observe gives an event to the noise rules and, unless they hide it, to the detection rules.
func (t *turn) observe(a *app, e *telemetry.Event) {
	var hidden bool
	switch {
	case e.Log != nil:
		hidden = t.hidesLog(a, e)
	case e.Network != nil:
		hidden = t.hidesRequest(a, e)
	default:
		t.announceNoiseRules(a, a.noise.Tick(t.now))
	}
	if hidden {
		return
	}
	event := t.ruleEvent(a, e)
	for i, r := range a.rules {
		if found := r.Observe(event, t.now); len(found) > 0 {
			t.publishFindings(a, i, found)
		}
	}
}

// ruleEvent returns what rules see of an event. It is valid until the next event.
func (t *turn) ruleEvent(a *app, e *telemetry.Event) *rule.Event {
	t.fold.event = rule.Event{Event: e, App: a.name, Template: t.fold.template, Tool: t.tool, Young: a.isYoung()}
	return &t.fold.event
}

// hidesLog gives a log to the noise rules and reports whether they hide it.
func (t *turn) hidesLog(a *app, e *telemetry.Event) bool {
	f := t.fold
	f.template = template.Append(f.template[:0], e.Log.Message)
	t.tool = noise.FromTool(e)
	hidden, found := a.noise.Log(e.Log, t.tool, f.template, t.now)
	t.announceNoiseRules(a, found)
	failed := e.Log.Level == telemetry.LevelError
	seen := noise.Sighting{Text: e.Log.Message, Level: e.Log.Level}
	if failed {
		seen.Severity = alert.Error
	}
	if t.checkHidden(a, hidden, telemetry.KindLog, seen) {
		return true
	}
	if failed {
		a.noise.Failed(t.now)
	}
	return false
}

// hidesRequest gives a request to the noise rules and reports whether they hide it.
func (t *turn) hidesRequest(a *app, e *telemetry.Event) bool {
	f := t.fold
	f.template = template.AppendPage(f.template[:0], e.Network.URL)
	seen := requestSighting(e)
	hidden, found := a.noise.Request(e.Network.URL, f.template, seen.Severity, t.now)
	t.announceNoiseRules(a, found)
	return t.checkHidden(a, hidden, telemetry.KindNetwork, seen)
}

func requestSighting(e *telemetry.Event) noise.Sighting {
	severity, _ := network.Severity(e.Network.Status)
	return noise.Sighting{Text: e.Network.URL, Severity: severity}
}

// checkHidden reports whether a noise rule hides an event, and counts it if so. hiddenByFound
// reports whether a rule that auto-detection found hides it; the rules added by hand are
// checked here.
func (t *turn) checkHidden(a *app, hiddenByFound bool, kind telemetry.Kind, s noise.Sighting) bool {
	if hiddenByFound || t.fold.manual.Hides(a.name, kind, s, t.now) {
		t.fold.count.hidden++
		return true
	}
	return false
}

// announceNoiseRules publishes an alert about the noise rules that were found, if there are
// any to announce.
func (t *turn) announceNoiseRules(a *app, found *noise.Found) {
	if announcement, ok := found.Alert(); ok {
		t.publishForApp(a, announcement)
	}
}

// applyCIResult applies a CI result. If its alert is suppressed, the next result of the job
// is treated as if this one had not come.
func (t *turn) applyCIResult(result *ci.Result) {
	pending := t.fold.ci.Prepare(result)
	if id, published := t.publishWithoutRule(telemetry.DefaultApp, pending.Alert); published {
		t.fold.ci.MarkPublished(pending, id)
	}
}

// applyExternal applies the alerts of other systems that came in one message.
func (t *turn) applyExternal(alerts []external.Alert) {
	for i := range alerts {
		e := &alerts[i]
		t.index, t.ordinal = i, 0
		pending := t.fold.external.Prepare(e)
		if id, published := t.publishWithoutRule(appName(e.App), pending.Alert); published {
			t.fold.external.MarkPublished(pending, id)
		}
	}
}

// publishWithoutRule publishes an alert that no rule of an app raised, unless it is
// suppressed, and returns its id.
func (t *turn) publishWithoutRule(app string, a alert.Alert) (id string, published bool) {
	key, suppressed, allowed := t.allow(app, a, false)
	if !allowed {
		return "", false
	}
	a.DedupKey = key
	if tracked := t.fold.apps.Peek(app); tracked != nil {
		t.fold.recordAlert(*tracked)
	}
	return t.publish(app, a, suppressed).ID, true
}
