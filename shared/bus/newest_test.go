package bus_test

import (
	"errors"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// TestNewest checks that a role that may only read by direct get finds the newest alert.
func TestNewest(t *testing.T) {
	dir := bustest.OpenDir(t)
	s, _ := serve(t, dir)
	detector := connect(t, bus.Config{Name: "d", Role: bus.RoleDetector, Server: s})
	c := connect(t, bus.Config{Name: "b", Role: bus.RoleDashboard, Server: s})
	if _, found, err := c.Newest(t.Context(), bus.StreamAlerts, bus.AllAlerts); err != nil || found {
		t.Fatalf("Newest of an empty stream: found = %t, %v, want false", found, err)
	}
	for _, app := range []string{"a", "b", "a"} {
		if _, err := detector.JS.Publish(t.Context(), bus.AlertSubject(alert.Alert{App: app, Category: alert.CI, Severity: alert.Info}), []byte(app)); err != nil {
			t.Fatal(err)
		}
	}
	for subject, want := range map[string]uint64{bus.AllAlerts: 3, "alerts.b.>": 2, "alerts.c.>": 0} {
		m, found, err := c.Newest(t.Context(), bus.StreamAlerts, subject)
		if err != nil || found != (want > 0) || m.Seq != want || found && m.Time.IsZero() {
			t.Errorf("Newest of %s = %+v, %t, %v, want sequence %d", subject, m, found, err, want)
		}
	}
	if _, _, err := c.Newest(t.Context(), "NOSUCH", bus.AllAlerts); !errors.Is(err, bus.ErrDenied) {
		t.Errorf("Newest of a stream that the role may not read = %v, want ErrDenied", err)
	}
}
