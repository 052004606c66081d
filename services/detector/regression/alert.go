package regression

import (
	"fmt"
	"strconv"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// load is one metric of a page load, with the baseline that it was compared with.
type load struct {
	metric         *metric
	units          int64
	baseline       reference
	app, page, url string
}

// alert returns the alert about a load over the baseline.
func (l *load) alert() alert.Alert {
	a := l.compared()
	a.Title, a.Severity = l.title(), alert.Warning
	if l.metric.severe(l.units, &l.baseline) {
		a.Severity = alert.Error
	}
	return a
}

// resolution returns the alert that resolves a regression.
func (l *load) resolution() alert.Alert {
	a := l.compared()
	a.Title, a.Severity = "Resolved: "+l.metric.name+" regressed"+l.on(), alert.Info
	return a
}

// newLevel returns the alert that closes a regression whose level is the baseline now.
func (l *load) newLevel() alert.Alert {
	a := l.compared()
	a.Title, a.Severity = "New level: "+l.metric.name+l.on(), alert.Info
	a.Context[alert.OutcomeKey] = alert.NewLevel
	return a
}

// compared returns the fields that all alerts about a regression share.
func (l *load) compared() alert.Alert {
	m, b := l.metric, l.baseline
	return alert.Alert{
		Category: alert.Regression, Source: alert.SourcePerformance, URL: l.url,
		Detail: fmt.Sprintf("%s %s, baseline %s (%s)", m.name, m.text(float64(l.units)), m.text(float64(b.double)/2),
			loads(b.loads)),
		Context: map[string]any{
			"metric": m.key, "page": l.page, "value": m.value(l.units), "baseline": m.value(b.double) / 2, "loads": b.loads,
		},
		DedupKey: "regression:" + l.app + ":" + l.page + ":" + m.key,
	}
}

func (l *load) title() string {
	return l.metric.name + " regressed" + l.metric.worse(2*l.units, l.baseline.double) + l.on()
}

func (l *load) on() string {
	if l.page == "" {
		return ""
	}
	return " on " + l.page
}

// loads formats a number of loads.
func loads(n int) string {
	if n == 1 {
		return "1 load"
	}
	return strconv.Itoa(n) + " loads"
}
