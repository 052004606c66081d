// Package frustration is the detection rule for a person who clicks or submits repeatedly:
// 3 or more clicks on one target within a second, or the same form submitted 3 times within
// 10 seconds, in one session.
//
// There is one alert for each burst. A burst has ended when the next click comes after a
// window without clicks. The package has no clock. A time before the last one of a target
// means that a clock was set back; the target's window starts again.
package frustration

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// MaxTargets is how many targets of one app are remembered, each counted once for each session.
// Past it, the least recently used one is forgotten.
const MaxTargets = 1000

// action is a type of action. Three actions on one target within the window are a burst.
type action struct {
	name          string
	window        time.Duration
	title, detail string
}

var actions = [...]action{
	{telemetry.ActionClick, time.Second, "Repeated clicks on ", "3 clicks within 1 s on "},
	{telemetry.ActionSubmit, 10 * time.Second, "Form submitted repeatedly: ", "submitted 3 times within 10 s: "},
}

// target is what is remembered of a target in a session.
type target struct {
	// last and before are the times of the last action and the one before it, in
	// milliseconds since 1970.
	last, before int64
	// reported reports whether there was an alert about the current burst.
	reported bool
}

// never is a time before any window.
const never = -1 << 60

// Targets remembers the targets of one app.
type Targets struct {
	known   *lru.Map[uint64, target]
	buffer  []byte
	evicted uint64
}

// New returns Targets without any.
func New() *Targets { return &Targets{known: lru.New[uint64, target](MaxTargets)} }

// Evicted returns how many targets were forgotten for lack of room since New.
func (t *Targets) Evicted() uint64 { return t.evicted }

// Size is about how many bytes the targets take.
func (t *Targets) Size() int { return 96 * t.known.Len() }

// Action observes an action and returns an alert when a burst is complete.
func (t *Targets) Action(app string, event *telemetry.Event, now time.Time) (alert.Alert, bool) {
	for i := range actions {
		if actions[i].name == event.Action.Type {
			return t.count(&actions[i], app, event, now.UnixMilli())
		}
	}
	return alert.Alert{}, false
}

func (t *Targets) count(a *action, app string, event *telemetry.Event, now int64) (alert.Alert, bool) {
	key := t.key(a, event)
	known := t.known.Get(key)
	if known == nil {
		known = t.add(key, target{last: never, before: never})
	}
	if known.last > now {
		*known = target{last: never, before: never}
	}
	start := now - a.window.Milliseconds()
	if known.last <= start {
		known.reported = false
	}
	complete := known.before > start && !known.reported
	known.before, known.last = known.last, now
	if !complete {
		return alert.Alert{}, false
	}
	known.reported = true
	name := template.Message(event.Action.Target)
	return alert.Alert{
		Severity: alert.Warning, Category: alert.UserFrustration, Source: alert.SourceFrustration, URL: event.URL,
		Title: a.title + name, Detail: a.detail + event.Action.Target,
		Context:  map[string]any{"type": a.name, "target": event.Action.Target},
		DedupKey: fmt.Sprintf("user_frustration:%s:%s:%s", app, a.name, name),
	}, true
}

func (t *Targets) add(key uint64, value target) *target {
	stored, evicted := t.known.Add(key, value)
	if evicted != nil {
		t.evicted++
	}
	return stored
}

// key returns a hash of session and target, because selectors can be long.
func (t *Targets) key(a *action, event *telemetry.Event) uint64 {
	t.buffer = append(append(t.buffer[:0], a.name...), 0)
	t.buffer = append(append(t.buffer, event.Session...), 0)
	t.buffer = append(t.buffer, event.Action.Target...)
	sum := sha256.Sum256(t.buffer)
	return binary.BigEndian.Uint64(sum[:])
}

// State reads or writes the targets.
func (t *Targets) State(s *snapshot.Codec) {
	snapshot.Entries(s, 1, t.known, func(s *snapshot.Codec, key *uint64, known *target) {
		s.Hash(1, key)
		snapshot.Int(s, 2, &known.last, snapshot.AnyInt)
		snapshot.Int(s, 3, &known.before, snapshot.AnyInt)
		s.Bool(4, &known.reported)
	}, func(key uint64, known target) { t.add(key, known) })
}
