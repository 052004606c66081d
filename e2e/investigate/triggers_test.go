package investigate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/e2e/harness/investigation"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
	"github.com/tocsin-bus/tocsin/services/investigator/trigger"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// triggered has a chain for each kind of alert. A repeated server error may start a session again
// at once.
const triggered = `
llm_providers:
  chat: { type: openai, model: chat-model, base_url: "$MODELS/v1", api_key_env: "" }
agent_chains:
  monitoring: { alert_types: [threshold], stages: [{ name: look, agents: [{ name: GeneralAgent }] }] }
  builds: { stages: [{ name: look, agents: [{ name: GeneralAgent }] }] }
  spikes: { stages: [{ name: look, agents: [{ name: GeneralAgent }] }] }
  servers: { stages: [{ name: look, agents: [{ name: GeneralAgent }] }] }
triggers:
  - { match: { source: alertmanager, severity_min: error }, chain: monitoring, cooldown: 30m }
  - { match: { category: [ci], severity_min: error }, chain: builds, cooldown: 30m }
  - { match: { category: [anomaly] }, chain: spikes, cooldown: 30m }
  - { match: { category: [network_errors], app: "subject*" }, chain: servers, cooldown: 0s }
defaults: { llm_provider: chat, alert_type: threshold }
`

// alerted is a system whose alerts start sessions.
type alerted struct {
	*investigation.System
	// senders posts, and has the client.
	senders *e2etest.System
}

// startAlerted starts a system with a client.
func startAlerted(t *testing.T, config string) *alerted {
	t.Helper()
	sys := investigation.Start(t, config)
	return &alerted{sys, &e2etest.System{Bus: sys.Bus, Agent: e2etest.Join(t, sys.Bus, "e2e")}}
}

// up starts the process again.
func (a *alerted) up(t *testing.T) {
	t.Helper()
	a.Up(t)
	a.senders.Bus = a.Bus
	a.senders.WaitReady(t)
}

// concluding is a script that concludes at once.
func concluding(q turn) modeltest.Answer {
	if q.Agent == investigation.Executive {
		return q.Say("in short")
	}
	return q.Conclude("likely", "it is the database")
}

// alertmanager posts an alert about an app as Alertmanager does.
func (a *alerted) alertmanager(t *testing.T, app, status string, since time.Time) {
	t.Helper()
	labels := map[string]string{"alertname": "HighErrorRate", "severity": "critical", "app": app}
	a.senders.MustPost(t, "/webhooks/alertmanager", map[string]any{
		"version": "4", "groupKey": "{}:{}", "status": status, "receiver": "tocsin", "groupLabels": map[string]string{}, "commonLabels": labels,
		"alerts": []any{map[string]any{
			"status": status, "labels": labels, "annotations": map[string]string{"summary": "too many errors"}, "startsAt": since, "endsAt": since.Add(time.Second),
			"generatorURL": "http://prometheus.example/graph", "fingerprint": fmt.Sprintf("%x", app),
		}},
	})
}

// listed is a session of the list.
type listed struct {
	ID       string `json:"id"`
	Status   string `json:"status"`
	ChainID  string `json:"chain_id"`
	Author   string `json:"author"`
	AlertID  string `json:"alert_id"`
	DedupKey string `json:"dedup_key"`
}

// sessions returns all sessions, the newest first.
func (a *alerted) sessions(t *testing.T) []listed {
	t.Helper()
	var out struct {
		Sessions []listed `json:"sessions"`
	}
	a.Get(t, "/sessions", &out)
	return out.Sessions
}

// investigated waits until there are n sessions, and the newest one has completed. It has to be of
// the chain and by a trigger.
func (a *alerted) investigated(t *testing.T, n int, chain, subject string) listed {
	t.Helper()
	investigation.Wait(t, fmt.Sprintf("session %d, of the chain %s", n, chain), func() bool { return len(a.sessions(t)) >= n })
	all := a.sessions(t)
	s := all[0]
	if len(all) != n || s.ChainID != chain || s.Author != "trigger" || s.AlertID == "" || s.DedupKey == "" {
		t.Fatalf("sessions %+v, want %d, the newest of the chain %s, by trigger, of an alert with a dedup key", all, n, chain)
	}
	if got := a.Await(t, s.ID, "completed"); !strings.Contains(got.AlertData, subject) {
		t.Errorf("chain %s: the session's data is %q, want %q in it", chain, got.AlertData, subject)
	}
	return s
}

