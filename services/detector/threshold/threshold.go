// Package threshold is the detection rule for an app's memory and circuit breakers: it
// finds when one changes its state.
//
// Memory is soft from 75% of its limit, and hard from 90%. A circuit starts closed. Each
// change is an alert whose dedup key names the new state. The alert about the return to
// normal or closed resolves all earlier ones, the most severe and newest first. If it is
// suppressed, the next event with the same state raises it again. Other events that change
// no state are ignored. The package needs no clock.
package threshold

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// MaxCircuits is how many circuits of one app are remembered. Past it, the least recently
// used one is forgotten and counts as closed. Nothing resolves its open alerts.
const MaxCircuits = 200

// maxName is the length of a circuit's name that counts, in bytes.
const maxName = 512

// States holds the states of one app's memory and circuits.
type States struct {
	memory   current
	circuits *lru.Map[string, current]
	size     int
	evicted  uint64
}

// current is the state of the memory or a circuit, and the state before it, as indexes of
// memoryStates or circuitStates.
type current struct {
	state, before int
	// open are the alerts since the initial state.
	open rule.Open
}

// change enters a state and reports whether it raises an alert: the state is another one,
// or it is the initial one, whose alert was suppressed and is raised again.
func (c *current) change(state int) (raises, again bool) {
	if state != c.state {
		c.state, c.before = state, c.state
		return true, false
	}
	again = state == 0 && c.open.Any()
	return again, again
}

// finding returns the finding about the current state.
func (c *current) finding(a alert.Alert, again bool) rule.Finding {
	if c.state != 0 {
		return rule.NewFinding(a, &c.open)
	}
	f := rule.EndFinding(a, &c.open)
	f.Again = again
	return f
}

// New returns the States of an app whose memory is normal and whose circuits are closed.
func New() *States { return &States{circuits: lru.New[string, current](MaxCircuits)} }

// Evicted returns how many circuits were forgotten for lack of room since New.
func (s *States) Evicted() uint64 { return s.evicted }

// Size is about how many bytes the states take.
func (s *States) Size() int { return s.size }

// state is what an alert reports about a state.
type state struct {
	name     string
	severity alert.Severity
	title    string
}

// memoryStates and circuitStates list the states, the initial one first.
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

// Memory observes how much memory is used, and returns a finding if the state has changed.
func (s *States) Memory(app string, m *telemetry.Memory) (rule.Finding, bool) {
	index := 0
	switch {
	case m.UsedBytes*10 >= m.LimitBytes*9:
		index = 2
	case m.UsedBytes*4 >= m.LimitBytes*3:
		index = 1
	}
	raises, again := s.memory.change(index)
	if !raises {
		return rule.Finding{}, false
	}
	before, now := memoryStates[s.memory.before], memoryStates[index]
	return s.memory.finding(alert.Alert{
		Severity: now.severity, Category: alert.Threshold, Source: alert.SourceMemory, Title: now.title,
		Detail: fmt.Sprintf("%s of %s used (%s%%), was %s",
			size(m.UsedBytes), size(m.LimitBytes), tenths(1000*m.UsedBytes/m.LimitBytes), before.name),
		Context: map[string]any{
			"state": now.name, "before": before.name, "used_bytes": m.UsedBytes, "limit_bytes": m.LimitBytes,
		},
		DedupKey: "threshold:" + app + ":memory:" + now.name,
	}, again), true
}

// size formats a number of bytes in the largest unit that is not larger.
func size(bytes float64) string {
	units := [...]string{"B", "KiB", "MiB", "GiB"}
	i := 0
	for ; i+1 < len(units) && bytes >= 1024; i++ {
		bytes /= 1024
	}
	return tenths(10*bytes) + " " + units[i]
}

// tenths formats a number of tenths with at most one decimal. It rounds down: 89.96% is soft
// and must not read as 90%.
func tenths(n float64) string {
	return strconv.FormatFloat(math.Floor(n)/10, 'f', -1, 64)
}

// Circuit observes the state of a circuit, and returns a finding if it has changed. It ignores
// unknown states.
func (s *States) Circuit(app string, c *telemetry.Circuit) (rule.Finding, bool) {
	index := slices.IndexFunc(circuitStates[:], func(s state) bool { return s.name == c.State })
	if index < 0 {
		return rule.Finding{}, false
	}
	name := c.Name[:min(len(c.Name), maxName)]
	circuit := s.circuits.Get(name)
	if circuit == nil {
		circuit = s.add(name, current{})
	}
	raises, again := circuit.change(index)
	if !raises {
		return rule.Finding{}, false
	}
	before, now := circuitStates[circuit.before], circuitStates[index]
	a := alert.Alert{
		Severity: now.severity, Category: alert.Threshold, Source: alert.SourceCircuit,
		Title:    "Circuit " + name + " " + now.title,
		Detail:   "was " + before.name,
		Context:  map[string]any{"circuit": name, "state": now.name, "before": before.name},
		DedupKey: "threshold:" + app + ":circuit:" + name + ":" + now.name,
	}
	if c.Reason != "" {
		a.Detail += ": " + c.Reason
		a.Context["reason"] = c.Reason
	}
	return circuit.finding(a, again), true
}

func (s *States) add(name string, c current) *current {
	stored, evicted := s.circuits.Add(name, c)
	s.size += len(name) + circuitSize
	if evicted != nil {
		s.size -= len(evicted.Key) + circuitSize
		s.evicted++
	}
	return stored
}

// circuitSize is about what a circuit takes besides its name, in bytes.
const circuitSize = 104 + rule.MaxOpenSize

// State reads or writes the states.
func (s *States) State(st *snapshot.Codec) {
	snapshot.Message(st, 1, &s.memory, (*current).fields)
	snapshot.Entries(st, 2, s.circuits, func(st *snapshot.Codec, name *string, c *current) {
		st.String(1, name, maxName)
		snapshot.Message(st, 2, c, (*current).fields)
	}, func(name string, c current) { s.add(name, c) })
}

func (c *current) fields(s *snapshot.Codec) {
	snapshot.Uint(s, 1, &c.state, uint64(len(memoryStates)-1)) // as many as circuitStates
	snapshot.Uint(s, 2, &c.before, uint64(len(memoryStates)-1))
	snapshot.Message(s, 3, &c.open, (*rule.Open).State)
}
