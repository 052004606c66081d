package ingest

import (
	"sync"

	"github.com/tocsin-bus/tocsin/services/ingest/sentry"
)

// rememberedBytes bounds each of the two generations of remembered.
const rememberedBytes = 4 << 20

// rememberedEntry is about what an entry takes beside its text, in bytes.
const rememberedEntry = 64

// remembered is what SDKs of Sentry told before, as far back as memory goes:
// entries come into the younger generation, and when that is full the older one
// is forgotten and it takes its place. So the newest always stay, which a cache
// that keeps what is often asked for would not promise.
type remembered struct {
	mu             sync.Mutex
	younger, older map[sentry.Key]string
	size           int // of the younger, in bytes
	limit          int
}

func newRemembered(limit int) *remembered {
	return &remembered{younger: map[sentry.Key]string{}, limit: limit}
}

// Keep remembers a text, and reports whether its key was new.
func (r *remembered) Keep(key sentry.Key, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.recall(key); known {
		return false
	}
	size := rememberedEntry + len(text)
	if r.size+size > r.limit {
		r.older, r.younger, r.size = r.younger, map[sentry.Key]string{}, 0
	}
	r.younger[key] = text
	r.size += size
	return true
}

// Recall gives the text of a key.
func (r *remembered) Recall(key sentry.Key) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.recall(key)
}

// forget makes keys new again.
func (r *remembered) forget(keys []sentry.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range keys {
		if text, known := r.younger[key]; known {
			r.size -= rememberedEntry + len(text)
			delete(r.younger, key)
		}
		delete(r.older, key)
	}
}

// notes are what one request adds to what is remembered. It counts at once, for
// others that come at the same time, until it turns out that the request is
// refused: the SDK may send it again then.
type notes struct {
	*remembered
	kept []sentry.Key
}

// Keep remembers a text, and that it was this request that told it.
func (n *notes) Keep(key sentry.Key, text string) bool {
	fresh := n.remembered.Keep(key, text)
	if fresh {
		n.kept = append(n.kept, key)
	}
	return fresh
}

func (n *notes) undo() { n.forget(n.kept) }

func (r *remembered) recall(key sentry.Key) (string, bool) {
	if text, known := r.younger[key]; known {
		return text, true
	}
	text, known := r.older[key]
	return text, known
}
