package detector_test

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestMain ignores a goroutine that nats.go 1.55 leaks: the object store starts it for
// each Put, and if the Put is cancelled before it runs it blocks on a nil channel.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

// rig is a bus with a sender of telemetry and a connection of a gateway.
type rig struct {
	bus     *bustest.Bus
	sender  *bus.Publisher
	gateway *bus.Session
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{bus: bustest.Start(t)}
	var err error
	if r.sender, err = bus.NewPublisher(r.bus.Connect(bus.RoleIngest), 256); err != nil {
		t.Fatal(err)
	}
	r.gateway = r.bus.Connect(bus.RoleGateway)
	return r
}

// detect runs a detector. stop ends it and waits.
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
			Bus: bus.Config{Server: r.bus.Server}, SnapshotEvery: every,
			Registry: registry, Logger: bustest.Quiet(), Ready: func() { ready <- struct{}{} },
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
			t.Errorf("Run = %v, want nil", err)
		}
	}
	t.Cleanup(stop)
	select {
	case <-ready:
	case <-time.After(20 * time.Second):
		t.Fatal("the detector is not ready after 20 s")
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

// TestOwnsAll checks the metric partitions_owned of a detector without others.
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
		t.Fatal("metric partitions_owned is missing, want it present")
		return 0
	}
	stop := r.detectWith(t, 0, registry)
	if got := owned(); got != 1 {
		t.Errorf("partitions_owned = %v, want 1", got)
	}
	stop()
	if got := owned(); got != 0 {
		t.Errorf("partitions_owned after the end = %v, want 0", got)
	}
}

// word returns a message whose error is different for each n.
func word(n int) string {
	text := make([]byte, 0, 4)
	for range 4 {
		text = append(text, byte('a'+n%26))
		n /= 26
	}
	return "boom " + string(text)
}

// alerts returns the alerts of category errors once there are n, or after 20 s. Many
// errors at once raise an anomaly as well, which is not counted.
func (r *rig) alerts(t *testing.T, n int) []alert.Alert {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var all []alert.Alert
	err := r.gateway.Follow(ctx, bus.FollowConfig{Stream: bus.StreamAlerts, Logger: bustest.Quiet()}, func(m bus.Message) error {
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
			return bus.ErrStop
		}
		return nil
	})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
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
		t.Fatalf("answer to %s is the error %q, want a reply", subject, e)
	}
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		t.Fatal(err)
	}
	return reply
}

func TestAlertsAndQueries(t *testing.T) {
	r := newRig(t)
	r.detect(t, 0)
	r.send(t, boom("boom one"), boom("boom two"))
	if all := r.alerts(t, 2); len(all) != 2 || all[0].Title != "New error: boom one" {
		t.Fatalf("alerts = %+v, want 2, the first %q", all, "New error: boom one")
	}
	events := ask[query.EventsReply](t, r, query.SubjectEvents, query.EventsRequest{Limit: 1})
	if len(events.Events) != 1 || events.Events[0].Log.Message != "boom two" || events.Events[0].Received.IsZero() {
		t.Errorf("events with limit 1 = %+v, want the newest, %q, with its time", events, "boom two")
	}
	status := ask[query.StatusReply](t, r, query.SubjectStatus, struct{}{})
	if len(status.Apps) != 1 || status.Apps[0].Senders[0] != "test" || status.Apps[0].LastMinute != 2 {
		t.Errorf("status of apps = %+v, want one app with 2 events of sender test in the last minute", status.Apps)
	}
	if !status.Detector.Ready {
		t.Errorf("status of the detector = %+v, want it ready", status.Detector)
	}
	for _, action := range []query.NoiseAction{query.NoiseList, query.NoiseAutoDetect} {
		if reply := ask[json.RawMessage](t, r, query.SubjectNoise, query.NoiseRequest{Action: action}); string(reply) != `{"rules":[],"found":0}` {
			t.Errorf("noise %s without rules = %s, want an empty list", action, reply)
		}
	}
	added := ask[query.NoiseReply](t, r, query.SubjectNoise, query.NoiseRequest{Action: query.NoiseAdd, Pattern: "quiet"})
	if added.Added == "" || len(added.Rules) != 1 {
		t.Fatalf("noise add = %+v, want the id of the new rule and one rule", added)
	}
	r.send(t, boom("quiet please"), boom("boom three"))
	if all := r.alerts(t, 3); len(all) != 3 {
		t.Fatalf("%d alerts after the rule was added, want 3: %+v", len(all), all)
	}
	if list := ask[query.NoiseReply](t, r, query.SubjectNoise, query.NoiseRequest{Action: query.NoiseList}); list.HiddenTotal != 1 ||
		list.Rules[0].Hidden != 1 || list.Rules[0].AlertsHeld != 1 || !slices.Equal(list.Rules[0].Examples, []string{"quiet please"}) {
		t.Errorf("noise list = %+v, want one rule that hid %q", list, "quiet please")
	}
	for name, bad := range map[string]query.NoiseRequest{
		"no pattern": {Action: query.NoiseAdd}, "no rule": {Action: query.NoiseRemove, RuleID: "x"}, "no action": {Action: "x"},
		"no rule to restore": {Action: query.NoiseAdd, RuleID: "x"},
	} {
		data, err := json.Marshal(bad)
		if err != nil {
			t.Fatal(err)
		}
		m, err := r.gateway.NC.Request(query.SubjectNoise, data, 10*time.Second)
		if err != nil || m.Header.Get("Nats-Service-Error-Code") != "400" {
			t.Errorf("%s: reply %+v, error %v; want error code 400", name, m, err)
		}
	}
}

// TestRestarts restarts the detector during a flow of events and checks that every alert
// is published once, also after a state that was not saved.
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
			e.App = fmt.Sprint("app", sent%10) // fewer of one app than a storm
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
			t.Errorf("alert %q was published %d times, want once", word(i), n)
		}
	}
	events := ask[query.EventsReply](t, r, query.SubjectEvents, query.EventsRequest{Limit: 200})
	if len(events.Events) != 200 {
		t.Errorf("%d events after the restarts, want 200", len(events.Events))
	}
}

// TestDamagedMessagesAreSkipped checks that messages which cannot be decoded do not stop
// the ones that follow.
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
		t.Fatalf("%d alerts, want 1: %+v", len(all), all)
	}
}

// TestSnapshotOfAnotherVersion checks that snapshots of an unknown format are not used, and
// that no alert is published twice.
func TestSnapshotOfAnotherVersion(t *testing.T) {
	r := newRig(t)
	stop := r.detect(t, time.Millisecond)
	r.send(t, boom("boom one"))
	r.alerts(t, 1)
	stop()
	c := r.bus.Connect(bus.RoleDetector)
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
			t.Fatalf("after the snapshot %q: %d alerts, want %d: %+v", state, len(all), 2+i, all)
		}
		stop()
	}
}

// logger returns a logger that writes to the test's log with -v.
func logger(t *testing.T) *slog.Logger {
	if !testing.Verbose() {
		return bustest.Quiet()
	}
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}
