package detector_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestStormEndsInSilence: the only partition, to which no other one writes the time, writes
// it down itself while alerts are held back, so that their summary leaves.
func TestStormEndsInSilence(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.detect(t, 0)
	all := make([]telemetry.Event, 60)
	for i := range all {
		all[i] = boom(word(i))
	}
	begin := time.Now()
	r.send(t, all...)
	got := r.alerts(t, 51)
	if len(got) != 51 {
		t.Fatalf("%d alerts about errors after %s, want 50 and a summary", len(got), time.Since(begin).Round(time.Second))
	}
	last := got[50]
	if last.Title != "10 more different alerts" || last.Count != 10 || last.Source != alert.SourceStorm {
		t.Errorf("got %q, count %d, of %s; want 10 more different alerts", last.Title, last.Count, last.Source)
	}
}

// TestTimeGoesOnWhileASpikeIsOpen: the only partition writes the time down while a spike
// is open, which ends by it when whatever sent the errors has gone.
func TestTimeGoesOnWhileASpikeIsOpen(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.detect(t, 0)
	log, err := r.connect(t, bus.RoleDetector).JS.Stream(t.Context(), bus.StreamTelemetry)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]telemetry.Event, 12)
	for i := range all {
		all[i] = boom("it breaks")
	}
	r.send(t, all...)
	eventually(t, "message on "+bus.SubjectIntakeTick+" while a spike is open", func() bool {
		info, err := log.Info(t.Context(), jetstream.WithSubjectFilter(bus.SubjectIntakeTick))
		return err == nil && info.State.Subjects[bus.SubjectIntakeTick] > 0
	})
}
