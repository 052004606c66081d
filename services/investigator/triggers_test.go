package investigator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/services/investigator/trigger"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

const kubernetesTrigger = `
triggers:
  - { match: { category: kubernetes, severity_min: warning }, chain: crash, cooldown: 30m }
`

// triggerRig is a backend on a bus, and what a reader of alerts needs. No worker runs.
type triggerRig struct {
	*restRig
	window  *busWindow
	metrics *triggerMetrics
	// ahead is how far the reader's clock is ahead.
	ahead time.Duration
	logs  lockedBuffer
	// rivals is set where another reader may have stored the position.
	rivals bool
}

// lockedBuffer is a buffer that a logger writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newTriggerRig(t *testing.T, more string) *triggerRig {
	t.Helper()
	r := &triggerRig{restRig: newRESTRig(t, nil), metrics: newTriggerMetrics(httpserve.NewMetrics(prometheus.NewRegistry(), "investigator"))}
	r.configure(more)
	r.window = followed(t, r.bus)
	r.revisions = newRevisions(t, r.session)
	return r
}

// configure puts a configuration in force, as a reload does.
func (r *triggerRig) configure(more string) {
	r.t.Helper()
	r.config.Store(parseConfig(r.t, strings.Replace(restConfig, "queue: { max_queued_sessions: 8, max_per_hour: 3 }\n", "", 1)+more))
}

// read runs a reader until the end of the test, or stop.
func (r *triggerRig) read() (stop func()) {
	r.t.Helper()
	log := slog.New(slog.NewTextHandler(&r.logs, nil))
	ahead := r.ahead
	reader := &triggerReader{
		backend: r.backend, session: r.session, window: r.window, mask: redact.New(), metrics: r.metrics,
		now: func() time.Time { return time.Now().Add(ahead) }, log: log,
	}
	if _, err := openTriggerPosition(r.t.Context(), r.session, log); err != nil { // as at the start of a session
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- reader.run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) && !(r.rivals && errors.Is(err, bus.ErrConflict)) {
				r.t.Errorf("reading alerts ended with %v, want %v", err, context.Canceled)
			}
		})
	}
	r.t.Cleanup(stop)
	return stop
}

// raise publishes an alert of a crash, changed, and returns it.
func (r *triggerRig) raise(id string, change ...func(*alert.Alert)) alert.Alert {
	r.t.Helper()
	a := alert.Alert{
		ID: id, Severity: alert.Error, Category: alert.Kubernetes, Title: "crash of shop/deployment " + id, Timestamp: time.Now(),
		Source: alert.SourceKubernetes, App: "app-" + id, DedupKey: "key-" + id,
	}
	for _, f := range change {
		f(&a)
	}
	publishAlert(r.t, r.bus, a)
	return a
}

// again makes an alert a later one of a finding.
func again(of string) func(*alert.Alert) {
	return func(a *alert.Alert) { a.App, a.DedupKey = "app-"+of, "key-"+of }
}

func revision(of string) func(*alert.Alert) {
	return func(a *alert.Alert) { again(of)(a); a.Revises = of }
}

func severe(s alert.Severity) func(*alert.Alert) { return func(a *alert.Alert) { a.Severity = s } }

