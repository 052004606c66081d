package silences

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// TestEndingsAreBounded: neither ended acknowledgements nor counts pile up.
func TestEndingsAreBounded(t *testing.T) {
	now := time.Now()
	f := NewFilter(slog.New(slog.DiscardHandler))
	f.endedAcks = make(chan silence.Ack, 1) // nothing stores them
	for i := range 2 * maxEnded {
		key := fmt.Sprint("key", i)
		a := alert.Alert{ID: key, App: "web", DedupKey: key, Severity: alert.Warning, Timestamp: now}
		data, err := silence.Acks(nil).Add(silence.Acknowledge(a, "me", now), now).Encode()
		if err != nil {
			t.Fatal(err)
		}
		f.Apply(silence.Record{Key: bus.KeyAcks, Revision: uint64(i + 1), Data: data})
		worse := a
		worse.Severity, worse.Timestamp = alert.Error, now.Add(time.Second)
		if f.CheckAndCount(worse, worse.Timestamp) {
			t.Fatalf("%s is suppressed, want it to end its acknowledgement", key)
		}
	}
	if got := len(f.ended); got != maxEnded {
		t.Errorf("%d endings are remembered, want %d", got, maxEnded)
	}
	for i := range 2 * maxCounted {
		f.Count(silence.Cause{Silence: fmt.Sprint(i)}, 1)
	}
	if got := len(f.suppressed); got > maxCounted {
		t.Errorf("%d are counted, want at most %d", got, maxCounted)
	}
}
