// Package errortrack is the detection rule for errors in the logs: those seen for the first
// time, and those that come back after 30 minutes of silence.
//
// A fingerprint distinguishes errors (identity.go): the sender's own, or a hash of the
// stack, or of the template of the message. Errors of tools are distinct from the app's.
// The package counts each error since it was first seen. Errors that a noise rule hides do
// not reach it, so they are new once the rule is removed. It has no clock.
//
// With the error-spike rule rate-tail it also finds errors that come far faster than they
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
	// the longest time is forgotten, and is new the next time.
	MaxErrors = 5000
	// Silence is how long an error must not have occurred for the next one to be "back".
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
	// stackKey and senderKey are reused buffers for the bytes that are hashed: of a stack,
	// and of a sender's fingerprint.
	stackKey, senderKey []byte
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
	// legacySeen is when a version before 7 last saw the error, 0 if none did: see adopt.
	legacySeen int64
	// rate is how fast it comes, nil if it is not counted.
	rate *rate
}

const (
	// recordSize is about what a record takes, in bytes: itself, its place in the order of
	// use, and in the index.
	recordSize = 144
	// maxBuffer is the largest buffer that is kept for the next error, in bytes.
	maxBuffer = 1 << 10
)

// New returns an app without errors.
func New() *Errors { return &Errors{known: lru.New[uint64, record](MaxErrors)} }

// Len is the number of errors remembered.
func (e *Errors) Len() int { return e.known.Len() }

// Evicted returns how many were forgotten for lack of room since New.
func (e *Errors) Evicted() uint64 { return e.evicted }

// Size is about how many bytes are held.
func (e *Errors) Size() int { return 2*maxBuffer + recordSize*e.known.Len() + rateSize*e.rates }

// Log counts a line of level error and returns an alert if the error is new or back. tool
// reports whether it comes from a browser extension or a development tool, whose errors are
// distinct from the app's own with the same words.
func (e *Errors) Log(app string, event *telemetry.Event, tool bool, messageTemplate []byte, now time.Time) (alert.Alert, bool) {
	id := e.identify(event.Log, messageTemplate)
	if tool {
		id.fingerprint = ^id.fingerprint // as hard to forge as the app's own
	}
	t := now.UnixMilli()
	k := e.known.Get(id.fingerprint)
	if k == nil {
		k = e.addRecord(id, tool, messageTemplate, t)
	}
	e.latest.known, e.latest.fingerprint = k, id.fingerprint
	silent := t - k.last
	k.last = t
	k.seen++
	switch {
	case k.seen == 1:
		return sighting{app, event, messageTemplate, id, *k, 0}.newErrorAlert(), true
	case silent >= Silence.Milliseconds():
		e.stopRate(k) // its rate before the silence says nothing about now
		return sighting{app, event, messageTemplate, id, *k, silent}.regressedAlert(), true
	default:
		return alert.Alert{}, false
	}
}

// addRecord adds the record of an error with an unknown fingerprint.
func (e *Errors) addRecord(id identity, tool bool, messageTemplate []byte, t int64) *record {
	added := record{first: t, last: t, name: id.fingerprint, version: id.version}
	if id.version > versionTemplate {
		oldFingerprint := templateFingerprint(messageTemplate)
		if tool {
			oldFingerprint = ^oldFingerprint
		}
		added = e.adopt(oldFingerprint, added, t)
	}
	stored, gone := e.known.Add(id.fingerprint, added)
	if gone != nil {
		e.evicted++
		e.stopRate(&gone.Value)
	}
	return stored
}

// adopt continues the record of an error that an older version knew by its template, without
// an alert: a better fingerprint must not report all known errors once more. The error keeps
// its name, so that readers merge it with the alerts that they have.
//
// The cost: the template stood for all errors with these words. Within Silence after the
// older version last saw one of them, each is adopted under one name, even one that is
// really new, as the older version would have taken it. Later only the first one is
// adopted, as one that is back, and the others are new. So of errors with the same words
// that come less than twice an hour, each is reported once more.
func (e *Errors) adopt(oldFingerprint uint64, added record, t int64) record {
	known := e.known.Peek(oldFingerprint)
	if known == nil || known.legacySeen == 0 {
		return added
	}
	added.first, added.last, added.seen = known.first, known.legacySeen, 1
	added.name, added.version = known.name, known.version
	if t-known.legacySeen >= Silence.Milliseconds() {
		known.legacySeen = 0
	}
	return added
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
		snapshot.Int(s, 7, &k.legacySeen, snapshot.AnyInt)
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
