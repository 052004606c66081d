package sentry

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// measurements are the vitals of a page in transactions and single spans.
type measurements struct {
	LCP  optional[measurement] `json:"lcp"`
	FCP  optional[measurement] `json:"fcp"`
	CLS  optional[measurement] `json:"cls"`
	INP  optional[measurement] `json:"inp"`
	TTFB optional[measurement] `json:"ttfb"`
}

type measurement struct {
	Value text `json:"value"`
	// Unit is millisecond if it is missing.
	Unit text `json:"unit"`
}

// ms is a measured time in milliseconds, or nil.
func (m measurement) ms() *float64 {
	v := positive(m.Value)
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

// positive is a number that is not negative, or nil.
func positive(t text) *float64 {
	if v, ok := t.number(); ok && v >= 0 {
		return &v
	}
	return nil
}

// either is the first that was measured.
func either(a, b *float64) *float64 {
	if a != nil {
		return a
	}
	return b
}

func vitalsOf(m *measurements, a *attrs) telemetry.Vitals {
	return telemetry.Vitals{
		LCP:  either(m.LCP.v.ms(), positive(a.LCP.text)),
		FCP:  either(m.FCP.v.ms(), positive(a.FCP.text)),
		CLS:  either(positive(m.CLS.v.Value), positive(a.CLS.text)),
		INP:  either(m.INP.v.ms(), positive(a.INP.text)),
		TTFB: either(m.TTFB.v.ms(), positive(a.TTFB.text)),
	}
}

// loads collects the vitals of an item: an SDK sends each as a span of its own, and
// together they are one page load.
type loads struct {
	events []telemetry.Event
	// latest is the index of the latest load of each origin.
	latest map[origin]int
}

// add adds vitals to the latest load of their page. A metric that this load has already
// belongs to another load.
func (l *loads) add(o origin, at time.Time, v telemetry.Vitals, device telemetry.Device) {
	if v == (telemetry.Vitals{}) {
		return
	}
	v.Device = device
	if i, known := l.latest[o]; known && join(l.events[i].Vitals, &v) {
		return
	}
	if l.latest == nil {
		l.latest = map[origin]int{}
	}
	l.latest[o] = len(l.events)
	e := o.event(telemetry.KindVitals, at)
	e.Vitals = &v
	l.events = append(l.events, e)
}

// join adds the metrics of v to those of into, unless one is in both. The device is the
// first known.
func join(into, v *telemetry.Vitals) bool {
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
