package detector

import (
	"maps"
	"slices"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

func TestIndependent(t *testing.T) {
	raised := alert.Alert{ID: "a"}
	revision, resolution := alert.Alert{ID: "b", Revises: "a"}, alert.Alert{ID: "c", Resolves: "a"}
	for _, tt := range []struct {
		name  string
		batch []alert.Alert
		want  []int
	}{
		{"one", []alert.Alert{raised}, []int{1}},
		{"a revision of an alert before the batch", []alert.Alert{revision}, []int{1}},
		{"new alerts go together", []alert.Alert{raised, raised, raised}, []int{3}},
		{"a revision waits for its alert", []alert.Alert{raised, raised, revision, raised}, []int{2, 2}},
		{"a resolution waits for its alert", []alert.Alert{raised, resolution}, []int{1, 1}},
		{"each waits for the one before", []alert.Alert{raised, revision, revision, resolution}, []int{1, 1, 1, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []int
			for rest := tt.batch; len(rest) > 0; {
				n := independent(rest)
				got, rest = append(got, n), rest[n:]
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("batch is split into %v, want %v", got, tt.want)
			}
		})
	}
}

// TestPublishedSince: a replay takes the detector's own alerts for published, and not the
// investigator's revisions of them.
func TestPublishedSince(t *testing.T) {
	s := bustest.Start(t).Connect(bus.RoleDetector)
	publisher, err := bus.NewPublisher(s, 2)
	if err != nil {
		t.Fatal(err)
	}
	raised := alert.Alert{ID: "a1", App: "web", Severity: alert.Error, Category: alert.Errors}
	for _, a := range []alert.Alert{raised, alert.RevisionFor(raised, alert.Investigation{SessionID: "s", Status: alert.InvestigationInProgress})} {
		m, err := alertMessage(a)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := publisher.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	ids, err := publishedSince(t.Context(), s, bus.Position{}, bustest.Quiet())
	if want := map[string]struct{}{"a1": {}}; err != nil || !maps.Equal(ids, want) {
		t.Errorf("got %v and the error %v, want %v", ids, err, want)
	}
}
