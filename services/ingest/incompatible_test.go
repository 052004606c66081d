package ingest

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// TestIncompatibleBusEndsRun checks that Run fails, and does not hang, on a bus whose
// streams can't be made to fit.
func TestIncompatibleBusEndsRun(t *testing.T) {
	url := startNATS(t)
	cfg := bus.Config{Name: "test", Role: bus.RoleProvisioner, URL: url, Logger: quiet()}
	session, err := bus.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	bustest.Eventually(t, "connection", session.Connected)
	_, err = session.JS.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: bus.StreamAlerts, Subjects: []string{bus.AllAlerts},
		Storage: jetstream.MemoryStorage, Retention: jetstream.WorkQueuePolicy,
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		done <- Run(t.Context(), Config{Bus: bus.Config{URL: url}, Provision: true, Addr: "127.0.0.1:0", Logger: quiet(), Masker: fakeMasker{}})
	}()
	select {
	case err := <-done:
		if !errors.Is(err, bus.ErrIncompatible) {
			t.Errorf("Run = %v, want ErrIncompatible", err)
		}
	case <-time.After(5 * time.Second):
		t.Error("Run has not returned within 5 s, want ErrIncompatible")
	}
}
