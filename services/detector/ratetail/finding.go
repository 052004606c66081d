package ratetail

// Kind is the kind of a Finding.
type Kind uint8

// The kinds of findings. Over and DriftOver return those that end something.
const (
	// Spike is more errors than usual, or than a recurring burst usually has.
	Spike Kind = iota + 1
	// SpikeOver is the end of a spike: the count has come down to what is expected.
	SpikeOver
	// SpikeStayed is a spike that became the new level.
	SpikeStayed
	// Recurring is a burst that comes by its schedule.
	Recurring
	// RecurringOver is the end of a Recurring burst.
	RecurringOver
	// Drift is a slow rise of the rate.
	Drift
	// DriftOver is the end of a drift: the rate has come back.
	DriftOver
	// DriftStayed is a drift that became the new level.
	DriftStayed
)

// Finding is a finding of a Counter, with the figures that explain it.
type Finding struct {
	Kind Kind
	// Count is the number of errors in the last Seconds, and Expected the number that was
	// expected in them.
	Count    int64
	Seconds  int64
	Expected float64
	// LogP is the natural logarithm of the probability of Count errors or more.
	LogP float64
	// Period is the period of a burst in seconds, and Usual how many errors it adds to 10
	// s. Longer reports whether it is no larger than usual but lasts longer: Expected is
	// then without the burst.
	Period, Usual float64
	Longer        bool
	// Upgrades reports whether the spike is the open Recurring burst, whose alert becomes an
	// error.
	Upgrades bool
	// From and To are the rates before and after a drift, in errors a second, and Over its
	// length in seconds.
	From, To float64
	Over     int64
}
