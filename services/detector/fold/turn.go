package fold

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/network"
	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/services/detector/security"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// turn is the folding in of one message.
type turn struct {
	fold  *Fold
	seq   uint64
	stamp time.Time
	now   time.Time
	// index is that of the event in the message, or beforeEvents; ordinal that of
	// the next alert within the event.
	index, ordinal int
	// of is that event, nil where an alert is raised by none.
	of     *telemetry.Event
	alerts []alert.Alert
}

// events folds in the events of a message, which are mostly of one app.
func (t *turn) events(events []telemetry.Event) {
	var a *app
	for i := range events {
		e := &events[i]
		if name := appName(e.App); a == nil || a.name != name {
			t.fold.changed(a)
			a = t.fold.app(name)
		}
		t.index, t.ordinal, t.of = i, 0, e
		if a.untracked {
			t.untracked(a, e)
			continue
		}
		t.fold.seen(a)
		a.releases.Heard(e.Release, t.now)
		t.event(a, e)
	}
	t.of = nil
	t.fold.changed(a)
	t.fold.shrink()
}

// event asks the rules about one event. Exactly one payload is set.
func (t *turn) event(a *app, e *telemetry.Event) {
	switch {
	case e.Log != nil:
		t.log(a, e)
		return
	case e.Network != nil:
		t.request(a, e)
		return
	}
	t.found(a, a.noise.Tick(t.now))
	switch {
	case e.Vitals != nil:
		t.loaded(a, e)
	case e.Action != nil:
		if found, ok := a.targets.Action(a.name, e, t.now); ok {
			t.offer(a, found)
		}
	case e.Memory != nil:
		if found, ok := a.states.Memory(a.name, e.Memory); ok {
			t.track(a, found)
		}
	case e.Circuit != nil:
		if found, ok := a.states.Circuit(a.name, e.Circuit); ok {
			t.track(a, found)
		}
	case e.Security != nil:
		t.security(a, e)
	}
}

func (t *turn) security(a *app, e *telemetry.Event) {
	t.fold.key = security.AppendKey(t.fold.key[:0], a.name, e.Security)
	title := func() string { return security.Alert(e, "").Title }
	if key, held, leaves := t.leave(a.name, alert.Security, alert.Warning, title); leaves {
		t.say(a, security.Alert(e, key), held)
	}
}

// loaded folds in a page load.
func (t *turn) loaded(a *app, e *telemetry.Event) {
	ended := false
	for _, found := range a.pages.load(a.name, e, a.ruleset.Regression, a.young(), t.now) {
		t.track(a, found)
		ended = ended || found.Ends()
	}
	if ended {
		a.settle(t.fold.openOf(a), t.now) // which may have been the last of a rule
	}
}

func (t *turn) log(a *app, e *telemetry.Event) {
	f := t.fold
	f.template = template.Append(f.template[:0], e.Log.Message)
	tool := noise.FromTool(e)
	hidden, found := a.noise.Log(e.Log, tool, f.template, t.now)
	t.found(a, found)
	failed := e.Log.Level == telemetry.LevelError
	seen := noise.Sighting{Text: e.Log.Message, Level: e.Log.Level}
	if failed {
		seen.Severity = alert.Error
	}
	if t.hidden(a, hidden, telemetry.KindLog, seen) || !failed {
		return
	}
	a.noise.Failed(t.now)
	if news, ok := a.errors.Log(a.name, e, tool, f.template, t.now); ok {
		t.offer(a, news)
	}
	t.escalate(a, e)
	t.failed(a, alert.SignalLogs, &a.logs)
}

func (t *turn) request(a *app, e *telemetry.Event) {
	f := t.fold
	f.template = template.AppendPage(f.template[:0], e.Network.URL)
	severity, bad := network.Severity(e.Network.Status)
	hidden := false
	if !a.untracked {
		var found *noise.Found
		hidden, found = a.noise.Request(e.Network.URL, f.template, severity, t.now)
		t.found(a, found)
	}
	if t.hidden(a, hidden, telemetry.KindNetwork, noise.Sighting{Text: e.Network.URL, Severity: severity}) {
		return
	}
	if !a.untracked {
		a.outcomes.add(t.now, network.Failed(e.Network.Status))
	}
	if !bad {
		return
	}
	f.key = network.AppendKey(f.key[:0], e.Network, f.template)
	title := func() string { return network.Alert(e.Network, string(f.template), "").Title }
	if key, held, leaves := t.leave(a.name, alert.NetworkErrors, severity, title); leaves {
		t.say(a, network.Alert(e.Network, string(f.template), key), held)
	}
	if a.untracked || !network.Failed(e.Network.Status) {
		return
	}
	t.failed(a, alert.SignalRequests, &a.requests)
}

// hidden says whether a found rule or one added by hand hides an event.
func (t *turn) hidden(a *app, found bool, kind telemetry.Kind, s noise.Sighting) bool {
	if found || t.fold.manual.Hides(a.name, kind, s, t.now) {
		t.fold.count.hidden++
		return true
	}
	return false
}

// found announces what auto-detection found, when it hides something.
func (t *turn) found(a *app, found *noise.Found) {
	if news, ok := found.Alert(); ok {
		t.offer(a, news)
	}
}

// result folds in a CI result. One that is held back is to be seen among the CI
// results only, until the next of its job leaves.
func (t *turn) result(result *ci.Result) {
	taken := t.fold.ci.Take(result)
	if id, left := t.tell(telemetry.DefaultApp, taken.Alert); left {
		t.fold.ci.Told(taken, id)
	}
}

// external folds in the alerts of other systems that came in one message. No
// rule is asked about them but whether they are news.
func (t *turn) external(alerts []external.Alert) {
	for i := range alerts {
		e := &alerts[i]
		t.index, t.ordinal = i, 0
		taken := t.fold.others.Take(e)
		if id, left := t.tell(appName(e.App), taken.Alert); left {
			t.fold.others.Told(taken, id)
		}
	}
}

// tell publishes an alert that belongs to no other unless its storm is held
// back, and returns its id when it has left.
func (t *turn) tell(app string, a alert.Alert) (id string, left bool) {
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
