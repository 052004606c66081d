package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
)

var errAway = errors.New("the bus is away")

// memory is a bus in memory, with the errors that a bus has.
type memory struct {
	mu      sync.Mutex
	logs    map[string][]journal.Message
	texts   map[string][]byte
	chunks  [][]byte
	chunked []time.Time // when chunks were published
	seq     uint64
	queue   []queued
	claims  map[*memoryClaim]bool
	limit   int
	most    int
	changed chan struct{}

	// before is called before each append, without the lock.
	before func(id string)
	// answer decides on the acknowledgement of an append that was stored.
	answer  func(seq uint64) error
	away    bool
	appends int
	workers []*Worker
}

type queued struct {
	id       string
	attempt  int
	requeued int
}

func newMemory() *memory {
	return &memory{
		logs: map[string][]journal.Message{}, texts: map[string][]byte{}, claims: map[*memoryClaim]bool{},
		changed: make(chan struct{}), before: func(string) {}, answer: func(uint64) error { return nil },
	}
}

func (m *memory) signal() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// Append implements [Journal].
func (m *memory) Append(_ context.Context, id string, last uint64, data []byte) (uint64, error) {
	m.before(id)
	m.mu.Lock()
	if m.away {
		m.mu.Unlock()
		return 0, errAway
	}
	log := m.logs[id]
	newest := uint64(0)
	if len(log) > 0 {
		newest = log[len(log)-1].Seq
	}
	if newest != last {
		m.mu.Unlock()
		return 0, fmt.Errorf("append after %d, the last is %d: %w", last, newest, journal.ErrConflict)
	}
	m.seq++
	seq := m.seq
	m.appends++
	m.logs[id] = append(log, journal.Message{Session: id, Data: slices.Clone(data), Seq: seq, Time: time.Now()})
	err := m.answer(seq)
	workers := m.workers
	m.mu.Unlock()
	for _, w := range workers {
		w.Appended(id, seq)
	}
	return seq, err
}

// foreign appends facts as another writer does.
func (m *memory) foreign(id string, facts ...session.Fact) {
	for i := range facts {
		facts[i].Time = now()
	}
	data, err := session.Encode(facts)
	if err != nil {
		panic(err)
	}
	m.mu.Lock()
	m.seq++
	seq := m.seq
	m.logs[id] = append(m.logs[id], journal.Message{Session: id, Data: data, Seq: seq, Time: time.Now()})
	workers := m.workers
	m.mu.Unlock()
	for _, w := range workers {
		w.Appended(id, seq)
	}
}

// Read implements [Journal].
func (m *memory) Read(_ context.Context, id string, after uint64) ([]journal.Message, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return nil, errAway
	}
	var list []journal.Message
	for _, msg := range m.logs[id] {
		if msg.Seq > after {
			list = append(list, msg)
		}
	}
	return list, nil
}

// PublishChunks implements [Journal].
func (m *memory) PublishChunks(_ string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.chunks, m.chunked = append(m.chunks, data), append(m.chunked, time.Now())
	return nil
}

// Put implements [Texts].
func (m *memory) Put(_ context.Context, _ string, text []byte) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return "", errAway
	}
	sum := sha256.Sum256(text)
	m.texts[hex.EncodeToString(sum[:])] = slices.Clone(text)
	return hex.EncodeToString(sum[:]), nil
}

// Get implements [Texts].
func (m *memory) Get(_ context.Context, _, digest string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, ok := m.texts[digest]
	if !ok {
		return nil, journal.ErrMissing
	}
	return text, nil
}

func (m *memory) enqueue(id string, attempt int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queue = append(m.queue, queued{id: id, attempt: attempt})
	m.signal()
}

// SetLimit implements [Queue].
func (m *memory) SetLimit(_ context.Context, limit int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.away {
		return errAway
	}
	m.limit = limit
	m.signal()
	return nil
}

// Next implements [Queue].
func (m *memory) Next(ctx context.Context) (Claim, error) {
	for {
		m.mu.Lock()
		if !m.away && len(m.queue) > 0 && len(m.claims) < m.limit {
			q := m.queue[0]
			m.queue = m.queue[1:]
			c := &memoryClaim{m: m, queued: q, over: make(chan struct{})}
			m.claims[c] = true
			m.most = max(m.most, len(m.claims))
			m.mu.Unlock()
			return c, nil
		}
		changed := m.changed
		m.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-changed:
		}
	}
}

// lose has all claims lost, and their sessions queued again 1 s later.
func (m *memory) lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.claims {
		close(c.over)
		delete(m.claims, c)
		time.AfterFunc(time.Second, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.queue = append([]queued{c.queued}, m.queue...)
			m.signal()
		})
	}
}

func (m *memory) setAway(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
	m.signal()
}

// facts returns all stored facts of a session.
func (m *memory) facts(id string) []session.Fact {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []session.Fact
	for _, msg := range m.logs[id] {
		facts, err := session.Decode(msg.Data)
		if err != nil {
			panic(err)
		}
		all = append(all, facts...)
	}
	return all
}

type memoryClaim struct {
	m      *memory
	queued queued
	over   chan struct{}
}

func (c *memoryClaim) Session() string       { return c.queued.id }
func (c *memoryClaim) Attempt() int          { return c.queued.attempt }
func (c *memoryClaim) Requeued() int         { return c.queued.requeued }
func (c *memoryClaim) Over() <-chan struct{} { return c.over }

func (c *memoryClaim) Valid() bool {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	return c.m.claims[c]
}

func (c *memoryClaim) Done() error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if !c.m.claims[c] {
		return journal.ErrLost
	}
	delete(c.m.claims, c)
	close(c.over)
	c.m.signal()
	return nil
}

func (c *memoryClaim) Release() {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	if !c.m.claims[c] {
		return
	}
	delete(c.m.claims, c)
	close(c.over)
	c.m.queue = append([]queued{c.queued}, c.m.queue...)
	c.m.signal()
}

func (c *memoryClaim) Requeue() error {
	if err := c.Done(); err != nil {
		return err
	}
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	again := c.queued
	again.requeued++
	c.m.queue = append(c.m.queue, again)
	c.m.signal()
	return nil
}

// resetMost returns how many claims were in force at once since the last call.
func (m *memory) resetMost() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	most := m.most
	m.most = len(m.claims)
	return most
}

// left returns how many claims are in force and sessions queued.
func (m *memory) left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.claims) + len(m.queue)
}

func (m *memory) inForce() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.claims)
}