func (r *triggerRig) position() bus.Position {
	r.t.Helper()
	stored, err := r.session.Document(bus.BucketInvestigator, triggersKey).Get(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	p, err := decodeTriggerPosition(stored.Data)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}

// rewind stores an earlier position, as if the process had died before it stored a later one.
func (r *triggerRig) rewind(p bus.Position) {
	r.t.Helper()
	stored, err := openTriggerPosition(r.t.Context(), r.session, bustest.Quiet())
	if err == nil {
		err = stored.save(r.t.Context(), p)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// handled waits until the position is at the end of the alerts.
func (r *triggerRig) handled() {
	r.t.Helper()
	bustest.Eventually(r.t, "every alert to be handled", func() bool {
		state, err := r.session.State(r.t.Context(), bus.StreamAlerts)
		return err == nil && r.position() == state.End()
	})
}

// investigated returns the first ids of the alerts with sessions, in the order of the submissions.
func (r *triggerRig) investigated() []string {
	r.t.Helper()
	r.handled()
	var list listed
	r.get("/api/v1/sessions?sort_order=asc", &list)
	ids := []string{}
	for _, s := range list.Sessions {
		var d session.Detail
		r.get("/api/v1/sessions/"+s.ID, &d)
		if d.AlertID == nil || d.Author != AuthorTrigger || d.ChainID != "crash" {
			r.t.Fatalf("the session is %+v, want one of chain crash that a trigger has submitted", d.Item)
		}
		ids = append(ids, *d.AlertID)
	}
	return ids
}

func (r *triggerRig) wantInvestigated(want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.investigated(), cmpopts.EquateEmpty()); diff != "" {
		r.t.Errorf("alerts with a session (-want +got):\n%s", diff)
	}
}

// skipped returns the counts by reason that are not 0.
func (r *triggerRig) skipped() map[trigger.Reason]int {
	r.t.Helper()
	counts := map[trigger.Reason]int{}
	for _, reason := range trigger.Reasons() {
		if n := int(testutil.ToFloat64(r.metrics.skipped.WithLabelValues(string(reason)))); n > 0 {
			counts[reason] = n
		}
	}
	return counts
}

func (r *triggerRig) wantSkipped(want map[trigger.Reason]int) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.skipped()); diff != "" {
		r.t.Errorf("alerts that start nothing, by reason (-want +got):\n%s", diff)
	}
}

// sessionOf returns the newest session of an alert.
func (r *triggerRig) sessionOf(id string) *session.Item {
	r.t.Helper()
	var found *session.Item
	for _, it := range r.index.all(func(it *session.Item) bool { return it.AlertID != nil && *it.AlertID == id }) {
		if found == nil || it.ID > found.ID {
			found = it
		}
	}
	if found == nil {
		r.t.Fatalf("alert %s has no session", id)
	}
	return found
}

// endSession ends the session of an alert, as a worker does.
func (r *triggerRig) endSession(id string) {
	r.t.Helper()
	s := r.sessionOf(id).ID
	r.claim(s, 1)
	r.end(s, session.StatusCompleted)
	if err := r.journal.Free(r.t.Context(), "key-"+id, s, 1); err != nil {
		r.t.Fatal(err)
	}
}

func TestTriggersStart(t *testing.T) {
	r := newTriggerRig(t, kubernetesTrigger)
	r.raise("before")
	r.read()
	first := r.raise("first")
	r.raise("other", func(a *alert.Alert) { a.Category = alert.Errors })
	r.raise("info", severe(alert.Info))
	r.raise("own", func(a *alert.Alert) { a.App = "tocsin" })
	r.raise("end", func(a *alert.Alert) { a.Resolves = "nothing" })
	r.raise("same", revision("first"))
	r.raise("warning", severe(alert.Warning))
	r.raise("keyless", func(a *alert.Alert) { a.DedupKey = "" })
	// The start of its investigation, as the investigator publishes it.
	publishAlert(t, r.bus, alert.RevisionFor(first, alert.Investigation{SessionID: "s", Status: alert.InvestigationInProgress}))
	r.raise("worse", revision("info"))
	r.raise("joins", again("first"))
	r.wantInvestigated("first", "warning", "keyless", "info")
	r.wantSkipped(map[trigger.Reason]int{
		trigger.ReasonNoRule: 2, trigger.ReasonOwnApp: 1, trigger.ReasonResolves: 1, trigger.ReasonNotWorse: 1, trigger.ReasonInvestigated: 1,
	})
	if started, joined := testutil.ToFloat64(r.metrics.started), testutil.ToFloat64(r.metrics.joined); started != 4 || joined != 1 {
		t.Errorf("%v started and %v joined, want 4 and 1", started, joined)
	}
	for id, want := range map[string]string{"first": "key-first", "keyless": "keyless"} {
		if got := r.sessionOf(id).DedupKey; got == nil || *got != want {
			t.Errorf("the dedup_key of %s is %v, want %s", id, got, want)
		}
	}
	if it := r.sessionOf("first"); it.AlertType != "crash" {
		t.Errorf("the alert type is %q, want that of defaults", it.AlertType)
	}
}

