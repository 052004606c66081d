package kubernetes

import (
	"crypto/rand"
	"fmt"
	"sync"
)

// Default limits on the number of subscriptions.
const (
	DefaultPerSession = 10
	DefaultGlobal     = 100
)

// Limits bounds the number of subscriptions: of one MCP session, and of all sessions
// of a gateway together.
type Limits struct {
	PerSession, Global int
}

// LimitError reports which limit is reached.
type LimitError struct {
	// Setting is the flag that sets the limit, Limit its value.
	Setting string
	Limit   int
	whose   string
}

// Error implements error.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%s %d subscriptions, and no more are allowed (%s): end one with events_unsubscribe", e.whose, e.Limit, e.Setting)
}

// Quota counts the subscriptions of all sessions of a gateway. It is safe for
// concurrent use.
type Quota struct {
	limits Limits
	mu     sync.Mutex
	inUse  int
}

// NewQuota returns an unused quota.
func NewQuota(l Limits) *Quota { return &Quota{limits: l} }

// InUse returns the number of subscriptions.
func (q *Quota) InUse() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.inUse
}

// Acquire counts a subscription for a session that has sessionCount already. release
// may be called more than once.
func (q *Quota) Acquire(sessionCount int) (release func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case sessionCount >= q.limits.PerSession:
		return nil, &LimitError{"--max-subscriptions-per-session", q.limits.PerSession, "this session has"}
	case q.inUse >= q.limits.Global:
		return nil, &LimitError{"--max-subscriptions-global", q.limits.Global, "the sessions of this gateway have"}
	}
	q.inUse++
	return sync.OnceFunc(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.inUse--
	}), nil
}

// NewID returns a new subscription id that cannot be guessed.
func NewID() string { return "sub-" + rand.Text() }
