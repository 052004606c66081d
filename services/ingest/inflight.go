package ingest

import "sync/atomic"

// DefaultMaxInFlight is the default of Config.MaxInFlight, in bytes. A decoded event takes
// a few times the memory of its text; how many bodies are decoded at once has a bound of
// its own.
const DefaultMaxInFlight = 64 << 20

// maxRequests is how many requests may be in flight at once, of any size. It is
// below maxConns, so that those past it get an answer, and so do health checks.
const maxRequests = 512

// pressure is how near the bytes in flight are to their bound.
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

// next returns the pressure after a change. It falls only below 60%, so that it does not
// alternate around a threshold.
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

// pressureReading is a pressure, and the bytes in flight that caused it.
type pressureReading struct {
	pressure pressure
	used     int64
}

// inFlight counts the requests in flight and the bytes of their bodies against their
// bounds.
type inFlight struct {
	limit    int64
	used     atomic.Int64
	requests atomic.Int64
	pressure atomic.Int32
	// changes informs the reporter. When it is full, the reporter is busy and compares
	// with the pressure itself afterwards.
	changes chan pressureReading
}

func newInFlight(limit int64) *inFlight {
	return &inFlight{limit: limit, changes: make(chan pressureReading, maxPending)}
}

// reserve adds n bytes, or reports false if they would exceed the bound.
func (f *inFlight) reserve(n int64) bool {
	used := f.used.Add(n)
	f.updatePressure(used)
	if used > f.limit {
		f.free(n)
		return false
	}
	return true
}

// free removes n bytes.
func (f *inFlight) free(n int64) { f.updatePressure(f.used.Add(-n)) }

// enter counts a request, or reports false if it would exceed the bound.
func (f *inFlight) enter() bool {
	if f.requests.Add(1) > maxRequests {
		f.requests.Add(-1)
		return false
	}
	return true
}

// leave uncounts a request that enter counted.
func (f *inFlight) leave() { f.requests.Add(-1) }

// updatePressure sets the pressure for a number of bytes in flight, and sends a change to the
// reporter.
func (f *inFlight) updatePressure(used int64) {
	for {
		before := f.pressure.Load()
		after := pressure(before).next(used, f.limit)
		if after == pressure(before) {
			return
		}
		if f.pressure.CompareAndSwap(before, int32(after)) {
			select {
			case f.changes <- pressureReading{after, used}:
			default:
			}
			return
		}
	}
}

// reading returns the current pressure, and a number of bytes in flight that is consistent with
// it.
func (f *inFlight) reading() pressureReading {
	p, used := pressure(f.pressure.Load()), f.used.Load()
	switch p {
	case pressureHard:
		used = max(used, (f.limit*9+9)/10)
	case pressureSoft:
		used = max(used, (f.limit*3+3)/4)
	case pressureNormal:
		used = min(used, f.limit/2)
	}
	return pressureReading{p, used}
}
