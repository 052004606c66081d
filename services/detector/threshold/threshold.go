// Package threshold notices when an app's memory or one of its circuit
// breakers changes state.
//
// Memory is soft from 75% of its limit on and hard from 90%. A circuit starts
// closed. Every change is an alert whose key names the new state. The one that
// tells of normal or closed again resolves the worst that was told since, of
// equally bad ones the newest. The package needs no clock.
package threshold

import (
	"fmt"
	"math"
	"strconv"

	"github.com/tocsin-bus/tocsin/services/detector/finding"
	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// MaxCircuits is how many circuits of one app are known. Past it, the one not
// heard of for the longest is forgotten, and counts as closed again; what was
// open then never ends.
const MaxCircuits = 200

// maxName is the longest name of a circuit that is told from a longer one, in
// bytes.
const maxName = 512

// States holds the state of one app's memory and circuits.
type States struct {
	memory   current // of memoryStates
	circuits *lru.Map[string, current]
	size     int
	evicted  uint64
}

// current is an index of a table of states, and the alert that is not over.
type current struct {
	state int
	open  finding.Open
}

// change makes the alert of a change to a state a finding.
func (c *current) change(to int, a alert.Alert) finding.Finding {
	c.state = to
	switch {
	case to == 0:
		a.Resolves = c.open.ID()
	case c.open.Worse(a.Severity):
		return finding.New(a, nil)
	}
	return finding.New(a, &c.open)
}

// New returns an app whose memory is normal and whose circuits are closed.
func New() *States { return &States{circuits: lru.New[string, current](MaxCircuits)} }

// Evicted is how many circuits were forgotten for want of room since New, Size
// about how many bytes are held.
func (s *States) Evicted() uint64 { return s.evicted }

// Size is about how many bytes are held.
func (s *States) Size() int { return s.size }

type state struct {
	name     string
	severity alert.Severity
	title    string
}

// memoryStates and circuitStates: the first is where everything starts.
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
func (s *States) Memory(app string, m *telemetry.Memory) (finding.Finding, bool) {
	before, now := memoryStates[s.memory.state], 0
	switch {
	case m.UsedBytes*10 >= m.LimitBytes*9:
		now = 2
	case m.UsedBytes*4 >= m.LimitBytes*3:
		now = 1
	}
	if now == s.memory.state {
		return finding.Finding{}, false
	}
	is := memoryStates[now]
	return s.memory.change(now, alert.Alert{
		Severity: is.severity, Category: alert.Threshold, Source: alert.SourceMemory, Title: is.title,
		Detail: fmt.Sprintf("%s of %s used (%s%%), was %s",
			size(m.UsedBytes), size(m.LimitBytes), tenths(1000*m.UsedBytes/m.LimitBytes), before.name),
		Context: map[string]any{
			"state": is.name, "before": before.name, "used_bytes": m.UsedBytes, "limit_bytes": m.LimitBytes,
		},
		DedupKey: "threshold:" + app + ":memory:" + is.name,
	}), true
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

// tenths shows a number of tenths with at most one decimal, rounded down: 89.96%
// is soft and must not be told as 90%.
func tenths(n float64) string {
	return strconv.FormatFloat(math.Floor(n)/10, 'f', -1, 64)
}

// Circuit takes the state of a circuit. There is a finding when it has changed.
// A state that is none of the contract's is ignored.
func (s *States) Circuit(app string, c *telemetry.Circuit) (finding.Finding, bool) {
	now := -1
	for i, known := range circuitStates {
		if known.name == c.State {
			now = i
		}
	}
	if now < 0 {
		return finding.Finding{}, false
	}
	name := c.Name[:min(len(c.Name), maxName)]
	last := s.circuits.Get(name)
	if last == nil {
		last = s.add(name, current{})
	}
	if last.state == now {
		return finding.Finding{}, false
	}
	before, is := circuitStates[last.state], circuitStates[now]
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
	return last.change(now, a), true
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
const circuitSize = 96 + finding.Size

// Save writes the states.
func (s *States) Save(w *snapshot.Writer) {
	s.memory.save(w)
	w.Len(s.circuits.Len())
	for name, now := range s.circuits.All() {
		w.String(name)
		now.save(w)
	}
}

func (c *current) save(w *snapshot.Writer) {
	w.Len(c.state)
	c.open.Save(w)
}

// restoreCurrent reads what save wrote, of a table of that many states.
func restoreCurrent(states int, r *snapshot.Reader) current {
	return current{state: r.UpTo(states - 1), open: finding.Restore(r)}
}

// Restore reads what Save wrote. Errors are in r.
func Restore(r *snapshot.Reader) *States {
	s := New()
	s.memory = restoreCurrent(len(memoryStates), r)
	for range r.Len(MaxCircuits) {
		name := r.String(maxName)
		s.add(name, restoreCurrent(len(circuitStates), r))
	}
	return s
}
