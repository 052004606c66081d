package regression

import (
	"iter"
	"slices"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/changepoint"
	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Confirmed is the statistical rule for one app: the loads that follow confirm or withdraw
// what one load suggests (package changepoint), and the loads of each class of devices are
// compared separately.
//
// A finding has a confidence, and is raised again, as the same, when that has risen. It
// ends when the page is as before, or when its new level is the baseline.
type Confirmed struct {
	pages   *lru.Map[string, *classed]
	scratch []byte
	size    int
	evicted uint64
}

// classed is a page on one class of devices, with a series for each metric that was seen
// there, nil for the others.
type classed [len(metrics)]*series

// series has the loads of one metric of a page on one class of devices.
type series struct {
	changepoint.Series
	open rule.Open
	// reported is the confidence of the last alert about the current finding.
	reported uint8
	// since is the time of the first load of the finding, zero if it is from a snapshot
	// without that time.
	since time.Time
	// end is how the finding of the open alerts has ended.
	end ending
}

// ending has the figures of the end of a finding.
type ending struct {
	event      changepoint.Transition
	confidence changepoint.Confidence // of the finding
	sample     int                    // number of loads of the level
	loads      int                    // number of loads of the baseline
	// level and baseline are doubled medians.
	level, baseline int64
}

// NewConfirmed returns an app without baselines.
func NewConfirmed() *Confirmed { return &Confirmed{pages: lru.New[string, *classed](MaxPages)} }

// Len returns the number of pages with baselines. A page on two classes of devices counts
// twice.
func (c *Confirmed) Len() int { return c.pages.Len() }

// Evicted returns how many pages were evicted since NewConfirmed.
func (c *Confirmed) Evicted() uint64 { return c.evicted }

// Size returns about how many bytes are held.
func (c *Confirmed) Size() int { return c.size }

// Load compares a page load with the baselines of its page, and adds it unless a change is
// suspected. It returns a finding for each metric that regressed or whose regression is
// more certain now, then the end of each that was resolved or withdrawn; both in the order
// of the metrics.
//
// An open alert without a class of devices would never end if all loads have a class. While
// one is open, loads of every class confirm or withdraw it as well.
//
// A finding that was suppressed is raised again with the next load of the page, if it still
// holds. The new level of a regression that was not published becomes the baseline without
// an alert.
func (c *Confirmed) Load(app, url string, vitals *telemetry.Vitals, now time.Time) []rule.Finding {
	c.scratch = template.AppendPage(append(c.scratch[:0], classOf(vitals.Device)), url)
	p := subject{app: app, url: url, device: vitals.Device}
	found, ended := c.compare(&p, vitals, now)
	if vitals.Device != "" {
		c.scratch[0] = noClass
		if page := c.pages.Peek(string(c.scratch)); page != nil && (*page).open() {
			p.device = ""
			more, over := c.compare(&p, vitals, now)
			found, ended = append(found, more...), append(ended, over...)
		}
	}
	return append(found, ended...)
}

// compare compares a load with the page in scratch. A load of another class of devices
// affects open findings only.
func (c *Confirmed) compare(p *subject, vitals *telemetry.Vitals, now time.Time) (found, ended []rule.Finding) {
	var page *classed
	for i := range metrics {
		m := &metrics[i]
		value := m.of(vitals)
		if value == nil {
			continue
		}
		if page == nil {
			page = c.page()
		}
		if p.device != vitals.Device && (page[i] == nil || !page[i].open.Any()) {
			continue
		}
		if page[i] == nil {
			page[i] = &series{}
			c.size += seriesSize
		}
		s := page[i]
		v := s.take(m, m.units(*value), now)
		if !s.news() {
			continue
		}
		p.metric, p.page = m, string(c.scratch[1:])
		if s.Confidence() == changepoint.None {
			f := rule.EndFinding(p.ended(s.end), &s.open)
			f.Again = !ends(v.Transition)
			ended = append(ended, f)
			continue
		}
		again := v.Transition != changepoint.Risen
		if again {
			v = s.Current()
		}
		f := rule.RenewedFinding(p.risen(v), &s.open).WithNote(&s.reported, uint8(v.Confidence))
		f.Again = again
		found = append(found, f)
	}
	return found, ended
}

// open reports whether an alert about the page is open.
func (p *classed) open() bool {
	for _, s := range p.seen() {
		if s.open.Any() {
			return true
		}
	}
	return false
}

// take adds a load and notes how a finding ends.
func (s *series) take(m *metric, units int64, now time.Time) changepoint.Verdict {
	settling := changepoint.NeverSettle
	if s.Confidence() != changepoint.None {
		if s.since.IsZero() || now.Before(s.since) {
			s.since = now
		}
		settling = newLevelAfter(now.Sub(s.since), changepoint.MaxSample)
	}
	v := s.Add(m.levels(), units, settling)
	if v.Began {
		s.reported, s.since = uint8(changepoint.None), now
	}
	if v.Worse {
		s.reported = uint8(changepoint.Probable) // it is raised again
	}
	if ends(v.Transition) {
		s.end = ending{v.Transition, v.Confidence, v.Sample, v.Values, v.Level, v.Usual}
	}
	return v
}

// news reports whether there is something to raise: a higher confidence than reported, or
// the end of a reported finding.
func (s *series) news() bool {
	found := s.Confidence()
	return uint8(found) > s.reported || found == changepoint.None && s.open.Any()
}

// ends reports whether an event ends a finding.
func ends(e changepoint.Transition) bool {
	return e == changepoint.Withdrawn || e == changepoint.Recovered || e == changepoint.Settled
}

// page finds or adds the page in scratch.
func (c *Confirmed) page() *classed {
	if found := lru.GetBytes(c.pages, c.scratch); found != nil {
		return *found
	}
	return c.add(string(c.scratch), &classed{})
}

// seriesSize is about what a series takes, in bytes.
const seriesSize = changepoint.Size + rule.OpenSize + 64

func (c *Confirmed) add(key string, page *classed) *classed {
	stored, gone := c.pages.Add(key, page)
	c.size += page.size(key)
	if gone != nil {
		c.size -= gone.Value.size(gone.Key)
		c.evicted++
	}
	return *stored
}

func (p *classed) size(key string) int {
	n := pageSize + len(key)
	for range p.seen() {
		n += seriesSize
	}
	return n
}

// The key of a page is the mark of its class of devices and the page's path template.
const noClass = '0'

func classOf(device telemetry.Device) byte {
	if device == "" {
		return noClass
	}
	return noClass + 1 + byte(slices.Index(telemetry.Devices(), device))
}

// classes returns the classes in the order of their marks.
func classes() []telemetry.Device { return append([]telemetry.Device{""}, telemetry.Devices()...) }

// Baselines lists all baselines, those of the page loaded last at the end.
func (c *Confirmed) Baselines() []Baseline {
	var all []Baseline
	for key, page := range c.pages.All() {
		all = append(all, (*page).baselines(key)...)
	}
	return all
}

// BaselinesOf lists the baselines of one page on each class of devices.
func (c *Confirmed) BaselinesOf(name string) []Baseline {
	var all []Baseline
	for _, device := range classes() {
		key := string(rune(classOf(device))) + name
		if page := c.pages.Peek(key); page != nil {
			all = append(all, (*page).baselines(key)...)
		}
	}
	return all
}

func (p *classed) baselines(key string) (all []Baseline) {
	for i, s := range p.seen() {
		if median, loads := s.Usual(); loads > 0 {
			all = append(all, Baseline{
				Page: key[1:], Metric: metrics[i].key, Device: classes()[key[0]-noClass], Median: metrics[i].value(median) / 2, Loads: loads,
			})
		}
	}
	return all
}

// seen iterates over the metrics that were seen, by index.
func (p *classed) seen() iter.Seq2[int, *series] {
	return func(yield func(int, *series) bool) {
		for i, s := range p {
			if s != nil && !yield(i, s) {
				return
			}
		}
	}
}

// Names lists the pages, the one loaded last first.
func (c *Confirmed) Names() []string {
	keys := make([]string, 0, c.pages.Len())
	for key := range c.pages.All() {
		keys = append(keys, key)
	}
	names, seen := make([]string, 0, len(keys)), make(map[string]bool, len(keys))
	for _, key := range slices.Backward(keys) {
		if name := key[1:]; !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// State writes or reads the baselines.
func (c *Confirmed) State(s *snapshot.Codec) {
	snapshot.Entries(s, 1, c.pages, func(s *snapshot.Codec, key *string, page **classed) {
		if s.Reading() {
			*page = &classed{}
		}
		s.String(1, key, 1+template.MaxLen)
		for i := range *page {
			snapshot.Optional(s, fieldOf(i), &(*page)[i], (*series).state)
		}
		if s.Reading() && (*key == "" || (*key)[0] < noClass || int((*key)[0]-noClass) >= len(classes())) {
			s.Fail("a page on no class of devices: %q", *key)
		}
	}, func(key string, page *classed) { c.add(key, page) })
}

func (s *series) state(st *snapshot.Codec) {
	snapshot.Message(st, 1, &s.Series, (*changepoint.Series).State)
	snapshot.Message(st, 2, &s.open, (*rule.Open).State)
	switch {
	case s.Confidence() != changepoint.None:
		snapshot.Uint(st, 3, &s.reported, uint64(changepoint.Confirmed))
		st.Time(4, &s.since)
	case s.open.Any():
		snapshot.Message(st, 5, &s.end, (*ending).state)
	}
}

func (e *ending) state(s *snapshot.Codec) {
	snapshot.Uint(s, 1, &e.event, uint64(changepoint.Settled))
	snapshot.Uint(s, 2, &e.confidence, uint64(changepoint.Confirmed))
	snapshot.Uint(s, 3, &e.sample, changepoint.MaxSample)
	snapshot.Uint(s, 4, &e.loads, changepoint.MaxReference)
	snapshot.Uint(s, 5, &e.level, 2*changepoint.Max)
	snapshot.Uint(s, 6, &e.baseline, 2*changepoint.Max)
	if s.Reading() && !ends(e.event) {
		s.Fail("the end of a regression that is none")
	}
}
