package bus

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestReconcile(t *testing.T) {
	want := completed(jetstream.StreamConfig{
		Name: "S", Subjects: []string{"a.>", "b"}, MaxAge: time.Hour, MaxBytes: 100, Duplicates: 30 * time.Minute,
		RePublish: &jetstream.RePublish{Source: "a.>", Destination: "live.a.>"},
	})
	for name, tt := range map[string]struct {
		change  func(*jetstream.StreamConfig)
		changed bool
		check   func(jetstream.StreamConfig) bool
		err     error
	}{
		"the same configuration":      {change: func(*jetstream.StreamConfig) {}},
		"more room is kept":           {change: func(c *jetstream.StreamConfig) { c.MaxBytes = 1000 }, check: func(c jetstream.StreamConfig) bool { return c.MaxBytes == 1000 }},
		"no limit is kept":            {change: func(c *jetstream.StreamConfig) { c.MaxBytes = -1 }, check: func(c jetstream.StreamConfig) bool { return c.MaxBytes == -1 }},
		"less room is widened":        {change: func(c *jetstream.StreamConfig) { c.MaxBytes = 10 }, changed: true, check: func(c jetstream.StreamConfig) bool { return c.MaxBytes == 100 }},
		"an added limit is removed":   {change: func(c *jetstream.StreamConfig) { c.MaxMsgs = 5 }, changed: true, check: func(c jetstream.StreamConfig) bool { return c.MaxMsgs == 0 }},
		"a subject limit is removed":  {change: func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 1 }, changed: true, check: func(c jetstream.StreamConfig) bool { return c.MaxMsgsPerSubject == 0 }},
		"no subject limit is kept":    {change: func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = -1 }, check: func(c jetstream.StreamConfig) bool { return c.MaxMsgsPerSubject == -1 }},
		"a shorter age is widened":    {change: func(c *jetstream.StreamConfig) { c.MaxAge = time.Minute }, changed: true, check: func(c jetstream.StreamConfig) bool { return c.MaxAge == time.Hour }},
		"a shorter window of ids":     {change: func(c *jetstream.StreamConfig) { c.Duplicates = 2 * time.Minute }, changed: true, check: func(c jetstream.StreamConfig) bool { return c.Duplicates == 30*time.Minute }},
		"a longer window is kept":     {change: func(c *jetstream.StreamConfig) { c.Duplicates = time.Hour }, check: func(c jetstream.StreamConfig) bool { return c.Duplicates == time.Hour }},
		"a missing subject is added":  {change: func(c *jetstream.StreamConfig) { c.Subjects = []string{"a.>", "x"} }, changed: true, check: func(c jetstream.StreamConfig) bool { return len(c.Subjects) == 3 }},
		"republishing is set":         {change: func(c *jetstream.StreamConfig) { c.RePublish = nil }, changed: true, check: func(c jetstream.StreamConfig) bool { return c.RePublish != nil }},
		"replicas are the operator's": {change: func(c *jetstream.StreamConfig) { c.Replicas = 3 }, check: func(c jetstream.StreamConfig) bool { return c.Replicas == 3 }},
		"memory storage is refused":   {change: func(c *jetstream.StreamConfig) { c.Storage = jetstream.MemoryStorage }, err: ErrIncompatible},
		"a work queue is refused":     {change: func(c *jetstream.StreamConfig) { c.Retention = jetstream.WorkQueuePolicy }, err: ErrIncompatible},
	} {
		t.Run(name, func(t *testing.T) {
			have := want
			tt.change(&have)
			next, what, err := reconcile(have, want)
			if !errors.Is(err, tt.err) || (what != "") != tt.changed {
				t.Fatalf("reconcile: change %q, error %v, want a change: %t, error %v", what, err, tt.changed, tt.err)
			}
			if tt.check != nil && !tt.check(next) {
				t.Fatalf("reconcile = %+v, want it as in the name of the test", next)
			}
		})
	}
}

// TestDuplicateWindow checks that the bus remembers the ids of alerts for as long as it keeps
// the telemetry from which a replay raises them again.
func TestDuplicateWindow(t *testing.T) {
	table := map[string]jetstream.StreamConfig{}
	for _, s := range Streams() {
		table[s.Name] = completed(s)
	}
	if remembered, kept := table[StreamAlerts].Duplicates, table[StreamTelemetry].MaxAge; remembered < kept {
		t.Errorf("duplicate window of %s = %s, want at least the %s of the telemetry", StreamAlerts, remembered, kept)
	}
}
