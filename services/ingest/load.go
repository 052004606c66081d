package ingest

import "sync/atomic"

// DefaultMaxInFlight is the default of Config.MaxInFlight. A decoded event
// takes a few times the memory of its text; how many bodies are decoded at
// once is bounded besides.
const DefaultMaxInFlight = 64 << 20

// pressure is how near the bodies under way are to their bound.
type pressure int32

const (
	pressureNormal pressure = iota
	pressureSoft            // from 75% of the bound on
	pressureHard            // from 90% on
)

func (p pressure) String() string {
	switch p {
	case pressureHard:
		return "hard"
	case pressureSoft:
		return "soft"
	default:
		return "normal"
	}
}

// next is the pressure after a change. It falls only below 60%, so that it
// doesn't flap about a threshold.
func (p pressure) next(used, limit int64) pressure {
	switch {
	case used*10 >= limit*9:
		return pressureHard
	case used*4 >= limit*3:
		return max(p, pressureSoft)
	case used*5 < limit*3:
		return pressureNormal
	default:
		return p
	}
}

// reading is what the pressure was, and the bytes that made it so.
type reading struct {
	pressure pressure
	used     int64
}

// maxRequests is how many requests may be under way at once, whatever their
// size. It is below maxConns, so that those past it get an answer, and so do
// those who ask whether the intake is alive.
const maxRequests = 512

// load counts the requests under way and the bytes of their bodies against
// their bounds.
type load struct {
	limit    int64
	used     atomic.Int64
	requests atomic.Int64
	pressure atomic.Int32
	// changes tells the reporter. Where it is full, the reporter has enough to
	// do and compares with the pressure itself afterwards.
	changes chan reading
}

func newLoad(limit int64) *load { return &load{limit: limit, changes: make(chan reading, maxPending)} }

// take adds n bytes, or reports false where they would pass the bound.
func (l *load) take(n int64) bool {
	used := l.used.Add(n)
	l.note(used)
	if used > l.limit {
		l.give(n)
		return false
	}
	return true
}

func (l *load) give(n int64) { l.note(l.used.Add(-n)) }

// enter counts a request, or reports false where it would pass a bound.
func (l *load) enter() bool {
	if l.requests.Add(1) > maxRequests {
		l.requests.Add(-1)
		return false
	}
	return true
}

// leave ends what enter began.
func (l *load) leave() { l.requests.Add(-1) }

func (l *load) note(used int64) {
	for {
		before := l.pressure.Load()
		after := pressure(before).next(used, l.limit)
		if after == pressure(before) {
			return
		}
		if l.pressure.CompareAndSwap(before, int32(after)) {
			select {
			case l.changes <- reading{after, used}:
			default:
			}
			return
		}
	}
}

// now is the pressure at this moment, with bytes that go with it.
func (l *load) now() reading {
	p, used := pressure(l.pressure.Load()), l.used.Load()
	switch p {
	case pressureHard:
		used = max(used, (l.limit*9+9)/10)
	case pressureSoft:
		used = max(used, (l.limit*3+3)/4)
	case pressureNormal:
		used = min(used, l.limit/2)
	}
	return reading{p, used}
}
