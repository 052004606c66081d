// Package errortrack is the detection rule for errors in the logs: those that occur for the
// first time, and those that come back after 30 minutes of silence.
//
// A fingerprint distinguishes errors (identity.go): the sender's own, or a hash of the
// stack, or of the template of the message. Errors of browser extensions and development
// tools are distinct from the app's. Errors that a noise rule hides do not reach this
// package, so they are new once that rule is removed.
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
	// MaxErrors is how many errors of one app are remembered. Past it, the one that was seen
	// last the longest time ago is forgotten. It is new when it occurs again.
	MaxErrors = 5000
	// Silence is how long an error must not have occurred to be reported as back.
	Silence = 30 * time.Minute
)

// Errors remembers the errors of one app.
type Errors struct {
	known   *lru.Map[uint64, record]
	evicted uint64
	// rates is the number of errors whose rate is counted.
	rates int
	// latest is the error that occurred last.
	latest struct {
		known       *record
		fingerprint uint64
	}
	// stackKey and senderKey are reused buffers for the bytes that are hashed: those of a
	// stack, and those of a sender's fingerprint.
	stackKey, senderKey []byte
}

// record is what is known of an error. Times are in milliseconds since 1970.
type record struct {
	first, last int64
	// seen counts the occurrences since first. Snapshots of versions before 7 have no count;
	// for an error of theirs, both begin with its last occurrence in such a snapshot.
	seen int64
	// name is the fingerprint that alerts show. version is that of the rule that made it.
	name    uint64
	version uint8
	// legacySeen is the last occurrence in a snapshot of a version before 7, or 0: see
	// adopt.
	legacySeen int64
	// rate is how fast the error comes, nil if that is not counted.
	rate *rate
}

const (
	// recordSize is about what a record takes, in bytes, with its entries in the index and
	// in the order of use.
	recordSize = 144
	// maxBuffer is the size up to which a buffer is reused for the next error, in bytes.
	maxBuffer = 1 << 10
)

// New returns the Errors of an app that had none.
func New() *Errors { return &Errors{known: lru.New[uint64, record](MaxErrors)} }

// Len is the number of errors remembered.
func (e *Errors) Len() int { return e.known.Len() }

// Evicted returns how many were forgotten for lack of room since New.
func (e *Errors) Evicted() uint64 { return e.evicted }

// Size is about how many bytes the errors take.
func (e *Errors) Size() int { return 2*maxBuffer + recordSize*e.known.Len() + rateSize*e.rates }

// Log counts a line of level error and returns an alert if the error is new or back. tool
// reports whether it comes from a browser extension or a development tool. Its errors are
// distinct from the app's errors with the same message.
func (e *Errors) Log(app string, event *telemetry.Event, tool bool, messageTemplate []byte, now time.Time) (alert.Alert, bool) {
	id := e.identify(event.Log, messageTemplate)
	if tool {
		id.fingerprint = ^id.fingerprint // as hard to forge as the hash itself
	}
	t := now.UnixMilli()
	k := e.known.Get(id.fingerprint)
	if k == nil {
		k = e.addRecord(id, tool, messageTemplate, t)
	}
	e.latest.known, e.latest.fingerprint = k, id.fingerprint
	silence := t - k.last
	k.last = t
	k.seen++
	switch {
	case k.seen == 1:
		return sighting{app, event, messageTemplate, id, *k, 0}.newErrorAlert(), true
	case silence >= Silence.Milliseconds():
		e.stopRate(k) // its rate before the silence says nothing about now
		return sighting{app, event, messageTemplate, id, *k, silence}.regressedAlert(), true
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

// adopt continues the record of an error that a version before 7 knew by its template. It
// raises no alert: a better fingerprint must not report all known errors once more. The error
// keeps its name, so that readers merge it with the alerts that they have.
//
// One template can stand for several errors. Each of them that occurs within Silence after
// the last occurrence in the old snapshot is adopted under the same name, even if it is new.
// Later, only the first one is adopted, as an error that is back; the others are new. So
// errors with one template that come less than twice an hour are each reported once more.
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

// State reads or writes the errors.
func (e *Errors) State(s *snapshot.Codec) {
	snapshot.Entries(s, 1, e.known, func(s *snapshot.Codec, fingerprint *uint64, k *record) {
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
