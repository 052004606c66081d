// Package ratelimit bounds how many alerts the detector publishes.
//
// [Limiter] bounds repetitions: 10 alerts with one key in 10 s. The next published alert
// includes the suppressed ones in its count. Suppressed revisions and resolutions are not
// counted.
//
// [Budget] bounds different alerts, of one app and of all apps together. One summary
// replaces those that it suppresses.
//
// The package has no clock. A time before the last one of a key means that a clock was set
// back; the key's window starts again.
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

// New returns a limiter without keys.
func New() *Limiter { return &Limiter{keys: lru.New[string, window](MaxKeys)} }

// Evicted returns how many keys were forgotten for lack of room since New.
func (l *Limiter) Evicted() uint64 { return l.evicted }

// Lost returns how many suppressed alerts were forgotten with their keys since New.
func (l *Limiter) Lost() uint64 { return l.lost }

// HasRoom reports whether [Limiter.Allow] would allow an alert with a key.
func (l *Limiter) HasRoom(key []byte, now time.Time) bool {
	w := lru.GetBytes(l.keys, key)
	return w == nil || w.hasRoom(now.UnixMilli())
}

// Allow reports whether an alert with a key may be published, and counts it as published or
// as suppressed. If it is allowed, suppressed is the number of alerts that were suppressed
// since the last published one. The count of the alert has to include them.
func (l *Limiter) Allow(key []byte, now time.Time) (suppressed int, allowed bool) {
	w := l.window(key)
	if !w.allow(now.UnixMilli()) {
		w.suppressed++
		return 0, false
	}
	suppressed, w.suppressed = w.suppressed, 0
	return suppressed, true
}

// AllowRetry is Allow for an alert that was suppressed before, and so is counted already.
func (l *Limiter) AllowRetry(key []byte, now time.Time) (suppressed int, allowed bool) {
	w := l.window(key)
	if !w.allow(now.UnixMilli()) {
		return 0, false
	}
	suppressed, w.suppressed = max(w.suppressed-1, 0), 0
	return suppressed, true
}

// AllowUncounted is Allow for a revision or a resolution. It counts towards the bound, but
// is not counted as suppressed, and leaves the count of suppressed alerts as it is.
func (l *Limiter) AllowUncounted(key []byte, now time.Time) (allowed bool) {
	return l.window(key).allow(now.UnixMilli())
}

// window finds or adds the window of a key.
func (l *Limiter) window(key []byte) *window {
	if w := lru.GetBytes(l.keys, key); w != nil {
		return w
	}
	return l.add(string(key), window{})
}

// hasRoom reports whether an alert may be published at time t.
func (w *window) hasRoom(t int64) bool {
	n := len(w.published)
	return n < Burst || w.published[n-1] > t || w.published[0] <= t-Window.Milliseconds()
}

// allow reports whether an alert may be published at time t, and if so adds it.
func (w *window) allow(t int64) bool {
	if n := len(w.published); n > 0 && w.published[n-1] > t {
		w.published = w.published[:0]
	}
	expired := 0
	for expired < len(w.published) && w.published[expired] <= t-Window.Milliseconds() {
		expired++
	}
	w.published = append(w.published[:0], w.published[expired:]...)
	if len(w.published) == Burst {
		return false
	}
	w.published = append(w.published, t)
	return true
}

func (l *Limiter) add(key string, w window) *window {
	stored, evicted := l.keys.Add(key, w)
	if evicted != nil {
		l.evicted++
		l.lost += uint64(evicted.Value.suppressed)
	}
	return stored
}

// State reads or writes the windows.
func (l *Limiter) State(s *snapshot.Codec) {
	snapshot.Entries(s, 1, l.keys, func(s *snapshot.Codec, key *string, w *window) {
		s.String(1, key, maxKey)
		w.published = s.PackedTimes(2, w.published, Burst)
		snapshot.Uint(s, 3, &w.suppressed, maxTotal)
	}, func(key string, w window) { l.add(key, w) })
}
