// Package ratelimit bounds how many alerts the detector publishes.
//
// Limiter bounds repetitions: 10 alerts of one key in 10 s. The next one that is published
// counts those that were suppressed. Suppressed revisions and ends are not counted.
//
// Budget bounds different alerts, of one app and of all apps together. What it suppresses
// is published in one summary.
//
// The package has no clock, and knows nothing of alerts but their keys, categories,
// severities and titles. A time before the last one of a key means that a clock was set
// back; its window starts again.
package ratelimit

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

const (
	// MaxKeys is how many keys are watched. Past it, the least recently used one is
	// forgotten, with what it suppressed.
	MaxKeys = 10_000
	// Burst is how many alerts of one key may be published within Window.
	Burst = 10
	// Window is how far back alerts of one key count.
	Window = 10 * time.Second
	// maxKey is the longest key in a snapshot, in bytes.
	maxKey = 1 << 16
)

// Limiter decides for each alert whether it may be published.
type Limiter struct {
	keys          *lru.Map[string, window]
	evicted, lost uint64
}

// window has the times of the alerts of one key that were published, in milliseconds since
// 1970, the oldest first, and counts those suppressed since.
type window struct {
	left []int64
	held int
}

// New returns a limiter that has seen nothing.
func New() *Limiter { return &Limiter{keys: lru.New[string, window](MaxKeys)} }

// Evicted returns how many keys were forgotten for lack of room since New.
func (l *Limiter) Evicted() uint64 { return l.evicted }

// Lost returns how many suppressed alerts were forgotten with their keys.
func (l *Limiter) Lost() uint64 { return l.lost }

// Room reports whether Offer would let an alert with that key be published.
func (l *Limiter) Room(key []byte, now time.Time) bool {
	p := lru.GetBytes(l.keys, key)
	return p == nil || p.room(now.UnixMilli())
}

// Offer reports whether an alert with that key may be published, which is then counted.
// held is the number of alerts suppressed before it, which its count has to include.
func (l *Limiter) Offer(key []byte, now time.Time) (held int, leaves bool) {
	p := l.window(key)
	if !p.allow(now.UnixMilli()) {
		p.held++
		return 0, false
	}
	held, p.held = p.held, 0
	return held, true
}

// OfferAgain is Offer for an alert that was suppressed before. It is not counted once more.
func (l *Limiter) OfferAgain(key []byte, now time.Time) (held int, leaves bool) {
	p := l.window(key)
	if !p.allow(now.UnixMilli()) {
		return 0, false
	}
	held, p.held = max(p.held-1, 0), 0
	return held, true
}

// OfferUncounted is Offer for a revision or an end. It counts towards the bound, but is not
// counted as suppressed, and takes no such count along.
func (l *Limiter) OfferUncounted(key []byte, now time.Time) (leaves bool) {
	return l.window(key).allow(now.UnixMilli())
}

// window finds or adds the window of a key.
func (l *Limiter) window(key []byte) *window {
	if p := lru.GetBytes(l.keys, key); p != nil {
		return p
	}
	return l.add(string(key), window{})
}

// room reports whether an alert may be published at time t.
func (p *window) room(t int64) bool {
	n := len(p.left)
	return n < Burst || p.left[n-1] > t || p.left[0] <= t-Window.Milliseconds()
}

// allow reports whether an alert may be published at time t, and notes it.
func (p *window) allow(t int64) bool {
	if n := len(p.left); n > 0 && p.left[n-1] > t {
		p.left = p.left[:0]
	}
	gone := 0
	for gone < len(p.left) && p.left[gone] <= t-Window.Milliseconds() {
		gone++
	}
	p.left = append(p.left[:0], p.left[gone:]...)
	if len(p.left) == Burst {
		return false
	}
	p.left = append(p.left, t)
	return true
}

func (l *Limiter) add(key string, p window) *window {
	stored, gone := l.keys.Add(key, p)
	if gone != nil {
		l.evicted++
		l.lost += uint64(gone.Value.held)
	}
	return stored
}

// State has the windows.
func (l *Limiter) State(s *snapshot.State) {
	snapshot.Entries(s, 1, l.keys, func(s *snapshot.State, key *string, p *window) {
		s.String(1, key, maxKey)
		p.left = s.PackedTimes(2, p.left, Burst)
		snapshot.Uint(s, 3, &p.held, maxTotal)
	}, func(key string, p window) { l.add(key, p) })
}
