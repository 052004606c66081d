package detector_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/services/detector"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/embedded"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/statedir"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestMain lets one goroutine of nats.go 1.55 be: the object store starts it for
// each Put, and where the Put is cancelled before it first runs, it finds a nil
// channel and waits for ever.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

// rig is a bus with somebody who sends and somebody who listens.
type rig struct {
	dir     statedir.Dir
	server  *embedded.Server
	sender  *bus.Publisher
	gateway *bus.Conn
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir, err := statedir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := embedded.Start(t.Context(), embedded.Config{Dir: dir, Addr: "127.0.0.1:0", Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	r := &rig{dir: dir, server: s}
	ingest := r.connect(t, bus.RoleIngest)
	if r.sender, err = bus.NewPublisher(ingest, 256); err != nil {
		t.Fatal(err)
	}
	r.gateway = r.connect(t, bus.RoleGateway)
	return r
}

func (r *rig) connect(t *testing.T, role bus.Role) *bus.Conn {
	t.Helper()
	c, err := bus.Connect(t.Context(), bus.ConnConfig{Name: t.Name(), Role: role, Server: r.server, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// detect runs a detector; stop ends it and waits.
func (r *rig) detect(t *testing.T, every time.Duration) (stop func()) {
	t.Helper()
	return r.detectWith(t, every, prometheus.NewRegistry())
}

func (r *rig) detectWith(t *testing.T, every time.Duration, registry *prometheus.Registry) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan struct{}, 1)
	done := make(chan error, 1)
	go func() {
		done <- detector.Run(ctx, detector.Config{
			Bus: bus.ConnConfig{Server: r.server}, SnapshotEvery: every,
			Registry: registry, Logger: quiet(), Ready: func() { ready <- struct{}{} },
		})
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	select {
	case <-ready:
	case <-time.After(20 * time.Second):
		t.Fatal("the detector does not get ready")
	}
	return stop
}

func (r *rig) send(t *testing.T, events ...telemetry.Event) {
	t.Helper()
	data, err := telemetry.Encode(events)
	if err != nil {
		t.Fatal(err)
	}
	m := nats.NewMsg(bus.TelemetrySubject("web", events[0].Kind))
	m.Header.Set(bus.HeaderSender, "test")
	m.Data = data
	if _, err := r.sender.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func boom(word string) telemetry.Event {
	return telemetry.Event{Kind: telemetry.KindLog, App: "web", Log: &telemetry.Log{Level: telemetry.LevelError, Message: word}}
}

// TestOwnsAll: a detector that is alone counts what it works on too.
func TestOwnsAll(t *testing.T) {
	r, registry := newRig(t), prometheus.NewRegistry()
	owned := func() float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "tocsin_detector_partitions_owned" {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		t.Fatal("nobody counts")
		return 0
	}
	stop := r.detectWith(t, 0, registry)
	if got := owned(); got != 1 {
		t.Errorf("%v partitions are owned", got)
	}
	stop()
	if got := owned(); got != 0 {
		t.Errorf("%v partitions are owned after the end", got)
	}
}

// word is a message that is like no other.
func word(n int) string {
	text := make([]byte, 0, 4)
	for range 4 {
		text = append(text, byte('a'+n%26))
		n /= 26
	}
	return "boom " + string(text)
}

// alerts reads the alerts about errors that ALERTS holds once it holds n, or
// whatever it holds after the time is up. Many errors at once are an anomaly as
// well, which would be one too many to count to.
func (r *rig) alerts(t *testing.T, n int) []alert.Alert {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var all []alert.Alert
	err := bus.Follow(ctx, r.gateway, bus.FollowConfig{Stream: bus.StreamAlerts, Logger: quiet()}, func(m bus.Message) error {
		var a alert.Alert
		if err := json.Unmarshal(m.Data, &a); err != nil {
			return err
		}
		if a.ID != m.Header.Get(jetstream.MsgIDHeader) {
			return fmt.Errorf("alert %s under the message id %s", a.ID, m.Header.Get(jetstream.MsgIDHeader))
		}
		if a.Category == alert.Errors {
			all = append(all, a)
		}
		if len(all) >= n && m.Pending == 0 {
			cancel()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func ask[T any](t *testing.T, r *rig, subject string, request any) (reply T) {
	t.Helper()
	data, err := json.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	m, err := r.gateway.NC.Request(subject, data, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if e := m.Header.Get("Nats-Service-Error"); e != "" {
		t.Fatalf("%s: %s", subject, e)
	}
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		t.Fatal(err)
	}
	return reply
}

func TestTellsAndAnswers(t *testing.T) {
	r := newRig(t)
	r.detect(t, 0)
	r.send(t, boom("boom one"), boom("boom two"))
	if all := r.alerts(t, 2); len(all) != 2 || all[0].Title != "New error: boom one" {
		t.Fatalf("%+v", all)
	}
	events := ask[query.EventsReply](t, r, query.SubjectEvents, query.EventsRequest{Limit: 1})
	if len(events.Events) != 1 || events.Events[0].Log.Message != "boom two" || events.Events[0].Received.IsZero() {
		t.Errorf("%+v", events)
	}
	status := ask[query.StatusReply](t, r, query.SubjectStatus, struct{}{})
	if len(status.Apps) != 1 || status.Apps[0].Senders[0] != "test" || status.Apps[0].LastMinute != 2 || !status.Detector.Ready {
		t.Errorf("%+v", status)
	}
	for _, action := range []query.NoiseAction{query.NoiseList, query.NoiseAutoDetect} {
		if reply := ask[json.RawMessage](t, r, query.SubjectNoise, query.NoiseRequest{Action: action}); string(reply) != `{"rules":[],"found":0}` {
			t.Errorf("%s without a rule: %s", action, reply)
		}
	}
	added := ask[query.NoiseReply](t, r, query.SubjectNoise, query.NoiseRequest{Action: query.NoiseAdd, Pattern: "quiet"})
	if added.Added == "" || len(added.Rules) != 1 {
		t.Fatalf("%+v", added)
	}
	r.send(t, boom("quiet please"), boom("boom three"))
	if all := r.alerts(t, 3); len(all) != 3 {
		t.Fatalf("%+v", all)
	}
	if list := ask[query.NoiseReply](t, r, query.SubjectNoise, query.NoiseRequest{Action: query.NoiseList}); list.HiddenTotal != 1 ||
		list.Rules[0].Hidden != 1 || list.Rules[0].AlertsHeld != 1 || !slices.Equal(list.Rules[0].Examples, []string{"quiet please"}) {
		t.Errorf("%+v", list)
	}
	for name, bad := range map[string]query.NoiseRequest{
		"no pattern": {Action: query.NoiseAdd}, "no rule": {Action: query.NoiseRemove, RuleID: "x"}, "no action": {Action: "x"},
		"no rule to bring back": {Action: query.NoiseAdd, RuleID: "x"},
	} {
		data, err := json.Marshal(bad)
		if err != nil {
			t.Fatal(err)
		}
		m, err := r.gateway.NC.Request(query.SubjectNoise, data, 10*time.Second)
		if err != nil || m.Header.Get("Nats-Service-Error-Code") != "400" {
			t.Errorf("%s: %v %+v", name, err, m)
		}
	}
}

// TestRestarts stops and starts the detector in the middle of a stream of
// events: every alert is told once, also by a state that was never saved.
func TestRestarts(t *testing.T) {
	r := newRig(t)
	const total = 300
	sent := 0
	for round := range 6 {
		every := time.Duration(rand.IntN(20)+1) * time.Millisecond
		if round%3 == 2 {
			every = time.Hour
		}
		stop := r.detect(t, every)
		for range total / 6 {
			e := boom(word(sent))
			e.App = fmt.Sprint("app", sent%10) // so many of one app would be a storm
			r.send(t, e)
			sent++
		}
		stop()
	}
	r.detect(t, time.Hour)
	all := r.alerts(t, total)
	seen := map[string]int{}
	for _, a := range all {
		seen[a.Title]++
	}
	for i := range total {
		if n := seen["New error: "+word(i)]; n != 1 {
			t.Errorf("%s was told %d times", word(i), n)
		}
	}
	events := ask[query.EventsReply](t, r, query.SubjectEvents, query.EventsRequest{Limit: 200})
	if len(events.Events) != 200 {
		t.Errorf("%d events are remembered over restarts", len(events.Events))
	}
}

// TestDamagedMessagesAreSkipped: what is no event must not stop what follows.
func TestDamagedMessagesAreSkipped(t *testing.T) {
	r := newRig(t)
	r.detect(t, 0)
	for _, data := range []string{"", "{", `"x"`, `[{"kind":"log"}]`, `[null]`, `[{"kind":"network","network":{}}]`} {
		if _, err := r.sender.Publish(t.Context(), &nats.Msg{Subject: bus.TelemetrySubject("web", telemetry.KindLog), Data: []byte(data)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.sender.Publish(t.Context(), &nats.Msg{Subject: bus.SubjectIntakeCI, Data: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	r.send(t, boom("boom after"))
	if all := r.alerts(t, 1); len(all) != 1 {
		t.Fatalf("%+v", all)
	}
}

// TestSnapshotOfAnotherVersion: it is not used, and nothing is told twice.
func TestSnapshotOfAnotherVersion(t *testing.T) {
	r := newRig(t)
	stop := r.detect(t, time.Millisecond)
	r.send(t, boom("boom one"))
	r.alerts(t, 1)
	stop()
	c := r.connect(t, bus.RoleDetector)
	store, err := c.JS.ObjectStore(t.Context(), bus.BucketDetector)
	if err != nil {
		t.Fatal(err)
	}
	for i, state := range []string{`{"telemetry":1,"alerts":1}` + "\nof a later version", "no position", ""} {
		if _, err := store.PutBytes(t.Context(), "fold", []byte(state)); err != nil {
			t.Fatal(err)
		}
		stop := r.detect(t, time.Hour)
		r.send(t, boom(word(i)))
		if all := r.alerts(t, 2+i); len(all) != 2+i {
			t.Fatalf("%q: %+v", state, all)
		}
		stop()
	}
}

// logger writes to the test's log where -v asks for it.
func logger(t *testing.T) *slog.Logger {
	if !testing.Verbose() {
		return quiet()
	}
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}
