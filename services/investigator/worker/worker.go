// Package worker executes investigation sessions: it claims them from the queue, asks
// [session.Next] what is due, does it, and stores what came of it.
//
// One goroutine has a session. It folds the session's facts, appends the facts that are due, and
// starts the effects that are due: calls of models, calls of tools. An effect runs in a goroutine
// of its own, starts once for its key, and is cancelled once its key is no longer named. What it
// returns is appended together with what follows from it, so that an iteration costs one append.
//
// Others may append too: people who cancel, alerts that are noted, and a worker that took the
// session over. Each append expects the last sequence that this worker knows. A conflict means
// that it reads what is new and decides again, or stops where another worker has claimed the
// session since. An effect starts only while the claim is valid.
//
// The package knows no provider, no MCP server and no subject: see the interfaces of [Config].
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// The bounds of a worker.
const (
	// drainTimeout is how long a shutdown may take. Sessions that are not given back by then
	// are taken over like those of a process that was killed.
	drainTimeout = 4 * time.Second
	// pollInterval is the interval at which a session's log is read without a notification. See
	// [Worker.Appended].
	pollInterval = 3 * time.Second
	// minPause and maxPause bound the wait before a request to the bus is made again. It
	// doubles.
	minPause = 50 * time.Millisecond
	maxPause = time.Second
	// hookTimeout bounds one run of a hook, and hookTurn the tries of the hook of the end while the
	// session has a place: then it goes to the end of the queue, behind the sessions that wait. After
	// that it has one try each time it is claimed. maxTurns bounds its claims; then it
	// leaves the queue without the hook: after 3 h or more, in which the bus was reachable.
	hookTimeout = 10 * time.Second
	hookTurn    = 15 * time.Second
	maxTurns    = 10_000
	// loggedTurns is the number of turns from one warning about them to the next.
	loggedTurns = 100
	// gatherTimeout bounds [Gatherer.Gather], beyond its own bound of 30 ms.
	gatherTimeout = 500 * time.Millisecond
)

// Journal stores the facts of sessions. It is a [journal.Journal].
type Journal interface {
	// Append appends a message where the log still ends with the message at expectedLast. The
	// error wraps [journal.ErrConflict] where it does not.
	Append(ctx context.Context, session string, expectedLast uint64, data []byte) (uint64, error)
	// Read returns the messages after a sequence. It has all that were acknowledged before.
	Read(ctx context.Context, session string, after uint64) ([]journal.Message, error)
	// PublishChunks publishes a part of an answer to those who watch right now.
	PublishChunks(session string, data []byte) error
}

// Texts stores the long texts of sessions under their digests. It is a [journal.TextStore].
type Texts interface {
	Put(ctx context.Context, session string, text []byte) (digest string, err error)
	Get(ctx context.Context, session, digest string) ([]byte, error)
}

// Queue has the sessions that wait for a worker, oldest first. See [NewQueue].
type Queue interface {
	// SetLimit sets how many claims may be in force at once, over all processes.
	SetLimit(ctx context.Context, limit int) error
	// Next waits for a session and claims it.
	Next(ctx context.Context) (Claim, error)
}

// Claim is the right to work on a session until it is done, given back, or lost. It renews
// itself while the bus can be reached.
type Claim interface {
	Session() string
	// Attempt is the number of the attempt that is queued, from 1.
	Attempt() int
	// Requeued is the number of times that Requeue has put the attempt back.
	Requeued() int
	// Valid reports whether an effect may start now: the bus gives the session to no other worker
	// for a second at least. A claim that was not valid once stays so.
	Valid() bool
	// Over is closed when the claim is no longer valid.
	Over() <-chan struct{}
	// Done takes the attempt from the queue. Release gives it back at once. Requeue moves it to the
	// end of the queue; it is in the queue at any moment.
	Done() error
	Release()
	Requeue() error
}

// Models has the entries of llm_providers.
type Models interface {
	// Model returns the client of an entry, and false where there is none. Last means that no
	// fallback is left: the client waits for a provider that failed often.
	Model(provider session.Provider, last bool) (Model, bool)
}

// Model asks one provider, with retries. See [model.Client].
type Model interface {
	Ask(ctx context.Context, r model.Request, onChunk func(attempt int, c model.Chunk)) (model.Answer, error)
}