// A closed alert starts nothing: a detector may publish that as a field of it.
func TestTriggersSkipClosed(t *testing.T) {
	r := newTriggerRig(t, kubernetesTrigger)
	r.read()
	a := alert.Alert{ID: "x", Severity: alert.Error, Category: alert.Kubernetes, App: "shop", Timestamp: time.Now(), DedupKey: "k"}
	published(t, r.bus, bus.RoleDetector, bus.AlertSubject(a), map[string]any{
		"id": "x", "severity": "error", "category": "kubernetes", "app": "shop", "timestamp": "2026-11-20T12:00:00.000Z", "dedup_key": "k", "context": map[string]any{},
		"closed_at": "2026-11-20T12:10:00.000Z",
	}, "x")
	published(t, r.bus, bus.RoleDetector, bus.AlertSubject(a), "no alert", "y")
	r.raise("open")
	r.wantInvestigated("open")
	r.wantSkipped(map[trigger.Reason]int{trigger.ReasonClosed: 1})
}

func TestTriggersOfCI(t *testing.T) {
	r := newTriggerRig(t, "triggers: [ { match: { category: [ci] }, chain: crash } ]\n")
	r.read()
	build := func(status string) func(*alert.Alert) {
		return func(a *alert.Alert) { a.Category, a.Context = alert.CI, map[string]any{"status": status} }
	}
	r.raise("build", build("failure"))
	r.raise("build2", revision("build"), build("failure"))
	r.wantInvestigated("build")
	r.endSession("build")
	r.configure("triggers: [ { match: { category: [ci] }, chain: crash, cooldown: 0s } ]\n")
	r.raise("build3", revision("build"), build("cancelled"), severe(alert.Warning))
	r.wantInvestigated("build", "build")
	r.wantSkipped(map[trigger.Reason]int{trigger.ReasonNotWorse: 1})
}

// After a downtime the triggers go on where they were. What was resolved meanwhile, or is too old,
// starts nothing. They know what an alert was before.
func TestTriggersAfterDowntime(t *testing.T) {
	r := newTriggerRig(t, kubernetesTrigger)
	r.raise("info", severe(alert.Info))
	stop := r.read()
	r.raise("known", severe(alert.Warning))
	r.wantInvestigated("known")
	r.endSession("known")
	stop()
	r.raise("resolved")
	r.raise("down")
	r.raise("resolution", again("resolved"), func(a *alert.Alert) { a.Resolves = "resolved" })
	r.raise("worse", revision("info"))
	r.raise("same", revision("known"), severe(alert.Warning))
	stop = r.read()
	r.wantInvestigated("known", "down", "info")
	r.wantSkipped(map[trigger.Reason]int{trigger.ReasonClosed: 1, trigger.ReasonResolves: 1, trigger.ReasonNotWorse: 1})
	stop()
	r.raise("old")
	r.raise("older")
	r.raise("noise", func(a *alert.Alert) { a.Category = alert.Noise })
	r.ahead = trigger.MaxAge + time.Minute
	r.read()
	r.wantInvestigated("known", "down", "info")
	r.wantSkipped(map[trigger.Reason]int{
		trigger.ReasonClosed: 1, trigger.ReasonResolves: 1, trigger.ReasonNotWorse: 1, trigger.ReasonTooOld: 2, trigger.ReasonNoRule: 1,
	})
	if n := strings.Count(r.logs.String(), "too old"); n != 1 || !strings.Contains(r.logs.String(), "alerts=2") {
		t.Errorf("%d lines about alerts that are too old, want one with alerts=2:\n%s", n, r.logs.String())
	}
}

