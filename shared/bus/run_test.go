package bus_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// runInBackground runs work on sessions, and returns a channel for the result of Run.
func runInBackground(ctx context.Context, l *bus.Link, work func(context.Context, *bus.Session) error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx, work) }()
	return done
}

// result waits for what Run returns.
func result(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		t.Fatal("timed out waiting for Run to return")
		return nil
	}
}

// TestRunOverAClosedSession: work is aborted with ErrClosed and started again on a new
// session; at the end of the context it stops with that context's cause.
func TestRunOverAClosedSession(t *testing.T) {
	b := bustest.Start(t)
	l := bus.NewLink(bus.RunConfig{Config: b.Config(bus.RoleGateway), Pause: time.Millisecond})
	if l.Session() != nil {
		t.Errorf("Session before Run = %v, want nil", l.Session())
	}
	if _, err := l.Connected(); !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("Connected before Run = %v, want ErrUnreachable", err)
	}
	errStop := errors.New("shutdown")
	ctx, cancel := context.WithCancelCause(t.Context())
	sessions := make(chan *bus.Session, 10)
	causes := make(chan error, 10)
	done := runInBackground(ctx, l, func(ctx context.Context, s *bus.Session) error {
		sessions <- s
		<-ctx.Done()
		causes <- context.Cause(ctx)
		if !errors.Is(context.Cause(ctx), bus.ErrClosed) && s.NC.IsClosed() {
			t.Error("the session is closed before work has returned, want it open")
		}
		return context.Cause(ctx)
	})
	first := <-sessions
	first.Close()
	if err := <-causes; !errors.Is(err, bus.ErrClosed) {
		t.Errorf("cause after a close = %v, want ErrClosed", err)
	}
	second := <-sessions
	if second == first || l.Session() != second {
		t.Errorf("second session = %p, newest %p, want one other than the first, %p", second, l.Session(), first)
	}
	bustest.Eventually(t, "connection", func() bool { s, err := l.Connected(); return err == nil && s == second })
	cancel(errStop)
	if err := <-causes; !errors.Is(err, errStop) {
		t.Errorf("cause at the end = %v, want that of the context", err)
	}
	if err := result(t, done); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
	if !second.NC.IsClosed() {
		t.Error("the session is open after Run, want it closed")
	}
}

