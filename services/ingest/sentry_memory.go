package ingest

import (
	"sync"

	"github.com/tocsin-bus/tocsin/services/ingest/sentry"
)

// sentryMemoryBytes bounds each of the two generations of a sentryMemory.
const sentryMemoryBytes = 4 << 20

// sentryEntryBytes is about how many bytes an entry takes in addition to its text.
const sentryEntryBytes = 64

// sentryMemory is a [sentry.Memory] of two generations. Entries enter the younger one; when it is
// full, it replaces the older one. Unlike in an LRU cache, the newest entries always remain.
type sentryMemory struct {
	mu             sync.Mutex
	younger, older map[sentry.Key]string
	size           int // of the younger, in bytes
	limit          int
}

func newSentryMemory(limit int) *sentryMemory {
	return &sentryMemory{younger: map[sentry.Key]string{}, limit: limit}
}

// Keep stores a text, and reports whether its key was new.
func (r *sentryMemory) Keep(key sentry.Key, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.find(key); known {
		return false
	}
	size := sentryEntryBytes + len(text)
	if r.size+size > r.limit {
		r.older, r.younger, r.size = r.younger, map[sentry.Key]string{}, 0
	}
	r.younger[key] = text
	r.size += size
	return true
}

// Lookup returns the text of a key.
func (r *sentryMemory) Lookup(key sentry.Key) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.find(key)
}

// forget removes keys.
func (r *sentryMemory) forget(keys []sentry.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		if text, known := r.younger[key]; known {
			r.size -= sentryEntryBytes + len(text)
			delete(r.younger, key)
		}
		delete(r.older, key)
	}
}

// sentryAdditions records the entries that one request adds to the memory. They are removed if
// the request is refused, because the SDK may then send it again.
type sentryAdditions struct {
	*sentryMemory
	added []sentry.Key
}

// Keep stores a text, and notes that this request added it.
func (a *sentryAdditions) Keep(key sentry.Key, text string) bool {
	isNew := a.sentryMemory.Keep(key, text)
	if isNew {
		a.added = append(a.added, key)
	}
	return isNew
}

// undo removes the entries that this request has added.
func (a *sentryAdditions) undo() { a.forget(a.added) }

func (r *sentryMemory) find(key sentry.Key) (string, bool) {
	if text, known := r.younger[key]; known {
		return text, true
	}
	text, known := r.older[key]
	return text, known
}