// A process that died after the submission, and before it stored the position, leaves one session.
func TestTriggersAreIdempotent(t *testing.T) {
	const noCooldown = "triggers: [ { match: { category: kubernetes }, chain: crash, cooldown: 0s } ]\n"
	r := newTriggerRig(t, noCooldown)
	stop := r.read()
	before := r.position()
	r.raise("open")
	r.raise("ended")
	r.wantInvestigated("open", "ended")
	r.endSession("ended")
	stop()
	r.rewind(before)
	stop = r.read()
	r.wantInvestigated("open", "ended")
	stop()
	// Two read for a moment: at most one of them goes on.
	r.rivals = true
	r.rewind(before)
	r.raise("both")
	r.read()
	r.read()
	r.wantInvestigated("open", "ended", "both")
}

// TestTriggersShareNoKeysWithClients: the key of an alert can be computed from its id, and a client that
// uses it first neither stops the trigger nor gets its answer.
func TestTriggersShareNoKeysWithClients(t *testing.T) {
	r := newTriggerRig(t, kubernetesTrigger)
	digest := digestOf([]byte("open"))
	keys := []string{digest, AuthorTrigger + " " + digest}
	ids := map[string]bool{}
	post := func(key string) string {
		t.Helper()
		return r.post(`{"data":"of a client"}`, "Idempotency-Key", key)
	}
	for _, key := range keys {
		ids[post(key)] = true
	}
	r.read()
	r.raise("open")
	r.handled()
	var list listed
	r.get("/api/v1/sessions", &list)
	started := 0
	for _, it := range list.Sessions {
		if it.Author == AuthorTrigger {
			started++
		}
	}
	if started != 1 {
		t.Errorf("the trigger started %d sessions of the alert, want 1", started)
	}
	for _, key := range keys {
		if id := post(key); !ids[id] {
			t.Errorf("the repetition with the key %q has session %s, want that of its first request", key, id)
		}
	}
	if len(ids) != len(keys) {
		t.Errorf("%d sessions of clients, want %d", len(ids), len(keys))
	}
}

func TestTriggersOverLimits(t *testing.T) {
	for name, c := range map[string]struct{ queue, reason string }{
		"max_per_hour": {"queue: { max_per_hour: 2 }\n", "max_per_hour is 2"},
		"full queue":   {"queue: { max_queued_sessions: 2 }\n", "the queue is full: 2 sessions wait"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTriggerRig(t, kubernetesTrigger+c.queue)
			stop := r.read()
			r.raise("a")
			r.raise("b")
			r.handled()
			before := r.position()
			r.raise("c", severe(alert.Warning))
			r.raise("joins", again("a")) // no limit holds
			r.wantInvestigated("a", "b")
			marks := func() (ids []string) {
				for _, a := range stored(t, r.session) {
					if a.Investigation != nil && a.Investigation.Status == alert.InvestigationSkipped {
						if !strings.Contains(a.Investigation.Reason, c.reason) {
							t.Errorf("the mark is %q, want it with %q", a.Investigation.Reason, c.reason)
						}
						ids = append(ids, a.Revises)
					}
				}
				return ids
			}
			if diff := cmp.Diff([]string{"c"}, marks()); diff != "" {
				t.Errorf("marked alerts (-want +got):\n%s", diff)
			}
			stop()
			r.rewind(before)
			r.read()
			r.handled()
			r.raise("c2", revision("c")) // worse, and over the limit too
			r.wantInvestigated("a", "b")
			if diff := cmp.Diff([]string{"c"}, marks()); diff != "" {
				t.Errorf("marked alerts after a crash (-want +got):\n%s", diff)
			}
			r.configure(kubernetesTrigger) // reloaded
			r.raise("d")
			r.wantInvestigated("a", "b", "d")
		})
	}
}

