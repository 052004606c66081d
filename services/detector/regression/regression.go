// Package regression is the detection rule for pages that have become slower.
//
// The baseline of a metric on a page is the median of its last 20 loads, from the first
// load on. A load is over it if a timing is more than 20% and at least 50 ms worse, or CLS
// more than 0.1. From 5 loads on it must also lie outside the median + 3 MAD (median
// absolute deviation), so a page that always varies raises no alert. A load is compared
// before it joins the baseline.
//
// A finding is measured against the baseline before it, which is frozen until the finding
// ends. A load as fast as before resolves it. If it lasts for 20 loads and a minute, or for
// 15 minutes, its level becomes the baseline: the alert is closed as a new level.
//
// [Pages] is this rule, the one of the specification. [Confirmed] is the statistical rule:
// it raises fewer alerts and states its confidence. [Rule] uses the one that the settings
// choose.
//
// A page is the path template of a URL. The package has no clock and does not limit
// repeated alerts.
package regression

import (
	"iter"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// MaxPages is how many pages of one app have baselines. Past it, the least recently loaded
// page is evicted with its open findings, at most one for each metric, which then never
// end.
const MaxPages = 2000

// Pages is the specification's rule for one app.
type Pages struct {
	pages   *lru.Map[string, *page]
	scratch []byte
	size    int
	evicted uint64
}

// page holds a window for each metric that was seen on it, nil for the others.
type page [len(metrics)]*window

// New returns an app without baselines.
func New() *Pages { return &Pages{pages: lru.New[string, *page](MaxPages)} }

// Len returns the number of pages with baselines.
func (p *Pages) Len() int { return p.pages.Len() }

// Evicted returns how many pages were evicted since New.
func (p *Pages) Evicted() uint64 { return p.evicted }

// Size returns about how many bytes are held.
func (p *Pages) Size() int { return p.size }

// Load compares a page load with the baselines of its page, then adds it to them. There is
// a finding for each metric that is over its baseline, followed by the end of each that no
// longer is; both in the order of the metrics.
func (p *Pages) Load(app, url string, vitals *telemetry.Vitals, now time.Time) []rule.Finding {
	p.scratch = template.AppendPage(p.scratch[:0], url)
	var found, ended []rule.Finding
	var windows *page
	for i := range metrics {
		m := &metrics[i]
		value := m.of(vitals)
		if value == nil {
			continue
		}
		if windows == nil {
			windows = p.page()
		}
		if windows[i] == nil {
			windows[i] = &window{}
			p.size += windowSize
		}
		w, units := windows[i], m.units(*value)
		l := load{metric: m, units: units, app: app, url: url}
		switch w.take(&l, now) {
		case raises:
			l.page = string(p.scratch)
			found = append(found, rule.RenewedFinding(l.alert(), &w.open))
		case resolves:
			l.page = string(p.scratch)
			ended = append(ended, rule.EndFinding(l.resolution(), &w.open))
		case settles:
			l.page = string(p.scratch)
			ended = append(ended, rule.EndFinding(l.newLevel(), &w.open))
		case nothing:
		}
	}
	return append(found, ended...)
}

// outcome is the result of a load.
type outcome uint8

const (
	nothing outcome = iota
	raises
	resolves
	settles
)

// take adds a load to the window, and sets the baseline that the load was compared with.
func (w *window) take(l *load, now time.Time) outcome {
	b := w.baseline()
	over := l.metric.overWindow(l.units, &b)
	end := goesOn
	var news outcome
	if w.incident == nil && w.open.Any() {
		w.resume()
	}
	if w.incident != nil {
		l.baseline = w.incident.before
		end = w.incident.take(l.metric, l.units, now)
	}
	switch {
	case end == isNewLevel && w.incident.loads > 0:
		// The loads of the incident are the baseline; loads is 0 once they are.
		w.add(l.units)
		w.keep(w.incident.loads)
		w.incident.loads = 0
		news = settles
	case over:
		if w.incident == nil || end != goesOn {
			w.incident = &incident{before: b.reference(), least: l.units}
			w.incident.take(l.metric, l.units, now)
		}
		l.baseline = b.reference()
		w.add(l.units)
		return raises
	default:
		w.add(l.units)
		news = [...]outcome{goesOn: nothing, isResolved: resolves, isNewLevel: settles}[end]
	}
	if end != goesOn && !w.open.Any() { // no alert left, or its end has
		w.incident = nil
		return nothing
	}
	return news
}

// page finds or adds the windows of the page in scratch.
func (p *Pages) page() *page {
	if found := lru.GetBytes(p.pages, p.scratch); found != nil {
		return *found
	}
	return p.add(string(p.scratch), &page{})
}

// About how many bytes a window and a page take.
const (
	windowSize = 8*Loads + 24 + incidentSize + rule.OpenSize
	pageSize   = 8*len(metrics) + 128
)

func (p *Pages) add(name string, windows *page) *page {
	stored, gone := p.pages.Add(name, windows)
	p.size += windows.size(name)
	if gone != nil {
		p.size -= gone.Value.size(gone.Key)
		p.evicted++
	}
	return *stored
}

func (w *page) size(name string) int {
	n := pageSize + len(name)
	for _, m := range w {
		if m != nil {
			n += windowSize
		}
	}
	return n
}

// Baseline is the usual value of a metric on a page.
type Baseline struct {
	// Page is the path template, Metric the name of the field, such as lcp_ms.
	Page, Metric string
	// Device is the class of devices. Only Confirmed separates them.
	Device telemetry.Device
	// Median is in milliseconds, for cls in its own unit.
	Median float64
	// Loads is the number of loads that it is the median of, at most 20.
	Loads int
}

// Baselines lists all baselines, those of the page loaded last at the end.
func (p *Pages) Baselines() []Baseline {
	var all []Baseline
	for name, windows := range p.pages.All() {
		all = append(all, (*windows).baselines(name)...)
	}
	return all
}

// BaselinesOf lists those of one page.
func (p *Pages) BaselinesOf(name string) []Baseline {
	if windows := p.pages.Peek(name); windows != nil {
		return (*windows).baselines(name)
	}
	return nil
}

// Names lists the pages, the one loaded last first.
func (p *Pages) Names() []string {
	names := make([]string, 0, p.pages.Len())
	for name := range p.pages.All() {
		names = append(names, name)
	}
	slices.Reverse(names)
	return names
}

func (w *page) baselines(name string) (all []Baseline) {
	for i, m := range w.all() {
		b := m.baseline()
		all = append(all, Baseline{Page: name, Metric: metrics[i].key, Median: metrics[i].value(b.double) / 2, Loads: b.loads})
	}
	return all
}

// all iterates over the metrics that were seen.
func (w *page) all() iter.Seq2[int, *window] {
	return func(yield func(int, *window) bool) {
		for i, m := range w {
			if m != nil && !yield(i, m) {
				return
			}
		}
	}
}

// State has the baselines.
func (p *Pages) State(s *snapshot.Codec) {
	snapshot.Entries(s, 1, p.pages, func(s *snapshot.Codec, name *string, windows **page) {
		if s.Reading() {
			*windows = &page{}
		}
		s.String(1, name, template.MaxLen)
		for i := range *windows {
			snapshot.Optional(s, fieldOf(i), &(*windows)[i], (*window).state)
		}
	}, func(name string, windows *page) { p.add(name, windows) })
}

// fieldOf returns the number of the field of a page that has the metric with an index.
func fieldOf(metric int) protowire.Number { return protowire.Number(2 + metric) }
