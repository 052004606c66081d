package regression

import (
	"fmt"
	"strconv"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// load is one metric of a page load beside what it was compared with.
type load struct {
	metric         *metric
	units          int64
	baseline       baseline
	app, page, url string
}

// alert says that the load is over the baseline.
func (l *load) alert() alert.Alert {
	a := l.compared()
	a.Title, a.Severity = l.title(), alert.Warning
	if l.metric.severe(l.units, l.baseline) {
		a.Severity = alert.Error
	}
	return a
}

// resolution says that what was found is over.
func (l *load) resolution() alert.Alert {
	a := l.compared()
	a.Title, a.Severity = "Resolved: "+l.metric.name+" regressed"+l.on(), alert.Info
	return a
}

// compared is what the beginning and the end of a finding have in common.
func (l *load) compared() alert.Alert {
	m, b := l.metric, l.baseline
	return alert.Alert{
		Category: alert.Regression, Source: alert.SourcePerformance, URL: l.url,
		Detail: fmt.Sprintf("%s %s, baseline %s (%s)", m.name, m.text(float64(l.units)), m.text(float64(b.double)/2),
			count(b.loads, "load")),
		Context: map[string]any{
			"metric": m.key, "page": l.page, "value": m.value(l.units), "baseline": m.value(b.double) / 2, "loads": b.loads,
		},
		DedupKey: "regression:" + l.app + ":" + l.page + ":" + m.key,
	}
}

// title tells by how much it is worse, rounded down: it never claims what the
// rule didn't find.
func (l *load) title() string {
	m, worse := l.metric, 2*l.units-l.baseline.double
	by := ""
	switch {
	case m.scale == shift:
		by = " by " + m.text(float64(worse/2))
	case l.baseline.double > 0:
		by = fmt.Sprintf(" %d%%", 100*worse/l.baseline.double)
	}
	return m.name + " regressed" + by + l.on()
}

func (l *load) on() string {
	if l.page == "" {
		return ""
	}
	return " on " + l.page
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