func TestTriggersCooldown(t *testing.T) {
	r := newTriggerRig(t, kubernetesTrigger)
	stop := r.read()
	r.raise("a")
	r.raise("b")
	r.wantInvestigated("a", "b")
	r.endSession("a")
	r.raise("a2", again("a"))
	r.wantInvestigated("a", "b")
	stop()
	r.read() // the cooldown outlives the process
	r.raise("a3", again("a"))
	r.raise("b2", again("b"))
	r.wantInvestigated("a", "b")
	r.wantSkipped(map[trigger.Reason]int{trigger.ReasonCooldown: 2})
	r.configure(strings.Replace(kubernetesTrigger, "30m", "0s", 1)) // reloaded
	r.raise("a4", again("a"))
	r.wantInvestigated("a", "b", "a4")
	r.configure("")
	r.raise("c")
	r.wantInvestigated("a", "b", "a4")
}

func TestTriggersSilenced(t *testing.T) {
	r := newTriggerRig(t, kubernetesTrigger)
	store := silence.NewStore(r.bus.Connect(bus.RoleGateway), redact.New(), bustest.Quiet())
	r.read()
	added, _, err := store.Silence(t.Context(), silence.Matcher{DedupKey: "key-quiet"}, time.Hour, "", "ann")
	if err != nil {
		t.Fatal(err)
	}
	seen := r.raise("seen", severe(alert.Info))
	if _, _, err := store.Ack(t.Context(), seen, "ann"); err != nil {
		t.Fatal(err)
	}
	r.raise("quiet")
	later := func(a *alert.Alert) { a.Timestamp = time.Now().Add(time.Second) }
	r.raise("seen2", again("seen"), severe(alert.Info), later)
	r.wantInvestigated()
	r.raise("seen3", again("seen"), severe(alert.Warning), later) // ends the acknowledgement
	r.wantInvestigated("seen3")
	if _, err := store.Unsilence(t.Context(), added.ID); err != nil {
		t.Fatal(err)
	}
	r.raise("quiet2", again("quiet"), later)
	r.wantInvestigated("seen3", "quiet2")
	if got := r.skipped(); got[trigger.ReasonSilenced] != 1 || got[trigger.ReasonAcknowledged] == 0 {
		t.Errorf("skipped: %v, want one as silenced and one as acknowledged", got)
	}
}

// Of a group only the cause is investigated.
func TestTriggersOfAGroup(t *testing.T) {
	r := newTriggerRig(t, "triggers: [ { match: {}, chain: crash } ]\n")
	r.read()
	for _, a := range shopAlerts()[1:] {
		publishAlert(t, r.bus, a)
	}
	r.wantInvestigated("cause")
	r.wantSkipped(map[trigger.Reason]int{trigger.ReasonInhibited: 1})
}

// A refusal that another try does not change is skipped; the next alerts are read.
func TestTriggersRefused(t *testing.T) {
	r := newTriggerRig(t, kubernetesTrigger)
	r.read()
	r.raise("long", func(a *alert.Alert) { a.DedupKey = ""; a.ID = strings.Repeat("x", maxDedupKey+1) })
	r.raise("next")
	r.wantInvestigated("next")
	r.wantSkipped(map[trigger.Reason]int{trigger.ReasonRefused: 1})
}

func TestTriggersWithUnreadablePosition(t *testing.T) {
	r := newTriggerRig(t, kubernetesTrigger)
	r.raise("before")
	if _, err := r.session.Document(bus.BucketInvestigator, triggersKey).Write(t.Context(), []byte("nonsense"), 0); err != nil {
		t.Fatal(err)
	}
	r.read()
	r.raise("after")
	r.wantInvestigated("after")
	if !strings.Contains(r.logs.String(), "can't be read") {
		t.Errorf("no log line about the position:\n%s", r.logs.String())
	}
}

