package ratetail

import "math"

// incident is the subject of one alert: a spike or recurring burst, and all that follow
// within a quiet period after the one before.
type incident struct {
	grade grade
	// opened is the second in which it began. quietSince is the beginning of the quiet
	// period, 0 outside of one.
	opened, quietSince int64
	// quietErrors counts the errors in the quiet period. level is the count in 10 s that
	// ends the quiet period.
	quietErrors, level int64
	// spiking counts the seconds with errors at its level. peak is the most errors in 10 s.
	spiking, peak int64
	// frozen reports whether the usual rate is still the one before the incident. before is
	// that rate, in errors a second, and all learns the rate of the incident meanwhile.
	frozen bool
	before float64
	all    level
}

// grade is how serious an incident is.
type grade uint8

const (
	gradeNone grade = iota
	// gradeRecurring is a burst that comes by its schedule.
	gradeRecurring
	// gradeSpike is a spike.
	gradeSpike
	grades
)

const (
	// An incident becomes the new level if it has errors at its level for levelPart of
	// levelOf of its time. One that comes and goes does not.
	levelPart, levelOf = 2, 3
	// stayedTimes is how many times the earlier rate the usual rate is at the end of an
	// incident that became the new level gradually.
	stayedTimes = 1.5
)

// elevatedLogP is a tail, as a logarithm. If that of the errors in a quiet period is
// smaller, the period was not quiet: too few for a spike, but far more than usual.
var elevatedLogP = math.Log(1e-4)

// openSpike opens an incident for a spike, or raises the grade of the current one, and
// returns the finding if it is new.
func (c *Counter) openSpike(found Finding) (Finding, bool) {
	i := &c.incident
	i.quietSince = 0
	if i.grade == gradeSpike {
		return Finding{}, false
	}
	found.Upgrades = i.grade == gradeRecurring
	i.opened, i.grade, i.frozen, i.before, i.all = c.at, gradeSpike, true, c.usual.rate(), level{}
	i.spiking, i.peak = 0, c.episode.peak
	c.scales.dropWaiting()
	return found, true
}

// openRecurring opens an incident for a burst that recurs, and returns the finding if it is
// new.
func (c *Counter) openRecurring(found Finding) (Finding, bool) {
	i := &c.incident
	if i.grade == gradeNone {
		*i = incident{grade: gradeRecurring, opened: c.at}
		return found, true
	}
	if i.grade == gradeRecurring {
		i.quietSince = 0
	}
	c.addEpisodeSize()
	return Finding{}, false
}

// similarSize is the part of an incident's peak from which on a burst by a schedule belongs
// to the incident.
const similarSize = 0.5

// addEpisodeSize adds the size of the current episode to the incident. A burst by a
// schedule keeps an incident open if it is of similar size.
func (c *Counter) addEpisodeSize() {
	i := &c.incident
	switch {
	case c.state == spiking:
		i.peak = max(i.peak, c.episode.peak)
	case i.grade == gradeSpike && float64(c.episode.peak) >= similarSize*float64(i.peak):
		i.quietSince = 0
	}
}

// levelLogP is the tail, as a logarithm, under which a count in 10 s may belong to the
// incident, and not to the usual rate.
var levelLogP = math.Log(1e-2)

// beginQuiet begins the quiet period of an incident whose current episode is over.
func (c *Counter) beginQuiet() {
	i := &c.incident
	if i.grade == gradeNone || i.quietSince != 0 {
		return
	}
	i.quietSince, i.quietErrors, i.level = c.at, 0, maxCount
	if !i.frozen {
		return
	}
	// The level is halfway between the usual rate and that of the incident.
	p := c.scales.expect(c.usual, slots)
	step := max(1, p.deviation()/4)
	level := math.Ceil(max(minLevel, p.mean, (p.mean+slots*i.all.rate())/2))
	for range levelSteps {
		if p.logTail(level) < levelLogP {
			break
		}
		level = math.Ceil(level + step)
	}
	i.level = int64(min(level, maxCount))
}

// minLevel is the least level of an incident, and levelSteps the number of quarters of a
// deviation over the mean that it is at most.
const minLevel, levelSteps = 2, 40

// countQuietError counts an error in a quiet period, with n errors in the last 10 s.
func (c *Counter) countQuietError(n int64) {
	i := &c.incident
	if i.quietErrors++; n >= i.level {
		i.quietSince, i.quietErrors = c.at, 0
	}
}

// deadline returns the second in which the incident ends if nothing more comes.
func (i *incident) deadline() int64 {
	if i.grade == gradeNone || i.quietSince == 0 {
		return math.MaxInt64
	}
	return i.quietSince + quietPeriod
}

// updateIncident updates the incident for the second that has begun.
func (c *Counter) updateIncident() {
	i := &c.incident
	if i.grade == gradeNone {
		return
	}
	atLevel := c.state == spiking || i.quietSince > c.at-slots
	if atLevel {
		i.spiking++
	}
	age := c.at - i.opened
	switch {
	case c.at >= i.deadline():
		if i.frozen && i.quietErrors > 0 && c.scales.expect(c.usual, quietPeriod).logTail(float64(i.quietErrors)) < elevatedLogP {
			i.quietSince, i.quietErrors = c.at, 0
			return
		}
		c.close(i.grade == gradeSpike && !i.frozen && c.usual.rate() > stayedTimes*i.before)
	case i.grade == gradeSpike && atLevel && age > newLevel && levelOf*i.spiking >= levelPart*age:
		c.adoptLevel()
	case i.grade == gradeSpike && c.state == expected && i.quietSince == 0 && age > newLevel:
		c.close(true) // it comes by a schedule from now on
	case i.frozen && age > newLevel:
		// The errors come and go. The rate between their bursts is usual from now on.
		i.frozen = false
		c.updateUsual()
	}
}

// adoptLevel makes the rate of the incident the usual one and closes the incident.
func (c *Counter) adoptLevel() {
	if c.state != calm {
		c.endEpisode()
	}
	c.scales.setLevel(c.incident.all)
	c.drift.rebase(c.rate(), c.at)
	c.close(true)
}

func (c *Counter) close(stayed bool) {
	if stayed && c.drift.unreported {
		c.drift.rebase(c.rate(), c.at) // the end of the spike reports the new level
	}
	c.stayed, c.wasRecurring = stayed, c.incident.grade == gradeRecurring
	c.incident = incident{}
	c.updateUsual()
}