// Tools opens the tools of executions.
type Tools interface {
	// Open returns the tools of an execution. It connects to the servers in the background.
	Open(submitted session.Submitted, servers []session.Server) ToolSet
}

// ToolSet is the tools of one execution. Its texts are masked.
type ToolSet interface {
	// List returns what the servers offer, in their order. It is called once at most, and not
	// where another worker listed the tools before: those are called as they were listed.
	List(ctx context.Context) []session.Listed
	// Call calls a tool as it was listed. A tool whose definition has changed since is not
	// called: that is an error result.
	Call(ctx context.Context, server string, tool session.ListedTool, arguments []byte) ToolResult
	// Close ends the connections and processes. Calls under way fail.
	Close()
}

// ToolResult is the answer to a call. Its text is masked.
type ToolResult struct {
	Text    string
	IsError bool
}

// Gatherer collects what Tocsin knows without a model.
type Gatherer interface {
	Gather(ctx context.Context, s session.Submitted) session.Gathered
}

// Hook is called after a fact of a session was stored, and again where the process ended before
// it returned: so it has the same effect however often it is called. The state is its own.
type Hook func(ctx context.Context, s *session.Session) error

// Limits bound the sessions that run at once.
type Limits struct {
	// Workers is for this process, Sessions for all processes.
	Workers, Sessions int
}

// Config configures a worker. All fields but Started and Ended are required.
type Config struct {
	// Name is unique among all workers, those of an earlier start included.
	Name    string
	Limits  Limits
	Journal Journal
	Texts   Texts
	Queue   Queue
	Models  Models
	Tools   Tools
	Known   Gatherer
	// Mask masks the text of a model or of the engine as a session's plan says. Text for which it
	// panics is withheld.
	Mask func(plan session.Plan, text string) string
	// Started is called after a session was claimed, and Ended after it has ended. A session
	// stays in the queue until Ended has returned nil.
	Started, Ended Hook
	Observer       Observer
	Logger         *slog.Logger
}

// Worker executes sessions. Its methods are safe for concurrent use.
type Worker struct {
	cfg Config
	log *slog.Logger

	mu      sync.Mutex
	limits  Limits
	changed chan struct{} // closed, and replaced, when limits, active or a claim change
	active  map[string]*run
	runs    sync.WaitGroup
}

// New returns a worker. [Worker.Run] starts it.
func New(cfg Config) *Worker {
	if cfg.Started == nil {
		cfg.Started = func(context.Context, *session.Session) error { return nil }
	}
	if cfg.Ended == nil {
		cfg.Ended = cfg.Started
	}
	return &Worker{
		cfg: cfg, log: cfg.Logger, limits: cfg.Limits,
		changed: make(chan struct{}), active: map[string]*run{},
	}
}

// SetLimits changes the limits. Sessions that run are not touched: with lower limits fewer are
// claimed until they end.
func (w *Worker) SetLimits(l Limits) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limits = l
	w.signal()
}

// Appended notes that a session's log has a message at a sequence. The caller follows the log of
// all sessions, so that requests of others, such as a cancellation, are seen at once. Without
// it they are seen after [pollInterval].
func (w *Worker) Appended(id string, seq uint64) {
	w.mu.Lock()
	r := w.active[id]
	w.mu.Unlock()
	if r != nil {
		r.appended(seq)
	}
}

// Active returns how many sessions this process works on.
func (w *Worker) Active() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.active)
}

// signal wakes all who wait for a change. The caller holds mu.
func (w *Worker) signal() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// Run claims and executes sessions until ctx ends. Then it claims no more, gives back those that
// run, and returns, within 5 s. The connection to the bus has to stay open until then.
func (w *Worker) Run(ctx context.Context) error {
	abort, cancel := bus.WithGrace(ctx, drainTimeout)
	defer cancel()
	w.claim(ctx, abort)
	w.runs.Wait()
	return nil
}

