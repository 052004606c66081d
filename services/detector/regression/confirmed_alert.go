package regression

import (
	"fmt"
	"strings"

	"github.com/tocsin-bus/tocsin/services/detector/changepoint"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// subject is what an alert of Confirmed is about: a metric of a page.
type subject struct {
	metric         *metric
	app, url, page string
	device         telemetry.Device
}

// The keys in the context of the alerts of Confirmed, in addition to those of Pages.
const (
	// keyConfidence is the confidence of the finding: single, probable or confirmed. The
	// end of a finding has alert.OutcomeKey: withdrawn, recovered or new_level.
	keyConfidence = "confidence"
	// keyMedianOf is the number of loads that the value is the median of, keyChance the
	// probability of such ranks if nothing has changed, keyDevice the class of devices.
	keyMedianOf, keyChance, keyDevice = "median_of", "p", "device"
)

// risen returns the alert about a regression. One load alone is never an error: the next
// may withdraw it.
func (p *subject) risen(v changepoint.Verdict) alert.Alert {
	m, one := p.metric, v.Confidence == changepoint.Single
	a := p.compared(v.Level, v.Sample, v.Usual, v.Values)
	a.Context[keyConfidence] = v.Confidence.String()
	by, remark := m.worse(v.Level, v.Usual), ""
	if one {
		remark = "one load"
	}
	a.Title = m.name + " regressed" + by + p.on(remark)
	a.Detail = fmt.Sprintf("%s, baseline %s (%s)", p.median(v.Level, v.Sample), m.text(float64(v.Usual)/2), loads(v.Values))
	if v.Chance > 0 {
		a.Context[keyChance] = v.Chance
		a.Detail += fmt.Sprintf("; p = %.2g", v.Chance)
	}
	a.Severity = alert.Warning
	if !one && m.severeDouble(v.Level, v.Usual) {
		a.Severity = alert.Error
	}
	return a
}

// ended returns the alert about the end of a regression.
func (p *subject) ended(e ending) alert.Alert {
	m := p.metric
	a := p.compared(e.level, e.sample, e.baseline, e.loads)
	a.Severity = alert.Info
	a.Context[keyConfidence] = e.confidence.String()
	regressed := m.name + " regressed" + p.on("")
	now, usual := p.median(e.level, e.sample), fmt.Sprintf("%s (%s)", m.text(float64(e.baseline)/2), loads(e.loads))
	switch e.event {
	case changepoint.Withdrawn:
		a.Context[alert.OutcomeKey] = "withdrawn"
		a.Title = "Withdrawn: " + regressed
		a.Detail = "the loads that followed do not confirm it: " + now + ", baseline " + usual
	case changepoint.Settled:
		a.Context[alert.OutcomeKey] = alert.NewLevel
		a.Title = "New level: " + m.name + p.on("")
		a.Detail = now + ", before " + usual
	default:
		a.Context[alert.OutcomeKey] = "recovered"
		a.Title = "Resolved: " + regressed
		a.Detail = now + ", baseline " + usual
	}
	return a
}

// compared returns the fields that all alerts about a regression share. level is the
// doubled median of sample loads, and baseline that of loads loads.
func (p *subject) compared(level int64, sample int, baseline int64, loads int) alert.Alert {
	m := p.metric
	key := "regression:" + p.app + ":" + p.page + ":" + m.key
	context := map[string]any{
		"metric": m.key, "page": p.page, "value": m.value(level) / 2, "baseline": m.value(baseline) / 2, "loads": loads, keyMedianOf: sample,
	}
	if p.device != "" {
		key += ":" + string(p.device)
		context[keyDevice] = string(p.device)
	}
	return alert.Alert{
		Category: alert.Regression, Source: alert.SourcePerformance, URL: p.url, Context: context, DedupKey: key,
	}
}

// median formats a doubled median and the number of its loads.
func (p *subject) median(level int64, sample int) string {
	text := p.metric.name + " " + p.metric.text(float64(level)/2)
	if sample == 1 {
		return text + " in one load"
	}
	return fmt.Sprintf("%s (median of %s)", text, loads(sample))
}

// on names the page, with its class of devices and a remark.
func (p *subject) on(remark string) string {
	on, remarks := "", []string{}
	if p.page != "" {
		on = " on " + p.page
	}
	for _, r := range []string{string(p.device), remark} {
		if r != "" {
			remarks = append(remarks, r)
		}
	}
	if len(remarks) > 0 {
		on += " (" + strings.Join(remarks, ", ") + ")"
	}
	return on
}
