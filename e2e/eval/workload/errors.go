package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Numbers of runs. Intervals need many short runs. Each run with a schedule has all the
// hours: a rule needs hours to learn a period of one hour.
const (
	errorRuns   = 20
	longRuns    = 4
	diurnalRuns = 5
)

// BurstErrors is the number of errors of a burst. Bursts between recurring ones have twice as
// many.
const BurstErrors = 30

// BurstRates lists the usual rates at which there are bursts, in errors a second.
func BurstRates() []float64 { return []float64{0.02, 0.1, 0.5, 1, 2} }

const (
	// burstLength is the time in which the errors of a burst occur, uniformly.
	burstLength = 10 * time.Second
	// burstInTime is the time after its start in which a burst can be found: windows of 10 s
	// contain errors of it for that long.
	burstInTime = 2 * burstLength
	// quiet is the time before the first episode of a run.
	quiet = 20 * time.Minute
	// apart is the minimum time between two bursts. The average is 1.5 times that.
	apart = 20 * time.Minute
)

// Kinds of episodes of errors.
const (
	Burst = "burst"
	Drift = "drift"
)

// The errors: usual ones of several kinds, and one kind for bursts and for schedules each.
var (
	usual = []*telemetry.Event{
		failure("checkout: payment of order 4711 was refused"),
		failure("TypeError: Cannot read properties of undefined (reading 'items')"),
		failure("upstream inventory timed out after 3000 ms"),
		failure("search: no shard answered for index products-7"),
		failure("mailer: connection reset by peer"),
	}
	sudden = failure("database: too many connections")
	job    = failure("nightly import: row was rejected")
)

func failure(message string) *telemetry.Event {
	return &telemetry.Event{
		Kind: telemetry.KindLog, App: App,
		Log: &telemetry.Log{Level: telemetry.LevelError, Message: message},
	}
}

// ErrorRun returns the length of a run of errors, unless its episodes need more.
func (s Size) ErrorRun() time.Duration { return time.Duration(s.Hours) * time.Hour / errorRuns }

func errorWorkloads(size Size) []Workload {
	hours := time.Duration(size.Hours) * time.Hour
	short, long := size.ErrorRun(), hours
	var all []Workload
	add := func(generator, cell string, runs int, make func(*rand.Rand) Run) {
		all = append(all, Workload{Generator: generator, Cell: cell, Kind: Errors, Runs: runs, make: make})
	}
	for _, rate := range BurstRates() {
		cell := fmt.Sprintf("%g/s", rate)
		add("steady", cell, errorRuns, func(r *rand.Rand) Run {
			run := Run{Length: short}
			run.poisson(r, 0, short, rate)
			return run
		})
		add("bursts", cell, errorRuns, func(r *rand.Rand) Run {
			run := Run{Length: short}
			run.poisson(r, 0, short, rate)
			run.bursts(r)
			return run
		})
	}
	for _, rate := range []float64{0.1, 0.5} {
		cell := fmt.Sprintf("%g/s", rate)
		add("clustered", cell, errorRuns, func(r *rand.Rand) Run {
			run := Run{Length: short}
			run.clusters(r, rate)
			return run
		})
		add("clustered+bursts", cell, errorRuns, func(r *rand.Rand) Run {
			run := Run{Length: short}
			run.clusters(r, rate)
			run.bursts(r)
			return run
		})
	}
	for _, s := range []schedule{{time.Minute, 12}, {5 * time.Minute, 20}, {15 * time.Minute, 40}, {time.Hour, 60}} {
		cell := fmt.Sprintf("%d each %g min", s.errors, s.period.Minutes())
		add("cron", cell, longRuns, func(r *rand.Rand) Run {
			run := Run{Length: long}
			run.poisson(r, 0, long, 0.1)
			run.recurring(r, s)
			return run
		})
		add("cron+bursts", cell, longRuns, func(r *rand.Rand) Run {
			run := Run{Length: long}
			run.poisson(r, 0, long, 0.1)
			first := run.recurring(r, s)
			run.burstsOff(r, 2*BurstErrors, s, first)
			return run
		})
	}
	add("drift", "0.2/s to 0.6/s in 1 h", errorRuns, func(r *rand.Rand) Run { return drift(r, max(2*short, 6*time.Hour)) })
	add("diurnal", "0.1/s to 0.5/s in 24 h", diurnalRuns, func(r *rand.Rand) Run { return diurnal(r, max(hours/diurnalRuns, 24*time.Hour)) })
	add("silence", "1 h, then +30 in 10 s", errorRuns, func(r *rand.Rand) Run { return silence(r, max(short, 3*time.Hour), BurstErrors) })
	add("silence", "1 h, then as before", errorRuns, func(r *rand.Rand) Run { return silence(r, max(short, 3*time.Hour), 0) })
	return all
}

func (run *Run) add(at time.Duration, e *telemetry.Event) {
	run.Arrivals = append(run.Arrivals, Arrival{At: at, Event: e})
}

// one returns one of the usual errors.
func one(r *rand.Rand) *telemetry.Event { return usual[r.IntN(len(usual))] }

// poisson adds independent errors at a rate in errors a second.
func (run *Run) poisson(r *rand.Rand, from, to time.Duration, rate float64) {
	run.thinned(r, from, to, rate, func(time.Duration) float64 { return rate })
}

