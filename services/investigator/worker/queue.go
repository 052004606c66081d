package worker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
)

// NewQueue returns the queue of a journal.
func NewQueue(j *journal.Journal) Queue { return &journalQueue{journal: j} }

type journalQueue struct {
	journal *journal.Journal

	mu    sync.Mutex
	queue *journal.Queue
}

// SetLimit implements [Queue].
func (q *journalQueue) SetLimit(ctx context.Context, limit int) error {
	opened, err := q.journal.OpenQueue(ctx, limit)
	if err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = opened
	return nil
}

// Next implements [Queue].
func (q *journalQueue) Next(ctx context.Context) (Claim, error) {
	q.mu.Lock()
	opened := q.queue
	q.mu.Unlock()
	if opened == nil {
		return nil, fmt.Errorf("wait for a session: the queue has no limit yet")
	}
	c, err := opened.Next(ctx)
	if err != nil {
		return nil, err
	}
	return journalClaim{c}, nil
}

type journalClaim struct{ claim *journal.Claim }

func (c journalClaim) Session() string       { return c.claim.Session }
func (c journalClaim) Attempt() int          { return c.claim.Attempt }
func (c journalClaim) Requeued() int         { return c.claim.Requeued }
func (c journalClaim) Valid() bool           { return c.claim.Valid(time.Now()) }
func (c journalClaim) Over() <-chan struct{} { return c.claim.Context().Done() }
func (c journalClaim) Done() error           { return c.claim.Done() }
func (c journalClaim) Release()              { c.claim.Release() }
func (c journalClaim) Requeue() error        { return c.claim.Requeue() }
