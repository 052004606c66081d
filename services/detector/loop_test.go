package detector

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestAlertsPositionDuringReplay checks the Alerts position of a snapshot that is taken
// during a replay. Under other rules a replay may raise an alert that was not published
// before, and store it above alerts that the replay is still to raise again. The position
// must stay below those.
func TestAlertsPositionDuringReplay(t *testing.T) {
	message := func(seq uint64, text string) fold.Message {
		return fold.Message{Seq: seq, Time: time.UnixMilli(1_770_000_000_000 + int64(seq)), Events: []telemetry.Event{
			{Kind: telemetry.KindLog, App: "web", Log: &telemetry.Log{Level: telemetry.LevelError, Message: text}},
		}}
	}
	before := fold.New(fold.Config{})
	before.Apply(message(1, "boom one"))
	second := before.Apply(message(2, "boom two")).Alerts[0].ID

	d := &process{metrics: newMetrics(prometheus.NewRegistry(), func() {}), log: slog.New(slog.DiscardHandler)}
	l := newLoop(newPartition(d, 0, 1, nil), &startState{
		fold: fold.New(fold.Config{}), newest: 2, position: snapshotPosition{Alerts: 7},
		replayed: map[string]struct{}{second: {}, "left over": {}},
	})
	for _, step := range []struct {
		message   fold.Message
		raised    int    // alerts raised in all
		alerts    uint64 // Alerts position of a snapshot after it
		replaying bool
	}{
		{message(1, "boom one"), 1, 7, true},
		{message(2, "boom two"), 1, 21, false},
		{message(3, "boom three"), 2, 22, false},
	} {
		raised, seq := l.raised, step.message.Seq
		l.handle(input{message: step.message, backlog: 3 - seq})
		if l.raised > raised {
			l.acknowledge(published{count: 1, last: 20 + uint64(l.raised)})
		}
		l.snapshot()
		if l.raised != step.raised {
			t.Errorf("after message %d: %d alerts raised, want %d", seq, l.raised, step.raised)
		}
		if got := l.nextSnapshot.position.Alerts; got != step.alerts {
			t.Errorf("after message %d: Alerts position = %d, want %d", seq, got, step.alerts)
		}
		if replaying := l.replayed != nil; replaying != step.replaying {
			t.Errorf("after message %d: replaying = %v, want %v", seq, replaying, step.replaying)
		}
	}
	l.handle(input{recreated: time.UnixMilli(1)})
	l.handle(input{message: message(1, "boom four")})
	l.snapshot()
	if got := l.nextSnapshot.position.Alerts; got != 22 {
		t.Errorf("after the stream was recreated: Alerts position = %d, want 22", got)
	}
	if l.raised != 3 {
		t.Errorf("after the stream was recreated: %d alerts raised, want 3", l.raised)
	}
}

// TestFlushIsBounded checks that a loop whose reader failed, while the detector goes on, does
// not wait longer than flushTimeout for a publisher that stores nothing.
func TestFlushIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		d := &process{cfg: Config{SnapshotEvery: time.Hour}, metrics: newMetrics(prometheus.NewRegistry(), func() {}), log: slog.New(slog.NewTextHandler(&logs, nil))}
		l := newLoop(newPartition(d, 0, 1, nil), &startState{fold: fold.New(fold.Config{})})
		l.handle(input{message: fold.Message{Seq: 1, Time: time.Now(), Events: []telemetry.Event{
			{Kind: telemetry.KindLog, App: "web", Log: &telemetry.Log{Level: telemetry.LevelError, Message: "boom"}},
		}}})
		if l.raised != 1 {
			t.Fatalf("%d alerts raised, want 1", l.raised)
		}
		reading, fail := context.WithCancel(t.Context())
		fail()
		// It bounds the test where the loop does not bound itself.
		working, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		if err := l.run(reading, working); err != nil {
			t.Errorf("run = %v, want nil", err)
		}
		if waited := time.Since(start); waited != flushTimeout {
			t.Errorf("run waited %s for the alert to be stored, want %s", waited, flushTimeout)
		}
		if want := "not stored in time"; !strings.Contains(logs.String(), want) {
			t.Errorf("logs = %s, want %q", &logs, want)
		}
	})
}
