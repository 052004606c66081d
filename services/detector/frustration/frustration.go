// Package frustration is the detection rule for a person who clicks or submits repeatedly:
// 3 or more clicks on one target within a second, or the same form submitted 3 times within
// 10 seconds, in one session.
//
// There is one alert per burst. A burst is over when a click comes after a window without
// any. The package has no clock. A time before the last one of a target means that a clock
// was set back; its window starts again.
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

// MaxTargets is how many targets of one app are watched, counted for each session. Past it,
// the least recently used one is forgotten.
const MaxTargets = 1000

// action is a type of action, of which 3 within the window are a burst.
type action struct {
	name          string
	window        time.Duration
	title, detail string
}

var actions = [...]action{
	{telemetry.ActionClick, time.Second, "Repeated clicks on ", "3 clicks within 1 s on "},
	{telemetry.ActionSubmit, 10 * time.Second, "Form submitted repeatedly: ", "submitted 3 times within 10 s: "},
}

// target has the times of the last click and the one before it, in milliseconds since 1970,
// and whether the current burst was reported.
type target struct {
	last, before int64
	reported     bool
}

// never is earlier than any window reaches.
const never = -1 << 60

// Targets watches the targets of one app.
type Targets struct {
	known   *lru.Map[uint64, target]
	scratch []byte
	evicted uint64
}

// New returns an app without targets.
func New() *Targets { return &Targets{known: lru.New[uint64, target](MaxTargets)} }

// Evicted returns how many targets were forgotten for lack of room since New.
func (t *Targets) Evicted() uint64 { return t.evicted }

// Size is about how many bytes are held.
func (t *Targets) Size() int { return 96 * t.known.Len() }

// Action takes an action. There is an alert when a burst is complete.
func (t *Targets) Action(app string, event *telemetry.Event, now time.Time) (alert.Alert, bool) {
	for i := range actions {
		if actions[i].name == event.Action.Type {
			return t.touch(&actions[i], app, event, now.UnixMilli())
		}
	}
	return alert.Alert{}, false
}

func (t *Targets) touch(a *action, app string, event *telemetry.Event, now int64) (alert.Alert, bool) {
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
	burst := known.before > start && !known.reported
	known.before, known.last = known.last, now
	if !burst {
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
	stored, gone := t.known.Add(key, value)
	if gone != nil {
		t.evicted++
	}
	return stored
}

// key returns the hash of a target: selectors can be long.
func (t *Targets) key(a *action, event *telemetry.Event) uint64 {
	t.scratch = append(append(t.scratch[:0], a.name...), 0)
	t.scratch = append(append(t.scratch, event.Session...), 0)
	t.scratch = append(t.scratch, event.Action.Target...)
	sum := sha256.Sum256(t.scratch)
	return binary.BigEndian.Uint64(sum[:])
}

// State has the targets.
func (t *Targets) State(s *snapshot.State) {
	snapshot.Entries(s, 1, t.known, func(s *snapshot.State, key *uint64, known *target) {
		s.Hash(1, key)
		snapshot.Int(s, 2, &known.last, snapshot.AnyInt)
		snapshot.Int(s, 3, &known.before, snapshot.AnyInt)
		s.Bool(4, &known.reported)
	}, func(key uint64, known target) { t.add(key, known) })
}
