package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// The shapes are streams of errors that independent testers used against the detector:
// recurring outages, rolling restarts, wandering rates, office hours and retrying clients.

// shapeRuns is the number of runs of each shape.
const shapeRuns = 3

// ShapeRun returns the length of a run of a shape: a day at the full size.
func (s Size) ShapeRun() time.Duration { return time.Duration(s.Hours) * time.Hour / 10 }

// Outage and Rise are kinds of episodes: errors at many times the usual rate for minutes, and
// at a few times the usual rate for up to a minute.
const (
	Outage = "outage"
	Rise   = "rise"
)

// wander describes a rate in errors a second whose logarithm is an Ornstein-Uhlenbeck process
// with a standard deviation and a time constant.
type wander struct {
	mean, deviation float64
	constant        time.Duration
}

func (w wander) String() string {
	return fmt.Sprintf("%g/s, sd %g in %g s", w.mean, w.deviation, w.constant.Seconds())
}

// rise describes a rise: its factor, its length, and the time in which it has to be found.
type rise struct {
	factor         float64
	length, inTime time.Duration
}

func shapeWorkloads(size Size) []Workload {
	length := size.ShapeRun()
	var all []Workload
	add := func(generator, cell string, fill func(run *Run, r *rand.Rand)) {
		all = append(all, Workload{Generator: generator, Cell: cell, Kind: Errors, Runs: shapeRuns, make: func(r *rand.Rand) Run {
			run := Run{Length: length}
			fill(&run, r)
			return run
		}})
	}
	add("outages", "30/s for 10 min each 2.5 h", func(run *Run, r *rand.Rand) {
		run.outages(r, 0.02, 30, 10*time.Minute, 150*time.Minute)
	})
	add("restarts", "6 of 8 errors, each 2 to 5 h", (*Run).restarts)
	for _, shape := range []struct {
		wander
		inTime time.Duration
	}{
		{wander{1, 0.5, 300 * time.Second}, 15 * time.Second},
		{wander{1, 0.5, 30 * time.Second}, 15 * time.Second},
		{wander{5, 0.3, time.Minute}, time.Minute},
	} {
		add("wander", shape.String(), func(run *Run, r *rand.Rand) { run.wanders(r, shape.wander, rise{}) })
		add("wander+rises", shape.String(), func(run *Run, r *rand.Rand) { run.wanders(r, shape.wander, rise{4, time.Minute, shape.inTime}) })
	}
	add("rises", "10/s, 2 times for 30 s", func(run *Run, r *rand.Rand) {
		run.wanders(r, wander{mean: 10}, rise{2, 30 * time.Second, 30 * time.Second})
	})
	add("rises", "50/s, 1.5 times for 60 s", func(run *Run, r *rand.Rand) {
		run.wanders(r, wander{mean: 50}, rise{1.5, time.Minute, time.Minute})
	})
	add("office hours", "0.3/s, nights 0.005/s", (*Run).officeHours)
	add("retries", "5 times, 1 to 8 s apart", (*Run).retries)
	return all
}

// outages adds errors at a rate, and outages of a length at the rate during, which begin one
// period apart.
func (run *Run) outages(r *rand.Rand, rate, during float64, length, period time.Duration) {
	run.poisson(r, 0, run.Length, rate)
	for at := uniform(r, time.Hour, period); at+length+time.Minute < run.Length; at += period {
		run.poisson(r, at, at+length, during)
		run.Episodes = append(run.Episodes, Episode{Kind: Outage, Start: at, End: at + length, Grace: time.Minute})
	}
}

// restarts adds rolling restarts. None is an episode, but a detector that does not know of
// restarts cannot do better than one alert for each.
func (run *Run) restarts(r *rand.Rand) {
	const instances, errors, within, apart = 6, 8, 3 * time.Second, 20 * time.Second
	run.poisson(r, 0, run.Length, 0.05)
	for at := uniform(r, time.Hour, 3*time.Hour); at+instances*apart < run.Length; at += uniform(r, 2*time.Hour, 5*time.Hour) {
		for i := range instances {
			for range errors {
				run.add(uniform(r, at+time.Duration(i)*apart, at+time.Duration(i)*apart+within), sudden)
			}
		}
	}
}

// wanders adds errors at a rate that wanders, or is constant if its deviation is 0, and rises
// of it if their length is over 0.
func (run *Run) wanders(r *rand.Rand, w wander, rises rise) {
	const step = time.Second
	start, end := run.Length, run.Length // of the next rise
	next := func(after time.Duration) {
		start = after + exponential(r, apart/2)
		if end = start + rises.length; end+2*time.Minute > run.Length {
			start, end = run.Length, run.Length
			return
		}
		// An alert after inTime is late, but not false.
		run.Episodes = append(run.Episodes, Episode{Kind: Rise, Start: start, End: start + rises.inTime, Grace: rises.length - rises.inTime + time.Minute})
	}
	if rises.length > 0 {
		next(quiet)
	}
	keep := 0.0
	if w.constant > 0 {
		keep = math.Exp(-step.Seconds() / w.constant.Seconds())
	}
	x := w.deviation * r.NormFloat64()
	for at := time.Duration(0); at < run.Length; at += step {
		if at >= end && end < run.Length {
			next(end + apart)
		}
		rate := w.mean * math.Exp(x-w.deviation*w.deviation/2)
		// A rise begins and ends within a step, at whole milliseconds.
		cuts := [...]time.Duration{at, min(max(start, at), at+step), min(max(end, at), at+step), at + step}
		for i, cut := range cuts[:3] {
			now := rate
			if i == 1 {
				now *= rises.factor
			}
			run.poisson(r, cut, cuts[i+1], now)
		}
		x = x*keep + w.deviation*math.Sqrt(1-keep*keep)*r.NormFloat64()
	}
}

// officeHours adds errors during working hours, and hardly any at night.
func (run *Run) officeHours(r *rand.Rand) {
	const day, from, to = 24 * time.Hour, 9 * time.Hour, 17 * time.Hour
	phase := uniform(r, 0, day)
	run.thinned(r, 0, run.Length, 0.3, func(t time.Duration) float64 {
		if clock := (t + phase) % day; clock >= from && clock < to {
			return 0.3
		}
		return 0.005
	})
}

// retries adds each failure five times, as from a client that retries.
func (run *Run) retries(r *rand.Rand) {
	const failures, tries = 0.05, 5
	for at := time.Duration(0); ; {
		at += exponential(r, time.Duration(float64(time.Second)/failures))
		if at >= run.Length {
			return
		}
		failure := one(r)
		for again, try := at, 0; try < tries && again < run.Length; try++ {
			run.add(again, failure)
			again += uniform(r, time.Second, 8*time.Second)
		}
	}
}
