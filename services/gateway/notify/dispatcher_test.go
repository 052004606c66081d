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

	"github.com/google/go-cmp/cmp"
)

// fakeSink records deliveries, fails or hangs.
type fakeSink struct {
	got  []delivery
	err  error
	hang bool
}

func (s *fakeSink) deliver(ctx context.Context, d delivery) error {
	if s.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if s.err == nil {
		s.got = append(s.got, d)
	}
	return s.err
}

// runDispatcher starts a Dispatcher; end stops it and waits.
func runDispatcher(log *slog.Logger, sinks ...sink) (d *Dispatcher, end func()) {
	d = &Dispatcher{level: Info, in: make(chan Notice, inputQueue), limit: newRateLimit(), log: log}
	for i, s := range sinks {
		d.sinks = append(d.sinks, newSinkWorker(fmt.Sprintf("sink%d", i), time.Minute, s, log))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); d.Run(ctx) }()
	return d, func() { cancel(); <-done }
}

// send sends n notices, each in a context of its own so that none is suppressed.
func send(d *Dispatcher, n int) {
	for i := range n {
		d.Send(Notice{Message: "m", Level: Info, Context: fmt.Sprint(i)})
	}
}

// TestHangingSink delays neither the sender nor the other sink.
func TestHangingSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, good := &fakeSink{hang: true}, &fakeSink{}
		var log bytes.Buffer
		d, end := runDispatcher(slog.New(slog.NewTextHandler(&log, nil)), slow, good)
		begun := time.Now()
		for range 3 {
			send(d, 10)
			synctest.Wait()
		}
		if took := time.Since(begun); took != 0 || len(good.got) != 30 {
			t.Errorf("30 notices sent in %s, the other sink got %d, want 0s and 30", took, len(good.got))
		}
		want := []Health{{Sink: "sink0", Dropped: 30 - 1 - sinkQueue}, {Sink: "sink1", Sent: 30}}
		if diff := cmp.Diff(want, d.Health()); diff != "" {
			t.Errorf("Health (-want +got):\n%s", diff)
		}
		end()
		if took := time.Since(begun); took != endTimeout {
			t.Errorf("Run returned after %s, want %s", took, endTimeout)
		}
		if text := log.String(); strings.Count(text, "too slow") != 1 || !strings.Contains(text, "notices were not delivered") {
			t.Errorf("log = %s, want one line about the slow sink and one about the rest", text)
		}
	})
}

// TestFailingSinkIsLoggedOnce when failures begin, and once when they end.
func TestFailingSinkIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSink{err: errors.New("no route")}
		var log bytes.Buffer
		d, end := runDispatcher(slog.New(slog.NewTextHandler(&log, nil)), s)
		send(d, 4)
		synctest.Wait()
		s.err = nil
		send(d, 2)
		synctest.Wait()
		if diff := cmp.Diff([]Health{{Sink: "sink0", Sent: 2, Failed: 4}}, d.Health()); diff != "" {
			t.Errorf("Health (-want +got):\n%s", diff)
		}
		end()
		if text := log.String(); strings.Count(text, "no route") != 1 || strings.Count(text, "delivered again") != 1 || strings.Count(text, "\n") != 2 {
			t.Errorf("log = %s, want one line for the begin and one for the end", text)
		}
	})
}

// TestEndDelivers: notices sent before the end are delivered.
func TestEndDelivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSink{}
		d, end := runDispatcher(quiet(), s)
		send(d, sinkQueue)
		end()
		if len(s.got) != sinkQueue {
			t.Errorf("%d delivered, want %d", len(s.got), sinkQueue)
		}
		d.Send(Notice{}) // does not block
	})
}

func TestSuppressedAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSink{}
		d, end := runDispatcher(quiet(), s)
		defer end()
		for range contextBurst + 3 {
			d.Send(Notice{Message: "m", Context: "llm"})
		}
		synctest.Wait()
		if len(s.got) != contextBurst {
			t.Fatalf("%d delivered, want %d", len(s.got), contextBurst)
		}
		d.Send(Notice{Message: "m", Context: "llm", Client: "another"})
		synctest.Wait()
		if len(s.got) != contextBurst+1 {
			t.Fatalf("%d delivered with another client's, want %d", len(s.got), contextBurst+1)
		}
		time.Sleep(contextInterval)
		d.Send(Notice{Message: "m", Context: "llm"})
		synctest.Wait()
		if last := s.got[len(s.got)-1]; len(s.got) != contextBurst+2 || last.Suppressed != 3 {
			t.Errorf("%d delivered, the last with %d suppressed, want %d and 3", len(s.got), last.Suppressed, contextBurst+2)
		}
	})
}

func TestLevelOfSinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSink{}
		d, end := runDispatcher(quiet(), s)
		defer end()
		d.level = Warn
		for range contextBurst {
			d.Send(Notice{Level: Info, Context: "llm"}) // below the level: not counted
		}
		d.Send(Notice{Level: Warn, Context: "llm"})
		d.Send(Notice{Level: Error, Context: "llm"})
		synctest.Wait()
		want := []delivery{{Notice: Notice{Level: Warn, Context: "llm"}}, {Notice: Notice{Level: Error, Context: "llm"}}}
		if diff := cmp.Diff(want, s.got); diff != "" {
			t.Errorf("deliveries (-want +got):\n%s", diff)
		}
	})
}

func TestNoSinks(t *testing.T) {
	d, err := New(Settings{}, quiet())
	if d != nil || err != nil {
		t.Fatalf("New without sinks = %v, %v, want nil, nil", d, err)
	}
	d.Send(Notice{})
	d.Run(t.Context())
	if h := d.Health(); h != nil {
		t.Errorf("Health without sinks = %+v, want nil", h)
	}
}

// TestDetached: while a function hangs, no other one is started.
func TestDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newSerialRunner()
		release := make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := d.run(ctx, func() error { <-release; return nil }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("run of a function that hangs = %v, want %v", err, context.DeadlineExceeded)
		}
		if err := d.run(t.Context(), func() error { t.Error("a second function runs"); return nil }); !errors.Is(err, errStuck) {
			t.Errorf("run while one hangs = %v, want %v", err, errStuck)
		}
		close(release)
		synctest.Wait()
		if err := d.run(t.Context(), func() error { return nil }); err != nil {
			t.Errorf("run after it returned = %v, want nil", err)
		}
	})
}

func BenchmarkSend(b *testing.B) {
	d, end := runDispatcher(quiet(), &fakeSink{hang: true})
	defer end()
	b.ReportAllocs()
	for b.Loop() {
		d.Send(Notice{Message: "m", Context: "llm"})
	}
}
