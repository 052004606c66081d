package regression

import (
	"math"
	"strconv"

	"github.com/tocsin-bus/tocsin/services/detector/changepoint"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// metric is one field of the vitals. Values are whole numbers of units, so every comparison
// is exact; scale units make a millisecond, for CLS the value 1.
type metric struct {
	key, name, unit string
	scale           int64
	of              func(*telemetry.Vitals) *float64
}

// The scales: timings are in microseconds, CLS is in steps of 0.0001.
const (
	timing = 1000
	shift  = 10000
)

var metrics = [...]metric{
	{"fcp_ms", "FCP", " ms", timing, func(v *telemetry.Vitals) *float64 { return v.FCP }},
	{"lcp_ms", "LCP", " ms", timing, func(v *telemetry.Vitals) *float64 { return v.LCP }},
	{"inp_ms", "INP", " ms", timing, func(v *telemetry.Vitals) *float64 { return v.INP }},
	{"ttfb_ms", "TTFB", " ms", timing, func(v *telemetry.Vitals) *float64 { return v.TTFB }},
	{"load_ms", "Load", " ms", timing, func(v *telemetry.Vitals) *float64 { return v.Load }},
	{"cls", "CLS", "", shift, func(v *telemetry.Vitals) *float64 { return v.CLS }},
}

// maxValue is the value from which on values are not distinguished: 11 days.
const maxValue = 1e9

func (m *metric) units(v float64) int64 {
	return int64(math.Round(min(max(v, 0), maxValue) * float64(m.scale)))
}

func (m *metric) value(units int64) float64 { return float64(units) / float64(m.scale) }

// over reports whether a load is a regression against a baseline. The comparison doubles
// the load, because baselines hold twice their median.
func (m *metric) over(v int64, b *reference) bool {
	return m.worse20(v, b.loads, b.double) && (b.loads < minSpread || 2*(2*v-b.double) > 3*b.spread)
}

// overWindow is over for a baseline with its loads. It computes the spread only if needed.
func (m *metric) overWindow(v int64, b *baseline) bool {
	return m.worse20(v, b.loads, b.double) && (b.loads < minSpread || 2*(2*v-b.double) > 3*b.spread())
}

// worse20 reports whether a load is more than 20% and at least 50 ms over a doubled median,
// or 0.1 for CLS.
func (m *metric) worse20(v int64, loads int, double int64) bool {
	worse := 2*v - double
	if m.scale == shift {
		return loads > 0 && worse > 2*shift/10
	}
	return loads > 0 && 5*v > 3*double && worse >= 2*50*timing
}

// severe reports whether a load is at least 50% over the baseline, or 0.25 for CLS.
func (m *metric) severe(v int64, b *reference) bool { return m.severeDouble(2*v, b.double) }

// severeDouble is severe for a doubled value and a doubled baseline.
func (m *metric) severeDouble(v, baseline int64) bool {
	if m.scale == shift {
		return v-baseline >= 2*shift/4
	}
	return 2*v >= 3*baseline
}

// worse describes by how much a doubled value is over a doubled baseline, rounded down.
func (m *metric) worse(v, baseline int64) string {
	switch {
	case m.scale == shift:
		return " by " + m.text(float64((v-baseline)/2))
	case baseline > 0:
		return " " + strconv.FormatInt(100*(v-baseline)/baseline, 10) + "%"
	default:
		return ""
	}
}

// The scales of Confirmed. Loads vary by at least 5%, or 0.02 for CLS.
var (
	timings = changepoint.Scale{Factors: true, Percent: 20, Least: 2 * 50 * timing, Calm: 5}
	shifts  = changepoint.Scale{Least: 2*shift/10 + 1, Calm: 2 * shift / 50}
)

func (m *metric) levels() *changepoint.Scale {
	if m.scale == shift {
		return &shifts
	}
	return &timings
}

// text formats a number of units, with at most one decimal for milliseconds and four for
// CLS.
func (m *metric) text(units float64) string {
	decimals := 10.0
	if m.scale == shift {
		decimals = shift
	}
	rounded := math.Round(units/float64(m.scale)*decimals) / decimals
	return strconv.FormatFloat(rounded, 'f', -1, 64) + m.unit
}
