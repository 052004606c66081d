package sentry

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// measurements are the vitals of a page in transactions and single spans.
type measurements struct {
	LCP  lenientObject[measurement] `json:"lcp"`
	FCP  lenientObject[measurement] `json:"fcp"`
	CLS  lenientObject[measurement] `json:"cls"`
	INP  lenientObject[measurement] `json:"inp"`
	TTFB lenientObject[measurement] `json:"ttfb"`
}

type measurement struct {
	Value lenientText `json:"value"`
	// Unit may be empty, which means millisecond.
	Unit lenientText `json:"unit"`
}

// ms returns a measured time in milliseconds, or nil.
func (m measurement) ms() *float64 {
	v := nonNegative(m.Value)
	if v == nil {
		return nil
	}
	switch m.Unit {
	case "second":
		*v *= 1e3
	case "microsecond":
		*v /= 1e3
	case "nanosecond":
		*v /= 1e6
	}
	return v
}

// nonNegative returns the number in a text if it is not negative, else nil.
func nonNegative(t lenientText) *float64 {
	if v, ok := t.number(); ok && v >= 0 {
		return &v
	}
	return nil
}

// firstMeasured returns the first value that is not nil.
func firstMeasured(a, b *float64) *float64 {
	if a != nil {
		return a
	}
	return b
}

func vitalsOf(m *measurements, a *spanAttributes) telemetry.Vitals {
	return telemetry.Vitals{
		LCP:  firstMeasured(m.LCP.v.ms(), nonNegative(a.LCP.lenientText)),
		FCP:  firstMeasured(m.FCP.v.ms(), nonNegative(a.FCP.lenientText)),
		CLS:  firstMeasured(nonNegative(m.CLS.v.Value), nonNegative(a.CLS.lenientText)),
		INP:  firstMeasured(m.INP.v.ms(), nonNegative(a.INP.lenientText)),
		TTFB: firstMeasured(m.TTFB.v.ms(), nonNegative(a.TTFB.lenientText)),
	}
}

// pageLoads joins the vitals of an item: an SDK sends each metric of a page load as a span of
// its own.
type pageLoads struct {
	events []telemetry.Event
	// latest is the index of the latest load of each page.
	latest map[eventBase]int
}

// add adds vitals to the latest load of their page. A metric that this load has already
// belongs to another load.
func (l *pageLoads) add(o eventBase, at time.Time, v telemetry.Vitals, device telemetry.Device) {
	if v == (telemetry.Vitals{}) {
		return
	}
	v.Device = device
	if i, known := l.latest[o]; known && mergeVitals(l.events[i].Vitals, &v) {
		return
	}
	if l.latest == nil {
		l.latest = map[eventBase]int{}
	}
	l.latest[o] = len(l.events)
	e := o.newEvent(telemetry.KindVitals, at)
	e.Vitals = &v
	l.events = append(l.events, e)
}

// mergeVitals adds the metrics of v to those of into, and reports whether it did: not if both
// have the same metric. The device is the first that is known.
func mergeVitals(into, v *telemetry.Vitals) bool {
	pairs := [...][2]**float64{
		{&into.FCP, &v.FCP}, {&into.LCP, &v.LCP}, {&into.INP, &v.INP},
		{&into.TTFB, &v.TTFB}, {&into.Load, &v.Load}, {&into.CLS, &v.CLS},
	}
	for _, p := range pairs {
		if *p[0] != nil && *p[1] != nil {
			return false
		}
	}
	for _, p := range pairs {
		if *p[1] != nil {
			*p[0] = *p[1]
		}
	}
	if into.Device == "" {
		into.Device = v.Device
	}
	return true
}
