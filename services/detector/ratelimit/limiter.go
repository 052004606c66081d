// Package ratelimit bounds how many alerts the detector publishes.
//
// Limiter bounds repetitions: 10 alerts of one key in 10 s. The next one that is published
// counts those that were suppressed. Suppressed revisions and resolutions are not counted.
//
// Budget bounds different alerts, of one app and of all apps together. What it suppresses
// is published in one summary.
//
// The package has no clock. A time before the last one of a key means that a clock was set
// back; its window starts again.
package ratelimit

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

const (
	// MaxKeys is how many keys are remembered. Past it, the least recently used one is
	// forgotten, with its count of suppressed alerts.
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
	published  []int64
	suppressed int
}

// New returns a limiter that has seen nothing.
func New() *Limiter { return &Limiter{keys: lru.New[string, window](MaxKeys)} }

// Evicted returns how many keys were forgotten for lack of room since New.
func (l *Limiter) Evicted() uint64 { return l.evicted }

// Lost returns how many suppressed alerts were forgotten with their keys.
func (l *Limiter) Lost() uint64 { return l.lost }

// HasRoom reports whether [Limiter.Allow] would allow an alert with that key.
func (l *Limiter) HasRoom(key []byte, now time.Time) bool {
	p := lru.GetBytes(l.keys, key)
	return p == nil || p.hasRoom(now.UnixMilli())
}

// Allow reports whether an alert with that key may be published, and counts it as published
// or as suppressed. suppressed is the number of alerts suppressed since the last one, which
// the count of the alert has to include.
func (l *Limiter) Allow(key []byte, now time.Time) (suppressed int, allowed bool) {
	p := l.window(key)
	if !p.allow(now.UnixMilli()) {
		p.suppressed++
		return 0, false
	}
	suppressed, p.suppressed = p.suppressed, 0
	return suppressed, true
}

// AllowRetry is Allow for an alert that was suppressed before, and is counted already.
func (l *Limiter) AllowRetry(key []byte, now time.Time) (suppressed int, allowed bool) {
	p := l.window(key)
	if !p.allow(now.UnixMilli()) {
		return 0, false
	}
	suppressed, p.suppressed = max(p.suppressed-1, 0), 0
	return suppressed, true
}

// AllowUncounted is Allow for a revision or a resolution. It counts towards the bound, but
// is not counted as suppressed, and leaves the count of suppressed alerts as it is.
func (l *Limiter) AllowUncounted(key []byte, now time.Time) (allowed bool) {
	return l.window(key).allow(now.UnixMilli())
}

// window finds or adds the window of a key.
func (l *Limiter) window(key []byte) *window {
	if p := lru.GetBytes(l.keys, key); p != nil {
		return p
	}
	return l.add(string(key), window{})
}

// hasRoom reports whether an alert may be published at time t.
func (p *window) hasRoom(t int64) bool {
	n := len(p.published)
	return n < Burst || p.published[n-1] > t || p.published[0] <= t-Window.Milliseconds()
}

// allow reports whether an alert may be published at time t, and if so adds it.
func (p *window) allow(t int64) bool {
	if n := len(p.published); n > 0 && p.published[n-1] > t {
		p.published = p.published[:0]
	}
	expired := 0
	for expired < len(p.published) && p.published[expired] <= t-Window.Milliseconds() {
		expired++
	}
	p.published = append(p.published[:0], p.published[expired:]...)
	if len(p.published) == Burst {
		return false
	}
	p.published = append(p.published, t)
	return true
}

func (l *Limiter) add(key string, p window) *window {
	stored, evicted := l.keys.Add(key, p)
	if evicted != nil {
		l.evicted++
		l.lost += uint64(evicted.Value.suppressed)
	}
	return stored
}

// State has the windows.
func (l *Limiter) State(s *snapshot.State) {
	snapshot.Entries(s, 1, l.keys, func(s *snapshot.State, key *string, p *window) {
		s.String(1, key, maxKey)
		p.published = s.PackedTimes(2, p.published, Burst)
		snapshot.Uint(s, 3, &p.suppressed, maxTotal)
	}, func(key string, p window) { l.add(key, p) })
}