// TestRunReadsTheKeyAgain: a key that the bus does not know closes a session; the next one
// reads it again.
func TestRunReadsTheKeyAgain(t *testing.T) {
	r := bustest.Cluster(t, 1)
	known, err := os.ReadFile(r.Creds(bus.RoleGateway))
	if err != nil {
		t.Fatal(err)
	}
	unknown, _, err := bus.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	cfg := r.Config(bus.RoleGateway)
	cfg.Creds = filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(cfg.Creds, unknown, 0o600); err != nil {
		t.Fatal(err)
	}
	states := make(chan error, 100)
	l := bus.NewLink(bus.RunConfig{Config: cfg, Pause: time.Millisecond, Reachable: func(err error) { states <- err }})
	ctx, cancel := context.WithCancel(t.Context())
	done := runInBackground(ctx, l, func(ctx context.Context, _ *bus.Session) error {
		<-ctx.Done()
		return nil
	})
	for {
		state := <-states
		if state == nil {
			t.Fatal("state with an unknown key = nil, want an error")
		}
		if errors.Is(state, bus.ErrClosed) && errors.Is(state, bus.ErrKey) {
			break
		}
	}
	if err := os.WriteFile(cfg.Creds, known, 0o600); err != nil {
		t.Fatal(err)
	}
	for <-states != nil {
	}
	r.Stop(0)
	if state := <-states; !errors.Is(state, bus.ErrUnreachable) {
		t.Errorf("state after the loss of the server = %v, want ErrUnreachable", state)
	}
	r.Start(0)
	if state := <-states; state != nil {
		t.Errorf("state after its restart = %v, want nil", state)
	}
	cancel()
	if err := result(t, done); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

func TestRunErrors(t *testing.T) {
	b := bustest.Start(t)
	errWork := errors.New("no work today")
	fail := func(context.Context, *bus.Session) error { return errWork }
	if err := bus.Run(t.Context(), bus.RunConfig{Config: b.Config(bus.RoleGateway)}, fail); !errors.Is(err, errWork) {
		t.Errorf("Run = %v, want the error of work", err)
	}
	finish := func(context.Context, *bus.Session) error { return nil }
	if err := bus.Run(t.Context(), bus.RunConfig{Config: b.Config(bus.RoleGateway)}, finish); err != nil {
		t.Errorf("Run of work that finishes = %v, want nil", err)
	}
	attempts := 0
	err := bus.Run(t.Context(), bus.RunConfig{
		Config: b.Config(bus.RoleGateway), Pause: time.Millisecond,
		Retry: func(err error) bool { attempts++; return errors.Is(err, errWork) && attempts < 3 },
	}, fail)
	if !errors.Is(err, errWork) || attempts != 3 {
		t.Errorf("Run with Retry = %v after %d attempts, want the error of work after 3", err, attempts)
	}
	noKey := bus.Config{Role: bus.RoleGateway, URL: b.Server.URL(), Creds: filepath.Join(t.TempDir(), "nosuch"), Logger: bustest.Quiet()}
	if err := bus.Run(t.Context(), bus.RunConfig{Config: noKey}, finish); err == nil || !strings.Contains(err.Error(), "TOCSIN_NATS_CREDS") {
		t.Errorf("Run without credentials = %v, want the error of Connect", err)
	}
	// Work that fails because of the end of the context does not fail Run; other work does.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for want, work := range map[error]error{nil: context.Canceled, errWork: errWork} {
		err := bus.Run(ctx, bus.RunConfig{Config: b.Config(bus.RoleGateway)}, func(context.Context, *bus.Session) error {
			cancel()
			return fmt.Errorf("wait: %w", work)
		})
		if !errors.Is(err, want) {
			t.Errorf("Run of work that ended with %v = %v, want %v", work, err, want)
		}
	}
}

