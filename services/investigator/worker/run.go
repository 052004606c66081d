package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
)

// The bounds of one session's work.
const (
	// maxRounds bounds the decisions without an effect in a row. More are an error of the
	// engine, which fails the session.
	maxRounds = 1000
	// maxOutcomes bounds the bytes of the outcomes that are appended at once. The others
	// follow in the next message.
	maxOutcomes = 512 << 10
	// endEffects is how long a session that is given back, or has ended, waits for its effects to
	// end. One that ends later no longer matters: its outcome is dropped.
	endEffects = time.Second
)

// Errors that end the work on a session.
var (
	// errReplaced means that another worker has claimed the session.
	errReplaced = errors.New("another worker has claimed the session")
	// errLost means that the claim was lost before it was stored.
	errLost = errors.New("the claim was lost before it was stored")
	// errDrained means that the worker shuts down.
	errDrained = errors.New("the worker shuts down")
	// errPostponed means that the hook of the end failed: the session goes to the end of the queue.
	errPostponed = errors.New("what follows from the session's end is tried again later")
	// errOver means that there is nothing to do: the attempt was replaced by a newer one.
	errOver = errors.New("the attempt is over")
	// errInternal is an error of the engine. The session fails.
	errInternal = errors.New("internal error")
)

// run is the work on one claimed session.
type run struct {
	w   *Worker
	cfg *Config
	id  string
	log *slog.Logger

	// claim and newer are guarded by Worker.mu; only the loop sets claim. newer are later claims
	// of this process on the same session.
	claim Claim
	newer []Claim

	signal chan struct{} // wakes the loop; it keeps one signal

	mu       sync.Mutex
	outcomes []outcome
	newest   uint64 // sequence of the newest message that was announced

	// What follows belongs to the loop.
	s         *session.Session
	messages  []journal.Message // as they were last read from the first on
	submitted session.Submitted
	stale     bool   // s has facts that were not stored
	reread    bool   // s was replaced since the step began
	last      uint64 // sequence of the last message that s has
	read      time.Time
	epoch     int
	attempt   int
	lost      bool // the loss of claim was seen
	effects   map[string]*effect
	ended     map[string]bool // keys of effects whose outcome is stored
	sets      map[string]ToolSet
	begins    begins

	base     context.Context // of the effects
	stop     context.CancelFunc
	working  sync.WaitGroup // effects
	closing  sync.WaitGroup // sets that are closed
	starting sync.WaitGroup // the hook Started
	// stopStarting ends the hook Started where nothing waits for it.
	stopStarting context.CancelFunc
}

// outcome is what an effect ended with, or a fact that it reports before its end.
type outcome struct {
	of    *effect
	facts []session.Fact
	size  int
	final bool
	// late reports that the facts are stored also where the effect was cancelled.
	late bool
	// stored is closed when the facts are stored. It may be nil.
	stored chan struct{}
}

func newRun(w *Worker, c Claim) *run {
	r := &run{
		w: w, cfg: &w.cfg, id: c.Session(), claim: c, log: w.log.With("session", c.Session()),
		signal: make(chan struct{}, 1), effects: map[string]*effect{}, ended: map[string]bool{},
		sets: map[string]ToolSet{}, begins: begins{stages: map[string]time.Time{}},
	}
	r.base, r.stop = context.WithCancel(context.Background())
	r.stopStarting = func() {}
	return r
}

// wake has the loop decide again.
func (r *run) wake() {
	select {
	case r.signal <- struct{}{}:
	default:
	}
}

// appended notes that the log has a message at a sequence.
func (r *run) appended(seq uint64) {
	r.mu.Lock()
	r.newest = max(r.newest, seq)
	r.mu.Unlock()
	r.wake()
}

// deliver gives an outcome to the loop.
func (r *run) deliver(o outcome) {
	r.mu.Lock()
	r.outcomes = append(r.outcomes, o)
	r.mu.Unlock()
	r.wake()
}

// execute works on the session until it ends, another worker has it, or ctx ends. What has to be
// stored then is stored until abort ends.
func (r *run) execute(ctx, abort context.Context) {
	err := r.protect(func() error { return r.work(ctx, abort) })
	switch {
	case errors.Is(err, errDrained):
		r.drain(abort)
	case errors.Is(err, errReplaced):
		r.log.Warn("another worker has claimed the session; what this one was doing is dropped")
	case errors.Is(err, errInternal):
		r.log.Error("the session fails", "error", err)
		err = r.protect(func() error { return r.fail(ctx, abort, err) })
	}
	switch {
	case err == nil, errors.Is(err, errOver):
		if err := r.claim.Done(); err != nil {
			r.log.Info("the session stays in the queue until another worker finds it done", "error", err)
		}
	case errors.Is(err, errPostponed):
		if err := r.claim.Requeue(); err != nil {
			r.log.Error("the session could not be queued again for what follows from its end", "error", err)
		}
	case errors.Is(err, errDrained), errors.Is(err, errReplaced):
	default:
		r.log.Warn("the work on the session is given up until it is claimed again", "error", err)
	}
	r.stop()
	r.stopStarting()
	if err != nil {
		r.claim.Release() // it changes nothing after Done
	}
	r.closeSets()
	end, cancel := context.WithTimeout(abort, endEffects)
	defer cancel()
	r.await(end)
}

