package ratetail

import "math"

// A drift is a rise that no window of 10 s shows. A one-sided CUSUM (cumulative sum) over
// blocks of 10 s finds it: it sums how much better a rate of driftRatio times the reference
// explains the blocks than the reference does, and is never under 0. The reference is a
// level with a half-life of an hour, so it follows the rate over the day. Spikes are part
// of neither.
//
// The sum grows only while the rate is over (ratio-1)/ln(ratio) times the reference: 1.64
// for driftRatio. A rate that rises and falls between 0.1/s and 0.5/s within a day is at
// most 1.35 times the reference.
const (
	driftRatio = 2.5
	// driftLimit is the sum from which on a drift is found. By chance the sum gets there
	// once in e^20 times that it leaves 0, if the reference is exact.
	driftLimit = 20
	// driftFrom is the exposure from which on the reference is valid, in seconds.
	driftFrom = 1800
	// backRatio and backLimit are the ratio and the limit of a second sum, which finds the
	// end of a drift: it grows while the rate is under backRate times the reference.
	backRatio, backLimit = 1.6, 10
	// driftNewLevel is how long a drift lasts until it is the new level, in seconds.
	driftNewLevel = 3 * 3600
)

var (
	longMemory        = halving(3600)
	logDrift, logBack = math.Log(driftRatio), math.Log(backRatio)
	backRate          = (backRatio - 1) / logBack // 1.28
)

// drift finds errors that drift upwards.
type drift struct {
	reference level
	// sum is the CUSUM, calm the last second in which it was 0, and risen counts the errors
	// and seconds since then.
	sum   float64
	calm  int64
	risen struct{ errors, seconds float64 }
	// open reports whether a drift is open, unreported whether it has no finding yet, and
	// stayed whether the last drift ended as the new level.
	open, unreported, stayed bool
	// since is the second in which the open drift was found, from the rate before it, and
	// backSum the CUSUM of its end.
	since         int64
	from, backSum float64
	long          longSpread
}

// longSpread is how much more the counts of some minutes vary from one to the next than
// those of errors that come one by one. A rate that wanders within minutes exceeds the
// reference for many blocks by chance; one that drifts changes little from one block to the
// next.
type longSpread struct {
	// squares sums the squared differences between neighboring blocks, each in units of its
	// expectation. blocks counts them. Both are discounted.
	squares, blocks float64
	// errors and seconds are those of the current block. before is the rate in the block
	// before, if known.
	errors, seconds, before float64
	known                   bool
}

const (
	longBlock    = 300
	longHalfLife = 12 * 3600
	// longPrior is the weight of the prior in blocks: errors that come one by one. longClip
	// is how many deviations one block counts as at most, and longDoubt how far over 1 the
	// spread may be by chance.
	longPrior, longClip, longDoubt = 4, 4, 0.3
	// longGain is how much more the counts of the next hours vary than those from one block
	// to the next.
	longGain = 4
)

func (l *longSpread) factor() float64 {
	return 1 + longGain*max(0, (longPrior+l.squares)/(longPrior+l.blocks)-longDoubt-1)
}

// add adds seconds with n errors.
func (l *longSpread) add(n, seconds float64) {
	l.errors, l.seconds = l.errors+n, l.seconds+seconds
	if l.seconds < longBlock {
		return
	}
	if l.known {
		d, before := math.Exp2(-l.seconds/longHalfLife), l.before*l.seconds
		off := (l.errors - before) * (l.errors - before) / max(l.errors+before, 1)
		l.squares = l.squares*d + min(off, longClip*longClip*l.factor())
		l.blocks = l.blocks*d + 1
	}
	l.before, l.known = l.errors/l.seconds, true
	l.errors, l.seconds = 0, 0
}

// forget drops the current block and the one before.
func (l *longSpread) forget() { l.errors, l.seconds, l.before, l.known = 0, 0, 0, false }

// upperReference returns the rate of the reference, as if it had been learned from a count
// that is a deviation higher.
func (d *drift) upperReference() float64 {
	n := d.reference.count + 1
	return (n + math.Sqrt(n)) / (priorExposure + d.reference.exposure)
}

// addBlocks adds a number of blocks with n errors each, which end at a second. factor is
// the spread of the errors, and rate that of the last minutes.
func (d *drift) addBlocks(n, blocks, factor, rate float64, at int64) {
	if blocks == 0 {
		return
	}
	if d.open {
		factor = max(factor, d.long.factor())
		d.backSum = max(0, d.backSum+blocks*(block*d.upperReference()*(backRatio-1)-n*logBack)/factor)
		if d.backSum >= backLimit && rate <= backRate*d.upperReference() {
			d.close(at)
		}
		return
	}
	if d.reference.exposure >= driftFrom {
		d.long.add(n*blocks, blocks*block)
		factor = max(factor, d.long.factor())
		d.sum += blocks * (n*logDrift - block*d.upperReference()*(driftRatio-1)) / factor
		d.risen.errors += blocks * n
		d.risen.seconds += blocks * block
	}
	if d.sum <= 0 {
		d.sum, d.calm = 0, at
		d.risen.errors, d.risen.seconds = 0, 0
	}
	if d.sum >= driftLimit {
		d.long.forget()
		d.open, d.unreported, d.stayed, d.since, d.from, d.backSum = true, true, false, at, d.reference.rate(), 0
		return
	}
	d.reference.skip(blocks*block, longMemory)
	d.reference.count += n
}

// recordGap records a period without errors, in which nothing is known.
func (d *drift) recordGap() { d.long.forget() }

func (d *drift) close(at int64) {
	d.open, d.unreported, d.sum, d.calm, d.backSum = false, false, 0, at, 0
}

// rebase makes a rate the reference.
func (d *drift) rebase(rate float64, at int64) {
	d.reference.count = rate * d.reference.exposure
	d.stayed = d.open
	d.close(at)
}