// claim claims sessions until ctx ends.
func (w *Worker) claim(ctx, abort context.Context) {
	applied, pause := -1, minPause
	failed := func(what string, err error) {
		if ctx.Err() != nil {
			return
		}
		w.log.Warn(what+"; it is tried again", "error", err)
		sleep(ctx, pause)
		pause = min(2*pause, maxPause)
	}
	for ctx.Err() == nil {
		w.mu.Lock()
		limits, changed, busy := w.limits, w.changed, w.occupied()
		w.mu.Unlock()
		if applied != limits.Sessions {
			if err := w.cfg.Queue.SetLimit(ctx, limits.Sessions); err != nil {
				failed("cannot set the limit of sessions", err)
				continue
			}
			applied = limits.Sessions
		}
		if busy >= limits.Workers {
			select {
			case <-ctx.Done():
			case <-changed:
			}
			continue
		}
		c, err := w.next(ctx, limits)
		switch {
		case err != nil && ctx.Err() == nil && !errors.Is(err, context.Canceled):
			failed("cannot claim a session", err)
		case err == nil && ctx.Err() != nil:
			c.Release()
		case err == nil:
			pause = minPause
			w.start(ctx, abort, c)
		}
	}
}

// next waits for a session until the limits change.
func (w *Worker) next(ctx context.Context, limits Limits) (Claim, error) {
	waiting, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			w.mu.Lock()
			same, changed := w.limits == limits, w.changed
			w.mu.Unlock()
			if !same {
				cancel()
				return
			}
			select {
			case <-waiting.Done():
				return
			case <-changed:
			}
		}
	})
	c, err := w.cfg.Queue.Next(waiting)
	cancel()
	watch.Wait()
	return c, err
}

// occupied returns how many of the sessions count for the limit: those whose claim is valid. A
// lost one may come back from the queue at any moment. The caller holds mu.
func (w *Worker) occupied() int {
	n := 0
	for _, r := range w.active {
		if r.claim.Valid() {
			n++
		}
	}
	return n
}

// start executes a session. Where this process works on it already, because its claim was lost
// and the bus gave the session to us again, that goes on with the new claim.
func (w *Worker) start(ctx, abort context.Context, c Claim) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r := w.active[c.Session()]; r != nil {
		r.newer = append(r.newer, c)
		r.wake()
		return
	}
	r := newRun(w, c)
	w.active[c.Session()] = r
	w.runs.Go(func() {
		w.cfg.Observer.Active(1)
		r.execute(ctx, abort)
		w.cfg.Observer.Active(-1)
		w.mu.Lock()
		delete(w.active, r.id)
		newer := r.newer
		w.signal()
		w.mu.Unlock()
		for _, c := range newer {
			if ctx.Err() != nil {
				c.Release()
			} else {
				w.start(ctx, abort, c)
			}
		}
		// The session is free by now, as for another attempt. The worker's end waits for its effects.
		if !r.await(abort) {
			r.log.Warn("the shutdown does not wait for an effect that does not end")
		}
	})
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// EndCancelled ends a session that is being cancelled, whichever worker has it, and does nothing
// to others. A worker that runs the session ends it itself within a second; who cancels calls
// EndCancelled some seconds later, for a session whose worker vanished.
func (w *Worker) EndCancelled(ctx context.Context, id string) error {
	for {
		messages, err := w.cfg.Journal.Read(ctx, id, 0)
		if err != nil {
			return fmt.Errorf("end the cancelled session %s: %w", id, err)
		}
		s, err := foldAll(messages)
		if err != nil {
			return fmt.Errorf("end the cancelled session %s: %w", id, err)
		}
		facts := session.Next(s, now()).Facts
		if s.Status() != session.StatusCancelling || len(facts) == 0 {
			return nil
		}
		data, err := session.Encode(facts)
		if err != nil {
			return fmt.Errorf("end the cancelled session %s: %w", id, err)
		}
		_, err = w.cfg.Journal.Append(ctx, id, messages[len(messages)-1].Seq, data)
		switch {
		case errors.Is(err, journal.ErrConflict):
			continue
		case err == nil:
			err = s.Assume(facts)
		}
		if err == nil {
			w.cfg.Observer.SessionEnded(session.StatusCancelled, 0)
			err = w.cfg.Ended(ctx, s)
		}
		if err != nil {
			return fmt.Errorf("end the cancelled session %s: %w", id, err)
		}
		return nil
	}
}
