package investigate

import (
	"slices"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/e2e/harness/investigation"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
	"github.com/tocsin-bus/tocsin/services/investigator/trigger"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// reader is an MCP client whose gateway may be killed and started again. It keeps what it was
// given.
type reader struct {
	sys   *alerted
	name  string
	agent *harness.Agent
	given []alert.Alert
}

// start starts the client's gateway, which takes up its inbox.
func (r *reader) start(t *testing.T) {
	t.Helper()
	agent, err := harness.StartAgent(t.Context(), e2etest.Binary(t), r.sys.StateDir, r.name, "--client="+r.name)
	e2etest.NoError(t, err)
	r.agent = agent
	t.Cleanup(func() {
		_ = agent.Close() // it may have been killed
		e2etest.CheckLog(t, agent.Log)
	})
}

// takeUntil takes alerts until one is as wanted. While the bus starts again there are none.
func (r *reader) takeUntil(t *testing.T, what string, wanted func(alert.Alert) bool) alert.Alert {
	t.Helper()
	var got alert.Alert
	investigation.Wait(t, r.name+": "+what, func() bool {
		o, err := r.agent.Observe(t.Context(), nil)
		if err != nil {
			return false
		}
		r.given = append(r.given, o.Alerts...)
		i := slices.IndexFunc(o.Alerts, wanted)
		if i >= 0 {
			got = o.Alerts[i]
		}
		return i >= 0
	})
	return got
}

// ends returns how often the client was given the end of a session.
func (r *reader) ends(session string) (n int) {
	for _, a := range r.given {
		if a.Investigation.Ended() && a.Investigation.SessionID == session {
			n++
		}
	}
	return n
}

// TestNewsOnce has two clients that were given an alert before its investigation ended. One takes
// the conclusion before everything is killed, the other afterwards. Each gets it once, over kills
// of all services, a restart and a killed gateway. The revisions start no session, and are not
// revised themselves.
func TestNewsOnce(t *testing.T) {
	t.Parallel()
	sys := startAlerted(t, triggered)
	early, late := &reader{sys: sys, name: "early"}, &reader{sys: sys, name: "late"}
	delivered := investigation.NewGate(t)
	app := sys.Models.Script(func(q turn) modeltest.Answer { return delivered.Hold(concluding(q)) })
	of := func(app string) func(alert.Alert) bool { return func(a alert.Alert) bool { return a.App == app } }
	early.start(t)
	late.start(t)
	sys.senders.PostServerError(t, app, "/pay")
	raised := early.takeUntil(t, "the alert", of(app))
	late.takeUntil(t, "the alert", of(app))
	delivered.Open()
	session := sys.investigated(t, 1, "servers", app)

	isEnd := func(a alert.Alert) bool { return a.Investigation.Ended() }
	if end := early.takeUntil(t, "the conclusion", isEnd); end.ID != raised.ID || end.Investigation.SessionID != session.ID || !strings.Contains(end.Investigation.Summary, "in short") {
		t.Errorf("the end is %+v with the investigation %+v, want one line of alert %s, of session %s, with the summary", end, end.Investigation, raised.ID, session.ID)
	}
	sys.revisions(t, 1)
	sys.Kill(t)
	sys.up(t)
	if end := late.takeUntil(t, "the conclusion after the kill", isEnd); end.ID != raised.ID {
		t.Errorf("the end is that of alert %s, want %s", end.ID, raised.ID)
	}
	e2etest.NoError(t, early.agent.Kill())
	early.start(t)
	if err := sys.Bus.Stop(); err != nil {
		t.Fatalf("stop tocsin up: %v\n%s", err, sys.Bus.Log)
	}
	sys.up(t)

	// All that came before an alert of an app without a trigger has arrived with it.
	sys.senders.PostServerError(t, "other", "/last")
	for _, r := range []*reader{early, late} {
		r.takeUntil(t, "the last alert", of("other"))
		if n := r.ends(session.ID); n != 1 {
			t.Errorf("%s: the end is given %d times, want once: %+v", r.name, n, r.given)
		}
	}
	sys.held(t, trigger.ReasonNoRule, 1) // the triggers have read it too
	if all := sys.sessions(t); len(all) != 1 {
		t.Errorf("sessions %+v, want one", all)
	}
	for _, r := range sys.revisions(t, 1) {
		if r.Revises != raised.ID || !alert.IsInvestigationID(r.ID) {
			t.Errorf("revision %s of %s, want an id of the investigator, of alert %s", r.ID, r.Revises, raised.ID)
		}
	}
}
