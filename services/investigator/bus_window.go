package investigator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/services/investigator/recent"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// How far back the window goes at its start. It remembers what arrives later as long as its
// bounds in package recent allow.
const (
	alertsBefore     = 7 * 24 * time.Hour
	kubernetesBefore = 6 * time.Hour
	resultsBefore    = 7 * 24 * time.Hour
)

// busWindow follows the streams ALERTS, KUBERNETES and CI, and remembers what is recent, masked.
// It serves what Tocsin knows without a model, and the built-in server. It is safe for
// concurrent use.
type busWindow struct {
	mask *redact.Engine
	log  *slog.Logger

	mu       sync.RWMutex
	alerts   recent.Alerts
	clusters recent.Clusters
	results  recent.Results
	session  *bus.Session
	streams  map[string]*windowStream
}

// windowStream is how far the window has read one stream.
type windowStream struct {
	position bus.Position
	// handled is the sequence up to which everything was handled, in the stream created at
	// created. behind is the end of the stream when following started.
	handled, behind uint64
	created         time.Time
	changed         chan struct{} // closed, and replaced, when handled or created changes
}

func newBusWindow(mask *redact.Engine, log *slog.Logger) *busWindow {
	w := &busWindow{mask: mask, log: log, streams: map[string]*windowStream{}}
	for _, s := range windowed {
		w.streams[s.stream] = &windowStream{changed: make(chan struct{})}
	}
	return w
}

// Run follows the streams on a session until ctx ends or the session is closed. It may be called
// again with another session.
func (w *busWindow) Run(ctx context.Context, s *bus.Session) error {
	w.mu.Lock()
	w.session = s
	w.mu.Unlock()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.follow(ctx, s, bus.StreamAlerts, alertsBefore, w.addAlert, w.forgetAlerts) })
	group.Go(func() error {
		return w.follow(ctx, s, bus.StreamKubernetes, kubernetesBefore, w.addMessage, w.forgetMessages)
	})
	group.Go(func() error { return w.follow(ctx, s, bus.StreamCI, resultsBefore, w.addResult, w.forgetResults) })
	return group.Wait()
}

// follow reads one stream. add and forget are called with the lock held.
func (w *busWindow) follow(ctx context.Context, s *bus.Session, stream string, before time.Duration, add func(bus.Message), forget func()) error {
	var state bus.State
	err := s.Await(ctx, bus.AwaitConfig{Logger: w.log}, func(ctx context.Context) (err error) {
		state, err = s.State(ctx, stream)
		return err
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	at := w.streams[stream]
	if at.created.Equal(state.Created) || at.position.IsZero() {
		at.created, at.behind = state.Created, state.Last
		at.advance(at.handled)
	}
	cfg := bus.FollowConfig{Stream: stream, After: at.position, Logger: w.log}
	w.mu.Unlock()
	if cfg.After.IsZero() {
		cfg.Since = time.Now().Add(-before)
	}
	cfg.Recreated = func(beginning bus.Position) {
		w.mu.Lock()
		defer w.mu.Unlock()
		forget()
		at.position, at.created, at.behind = beginning, beginning.Created, 0
		at.advance(0)
	}
	cfg.Started = func(pending uint64) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if pending == 0 {
			at.advance(at.behind)
		}
	}
	return s.Follow(ctx, cfg, func(m bus.Message) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		add(m)
		at.position = m.Position()
		if !m.Created.Equal(at.created) {
			at.created, at.behind = m.Created, 0
		}
		handled := m.Seq
		if m.Pending == 0 {
			handled = max(handled, at.behind) // what was between them is deleted
		}
		at.advance(handled)
		return nil
	})
}

func (at *windowStream) advance(handled uint64) {
	at.handled = handled
	close(at.changed)
	at.changed = make(chan struct{})
}

// await waits until everything is in the window that a stream holds now.
func (w *busWindow) await(ctx context.Context, stream string) error {
	w.mu.RLock()
	s := w.session
	w.mu.RUnlock()
	if s == nil {
		return bus.ErrUnreachable
	}
	state, err := s.State(ctx, stream)
	if err != nil {
		return err
	}
	for {
		w.mu.RLock()
		at := w.streams[stream]
		done, changed := at.has(state)
		w.mu.RUnlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("read the stream %s to its end: %w", stream, context.Cause(ctx))
		}
	}
}

// windowed are the streams of the window, as facts and answers name what they hold.
var windowed = []struct{ stream, what string }{
	{bus.StreamAlerts, "alerts"}, {bus.StreamKubernetes, "messages of Kubernetes clusters"}, {bus.StreamCI, "CI results"},
}

// catchUp waits until ctx ends for everything that the streams hold, and returns what was not read.
// Without streams it waits for all.
func (w *busWindow) catchUp(ctx context.Context, streams ...string) (missing []string) {
	errs := make([]error, len(windowed))
	var wg sync.WaitGroup
	for i, s := range windowed {
		if len(streams) == 0 || slices.Contains(streams, s.stream) {
			wg.Go(func() { errs[i] = w.await(ctx, s.stream) })
		}
	}
	wg.Wait()
	for i, err := range errs {
		switch {
		case err == nil:
		case errors.Is(err, context.DeadlineExceeded):
			missing = append(missing, fmt.Sprintf("the newest %s: the bus did not send them in time", windowed[i].what))
		default:
			missing = append(missing, fmt.Sprintf("the newest %s: the bus could not be read", windowed[i].what))
		}
	}
	return missing
}

// has reports whether everything was handled that a stream holds. Where it was not, the channel is closed
// when that may have changed.
func (at *windowStream) has(state bus.State) (bool, <-chan struct{}) {
	return at.created.Equal(state.Created) && at.handled >= state.Last, at.changed
}

func (w *busWindow) addAlert(m bus.Message) {
	var a alert.Alert
	if err := json.Unmarshal(m.Data, &a); err != nil {
		w.log.Warn("skipped a message that is not an alert", "subject", m.Subject, "sequence", m.Seq, "error", err)
		return
	}
	w.alerts.Add(display.Alert(a, w.mask), len(m.Data))
}

func (w *busWindow) addMessage(m bus.Message) {
	if isNormalEvent(m.Subject) {
		return
	}
	var message kube.Message
	if err := json.Unmarshal(m.Data, &message); err != nil {
		w.log.Warn("skipped a message that is not from Kubernetes", "subject", m.Subject, "sequence", m.Seq, "error", err)
		return
	}
	w.clusters.Add(display.Kubernetes(message, w.mask), m.Time, len(m.Data))
}

func (w *busWindow) addResult(m bus.Message) {
	r, err := ci.Decode(m.Data)
	if err != nil {
		w.log.Warn("skipped a message that is not a CI result", "subject", m.Subject, "sequence", m.Seq, "error", err)
		return
	}
	w.results.Add(display.Result(r, w.mask), m.Time)
}

func (w *busWindow) forgetAlerts()   { w.alerts = recent.Alerts{} }
func (w *busWindow) forgetMessages() { w.clusters = recent.Clusters{} }
func (w *busWindow) forgetResults()  { w.results = recent.Results{} }

// isNormalEvent reports whether a message of KUBERNETES is an event of the type Normal. There are
// many, and the window does not remember them.
func isNormalEvent(subject string) bool {
	tokens := strings.SplitN(subject, ".", 5)
	return len(tokens) == 5 && strings.EqualFold(tokens[3], kube.TypeNormal)
}

// view calls f with what is remembered. f must not keep it.
func (w *busWindow) view(f func(a *recent.Alerts, c *recent.Clusters, r *recent.Results)) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	f(&w.alerts, &w.clusters, &w.results)
}
