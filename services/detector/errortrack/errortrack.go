// Package errortrack decides which errors in the logs are news: those seen for
// the first time, and those that come back after 30 minutes of silence.
//
// Errors are distinguished by a fingerprint: what their sender says, else what their
// stack says, else the template of their message (identity.go), and by whether they
// come from a tool. Of each it is known when it was first seen, and how often. The
// package knows no clock, and nothing of noise: what is hidden is not given to
// it, so that it is news once it is no longer hidden.
//
// Where it is asked to, it also finds errors that come far faster than they usually
// do (escalate.go).
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
	// MaxErrors is how many errors of one app are remembered. Past it, the one
	// not seen for the longest time is forgotten and would be new again.
	MaxErrors = 5000
	// Silence is after how long an error is back rather than still there.
	Silence = 30 * time.Minute
)

// Errors remembers the errors of one app.
type Errors struct {
	known   *lru.Map[uint64, record]
	evicted uint64
	// rates is how many errors are counted in time, latest the error that was seen last
	// and its fingerprint.
	rates  int
	latest struct {
		known       *record
		fingerprint uint64
	}
	// key and said are buffers that are used again: of a stack, and of what a sender
	// said.
	key, said []byte
}

// record is what is known of an error. Times are in milliseconds since 1970.
type record struct {
	first, last int64
	// seen is how often it was, since first. Of an error that an older version knew
	// both are from when that one last saw it: it counted none.
	seen int64
	// name is the fingerprint that readers know it by, made by the rule of version.
	name    uint64
	version uint8
	// adopts is when it was last seen by an older version of the rule, 0 where none
	// knew it: see adopt.
	adopts int64
	// rate is how fast it comes, nil where nobody asks.
	rate *rate
}

const (
	// size is about what a record takes, in bytes: itself, its place in the order of
	// use, and in the index.
	size = 144
	// buffer is how long a buffer may be that is kept for the next error, in bytes.
	buffer = 1 << 10
)

// New returns an app without errors.
func New() *Errors { return &Errors{known: lru.New[uint64, record](MaxErrors)} }

// Len is the number of errors remembered.
func (e *Errors) Len() int { return e.known.Len() }

// Evicted is how many were forgotten for lack of room since New.
func (e *Errors) Evicted() uint64 { return e.evicted }

// Size is about how many bytes are held.
func (e *Errors) Size() int { return 2*buffer + size*e.known.Len() + rateSize*e.rates }

// Log takes a line of level error with the template of its message. Tool says
// that it comes from a browser extension or a development tool: the same words
// of the app's own are another error. There is an alert when it is news.
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

// meet makes the record of an error that is not known by its fingerprint.
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

// adopt makes of an error that an older version knew by its template the one that it
// is now, without saying that it was new: a better rule must not tell all that is
// known once more. It keeps its name, so that readers merge it with what they have.
//
// What it costs: the template stood for all errors with these words. Within Silence
// after the older version last saw one of them each of them is adopted, under one
// name, also one that is really new, as the older version would have taken it, too.
// Later only the first is, as the one that is back, and the others are new: of errors
// with the same words that come less than twice an hour, each is reported once more.
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
