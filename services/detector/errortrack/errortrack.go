// Package errortrack is the detection rule for errors in the logs: those seen for the first
// time, and those that come back after 30 minutes of silence.
//
// A fingerprint distinguishes errors (identity.go), and whether they come from a tool. It
// is the sender's own, or made of the stack, or of the template of the message. The package
// counts each error since it was first seen. It has no clock, and is not given hidden
// errors, so they are new once no noise rule hides them.
//
// Where the settings ask for it, it also finds errors that come far faster than they
// usually do (escalate.go).
package errortrack

import (
	"math"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const (
	// MaxErrors is how many errors of one app are remembered. Past it, the one not seen for
	// the longest time is forgotten and would be new again.
	MaxErrors = 5000
	// Silence is how long an error must not have been seen to be back.
	Silence = 30 * time.Minute
)

// Errors remembers the errors of one app.
type Errors struct {
	known   *lru.Map[uint64, record]
	evicted uint64
	// rates is the number of errors whose rate is counted. latest is the error that was
	// seen last.
	rates  int
	latest struct {
		known       *record
		fingerprint uint64
	}
	// key and said are reused buffers: of a stack, and of a sender's fingerprint.
	key, said []byte
}

// record is what is known of an error. Times are in milliseconds since 1970.
type record struct {
	first, last int64
	// seen counts the occurrences since first. Versions before 7 did not count; then both
	// start when such a version last saw the error.
	seen int64
	// name is the fingerprint that readers know it by, made by the rule of version.
	name    uint64
	version uint8
	// adopts is when a version before 7 last saw the error, 0 if none did: see adopt.
	adopts int64
	// rate is how fast it comes, nil if it is not counted.
	rate *rate
}

const (
	// size is about what a record takes, in bytes: itself, its place in the order of
	// use, and in the index.
	size = 144
	// buffer is the largest buffer that is kept for the next error, in bytes.
	buffer = 1 << 10
)

// New returns an app without errors.
func New() *Errors { return &Errors{known: lru.New[uint64, record](MaxErrors)} }

// Len is the number of errors remembered.
func (e *Errors) Len() int { return e.known.Len() }

// Evicted returns how many were forgotten for lack of room since New.
func (e *Errors) Evicted() uint64 { return e.evicted }

// Size is about how many bytes are held.
func (e *Errors) Size() int { return 2*buffer + size*e.known.Len() + rateSize*e.rates }

// Log takes a line of level error with the template of its message. tool reports whether it
// comes from a browser extension or a development tool, whose errors are others than the
// app's own with the same words. There is an alert if the error is new or back.
func (e *Errors) Log(app string, event *telemetry.Event, tool bool, words []byte, now time.Time) (alert.Alert, bool) {
	id := e.identify(event.Log, words)
	if tool {
		id.fingerprint = ^id.fingerprint // as hard to meet by choice as the other
	}
	t := now.UnixMilli()
	k := e.known.Get(id.fingerprint)
	if k == nil {
		k = e.meet(id, tool, words, t)
	}
	e.latest.known, e.latest.fingerprint = k, id.fingerprint
	silent := t - k.last
	k.last = t
	k.seen++
	switch {
	case k.seen == 1:
		return sighting{app, event, words, id, *k, 0}.firstTime(), true
	case silent >= Silence.Milliseconds():
		e.uncount(k) // how fast it came before says nothing of now
		return sighting{app, event, words, id, *k, silent}.back(), true
	default:
		return alert.Alert{}, false
	}
}

// meet adds the record of an error with an unknown fingerprint.
func (e *Errors) meet(id identity, tool bool, words []byte, t int64) *record {
	met := record{first: t, last: t, name: id.fingerprint, version: id.version}
	if id.version > versionTemplate {
		former := ofTemplate(words)
		if tool {
			former = ^former
		}
		met = e.adopt(former, met, t)
	}
	stored, gone := e.known.Add(id.fingerprint, met)
	if gone != nil {
		e.evicted++
		e.uncount(&gone.Value)
	}
	return stored
}

// adopt turns an error that an older version knew by its template into the one that it is
// now, without an alert: a better rule must not report all known errors once more. It keeps
// its name, so that readers merge it with what they have.
//
// The cost: the template stood for all errors with these words. Within Silence after the
// older version last saw one of them, each is adopted under one name, even one that is
// really new, as the older version would have taken it. Later only the first one is
// adopted, as one that is back, and the others are new. So of errors with the same words
// that come less than twice an hour, each is reported once more.
func (e *Errors) adopt(former uint64, met record, t int64) record {
	known := e.known.Peek(former)
	if known == nil || known.adopts == 0 {
		return met
	}
	met.first, met.last, met.seen = known.first, known.adopts, 1
	met.name, met.version = known.name, known.version
	if t-known.adopts >= Silence.Milliseconds() {
		known.adopts = 0
	}
	return met
}

// State has the errors.
func (e *Errors) State(s *snapshot.State) {
	snapshot.Entries(s, 1, e.known, func(s *snapshot.State, fingerprint *uint64, k *record) {
		age, other := k.last-k.first, *fingerprint^k.name
		s.Hash(1, fingerprint)
		snapshot.Int(s, 2, &k.last, snapshot.AnyInt)
		snapshot.Int(s, 3, &age, snapshot.AnyInt)
		snapshot.Uint(s, 4, &k.seen, math.MaxInt64)
		s.Hash(5, &other) // mostly zero
		snapshot.Uint(s, 6, &k.version, versionStack)
		snapshot.Int(s, 7, &k.adopts, snapshot.AnyInt)
		snapshot.Optional(s, 8, &k.rate, (*rate).state)
		if !s.Reading() {
			return
		}
		if k.seen < 1 {
			s.Fail("an error that was seen %d times", k.seen)
		}
		k.first, k.name = k.last-age, *fingerprint^other
	}, func(fingerprint uint64, k record) {
		if k.rate != nil {
			e.rates++
		}
		e.known.Add(fingerprint, k)
	})
}
