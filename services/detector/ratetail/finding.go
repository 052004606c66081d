package ratetail

// Kind is what a Finding tells.
type Kind uint8

// The kinds. Those of the ends come from Over and DriftOver alone.
const (
	// Spike: more errors than are usual, or than are usual in a burst that recurs.
	Spike Kind = iota + 1
	// SpikeOver: the count has come down to what is expected.
	SpikeOver
	// SpikeStayed: a spike has become the new level.
	SpikeStayed
	// Recurring: a burst that comes by its schedule.
	Recurring
	// RecurringOver: such a burst has ended.
	RecurringOver
	// Drift: the rate has risen slowly.
	Drift
	// DriftOver: it has come back.
	DriftOver
	// DriftStayed: it has become the new level.
	DriftStayed
)

// Finding is what a Counter found, and the figures that explain it.
type Finding struct {
	Kind Kind
	// Count is the number of errors in the last Seconds, and Expected how many
	// were to be expected in them.
	Count    int64
	Seconds  int64
	Expected float64
	// LogP is the natural logarithm of the probability of so many or more.
	LogP float64
	// Period is after how many seconds a burst recurs, and Usual how many errors
	// it adds to 10 s. Longer reports whether it is no larger, but continues: what is
	// expected then is what is usual without it.
	Period, Usual float64
	Longer        bool
	// Raises reports whether the spike is of the Recurring burst that is open, whose
	// alert it raises to an error.
	Raises bool
	// From and To are the rates between which errors drifted, in errors a second,
	// and Over in how many seconds.
	From, To float64
	Over     int64
}
