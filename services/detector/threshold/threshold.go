// Package threshold is the detection rule for an app's memory and circuit breakers: it
// finds when one changes its state.
//
// Memory is soft from 75% of its limit on and hard from 90%. A circuit starts closed. Each
// change is an alert whose dedup key names the new state. The one that reports normal or
// closed again resolves all earlier ones: first the worst, of equally bad ones the newest.
// If that one is suppressed, it is found again with the next event that reports the same
// state. An event that changes nothing else is ignored. The package needs no clock.
package threshold

import (
	"fmt"
	"math"
	"strconv"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// MaxCircuits is how many circuits of one app are known. Past it, the least recently used
// one is forgotten and counts as closed; what was open then never ends.
const MaxCircuits = 200

// maxName is the length from which on names of circuits are not distinguished, in bytes.
const maxName = 512

// States holds the state of one app's memory and circuits.
type States struct {
	memory   current // of memoryStates
	circuits *lru.Map[string, current]
	size     int
	evicted  uint64
}

// current is a state and the one before it, as indexes of a table of states, and the alerts
// that are open.
type current struct {
	state, before int
	open          rule.Open
}

// take changes to a state and reports whether there is something to raise: another state,
// or again the first one, whose alert was suppressed.
func (c *current) take(to int) (news, again bool) {
	if to != c.state {
		c.state, c.before = to, c.state
		return true, false
	}
	again = to == 0 && c.open.Any()
	return again, again
}

// found returns the finding for what take returned.
func (c *current) found(a alert.Alert, again bool) rule.Finding {
	if c.state != 0 {
		return rule.New(a, &c.open)
	}
	f := rule.End(a, &c.open)
	f.Again = again
	return f
}

// New returns an app whose memory is normal and whose circuits are closed.
func New() *States { return &States{circuits: lru.New[string, current](MaxCircuits)} }

// Evicted returns how many circuits were forgotten for lack of room since New.
func (s *States) Evicted() uint64 { return s.evicted }

// Size is about how many bytes are held.
func (s *States) Size() int { return s.size }

type state struct {
	name     string
	severity alert.Severity
	title    string
}

// memoryStates and circuitStates are the states, the first of which is the initial one.
var (
	memoryStates = [...]state{
		{"normal", alert.Info, "Memory is back to normal"},
		{"soft", alert.Warning, "Memory reached 75% of its limit"},
		{"hard", alert.Error, "Memory reached 90% of its limit"},
	}
	circuitStates = [...]state{
		{telemetry.CircuitClosed, alert.Info, "is closed again"},
		{telemetry.CircuitHalfOpen, alert.Warning, "is half open"},
		{telemetry.CircuitOpen, alert.Error, "is open"},
	}
)

// Memory takes a reading. There is a finding when the state has changed.
func (s *States) Memory(app string, m *telemetry.Memory) (rule.Finding, bool) {
	now := 0
	switch {
	case m.UsedBytes*10 >= m.LimitBytes*9:
		now = 2
	case m.UsedBytes*4 >= m.LimitBytes*3:
		now = 1
	}
	changed, again := s.memory.take(now)
	if !changed {
		return rule.Finding{}, false
	}
	before, is := memoryStates[s.memory.before], memoryStates[now]
	return s.memory.found(alert.Alert{
		Severity: is.severity, Category: alert.Threshold, Source: alert.SourceMemory, Title: is.title,
		Detail: fmt.Sprintf("%s of %s used (%s%%), was %s",
			size(m.UsedBytes), size(m.LimitBytes), tenths(1000*m.UsedBytes/m.LimitBytes), before.name),
		Context: map[string]any{
			"state": is.name, "before": before.name, "used_bytes": m.UsedBytes, "limit_bytes": m.LimitBytes,
		},
		DedupKey: "threshold:" + app + ":memory:" + is.name,
	}, again), true
}

// size shows a number of bytes in the largest unit of which it is at least one.
func size(bytes float64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB"}
	i := 0
	for ; i+1 < len(units) && bytes >= 1024; i++ {
		bytes /= 1024
	}
	return tenths(10*bytes) + " " + units[i]
}

// tenths shows a number of tenths with at most one decimal, rounded down: 89.96% is soft
// and must not read as 90%.
func tenths(n float64) string {
	return strconv.FormatFloat(math.Floor(n)/10, 'f', -1, 64)
}

// Circuit takes the state of a circuit. There is a finding when it has changed. Unknown
// states are ignored.
func (s *States) Circuit(app string, c *telemetry.Circuit) (rule.Finding, bool) {
	now := -1
	for i, known := range circuitStates {
		if known.name == c.State {
			now = i
		}
	}
	if now < 0 {
		return rule.Finding{}, false
	}
	name := c.Name[:min(len(c.Name), maxName)]
	last := s.circuits.Get(name)
	if last == nil {
		last = s.add(name, current{})
	}
	changed, again := last.take(now)
	if !changed {
		return rule.Finding{}, false
	}
	before, is := circuitStates[last.before], circuitStates[now]
	a := alert.Alert{
		Severity: is.severity, Category: alert.Threshold, Source: alert.SourceCircuit,
		Title:    "Circuit " + name + " " + is.title,
		Detail:   "was " + before.name,
		Context:  map[string]any{"circuit": name, "state": is.name, "before": before.name},
		DedupKey: "threshold:" + app + ":circuit:" + name + ":" + is.name,
	}
	if c.Reason != "" {
		a.Detail += ": " + c.Reason
		a.Context["reason"] = c.Reason
	}
	return last.found(a, again), true
}

func (s *States) add(name string, now current) *current {
	stored, gone := s.circuits.Add(name, now)
	s.size += len(name) + circuitSize
	if gone != nil {
		s.size -= len(gone.Key) + circuitSize
		s.evicted++
	}
	return stored
}

// circuitSize is about what a circuit takes beside its name, in bytes.
const circuitSize = 104 + rule.MaxOpenSize

// State has the states.
func (s *States) State(st *snapshot.State) {
	snapshot.Message(st, 1, &s.memory, (*current).fields)
	snapshot.Entries(st, 2, s.circuits, func(st *snapshot.State, name *string, c *current) {
		st.String(1, name, maxName)
		snapshot.Message(st, 2, c, (*current).fields)
	}, func(name string, c current) { s.add(name, c) })
}

func (c *current) fields(s *snapshot.State) {
	snapshot.Uint(s, 1, &c.state, uint64(len(memoryStates)-1)) // as many as circuitStates
	snapshot.Uint(s, 2, &c.before, uint64(len(memoryStates)-1))
	snapshot.Message(s, 3, &c.open, (*rule.Open).State)
}
