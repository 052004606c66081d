package regression

import (
	"math"
	"strconv"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// metric is one field of the vitals. Values are counted in whole units, of
// which a millisecond, or 1 for CLS, has scale: so every comparison is exact.
type metric struct {
	key, name, unit string
	scale           int64
	of              func(*telemetry.Vitals) *float64
}

// The units: a timing in microseconds, CLS in steps of 0.0001.
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

// maxValue is the largest value that is told from a larger one: 11 days.
const maxValue = 1e9

func (m *metric) units(v float64) int64 {
	return int64(math.Round(min(max(v, 0), maxValue) * float64(m.scale)))
}

func (m *metric) value(units int64) float64 { return float64(units) / float64(m.scale) }

// over is the rule. Everything is doubled, as the median is.
func (m *metric) over(v int64, b baseline) bool {
	if b.loads == 0 {
		return false
	}
	worse := 2*v - b.double
	if m.scale == shift {
		if worse <= 2*shift/10 {
			return false
		}
	} else if 5*v <= 3*b.double || worse < 2*50*timing {
		return false
	}
	return b.loads < minSpread || 2*worse > 3*b.spread()
}

// severe is whether what is over is 50% over, or 0.25 for CLS.
func (m *metric) severe(v int64, b baseline) bool {
	if m.scale == shift {
		return 2*v-b.double >= 2*shift/4
	}
	return 4*v >= 3*b.double
}

// text shows a number of units with at most one decimal of a millisecond, or
// four of CLS.
func (m *metric) text(units float64) string {
	decimals := 10.0
	if m.scale == shift {
		decimals = shift
	}
	rounded := math.Round(units/float64(m.scale)*decimals) / decimals
	return strconv.FormatFloat(rounded, 'f', -1, 64) + m.unit
}
