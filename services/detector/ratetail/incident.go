package ratetail

import "math"

// incident is what one alert of a Counter is about: the first spike, or burst that
// recurs, and all that follow it within a quiet period. It is the same incident
// when errors come back before that has passed.
type incident struct {
	grade grade
	// opened is when it began, and quietSince since when no error was part of it; 0
	// while some are.
	opened, quietSince int64
	// quietErrors are those that came since then, and level is how many there are in 10 s
	// when it is not quiet any more.
	quietErrors, level int64
	// spiking counts the seconds with errors at its level, and peak is the most errors
	// in 10 s.
	spiking, peak int64
	// frozen reports whether what was usual before it is the measure, and before is
	// that, in errors a second. Meanwhile all is what came since the beginning.
	frozen bool
	before float64
	all    level
}

// grade is how serious an incident is.
type grade uint8

const (
	none grade = iota
	// noted: a burst that came by its schedule.
	noted
	// raised: a spike.
	raised
	grades
)

const (
	// mostlyPart and mostlyOf are the share of its time that an incident has errors at
	// its level when it becomes the new level. One that comes and goes does not.
	mostlyPart, mostlyOf = 2, 3
	// stayedTimes is how many times the rate of before it is usual at its end when it
	// has become the new level by and by.
	stayedTimes = 1.5
)

// elevated is the tail, as a logarithm, of the errors in a quiet period under which
// it was not quiet: too few for a spike, but far more than are usual.
var elevated = math.Log(1e-4)

// raise makes an incident of a spike, or one more serious, and reports whether that
// is news: how it is found.
func (c *Counter) raise(found Finding) (Finding, bool) {
	i := &c.incident
	i.quietSince = 0
	if i.grade == raised {
		return Finding{}, false
	}
	found.Raises = i.grade == noted
	i.opened, i.grade, i.frozen, i.before, i.all = c.at, raised, true, c.usual.rate(), level{}
	i.spiking, i.peak = 0, c.episode.peak
	c.scales.forget()
	return found, true
}

// note makes an incident of a burst that recurs, and reports whether that is news.
func (c *Counter) note(found Finding) (Finding, bool) {
	i := &c.incident
	if i.grade == none {
		*i = incident{grade: noted, opened: c.at}
		return found, true
	}
	if i.grade == noted {
		i.quietSince = 0
	}
	c.held()
	return Finding{}, false
}

// alike is the part of an incident's peak from which on a burst that comes by its
// schedule is one of the incident's.
const alike = 0.5

// held notes how large the episode is that continues. One that comes by its schedule
// holds an incident open when it is as large as that.
func (c *Counter) held() {
	i := &c.incident
	switch {
	case c.state == spiking:
		i.peak = max(i.peak, c.episode.peak)
	case i.grade == raised && float64(c.episode.peak) >= alike*float64(i.peak):
		i.quietSince = 0
	}
}

// atLevel is the tail, as a logarithm, under which a count in 10 s may be one of the
// incident, and not of what is usual.
var atLevel = math.Log(1e-2)

// quieten notes that what continued in an incident has calmed.
func (c *Counter) quieten() {
	i := &c.incident
	if i.grade == none || i.quietSince != 0 {
		return
	}
	i.quietSince, i.quietErrors, i.level = c.at, 0, maxCount
	if !i.frozen {
		return
	}
	// Halfway between what is usual and what came in the incident it is at its level.
	p := c.scales.expect(c.usual, slots)
	step := max(1, p.deviation()/4)
	level := math.Ceil(max(leastLevel, p.mean, (p.mean+slots*i.all.rate())/2))
	for range levelSteps {
		if p.logTail(level) < atLevel {
			break
		}
		level = math.Ceil(level + step)
	}
	i.level = int64(min(level, maxCount))
}

// leastLevel is the fewest errors in 10 s that are at an incident's level, and
// levelSteps how many quarters of a deviation over the mean that is at most.
const leastLevel, levelSteps = 2, 40

// heard takes note of an error in a quiet period, with n in the last 10 s.
func (c *Counter) heard(n int64) {
	i := &c.incident
	if i.quietErrors++; n >= i.level {
		i.quietSince, i.quietErrors = c.at, 0
	}
}

// deadline is the second in which the incident ends if nothing more comes.
func (i *incident) deadline() int64 {
	if i.grade == none || i.quietSince == 0 {
		return math.MaxInt64
	}
	return i.quietSince + quiet
}

// advance looks at the incident in the second that has begun.
func (c *Counter) advance() {
	i := &c.incident
	if i.grade == none {
		return
	}
	there := c.state == spiking || i.quietSince > c.at-slots
	if there {
		i.spiking++
	}
	age := c.at - i.opened
	switch {
	case c.at >= i.deadline():
		if i.frozen && i.quietErrors > 0 && c.scales.expect(c.usual, quiet).logTail(float64(i.quietErrors)) < elevated {
			i.quietSince, i.quietErrors = c.at, 0
			return
		}
		c.close(i.grade == raised && !i.frozen && c.usual.rate() > stayedTimes*i.before)
	case i.grade == raised && there && age > newLevel && mostlyOf*i.spiking >= mostlyPart*age:
		c.settle()
	case i.grade == raised && c.state == expected && i.quietSince == 0 && age > newLevel:
		c.close(true) // it comes by a schedule
	case i.frozen && age > newLevel:
		// It comes and goes. What is between is usual from now on.
		i.frozen = false
		c.thaw()
	}
}

// settle makes what came in the incident the new level.
func (c *Counter) settle() {
	if c.state != calm {
		c.ended()
	}
	c.scales.settle(c.incident.all)
	c.drift.rebase(c.rate(), c.at)
	c.close(true)
}

func (c *Counter) close(stayed bool) {
	if stayed && c.drift.news {
		c.drift.rebase(c.rate(), c.at) // the end of the spike reports the new level
	}
	c.stayed, c.wasNoted = stayed, c.incident.grade == noted
	c.incident = incident{}
	c.thaw()
}
