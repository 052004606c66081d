package ratetail

import "math"

// incident is the subject of one alert: the first spike, or burst that recurs, and all that
// follow within a quiet period. Errors that come back before that has passed belong to it.
type incident struct {
	grade grade
	// opened is when it began, and quietSince since when no error was part of it; 0 while
	// some are.
	opened, quietSince int64
	// quietErrors counts the errors since then. level is the count in 10 s at which it is
	// no longer quiet.
	quietErrors, level int64
	// spiking counts the seconds with errors at its level. peak is the most errors in 10 s.
	spiking, peak int64
	// frozen reports whether the usual rate is that of before it, and before is that rate,
	// in errors a second. Meanwhile all is what came since the beginning.
	frozen bool
	before float64
	all    level
}

// grade is how serious an incident is.
type grade uint8

const (
	none grade = iota
	// noted is a burst that came by its schedule.
	noted
	// raised is a spike.
	raised
	grades
)

const (
	// An incident becomes the new level if it has errors at its level for mostlyPart of
	// mostlyOf of its time. One that comes and goes does not.
	mostlyPart, mostlyOf = 2, 3
	// stayedTimes is how many times the earlier rate the usual rate is at the end of an
	// incident that became the new level gradually.
	stayedTimes = 1.5
)

// elevated is the tail, as a logarithm, of the errors in a quiet period under which it was
// not quiet: too few for a spike, but far more than usual.
var elevated = math.Log(1e-4)

// raise makes a spike an incident, or the current incident more serious, and returns the
// finding if it is new.
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

// note makes a burst that recurs an incident, and returns the finding if it is new.
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

// alike is the part of an incident's peak from which on a burst that comes by its schedule
// belongs to the incident.
const alike = 0.5

// held notes the size of the current episode. A burst by its schedule keeps an incident
// open if it is as large.
func (c *Counter) held() {
	i := &c.incident
	switch {
	case c.state == spiking:
		i.peak = max(i.peak, c.episode.peak)
	case i.grade == raised && float64(c.episode.peak) >= alike*float64(i.peak):
		i.quietSince = 0
	}
}

// atLevel is the tail, as a logarithm, under which a count in 10 s may belong to the
// incident, and not to the usual rate.
var atLevel = math.Log(1e-2)

// quieten notes that the current episode of an incident has calmed.
func (c *Counter) quieten() {
	i := &c.incident
	if i.grade == none || i.quietSince != 0 {
		return
	}
	i.quietSince, i.quietErrors, i.level = c.at, 0, maxCount
	if !i.frozen {
		return
	}
	// The level is halfway between the usual rate and that of the incident.
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

// leastLevel is the least level of an incident, and levelSteps the number of quarters of a
// deviation over the mean that it is at most.
const leastLevel, levelSteps = 2, 40

// heard takes in an error in a quiet period, with n in the last 10 s.
func (c *Counter) heard(n int64) {
	i := &c.incident
	if i.quietErrors++; n >= i.level {
		i.quietSince, i.quietErrors = c.at, 0
	}
}

// deadline returns the second in which the incident ends if nothing more comes.
func (i *incident) deadline() int64 {
	if i.grade == none || i.quietSince == 0 {
		return math.MaxInt64
	}
	return i.quietSince + quiet
}

// advance updates the incident for the second that has begun.
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
		// It comes and goes. What comes in between is usual from now on.
		i.frozen = false
		c.thaw()
	}
}

// settle makes the rate of the incident the new level.
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
