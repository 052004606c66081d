package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

const (
	// kills is the number of kills of workers: killsAtOnce in a round, and killPause between the
	// resumption of all sessions of a round and the next one. A session has one kill to recover from
	// at a time, so that its resumption counts from the kill of its last worker, and finishes a step
	// before the next one: the model answers after killDelay.
	kills       = 200
	killsAtOnce = 4
	killPause   = 2 * killDelay
	// maxRounds bounds the rounds, as in some no worker has a session.
	maxRounds = 2 * kills / killsAtOnce
	// killSessions is the number of sessions, killAtOnce how many of them run at once, killCalls the
	// number of the tool calls of each, and killDelay the time of each answer of the model.
	killSessions = 100
	killAtOnce   = 40
	killCalls    = 130
	killDelay    = 500 * time.Millisecond
	// killWorkers is the number of processes, killEach how many sessions each takes. Those that a
	// round leaves have room for all sessions.
	killWorkers = 10
	killEach    = 7
	// killPatience bounds the wait for all sessions after the last kill.
	killPatience = 10 * time.Minute
	// resumption bounds the wait for the next request of a session whose worker was killed.
	resumption = 30 * time.Second
	// straggling is how long after a kill a request of the killed process may still arrive.
	straggling = 100 * time.Millisecond
)

// killedWorkers kills workers in turn while they work on sessions.
func killedWorkers(ctx context.Context, bin string, _ int) (all []harness.Figure, err error) {
	s := newScript(killCalls, killDelay)
	b, err := newTestbed(ctx, bin, s, killEach, killAtOnce)
	if err != nil {
		s.Close()
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	for range killWorkers {
		if err := b.add(ctx); err != nil {
			return nil, err
		}
	}
	for n := range killSessions {
		if _, err := b.processes[n%killWorkers].submit(ctx, n); err != nil {
			return nil, err
		}
	}
	k := &killer{testbed: b}
	if err := k.run(ctx); err != nil {
		return nil, err
	}
	harness.Poll(ctx, killPatience, k.over) // the number of those that ended is what is measured
	completed, err := b.processes[0].ended(ctx, killSessions)
	if err != nil {
		return nil, err
	}
	again, underWay, short := 0, 0, 0
	for n := range killSessions {
		s.view(n, func(one *scripted) {
			again, underWay = again+one.again, underWay+one.underWay
			if one.tools != killCalls || one.summaries == 0 {
				short++
			}
		})
	}
	what := fmt.Sprintf("investigator: kill -9 of a worker, %d times over %d sessions: ", k.killed, killSessions)
	return []harness.Figure{
		{What: what + "completed, and without one of their calls", Asked: strconv.Itoa(killSessions) + ", 0", Measured: fmt.Sprintf("%d, %d", completed, short)},
		{What: what + "finished calls repeated", Asked: "0", Measured: fmt.Sprintf("%d (%d calls were under way, and repeated)", again, underWay)},
		{What: what + "kill to the session's next request", Asked: "< 5 s", Measured: fmt.Sprintf("%s, max %s, not resumed %d", harness.Quantiles(k.resumed), harness.Rounded(k.longest), k.lost)},
	}, nil
}

// killer kills the workers of a testbed in turn.
type killer struct {
	*testbed
	// killed counts the kills that interrupted a session.
	killed int

	mu      sync.Mutex
	resumed []time.Duration
	longest time.Duration
	lost    int
}

func (k *killer) run(ctx context.Context) error {
	tick := time.NewTicker(killPause)
	defer tick.Stop()
	for n := 0; n < maxRounds && k.killed < kills && !k.over(); n++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := k.round(ctx, n*killsAtOnce); err != nil {
			return err
		}
		tick.Reset(killPause)
	}
	for _, w := range k.processes {
		if err := w.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// round kills some workers at once, from a first one on, starts them again, and waits until their
// sessions have gone on.
func (k *killer) round(ctx context.Context, first int) (err error) {
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for i := range killsAtOnce {
		n := (first + i) % killWorkers
		w := k.processes[n]
		if !w.listens(ctx) {
			return errNotListening
		}
		at := time.Now()
		if err := w.Kill(); err != nil {
			return err
		}
		open := k.script.open(n)
		if err := k.start(w); err != nil {
			return err
		}
		if len(open) > 0 {
			k.killed++
		}
		waiting.Go(func() { k.await(ctx, open, at) })
	}
	return nil
}

// errNotListening is returned when an investigator that was started again did not listen.
var errNotListening = errors.New("the investigator does not listen")

// listens waits until an investigator listens. It works on sessions from then on, also while it reads
// the stored sessions for its lists.
func (w *worker) listens(ctx context.Context) bool {
	return harness.Poll(ctx, sessionPatience, func() bool { return listening.MatchString(w.Stdout.String()) })
}

// over reports whether each session has been asked for its summary.
func (k *killer) over() bool {
	for n := range killSessions {
		ended := false
		k.script.view(n, func(one *scripted) { ended = one.summaries > 0 })
		if !ended {
			return false
		}
	}
	return true
}

// await measures when the sessions go on whose worker was killed.
func (k *killer) await(ctx context.Context, open map[int]bool, killed time.Time) {
	harness.Poll(ctx, resumption, func() bool {
		for n := range open {
			var next time.Time
			k.script.view(n, func(one *scripted) { next = one.last })
			if next.Before(killed.Add(straggling)) {
				continue
			}
			delete(open, n)
			k.mu.Lock()
			k.resumed = append(k.resumed, next.Sub(killed))
			k.longest = max(k.longest, next.Sub(killed))
			k.mu.Unlock()
		}
		return len(open) == 0
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lost += len(open)
}