// skipped matches the counters of alerts that started no session.
var skipped = regexp.MustCompile(`(?m)^tocsin_investigator_trigger_skipped_total\{reason="(\w+)"\} (\d+)$`)

// skips returns how many alerts this process skipped for a reason.
func (a *alerted) skips(t *testing.T, reason trigger.Reason) int {
	t.Helper()
	for _, m := range skipped.FindAllStringSubmatch(e2etest.Get(t, a.Bus.InvestigatorURL+"/metrics").Body, -1) {
		if m[1] == string(reason) {
			n, err := strconv.Atoi(m[2])
			e2etest.NoError(t, err)
			return n
		}
	}
	t.Fatalf("/metrics has no counter of alerts that were skipped as %s, want one", reason)
	return 0
}

// held waits until n alerts were skipped for a reason.
func (a *alerted) held(t *testing.T, reason trigger.Reason, n int) {
	t.Helper()
	investigation.Wait(t, fmt.Sprintf("%d alerts that are skipped as %s", n, reason), func() bool { return a.skips(t, reason) >= n })
	if got := a.skips(t, reason); got != n {
		t.Errorf("%d alerts are skipped as %s, want %d", got, reason, n)
	}
}

// published returns every alert and revision on the bus, in order.
func (a *alerted) published(t *testing.T) []alert.Alert {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	c, err := bus.Connect(ctx, bus.Config{Name: "reader", Role: bus.RoleGateway, Dir: statedir.At(a.StateDir), Logger: quiet})
	e2etest.NoError(t, err)
	defer c.Close()
	if !harness.Poll(ctx, time.Minute, c.Connected) {
		t.Fatal("no connection to the bus within a minute, want one")
	}
	var all []alert.Alert
	read := errors.New("all is read")
	err = bustest.Follow(ctx, c, bus.FollowConfig{Stream: bus.StreamAlerts, Logger: quiet}, func(m bus.Message) error {
		var one alert.Alert
		if err := json.Unmarshal(m.Data, &one); err != nil {
			return err
		}
		all = append(all, one)
		if m.Pending == 0 {
			return read
		}
		return nil
	})
	if !errors.Is(err, read) {
		t.Fatal(err)
	}
	return all
}

// revisions waits until n investigations have ended, each once, and returns all revisions with an
// investigation, in order. A start that comes after the end is not published.
func (a *alerted) revisions(t *testing.T, n int) (revisions []alert.Alert) {
	t.Helper()
	ends := map[string]int{}
	investigation.Wait(t, fmt.Sprintf("the ends of %d investigations", n), func() bool {
		clear(ends)
		revisions = slices.DeleteFunc(a.published(t), func(a alert.Alert) bool { return a.Investigation == nil })
		for _, r := range revisions {
			if r.EndsInvestigation() {
				ends[r.Investigation.SessionID]++
			}
		}
		return len(ends) >= n
	})
	for session, times := range ends {
		if len(ends) != n || times != 1 {
			t.Errorf("the end of session %s is published %d times, and %d sessions ended; want once, and %d", session, times, len(ends), n)
		}
	}
	return revisions
}

