package notify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// double is a sink of which the test says how it is.
type double struct {
	got  []delivery
	err  error
	hang bool
}

func (s *double) deliver(ctx context.Context, d delivery) error {
	if s.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if s.err == nil {
		s.got = append(s.got, d)
	}
	return s.err
}

// courierOf makes a running Dispatcher; end stops it and waits.
func courierOf(log *slog.Logger, sinks ...sink) (c *Dispatcher, end func()) {
	c = &Dispatcher{level: Info, in: make(chan Notice, waiting), limit: newLimit(), log: log}
	for i, s := range sinks {
		c.outlets = append(c.outlets, newOutlet(fmt.Sprintf("sink%d", i), time.Minute, s, log))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	return c, func() { cancel(); <-done }
}

// tell tells n notices, each in a context of its own so that none is held back.
func tell(c *Dispatcher, n int) {
	for i := range n {
		c.Send(Notice{Message: "m", Level: Info, Context: fmt.Sprint(i)})
	}
}

// TestHangingSinkHoldsUpNobody: neither who tells, nor the other sink.
func TestHangingSinkHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, good := &double{hang: true}, &double{}
		var log bytes.Buffer
		c, end := courierOf(slog.New(slog.NewTextHandler(&log, nil)), slow, good)
		begun := time.Now()
		for range 3 {
			tell(c, 10)
			synctest.Wait()
		}
		if took := time.Since(begun); took != 0 || len(good.got) != 30 {
			t.Errorf("30 were told in %s; the good sink got %d", took, len(good.got))
		}
		h := c.Health()
		if h[0].Dropped != 30-1-queued || h[1].Sent != 30 || h[1].Dropped != 0 {
			t.Errorf("%+v", h)
		}
		end()
		if took := time.Since(begun); took != endWithin {
			t.Errorf("the end took %s", took)
		}
		if text := log.String(); strings.Count(text, "too slow") != 1 || !strings.Contains(text, "notices were not delivered") {
			t.Error(text)
		}
	})
}

// TestFailingSinkIsLoggedOnce: when it begins, and when it is over.
func TestFailingSinkIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &double{err: errors.New("no route")}
		var log bytes.Buffer
		c, end := courierOf(slog.New(slog.NewTextHandler(&log, nil)), s)
		tell(c, 4)
		synctest.Wait()
		s.err = nil
		tell(c, 2)
		synctest.Wait()
		if h := c.Health()[0]; h != (Health{Sink: "sink0", Sent: 2, Failed: 4}) {
			t.Errorf("%+v", h)
		}
		end()
		if text := log.String(); strings.Count(text, "no route") != 1 || strings.Count(text, "delivered again") != 1 || strings.Count(text, "\n") != 2 {
			t.Error(text)
		}
	})
}

// TestWhatWasToldIsDelivered at the end too.
func TestWhatWasToldIsDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &double{}
		c, end := courierOf(quiet(), s)
		tell(c, queued)
		end()
		if len(s.got) != queued {
			t.Errorf("%d of %d", len(s.got), queued)
		}
		c.Send(Notice{}) // nobody takes it, and nobody waits
	})
}

func TestHeldBackAreToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &double{}
		c, end := courierOf(quiet(), s)
		defer end()
		for range burst + 3 {
			c.Send(Notice{Message: "m", Context: "llm"})
		}
		synctest.Wait()
		if len(s.got) != burst {
			t.Fatalf("%d were delivered", len(s.got))
		}
		c.Send(Notice{Message: "m", Context: "llm", Client: "another"})
		synctest.Wait()
		if len(s.got) != burst+1 {
			t.Fatalf("%d were delivered, another client's included", len(s.got))
		}
		time.Sleep(every)
		c.Send(Notice{Message: "m", Context: "llm"})
		synctest.Wait()
		if last := s.got[len(s.got)-1]; len(s.got) != burst+2 || last.HeldBack != 3 {
			t.Errorf("%d were delivered, the last with %d held back", len(s.got), last.HeldBack)
		}
	})
}

func TestLevelOfSinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &double{}
		c, end := courierOf(quiet(), s)
		defer end()
		c.level = Warn
		for range burst {
			c.Send(Notice{Level: Info, Context: "llm"}) // these use up nothing
		}
		c.Send(Notice{Level: Warn, Context: "llm"})
		c.Send(Notice{Level: Error, Context: "llm"})
		synctest.Wait()
		if len(s.got) != 2 || s.got[0].Level != Warn || s.got[1].HeldBack != 0 {
			t.Errorf("%+v", s.got)
		}
	})
}

func TestNoSinks(t *testing.T) {
	c, err := New(Settings{}, quiet())
	if c != nil || err != nil {
		t.Fatal(c, err)
	}
	c.Send(Notice{})
	c.Run(t.Context())
	if c.Health() != nil {
		t.Error("there are no sinks")
	}
}

// TestDetached: what hangs is left alone, and nothing else is begun until it is
// over.
func TestDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDetached()
		release := make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.run(ctx, func() error { <-release; return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if err := d.run(t.Context(), func() error { t.Error("it runs"); return nil }); !errors.Is(err, errStuck) {
			t.Error(err)
		}
		close(release)
		synctest.Wait()
		if err := d.run(t.Context(), func() error { return nil }); err != nil {
			t.Error(err)
		}
	})
}

func BenchmarkTell(b *testing.B) {
	c, end := courierOf(quiet(), &double{hang: true})
	defer end()
	b.ReportAllocs()
	for b.Loop() {
		c.Send(Notice{Message: "m", Context: "llm"})
	}
}
