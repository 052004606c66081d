package noise

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const (
	// maxExamples is how many different texts a rule keeps of the events that it matched.
	maxExamples = 3
	// A rule takes an example every firstExamples until it has maxExamples, and then a
	// newer one every exampleEvery.
	exampleEvery  = time.Minute
	firstExamples = time.Second
)

// Sighting is the part of an event that noise rules need.
type Sighting struct {
	// Text is the message or the URL.
	Text string
	// Level is the level of a log, empty for a request.
	Level telemetry.Level
	// Severity is the severity of the alert for such an event, empty if there is none.
	Severity alert.Severity
}

// levels is the order of the counts of a record.
var levels = [...]telemetry.Level{telemetry.LevelDebug, telemetry.LevelInfo, telemetry.LevelWarn, telemetry.LevelError}

// record counts the events that a rule matched since it was applied or proposed. For a
// proposed rule it includes those that led to it. Times are in milliseconds since 1970.
type record struct {
	since, lastSeen int64
	n, alarming     uint64
	levels          [len(levels)]uint64
	minutes         tally
	examples        []string // the newest last
	looked          int64    // when an example was last taken
}

// count counts an event, and returns by how many bytes the record has grown.
func (r *record) count(s Sighting, t int64) (grown int) {
	r.lastSeen = t
	r.n++
	if s.Alarming() {
		r.alarming++
	}
	if i := slices.Index(levels[:], s.Level); i >= 0 {
		r.levels[i]++
	}
	r.minutes.add(t, 1)
	every := firstExamples
	if len(r.examples) == maxExamples {
		every = exampleEvery
	}
	if ago := t - r.looked; ago >= every.Milliseconds() || ago < 0 {
		r.looked = t
		return r.addExample(s.Text)
	}
	return 0
}

// addExample adds an example, in place of the oldest one, unless it is in the list.
func (r *record) addExample(text string) (grown int) {
	text = sanitize.Cut(sanitize.Visible(head(text)), maxExample)
	if text == "" || slices.Contains(r.examples, text) {
		return 0
	}
	if len(r.examples) == maxExamples {
		grown = -len(r.examples[0])
		r.examples = slices.Delete(r.examples, 0, 1)
	}
	r.examples = append(r.examples, strings.Clone(text))
	return grown + len(text)
}

// restart resets the counts when a proposed rule is applied. The examples stay.
func (r *record) restart(t int64) {
	*r = record{since: t, lastSeen: r.lastSeen, examples: r.examples, looked: r.looked}
}

// join adds the record of a rule that this one replaces.
func (r *record) join(o *record) {
	r.since, r.lastSeen = min(r.since, o.since), max(r.lastSeen, o.lastSeen)
	r.n += o.n
	r.alarming += o.alarming
	for i := range levels {
		r.levels[i] += o.levels[i]
	}
	r.minutes.join(&o.minutes)
}

func (r *record) size() int {
	n := recordSize
	for _, e := range r.examples {
		n += len(e)
	}
	return n
}

const recordSize = 256

// describe fills in the counts as hidden events, or as events that would have been hidden.
func (r *record) describe(d *query.NoiseRule, hides bool, now int64) {
	if hides {
		d.Hidden, d.HiddenLast10Min, d.AlertsHeld = r.n, r.minutes.sum(now), r.alarming
	} else {
		d.WouldHide, d.WouldHideLast10Min, d.WouldHoldAlerts = r.n, r.minutes.sum(now), r.alarming
	}
	for i, n := range r.levels {
		if n > 0 {
			if d.ByLevel == nil {
				d.ByLevel = map[telemetry.Level]uint64{}
			}
			d.ByLevel[levels[i]] = n
		}
	}
	d.Examples = slices.Clone(r.examples)
	d.Since, d.LastSeen = stamp(r.since), stamp(r.lastSeen)
}

func stamp(t int64) time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMilli(t).UTC()
}

func (r *record) state(s *snapshot.Codec) {
	counts := r.levels[:]
	snapshot.Uint(s, 1, &r.n, maxHidden)
	snapshot.Int(s, 2, &r.lastSeen, snapshot.AnyInt)
	snapshot.Int(s, 3, &r.since, snapshot.AnyInt)
	snapshot.Int(s, 4, &r.looked, snapshot.AnyInt)
	snapshot.Uint(s, 5, &r.alarming, maxHidden)
	snapshot.Packed(s, 6, counts, len(levels), maxHidden)
	snapshot.Message(s, 7, &r.minutes, (*tally).state)
	snapshot.Strings(s, 8, &r.examples, maxExamples, maxExcerpt)
}

// tally counts the events of each of the last 10 minutes. Its sum misses up to a minute of
// them.
type tally struct {
	minute int64 // the newest, since 1970
	n      [minutes]uint32
}

const (
	minutes = 10
	// maxMinute bounds minutes in a snapshot.
	maxMinute = 1 << 40
)

func (c *tally) add(t int64, n uint32) {
	m := minuteOf(t)
	switch {
	case m <= c.minute-minutes || m >= c.minute+minutes: // all counts are too old, or a clock was set back
		*c = tally{minute: m}
	default:
		for ; c.minute < m; c.minute++ {
			c.n[slot(c.minute+1)] = 0
		}
	}
	c.n[slot(m)] += n
}

// before counts an occurrence before the newest, unless that is too long ago.
func (c *tally) before(t int64) {
	if m := minuteOf(t); m > c.minute-minutes {
		c.n[slot(m)]++
	}
}

func (c *tally) sum(now int64) (sum uint64) {
	for m := minuteOf(now); m > c.minute-minutes && m > minuteOf(now)-minutes; m-- {
		if m <= c.minute {
			sum += uint64(c.n[slot(m)])
		}
	}
	return sum
}

func (c *tally) join(o *tally) {
	for m := o.minute - minutes + 1; m <= o.minute; m++ {
		if n := o.n[slot(m)]; n > 0 && m > c.minute-minutes {
			c.add(m*time.Minute.Milliseconds(), n)
		}
	}
}

func (c *tally) state(s *snapshot.Codec) {
	counts := c.n[:]
	snapshot.Int(s, 1, &c.minute, maxMinute)
	snapshot.Packed(s, 2, counts, minutes, math.MaxUint32)
}

func minuteOf(t int64) int64 { return t / time.Minute.Milliseconds() }

func slot(minute int64) int { return int((minute%minutes + minutes) % minutes) }
