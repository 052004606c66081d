// Package testrig has what the tests of the gateway's packages share: a bus that can be
// stopped and restarted, alerts, and the calls of an agent's hooks.
//
// It has nothing of a gateway: tests that need one run it themselves.
package testrig

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// Patience bounds every wait.
const Patience = 20 * time.Second

// Bus is a bus that can be stopped and restarted, without a detector: the tests publish
// the alerts themselves.
type Bus struct {
	*bustest.Bus
	// Conn is a session in the role of the detector.
	Conn *bus.Session
	n    int
}

// New starts a bus that ends with the test.
func New(t *testing.T) *Bus {
	t.Helper()
	b := &Bus{Bus: bustest.Start(t)}
	b.connect(t)
	t.Cleanup(b.Down)
	return b
}

func (b *Bus) connect(t *testing.T) {
	t.Helper()
	var err error
	b.Conn, err = bus.Connect(t.Context(), bus.Config{Name: t.Name(), Role: bus.RoleDetector, Server: b.Server, Logger: Quiet()})
	if err != nil {
		t.Fatal(err)
	}
}

// Up starts the bus after [Bus.Down], at another address.
func (b *Bus) Up(t *testing.T) {
	t.Helper()
	b.Start()
	b.connect(t)
}

// Down stops the bus.
func (b *Bus) Down() {
	if b.Server == nil {
		return
	}
	b.Conn.Close()
	b.Stop()
}

// Join returns a session in a role that ends with the test.
func (b *Bus) Join(t *testing.T, role bus.Role) *bus.Session {
	t.Helper()
	return b.Connect(role)
}

// Publish publishes an alert as a detector does.
func (b *Bus) Publish(t *testing.T, a alert.Alert) {
	t.Helper()
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	b.PublishRaw(t, bus.AlertSubject(a), data)
}

// PublishRaw publishes a message as it is.
func (b *Bus) PublishRaw(t *testing.T, subject string, data []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	if _, err := b.Conn.JS.Publish(ctx, subject, data); err != nil {
		t.Fatal(err)
	}
}

// Alert returns an alert with an id of its own: alert01, alert02 and so on.
func (b *Bus) Alert(severity alert.Severity) alert.Alert {
	b.n++
	id := fmt.Sprintf("alert%02d", b.n)
	return alert.Alert{
		ID: id, Severity: severity, Category: alert.CI, Title: "CI result " + id, Detail: "1 failed", App: "web",
		Timestamp: time.Date(2026, 1, 28, 14, 30, b.n, 0, time.UTC), Source: alert.SourceCI, DedupKey: "ci:" + id, CorrelationID: id,
	}
}

// Quiet returns a logger that discards everything.
func Quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Poll calls ok until it returns true, for at most Patience, and reports whether it did.
func Poll(ok func() bool) bool {
	deadline := time.After(Patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			return false
		case <-tick.C:
		}
	}
	return true
}
