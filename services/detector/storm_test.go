package detector_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestStormEndsInSilence checks that the only partition publishes ticks while alerts are
// suppressed, so that their summary leaves without further telemetry.
func TestStormEndsInSilence(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.detect(t, 0)
	all := make([]telemetry.Event, 60)
	for i := range all {
		all[i] = boom(word(i))
	}
	start := time.Now()
	r.send(t, all...)
	got := r.alerts(t, 51)
	if len(got) != 51 {
		t.Fatalf("%d alerts after %s, want 51 (50 and a summary)", len(got), time.Since(start).Round(time.Second))
	}
	last := got[50]
	if last.Title != "10 more different alerts" || last.Count != 10 || last.Source != alert.SourceStorm {
		t.Errorf("last alert = %q, count %d, source %s; want %q, count 10, source %s", last.Title, last.Count, last.Source, "10 more different alerts", alert.SourceStorm)
	}
}

// TestTicksWhileASpikeIsOpen checks that the only partition publishes ticks while a spike
// is open, so that the spike ends without further telemetry.
func TestTicksWhileASpikeIsOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.detect(t, 0)
	log, err := r.bus.Connect(bus.RoleDetector).JS.Stream(t.Context(), bus.StreamTelemetry)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]telemetry.Event, 12)
	for i := range all {
		all[i] = boom("it breaks")
	}
	r.send(t, all...)
	bustest.Eventually(t, "message on "+bus.SubjectIntakeTick+" while a spike is open", func() bool {
		info, err := log.Info(t.Context(), jetstream.WithSubjectFilter(bus.SubjectIntakeTick))
		return err == nil && info.State.Subjects[bus.SubjectIntakeTick] > 0
	})
}