// await waits until ctx ends for what was begun and is cancelled, and reports whether all of it has
// ended.
func (r *run) await(ctx context.Context) bool {
	return finished(ctx, &r.working) && finished(ctx, &r.starting) && finished(ctx, &r.closing)
}

// protect calls f, and returns a panic of it as an internal error.
func (r *run) protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.Error("panic", "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %v", errInternal, p)
		}
	}()
	return f()
}

// finished waits for a group until ctx ends, and reports whether it is done.
func finished(ctx context.Context, group *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// work claims the session in its log and brings it to its end.
func (r *run) work(ctx, abort context.Context) error {
	if err := r.load(abort); err != nil {
		return err
	}
	if r.s.Attempt() > r.claim.Attempt() {
		return errOver
	}
	if !r.s.Ended() {
		if err := r.enter(ctx, abort); err != nil {
			return err
		}
		if err := r.loop(ctx, abort); err != nil {
			return err
		}
	}
	return r.finish(abort)
}

// enter stores the claim and begins what runs beside the session.
func (r *run) enter(ctx, abort context.Context) error {
	for claimed := false; !claimed; {
		switch {
		case ctx.Err() != nil:
			return errDrained
		case r.s.Ended():
			return nil
		case !r.claim.Valid():
			return errLost
		}
		before, holder := r.s.Epoch()
		r.epoch = before + 1
		facts, err := r.fold([]session.Fact{{Claimed: &session.Claimed{Worker: r.cfg.Name, Epoch: r.epoch}}})
		if err != nil {
			return err
		}
		claimed, err = r.store(abort, facts)
		if errors.Is(err, errReplaced) && r.claim.Valid() { // it came before us, and we are next
			claimed, err = false, r.load(abort)
		}
		if err != nil {
			return err
		}
		if claimed && holder != "" {
			r.log.Warn("the session is taken over", "from", holder, "epoch", r.epoch)
			r.cfg.Observer.TakenOver()
		}
	}
	r.attempt, r.submitted = r.s.Attempt(), r.s.Submitted()
	r.submitted.Plan = r.s.Plan() // that of the attempt
	own, err := foldAll(r.messages)
	if err != nil {
		return err
	}
	for _, m := range r.messages {
		if facts, err := session.Decode(m.Data); err == nil {
			r.begins.add(facts)
		}
	}
	r.begins.add([]session.Fact{{Time: now(), Claimed: &session.Claimed{}}})
	r.messages = nil
	if err := own.Assume([]session.Fact{{Time: now(), Claimed: &session.Claimed{Worker: r.cfg.Name, Epoch: r.epoch}}}); err != nil {
		return fmt.Errorf("%w: %w", errInternal, err)
	}
	var hooks context.Context
	hooks, r.stopStarting = context.WithCancel(abort)
	r.starting.Go(func() { r.call(hooks, "started", r.cfg.Started, own) })
	r.reopenSets()
	return nil
}

// loop does what is due until the session has ended.
func (r *run) loop(ctx, abort context.Context) error {
	for !r.s.Ended() {
		if ctx.Err() != nil {
			return errDrained
		}
		r.takeNext()
		if err := r.sync(abort); err != nil {
			return err
		}
		if r.s.Attempt() > r.attempt { // it was ended and started again by others
			return errOver
		}
		wake, again, err := r.step(abort)
		if err != nil {
			return err
		}
		if !again && !r.s.Ended() {
			r.wait(ctx, wake)
		}
	}
	return nil
}

// takeNext replaces a lost claim by a newer one.
func (r *run) takeNext() {
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	for i, c := range r.newer {
		if c.Attempt() == r.claim.Attempt() && !r.claim.Valid() {
			r.claim, r.lost = c, false
			r.newer = slices.Delete(r.newer, i, i+1)
			r.w.signal()
			break
		}
	}
	if !r.lost && !r.claim.Valid() {
		r.lost = true
		r.w.signal() // it no longer counts for the limit
	}
}

// wait returns when something may have changed, at the latest at wake or for the next poll.
func (r *run) wait(ctx context.Context, wake time.Time) {
	d := max(0, time.Until(r.read.Add(pollInterval)))
	if !wake.IsZero() {
		d = min(d, max(0, time.Until(wake)))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	over := r.claim.Over()
	if r.lost {
		over = nil
	}
	select {
	case <-ctx.Done():
	case <-r.signal:
	case <-over:
	case <-timer.C:
	}
}

// step stores what is due and what came of effects, and starts and cancels effects. It returns
// when the time alone changes what is due, and whether it has to be called again at once.
func (r *run) step(ctx context.Context) (wake time.Time, again bool, err error) {
	if r.reread {
		r.dropUnnamed()
	}
	r.reread = false
	taken, more := r.take()
	var facts []session.Fact
	fold := func(add []session.Fact) error {
		folded, err := r.fold(add)
		facts = append(facts, folded...)
		return err
	}
	final := map[string]bool{}
	for _, o := range taken {
		if err := fold(o.facts); err != nil {
			return wake, false, err
		}
		if o.final {
			final[o.of.Key] = true
		}
	}
	due, err := r.due(fold)
	if err != nil {
		return wake, false, err
	}
	named := map[string]bool{}
	var starts []session.Effect
	for _, e := range due.Effects {
		named[e.Key] = true
		if final[e.Key] || r.ended[e.Key] {
			return wake, false, fmt.Errorf("%w: the effect %s is due again after its outcome", errInternal, e.Key)
		}
		if r.effects[e.Key] != nil || !r.claim.Valid() {
			continue
		}
		if err := fold(e.Before); err != nil {
			return wake, false, err
		}
		starts = append(starts, e)
	}
	if len(facts) > 0 {
		stored, err := r.store(ctx, facts)
		if err != nil || !stored {
			r.putBack(taken)
			return wake, true, err
		}
	}
	r.settle(taken, facts, named)
	if r.reread { // there are facts of others
		return wake, true, nil
	}
	for _, e := range starts {
		if r.s.Ended() || !r.claim.Valid() {
			break
		}
		r.start(e)
	}
	for _, e := range r.effects {
		due.Wake = earlier(due.Wake, e.pending())
	}
	return due.Wake, more, nil
}

// dropUnnamed cancels the effects that facts of others have ended, and those whose outcome was
// stored, though its acknowledgement was lost.
func (r *run) dropUnnamed() {
	r.messages = nil
	due := session.Next(r.s, now())
	if len(due.Facts) > 0 { // they come first
		return
	}
	named := map[string]bool{}
	for _, e := range due.Effects {
		named[e.Key] = true
	}
	r.cancelUnnamed(named)
}

func (r *run) cancelUnnamed(named map[string]bool) {
	for key, e := range r.effects {
		if !named[key] || r.s.Ended() {
			e.cancel()
			delete(r.effects, key)
		}
	}
}

// due folds the facts that are due until effects are, or nothing is.
func (r *run) due(fold func([]session.Fact) error) (session.Due, error) {
	for range maxRounds {
		due := session.Next(r.s, now())
		if len(due.Facts) == 0 {
			return due, nil
		}
		if err := fold(due.Facts); err != nil {
			return due, err
		}
	}
	return session.Due{}, fmt.Errorf("%w: %d decisions without an effect", errInternal, maxRounds)
}

// take returns the outcomes to store now, and whether others are left. Outcomes of effects that
// were cancelled are dropped, but for late ones.
func (r *run) take() (taken []outcome, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	size := 0
	for i, o := range r.outcomes {
		if r.effects[o.of.Key] != o.of && !o.late {
			continue
		}
		if len(taken) > 0 && size+o.size > maxOutcomes {
			r.outcomes = r.outcomes[i:]
			return taken, true
		}
		size += o.size
		taken = append(taken, o)
	}
	r.outcomes = nil
	return taken, false
}

// putBack keeps outcomes that were not stored.
func (r *run) putBack(taken []outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outcomes = append(taken, r.outcomes...)
}

// settle follows the storing of facts: it reports them, and ends what is over.
func (r *run) settle(taken []outcome, facts []session.Fact, named map[string]bool) {
	r.observe(facts)
	for _, o := range taken {
		if o.stored != nil {
			close(o.stored)
		}
		if o.final {
			r.ended[o.of.Key] = true
			delete(r.effects, o.of.Key)
		}
	}
	r.cancelUnnamed(named)
	r.closeEndedSets()
}

// now is the time for facts: by the wall clock, in UTC.
func now() time.Time { return time.Now().UTC().Round(0) }

// earlier returns the earlier one of two times. A zero time is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