func FuzzDecodeTriggerPosition(f *testing.F) {
	for _, text := range []string{"", `{"seq":1}`, `{"seq":-1,"created":"2026-01-01T00:00:00Z"}`, `{"seq":7,"created":"2026-01-01T00:00:00Z"}`, strings.Repeat(" ", maxPosition+1) + "{}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decodeTriggerPosition(data)
		if err != nil {
			if !p.IsZero() {
				t.Errorf("decode(%q) = %+v, %v, want no position with an error", data, p, err)
			}
			return
		}
		if p.Created.IsZero() || len(data) > maxPosition {
			t.Errorf("decode(%q) = %+v, want an error", data, p)
		}
	})
}

// Two processes, with workers: each alert has one session, which ends in the alert, and the
// revisions of the investigator start no other.
func TestTriggersOfTwoProcesses(t *testing.T) {
	b := bustest.Start(t)
	models := scripted(t, func(modeltest.Request) {})
	file := configFile(t, models.URL, kubernetesTrigger)
	first, second := start(t, b.Config(bus.RoleInvestigator), file), start(t, b.Config(bus.RoleInvestigator), file)
	const each = 5
	c := b.Connect(bus.RoleInvestigator)
	raise := func(from int) {
		t.Helper()
		for i := range each {
			id := fmt.Sprint("a", from+i)
			publishAlert(t, b, alert.Alert{
				ID: id, Severity: alert.Error, Category: alert.Kubernetes, Title: "crash of " + id, Timestamp: time.Now(), App: "app-" + id, DedupKey: "key-" + id,
			})
		}
		bustest.Eventually(t, "every alert to have its conclusion", func() bool {
			completed := map[string]int{}
			for _, a := range stored(t, c) {
				if a.EndsInvestigation() {
					completed[a.Revises]++
				}
			}
			return len(completed) == from+each
		})
	}
	raise(0)
	first.stop()
	raise(each)
	var list listed
	second.get("/api/v1/sessions", &list)
	if len(list.Sessions) != 2*each {
		t.Errorf("%d sessions, want %d", len(list.Sessions), 2*each)
	}
	// A changed file reaches the triggers.
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "category: kubernetes", `category: errors, title: "*reloaded*"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the changed file to be in force", func() bool {
		_, text := second.send("GET", "/api/v1/system/config", "")
		return strings.Contains(text, "*reloaded*")
	})
	raised := alert.Alert{ID: "error", Severity: alert.Error, Category: alert.Errors, Title: "TypeError, reloaded", Timestamp: time.Now(), App: "web", DedupKey: "error"}
	publishAlert(t, b, raised)
	bustest.Eventually(t, "an alert of the new category to have a session", func() bool {
		second.get("/api/v1/sessions", &list)
		return len(list.Sessions) > 2*each
	})
	if _, metrics := second.send("GET", "/metrics", ""); !strings.Contains(metrics, "tocsin_investigator_trigger_sessions_total") || !strings.Contains(metrics, `tocsin_investigator_trigger_skipped_total{reason="investigated"}`) {
		t.Error("/metrics lacks the numbers of the triggers")
	}
}

// TestTriggerRules: every key of the file reaches the rules.
func TestTriggerRules(t *testing.T) {
	cfg := parseConfig(t, strings.Replace(restConfig, "queue:", `triggers:
  - { match: { category: [ci, "kube*"], severity_min: error, app: a, cluster: c, namespace: n, source: s, title: t }, chain: crash, cooldown: 5m }
  - { match: {}, chain: crash }
queue:`, 1))
	type list = []string
	want := []trigger.Rule{
		{Match: trigger.Match{Category: list{"ci", "kube*"}, SeverityMin: alert.Error, App: list{"a"}, Cluster: list{"c"}, Namespace: list{"n"}, Source: list{"s"}, Title: list{"t"}}, Chain: "crash", Cooldown: 5 * time.Minute},
		{Chain: "crash", Cooldown: 30 * time.Minute},
	}
	if diff := cmp.Diff(want, triggerRules(cfg)); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if rules := triggerRules(&config.Config{}); len(rules) != 0 {
		t.Errorf("without triggers the rules are %v, want none", rules)
	}
}
