package detector

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestAlertsOfASnapshot: a replay that tells something that was not told before,
// as it does under other rules, stores it above alerts that it is still to raise
// again. A snapshot in between must not lose sight of those.
func TestAlertsOfASnapshot(t *testing.T) {
	message := func(seq uint64, text string) fold.Message {
		return fold.Message{Seq: seq, Time: time.UnixMilli(1_770_000_000_000 + int64(seq)), Events: []telemetry.Event{
			{Kind: telemetry.KindLog, App: "web", Log: &telemetry.Log{Level: telemetry.LevelError, Message: text}},
		}}
	}
	before := fold.New(fold.Config{})
	before.Apply(message(1, "boom one"))
	second := before.Apply(message(2, "boom two")).Alerts[0].ID

	d := &process{metrics: newMetrics(prometheus.NewRegistry(), func() {}), log: slog.New(slog.DiscardHandler)}
	l := newLoop(newPartition(d, 0, 1, nil), &beginning{
		fold: fold.New(fold.Config{}), newest: 2, at: position{Alerts: 7},
		spoken: map[string]struct{}{second: {}, "left over": {}},
	})
	for _, step := range []struct {
		message fold.Message
		raised  int    // in all
		alerts  uint64 // of a snapshot after it
		replays bool
	}{
		{message(1, "boom one"), 1, 7, true},
		{message(2, "boom two"), 1, 21, false},
		{message(3, "boom three"), 2, 22, false},
	} {
		raised := l.raised
		l.take(input{message: step.message, behind: 3 - step.message.Seq})
		if l.raised > raised {
			l.heard(spoken{count: 1, last: 20 + uint64(l.raised)})
		}
		l.snapshot()
		if l.raised != step.raised || l.job.at.Alerts != step.alerts || (l.told != nil) != step.replays {
			t.Errorf("after message %d: %d raised, alerts above %d, told %v", step.message.Seq, l.raised, l.job.at.Alerts, l.told)
		}
	}
	l.take(input{renewed: time.UnixMilli(1)})
	l.take(input{message: message(1, "boom four")})
	l.snapshot()
	if l.job.at.Alerts != 22 || l.raised != 3 {
		t.Errorf("after the stream was made anew: %+v", l.job.at)
	}
}
