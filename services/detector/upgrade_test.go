package detector_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestUpgrade checks that a detector resumes from a snapshot of format version 4 whose
// telemetry is gone: it keeps the state, and does not raise again the alerts of the
// telemetry that the snapshot contains.
func TestUpgrade(t *testing.T) {
	r := newRig(t)
	r.detect(t, time.Hour)() // creates the streams and leaves them empty
	r.send(t, boom("raised before the upgrade"))
	c := r.bus.Connect(bus.RoleDetector)
	state, err := os.ReadFile("fold/testdata/version4.snapshot")
	if err != nil {
		t.Fatal(err)
	}
	position := map[string]any{"telemetry": 1, "alerts": 0}
	for name, stream := range map[string]string{"created": bus.StreamTelemetry, "alerts_created": bus.StreamAlerts} {
		s, err := c.JS.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		position[name] = s.CachedInfo().Created
	}
	header, err := json.Marshal(position)
	if err != nil {
		t.Fatal(err)
	}
	store, err := c.JS.ObjectStore(t.Context(), bus.BucketDetector)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutBytes(t.Context(), "fold", slices.Concat(header, []byte("\n"), state)); err != nil {
		t.Fatal(err)
	}

	stop := r.detect(t, time.Hour)
	lcp := 2000.0
	r.send(t, telemetry.Event{Kind: telemetry.KindMemory, App: "web", Memory: &telemetry.Memory{UsedBytes: 95, LimitBytes: 100}})
	r.send(t, telemetry.Event{Kind: telemetry.KindCircuit, App: "web", Circuit: &telemetry.Circuit{Name: "db", State: telemetry.CircuitOpen}})
	r.send(t, telemetry.Event{Kind: telemetry.KindNetwork, App: "web", Network: &telemetry.Network{Method: "GET", URL: "/legacy/x", Status: 500}})
	r.send(t, telemetry.Event{Kind: telemetry.KindVitals, App: "web", URL: "/cart", Vitals: &telemetry.Vitals{LCP: &lcp}})
	r.send(t, telemetry.Event{Kind: telemetry.KindMemory, App: "web", Memory: &telemetry.Memory{UsedBytes: 10, LimitBytes: 100}})
	want := []string{"LCP regressed 100% on /cart", "Memory is back to normal"}
	if got := r.titles(t, len(want)); !slices.Equal(got, want) {
		t.Errorf("alerts = %q, want %q", got, want)
	}
	rules := ask[query.NoiseReply](t, r, query.SubjectNoise, query.NoiseRequest{Action: query.NoiseList})
	if len(rules.Rules) != 2 || rules.Rules[0].Pattern != "/legacy" || rules.Rules[1].Pattern != "tick <n>" {
		t.Errorf("noise rules = %+v, want the patterns %q and %q", rules.Rules, "/legacy", "tick <n>")
	}
	stop()

	// It also resumes from its own snapshot.
	r.detect(t, time.Hour)
	r.send(t, telemetry.Event{Kind: telemetry.KindCircuit, App: "web", Circuit: &telemetry.Circuit{Name: "db", State: telemetry.CircuitClosed}})
	want = append(want, "Circuit db is closed again")
	if got := r.titles(t, len(want)); !slices.Equal(got, want) {
		t.Errorf("alerts = %q, want %q", got, want)
	}
}

// titles returns the titles of all alerts once there are n, or after 20 s.
func (r *rig) titles(t *testing.T, n int) (titles []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := r.gateway.Follow(ctx, bus.FollowConfig{Stream: bus.StreamAlerts, Logger: bustest.Quiet()}, func(m bus.Message) error {
		var a alert.Alert
		if err := json.Unmarshal(m.Data, &a); err != nil {
			return fmt.Errorf("alert %d: %w", m.Seq, err)
		}
		titles = append(titles, a.Title)
		if len(titles) >= n && m.Pending == 0 {
			return bus.ErrStop
		}
		return nil
	})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	return titles
}
