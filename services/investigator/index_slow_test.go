package investigator

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// slowBus returns an index on a bus behind a proxy.
func slowBus(t *testing.T, logger *slog.Logger) (*index, *bustest.Proxy) {
	t.Helper()
	rig := bustest.Cluster(t, 1)
	rig.Provision(bus.Layout{})
	rig.Ready()
	proxy := bustest.NewProxy(t, rig.URL())
	cfg := rig.Config(bus.RoleInvestigator)
	cfg.Name, cfg.Role, cfg.URL, cfg.Logger = "test", bus.RoleInvestigator, proxy.URL(), bustest.Quiet()
	c, err := bus.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	bustest.Eventually(t, "the bus answers", c.Connected)
	t.Cleanup(proxy.Restore)
	return newIndex(journal.New(c, bustest.Quiet()), logger, nil), proxy
}

// A list that can't learn in time what is stored shows what the index has.
func TestListOfASlowBus(t *testing.T) {
	x, proxy := slowBus(t, bustest.Quiet())
	proxy.Silence()
	if err := x.await(t.Context()); err != nil {
		t.Errorf("await on a bus that does not answer = %v, want nil", err)
	}
}

// notify is closed with the first line that is written to it.
type notify struct {
	once    sync.Once
	written chan struct{}
}

func (n *notify) Write(p []byte) (int, error) {
	n.once.Do(func() { close(n.written) })
	return len(p), nil
}

// A bus that does not answer at first, or can't be reached, is asked again: the index does not end.
func TestIndexStartsOnASlowBus(t *testing.T) {
	for name, interrupt := range map[string]func(*bustest.Proxy){"silent": (*bustest.Proxy).Silence, "unreachable": (*bustest.Proxy).Cut} {
		t.Run(name, func(t *testing.T) { startIndexWhile(t, interrupt) })
	}
}

func startIndexWhile(t *testing.T, interrupt func(*bustest.Proxy)) {
	asked := &notify{written: make(chan struct{})}
	x, proxy := slowBus(t, slog.New(slog.NewTextHandler(asked, nil)))
	interrupt(proxy)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- x.follow(ctx) }()
	select {
	case <-asked.written:
	case err := <-ended:
		t.Fatalf("follow ended with %v while the bus did not answer, want it to ask again", err)
	case <-ctx.Done():
		t.Fatal("nothing was logged within a minute, want that the bus is asked again")
	}
	proxy.Restore()
	if err := x.awaitReady(ctx); err != nil {
		t.Errorf("the index is not ready after the bus answered: %v", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("follow ended with %v, want %v", err, context.Canceled)
	}
}

// A retried session whose facts can't be read right now is read again: the index does not end.
func TestIndexReloadsOnASlowBus(t *testing.T) {
	asked := &notify{written: make(chan struct{})}
	x, proxy := slowBus(t, slog.New(slog.NewTextHandler(asked, nil)))
	id := journal.NewSession()
	var last journal.Message
	for _, f := range []session.Fact{
		{Submitted: &session.Submitted{ID: id, AlertType: "crash", Author: AuthorAPI}},
		{Ended: &session.Ended{Status: session.StatusFailed}},
		{Retried: &session.Retried{By: "ann"}},
	} {
		f.Time = time.Now()
		data, err := session.Encode([]session.Fact{f})
		if err != nil {
			t.Fatal(err)
		}
		seq, err := x.journal.Append(t.Context(), id, last.Seq, data)
		if err != nil {
			t.Fatal(err)
		}
		last = journal.Message{Session: id, Data: data, Seq: seq}
	}
	proxy.Cut()
	applied := make(chan error, 1)
	go func() { applied <- x.apply(t.Context(), last) }()
	select {
	case err := <-applied:
		t.Fatalf("apply of a retry ended with %v while the bus was unreachable, want it to wait", err)
	case <-asked.written:
	}
	proxy.Restore()
	if err := <-applied; err != nil {
		t.Errorf("apply of a retry = %v once the bus is back, want nil", err)
	}
	if e := x.find(id); e == nil || e.attempt != 2 || e.item.Status != session.StatusPending {
		t.Errorf("the index has %+v of the session, want its second attempt, pending", e)
	}
}