// thinned adds independent errors at a rate that changes and is never over highest.
func (run *Run) thinned(r *rand.Rand, from, to time.Duration, highest float64, rate func(time.Duration) float64) {
	// The exact times continue in float64, so that cutting them to milliseconds does
	// not change the rate.
	for at := float64(from); ; {
		at += r.ExpFloat64() / highest * float64(time.Second)
		if at >= float64(to) {
			return
		}
		if r.Float64()*highest < rate(time.Duration(at)) {
			run.add(ms(at), one(r))
		}
	}
}

// clusters adds clusters of errors at a rate in errors a second. Clusters begin at random,
// have a geometric size with mean 5, and spread over 2 s.
func (run *Run) clusters(r *rand.Rand, rate float64) {
	const mean, spread = 5, 2 * time.Second
	for at := time.Duration(0); ; {
		at += exponential(r, time.Duration(mean/rate*float64(time.Second)))
		if at+spread >= run.Length {
			return
		}
		failure := one(r)
		for {
			run.add(uniform(r, at, at+spread), failure)
			if r.Float64() < 1.0/mean {
				break
			}
		}
	}
}

// burst adds an episode with a number of errors.
func (run *Run) burst(r *rand.Rand, at time.Duration, errors int) {
	for range errors {
		run.add(uniform(r, at, at+burstLength), sudden)
	}
	run.Episodes = append(run.Episodes, Episode{Kind: Burst, Start: at, End: at + burstInTime})
}

// bursts adds bursts at random, none within the last minute.
func (run *Run) bursts(r *rand.Rand) {
	for at := quiet + exponential(r, apart/2); at+time.Minute < run.Length; at += apart + exponential(r, apart/2) {
		run.burst(r, at, BurstErrors)
	}
}

// schedule describes a recurring burst, which is no incident.
type schedule struct {
	period time.Duration
	errors int
}

const (
	// jitter is the maximum distance of a recurring burst from its schedule, and jobLength
	// the time in which its errors occur.
	jitter    = time.Second
	jobLength = 3 * time.Second
	// toLearn is the number of recurrences that look like other bursts: two define a
	// period, and the third confirms it.
	toLearn = 3
)

// recurring adds a schedule's bursts, and returns when the first is due.
func (run *Run) recurring(r *rand.Rand, s schedule) time.Duration {
	first := uniform(r, jitter, s.period)
	for i, due := 0, first; due+jitter+jobLength < run.Length; i, due = i+1, due+s.period {
		at := uniform(r, due-jitter, due+jitter)
		for range s.errors {
			run.add(uniform(r, at, at+jobLength), job)
		}
		if i < toLearn {
			run.Learning = append(run.Learning, Span{From: due - jitter, To: due + jitter + jobLength + burstLength})
		}
	}
	return first
}

// burstsOff adds bursts at least 15 s off a schedule, from the time when it can be known.
func (run *Run) burstsOff(r *rand.Rand, errors int, s schedule, first time.Duration) {
	const off = 15 * time.Second
	gap := max(apart, 2*s.period)
	for at := first + toLearn*s.period + quiet; ; at += gap + exponential(r, gap/2) {
		// The moment within the period is drawn again, away from the schedule.
		due := first + (at-first)/s.period*s.period
		at = due + uniform(r, off, s.period-off-burstLength)
		if at+time.Minute >= run.Length {
			return
		}
		run.burst(r, at, errors)
	}
}

// drift returns a run whose rate repeatedly rises within an hour, stays for two hours and
// falls back. A finding up to an hour after the rise is in time.
func drift(r *rand.Rand, length time.Duration) Run {
	const low, high, rise, inTime, stay = 0.2, 0.6, time.Hour, 2 * time.Hour, 3 * time.Hour
	run := Run{Length: length}
	at := time.Duration(0)
	for {
		begin := at + 2*time.Hour + uniform(r, 0, time.Hour)
		if begin+stay > length {
			run.poisson(r, at, length, low)
			return run
		}
		run.poisson(r, at, begin, low)
		run.thinned(r, begin, begin+stay, high, func(t time.Duration) float64 {
			return low + (high-low)*min(1, float64(t-begin)/float64(rise))
		})
		run.Episodes = append(run.Episodes, Episode{Kind: Drift, Start: begin, End: begin + inTime})
		at = begin + stay
	}
}

// diurnal returns a run whose rate has a daily rhythm, which is no incident.
func diurnal(r *rand.Rand, length time.Duration) Run {
	const mean, swing, day = 0.3, 0.2, 24 * time.Hour
	run := Run{Length: length}
	phase := 2 * math.Pi * r.Float64()
	run.thinned(r, 0, length, mean+swing, func(t time.Duration) float64 {
		return mean + swing*math.Sin(phase+2*math.Pi*float64(t)/float64(day))
	})
	return run
}

// silence returns a run with hours without errors, as of an app that is not used. After each
// hour the usual errors continue, and if errors is over 0, a burst comes first.
func silence(r *rand.Rand, length time.Duration, errors int) Run {
	const rate, gone = 0.1, time.Hour
	run := Run{Length: length}
	at := time.Duration(0)
	for {
		begin := at + time.Hour + uniform(r, 0, 20*time.Minute)
		back := begin + gone
		if back+time.Minute > length {
			run.poisson(r, at, length, rate)
			return run
		}
		run.poisson(r, at, begin, rate)
		if errors > 0 {
			run.burst(r, back, errors)
		}
		at = back
	}
}

// Failure returns the event of one usual error.
func Failure() *telemetry.Event { return usual[0] }
