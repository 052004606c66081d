package regression

import (
	"fmt"
	"math"
	"strconv"

	"github.com/tocsin-bus/tocsin/shared/alert"
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

func (m *metric) alert(v int64, b baseline, app, page, url string) alert.Alert {
	a := alert.Alert{
		Severity: alert.Warning, Category: alert.Regression, Source: alert.SourcePerformance, URL: url,
		Title: m.title(v, b, page),
		Detail: fmt.Sprintf("%s %s, baseline %s (%s)", m.name, m.text(float64(v)), m.text(float64(b.double)/2),
			count(b.loads, "load")),
		Context: map[string]any{
			"metric": m.key, "page": page, "value": m.value(v), "baseline": m.value(b.double) / 2, "loads": b.loads,
		},
		DedupKey: "regression:" + app + ":" + page + ":" + m.key,
	}
	if m.severe(v, b) {
		a.Severity = alert.Error
	}
	return a
}

// title tells by how much it is worse, rounded down: it never claims what the
// rule didn't find.
func (m *metric) title(v int64, b baseline, page string) string {
	worse := 2*v - b.double
	by := ""
	switch {
	case m.scale == shift:
		by = " by " + m.text(float64(worse/2))
	case b.double > 0:
		by = fmt.Sprintf(" %d%%", 100*worse/b.double)
	}
	on := ""
	if page != "" {
		on = " on " + page
	}
	return m.name + " regressed" + by + on
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

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