// TestTriggers has an alert of Alertmanager, a failed CI job and an error spike: each starts a
// session, of the chain of its trigger. An alert that is resolved, within the cooldown, silenced
// or acknowledged starts none, and neither does a revision with an investigation.
func TestTriggers(t *testing.T) {
	t.Parallel()
	sys := startAlerted(t, triggered)
	since := time.Now().Add(-time.Minute).UTC()

	monitored := sys.Models.Script(concluding)
	sys.alertmanager(t, monitored, "firing", since)
	sys.investigated(t, 1, "monitoring", "Alert firing: HighErrorRate on "+monitored)

	job := sys.Models.Script(concluding)
	if code, out, stderr := e2etest.Tocsin(t, sys.StateDir, "ci", "--status", "failure", "--name", job, "--commit", "abc", "--ingest-url", sys.Bus.IngestURL); code != 0 {
		t.Fatalf("tocsin ci: exit status %d, want 0: %s%s", code, out, stderr)
	}
	sys.investigated(t, 2, "builds", "CI failure: "+job)

	spiking := sys.Models.Script(concluding)
	var errorLogs []map[string]any
	for range 80 {
		errorLogs = append(errorLogs, map[string]any{"kind": "log", "app": spiking, "log": map[string]any{"level": "error", "message": "boom"}})
	}
	sys.senders.PostEvents(t, errorLogs...)
	sys.investigated(t, 3, "spikes", "Error spike")

	failing := sys.Models.Script(concluding)
	sys.senders.PostServerError(t, failing, "/pay")
	failed := sys.investigated(t, 4, "servers", "GET /pay")

	sys.alertmanager(t, monitored, "resolved", since)
	sys.held(t, trigger.ReasonResolves, 1)
	sys.alertmanager(t, monitored, "firing", since.Add(30*time.Second))
	sys.held(t, trigger.ReasonCooldown, 1)

	command := func(args ...string) {
		t.Helper()
		if code, out, stderr := e2etest.Tocsin(t, sys.StateDir, args...); code != 0 {
			t.Fatalf("tocsin %v: exit status %d, want 0: %s%s", args, code, out, stderr)
		}
	}
	quiet := sys.Models.Script(concluding)
	command("silence", "--app", quiet)
	sys.senders.PostServerError(t, quiet, "/login")
	sys.held(t, trigger.ReasonSilenced, 1)
	command("ack", failed.AlertID)
	sys.senders.PostServerError(t, failing, "/pay")
	sys.held(t, trigger.ReasonAcknowledged, 1)

	if all := sys.sessions(t); len(all) != 4 {
		t.Errorf("sessions %+v, want 4", all)
	}
	if asked := sys.Models.Asked(quiet); len(asked) > 0 {
		t.Errorf("the model is asked %d times about a silenced alert, want never", len(asked))
	}
	sys.held(t, trigger.ReasonInvestigated, len(sys.revisions(t, 4)))
}

// TestMaxPerHour has more alerts than may be investigated: the second is marked as skipped, once,
// and the limit outlives the process.
func TestMaxPerHour(t *testing.T) {
	t.Parallel()
	sys := startAlerted(t, triggered+"queue: { max_per_hour: 1 }\n")
	marks := func(app string) (marked []alert.Alert) {
		t.Helper()
		return slices.DeleteFunc(sys.published(t), func(a alert.Alert) bool {
			return a.App != app || a.Investigation == nil
		})
	}
	first, second, third := sys.Models.Script(concluding), sys.Models.Script(concluding), sys.Models.Script(concluding)
	sys.senders.PostServerError(t, first, "/pay")
	sys.investigated(t, 1, "servers", "GET /pay")
	sys.senders.PostServerError(t, second, "/cart")
	sys.held(t, trigger.ReasonLimit, 1)
	got := marks(second)
	if len(got) != 1 || got[0].Investigation.Status != alert.InvestigationSkipped || got[0].Investigation.SessionID != "" || !strings.Contains(got[0].Investigation.Reason, "max_per_hour is 1") {
		t.Fatalf("revisions of the second alert with an investigation: %+v, want one, skipped, with the limit as its reason", got)
	}
	var history string
	if !harness.Poll(t.Context(), time.Minute, func() bool {
		history = sys.senders.Call(t, "observe", map[string]any{"what": "alerts"})
		return strings.Contains(history, `"status":"skipped"`)
	}) {
		t.Errorf("the client reads the alerts %s, want one whose investigation is skipped", history)
	}

	sys.Kill(t)
	sys.up(t)
	sys.senders.PostServerError(t, third, "/search")
	sys.held(t, trigger.ReasonLimit, 1) // of this process
	for _, app := range []string{second, third} {
		if got := marks(app); len(got) != 1 || got[0].Investigation.Status != alert.InvestigationSkipped {
			t.Errorf("revisions of %s with an investigation after a restart: %+v, want one, skipped", app, got)
		}
	}
	if all := sys.sessions(t); len(all) != 1 {
		t.Errorf("sessions %+v, want the first alone", all)
	}
}