// TestLinkFollow: a link follows a stream over closed sessions, restarted servers and a
// recreated stream, each message once.
func TestLinkFollow(t *testing.T) {
	b := bustest.Start(t)
	l := bus.NewLink(bus.RunConfig{Config: b.Config(bus.RoleGateway), Pause: time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	done := runInBackground(ctx, l, func(ctx context.Context, _ *bus.Session) error { <-ctx.Done(); return nil })
	var recreated atomic.Int32
	got := make(chan bus.Message, 100)
	followed := make(chan error, 1)
	go func() {
		followed <- l.Follow(ctx, bus.FollowConfig{
			Stream: bus.StreamAlerts, Logger: bustest.Quiet(), Recreated: func(bus.Position) { recreated.Add(1) },
		}, func(m bus.Message) error { got <- m; return nil })
	}()
	receive := func(n int) (texts []string) {
		t.Helper()
		for range n {
			select {
			case m := <-got:
				texts = append(texts, string(m.Data))
			case <-time.After(30 * time.Second):
				t.Fatalf("timed out waiting for %d messages, got %q", n, texts)
			}
		}
		return texts
	}
	store(t, b.Connect(bus.RoleDetector), 1, 2)
	texts := receive(2)
	l.Session().Close()
	store(t, b.Connect(bus.RoleDetector), 3, 4)
	texts = append(texts, receive(2)...)
	b.Restart()
	store(t, b.Connect(bus.RoleDetector), 5, 6)
	texts = append(texts, receive(2)...)
	if diff := cmp.Diff([]string{"1", "2", "3", "4", "5", "6"}, texts); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if n := recreated.Load(); n != 0 {
		t.Errorf("recreated %d times before the stream was, want 0", n)
	}

	admin := b.Connect(bus.RoleProvisioner)
	if err := admin.JS.DeleteStream(t.Context(), bus.StreamAlerts); err != nil {
		t.Fatal(err)
	}
	if err := bus.Provision(t.Context(), admin, bus.Layout{}, bustest.Quiet()); err != nil {
		t.Fatal(err)
	}
	store(t, b.Connect(bus.RoleDetector), 7, 8)
	if diff := cmp.Diff([]string{"7", "8"}, receive(2)); diff != "" {
		t.Errorf("messages of the recreated stream (-want +got):\n%s", diff)
	}
	if n := recreated.Load(); n != 1 {
		t.Errorf("recreated %d times, want 1", n)
	}
	cancel()
	if err := <-followed; !errors.Is(err, context.Canceled) {
		t.Errorf("Follow = %v, want the cause of its context", err)
	}
	if err := result(t, done); err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

func TestAwait(t *testing.T) {
	b := bustest.Start(t)
	b.Stop()
	s, err := bus.Connect(t.Context(), b.Config(bus.RoleGateway))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	var waits atomic.Int32
	waiting := make(chan error, 1)
	cfg := bus.AwaitConfig{Pause: time.Millisecond, Logger: bustest.Quiet(), Waiting: func(err error) {
		if waits.Add(1) == 1 {
			waiting <- err
		}
	}}
	attempts := 0
	done := make(chan error, 1)
	go func() {
		done <- s.Await(t.Context(), cfg, func(context.Context) error {
			if attempts++; attempts < 3 {
				return errors.New("not yet")
			}
			return nil
		})
	}()
	if err := <-waiting; !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("waits for %v, want ErrUnreachable", err)
	}
	b.Start()
	if err := result(t, done); err != nil || attempts != 3 {
		t.Errorf("Await = %v after %d attempts, want nil after 3", err, attempts)
	}
	if err := s.Await(t.Context(), cfg, func(context.Context) error { return bus.ErrIncompatible }); !errors.Is(err, bus.ErrIncompatible) {
		t.Errorf("Await of a permanent error = %v, want it", err)
	}
	errStop := errors.New("shutdown")
	ctx, cancel := context.WithCancelCause(t.Context())
	err = s.Await(ctx, cfg, func(context.Context) error { cancel(errStop); return errors.New("no") })
	if !errors.Is(err, errStop) {
		t.Errorf("Await in a context that ended = %v, want its cause", err)
	}
	err = s.Await(t.Context(), cfg, func(context.Context) error { s.Close(); return errors.New("no") })
	if !errors.Is(err, bus.ErrClosed) {
		t.Errorf("Await on a closed session = %v, want ErrClosed", err)
	}
}

func TestWithGrace(t *testing.T) {
	errStop, errLost := errors.New("shutdown"), errors.New("the lease is lost")
	for name, tt := range map[string]struct {
		cause error
		after time.Duration
		want  error
	}{
		"in order":          {errStop, 3 * time.Second, bus.ErrGrace},
		"closed session":    {fmt.Errorf("x: %w", bus.ErrClosed), 0, bus.ErrClosed},
		"one of the others": {errLost, 0, errLost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancelCause(t.Context())
				abort, cancel := bus.WithGrace(ctx, 3*time.Second, errLost)
				defer cancel()
				time.Sleep(time.Minute)
				if abort.Err() != nil {
					t.Fatalf("Err before the end of the context = %v, want nil", abort.Err())
				}
				begun := time.Now()
				stop(tt.cause)
				<-abort.Done()
				if got := time.Since(begun); got != tt.after {
					t.Errorf("it ended %s after the context, want %s", got, tt.after)
				}
				if got := context.Cause(abort); !errors.Is(got, tt.want) {
					t.Errorf("cause = %v, want %v", got, tt.want)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		abort, cancel := bus.WithGrace(ctx, time.Hour)
		stop()
		cancel()
		if !errors.Is(abort.Err(), context.Canceled) {
			t.Errorf("Err after cancel = %v, want context.Canceled", abort.Err())
		}
	})
}
