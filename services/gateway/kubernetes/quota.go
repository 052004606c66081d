package kubernetes

import (
	"crypto/rand"
	"fmt"
	"sync"
)

// How many subscriptions there may be, unless it is set otherwise.
const (
	DefaultPerSession = 10
	DefaultGlobal     = 100
)

// Limits is how many subscriptions there may be.
type Limits struct {
	// PerSession is how many one client may have, Global how many all clients of
	// the gateway together.
	PerSession, Global int
}

// LimitError says which limit is reached.
type LimitError struct {
	// Setting is the flag that sets it, Limit its value.
	Setting string
	Limit   int
	whose   string
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%s %d subscriptions, and no more are allowed (%s): end one with events_unsubscribe", e.whose, e.Limit, e.Setting)
}

// Quota is what all sessions of a gateway share. It may be used concurrently.
type Quota struct {
	limits Limits
	mu     sync.Mutex
	taken  int
}

// NewQuota has none taken yet.
func NewQuota(l Limits) *Quota { return &Quota{limits: l} }

// Taken is how many subscriptions there are.
func (q *Quota) Taken() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.taken
}

// Take takes one for a session that has so many. Its release may be called more than
// once.
func (q *Quota) Take(has int) (release func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case has >= q.limits.PerSession:
		return nil, &LimitError{"--max-subscriptions-per-session", q.limits.PerSession, "this session has"}
	case q.taken >= q.limits.Global:
		return nil, &LimitError{"--max-subscriptions-global", q.limits.Global, "the sessions of this gateway have"}
	}
	q.taken++
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.taken--
	}), nil
}

// NewID is the id of a subscription, which nobody can guess.
func NewID() string { return "sub-" + rand.Text() }
