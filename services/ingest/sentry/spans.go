package sentry

import (
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// span is a span in any of its three forms: a child in a transaction, an item of its own,
// and one of many in a container (span v2).
type span struct {
	Op           lenientText                `json:"op"`
	SpanID       lenientText                `json:"span_id"`
	ParentID     lenientText                `json:"parent_span_id"`
	TraceID      lenientText                `json:"trace_id"`
	Start        lenientText                `json:"start_timestamp"`
	Status       lenientText                `json:"status"`
	Description  lenientText                `json:"description"`
	Timestamp    lenientText                `json:"timestamp"`
	Data         lazyObject[spanAttributes] `json:"data"`
	Measurements lazyObject[measurements]   `json:"measurements"`

	// Only spans in a container have these.
	Name       lenientText                `json:"name"`
	End        lenientText                `json:"end_timestamp"`
	Attributes lazyObject[spanAttributes] `json:"attributes"`
}

// inContainer reports whether the span has the form of spans in a container.
func (s *span) inContainer() bool { return s.End != "" }

func (s *span) attrs() *spanAttributes {
	if s.inContainer() {
		return s.Attributes.object()
	}
	return s.Data.object()
}

func (s *span) op() string { return firstNonEmpty(s.Op, s.attrs().Op.lenientText) }

func (s *span) name() string { return firstNonEmpty(s.Description, s.Name) }

func (s *span) end() time.Time {
	if s.inContainer() {
		return s.End.time()
	}
	return s.Timestamp.time()
}

// duration returns how long a span took, in milliseconds; 0 if that is unknown.
func (s *span) duration() float64 {
	start, end := s.Start.time(), s.end()
	if start.IsZero() || end.Before(start) {
		return 0
	}
	return float64(end.Sub(start).Microseconds()) / 1e3
}

// isPageOp reports whether an op is that of the load of a page or of a navigation.
func isPageOp(op string) bool { return op == "pageload" || op == "navigation" }

// decodeSpans decodes one span, or a container of many.
func (d *decoder) decodeSpans(it item) error {
	var spans objectList[span]
	if it.header.ItemCount != "" || strings.Contains(string(it.header.ContentType), ".items.") {
		var container struct {
			Items objectList[span] `json:"items"`
		}
		if err := d.decode(it.payload, decoding.NewObject(&container)); err != nil {
			return err
		}
		spans = container.Items
	} else {
		spans = make(objectList[span], 1)
		if err := d.decode(it.payload, decoding.NewObject(&spans[0])); err != nil {
			return err
		}
	}
	known := d.collectPages(spans)
	var l pageLoads
	for i := range spans {
		s, a := &spans[i], spans[i].attrs()
		o := d.baseOf(a.App.lenientText, "", a.release(), s.TraceID).onPage(d.pageOfSpan(s, a, known))
		if err := d.addSpan(s, o, known, &l); err != nil {
			return err
		}
	}
	return d.addAll(l.events)
}

// page is the load of a page, or a navigation.
type page struct {
	url   string
	start time.Time // zero for a navigation
}

// collectPages returns the pages among the spans by span id, and remembers their URLs. The
// spans may have any order.
func (d *decoder) collectPages(spans objectList[span]) map[lenientText]page {
	known := map[lenientText]page{}
	for i := range spans {
		s, a := &spans[i], spans[i].attrs()
		op := s.op()
		if !isPageOp(op) {
			continue
		}
		p := page{url: dropLong(a.url())}
		if op == "pageload" {
			p.start = s.Start.time()
		}
		known[s.SpanID] = p
		d.rememberPage(s.SpanID, p.url)
	}
	return known
}

// pageOfSpan returns the page on which a span ran. The URL of a request's span is not its page.
func (d *decoder) pageOfSpan(s *span, a *spanAttributes, known map[lenientText]page) string {
	op := s.op()
	ownURL := isRequestOp(op) || strings.HasPrefix(op, "resource.")
	if u := a.url(); u != "" && !ownURL {
		return u
	}
	spans := [...]lenientText{a.PageloadID.lenientText, s.ParentID, a.SegmentID.lenientText}
	for _, id := range spans {
		if p := known[id]; id != "" && p.url != "" {
			return p.url
		}
	}
	if u := d.rememberedPage(spans[:]...); u != "" || ownURL {
		return u
	}
	// The name of the route is better than no page: detection rules compare paths.
	for _, name := range []lenientText{a.Transaction.lenientText, a.OldPage.lenientText, a.SegmentName.lenientText} {
		if strings.HasPrefix(string(name), "/") {
			return string(name)
		}
	}
	return ""
}

func isRequestOp(op string) bool { return op == "http" || strings.HasPrefix(op, "http.") }

// unknownTarget is the target that an SDK sends for a click on an element that is gone.
const unknownTarget = "<unknown>"

// addSpan adds the events of a span, and its vitals to l.
func (d *decoder) addSpan(s *span, o eventBase, known map[lenientText]page, l *pageLoads) error {
	a, op := s.attrs(), s.op()
	device := deviceOf(a.Agent.lenientText)
	l.add(o, s.end(), vitalsOf(s.Measurements.object(), a), device)
	if v, ok := s.loadTime(known); ok {
		l.add(o, s.end(), telemetry.Vitals{Load: &v}, device)
	}
	switch {
	case isRequestOp(op), strings.HasPrefix(op, "resource."):
		n := s.request(op, o)
		if n == nil || op != serverOp && d.sentInOtherForm(fromSpan, o.app, "request", requestKey(n), s.end()) {
			return nil
		}
		e := o.newEvent(telemetry.KindNetwork, s.end())
		e.Network = n
		return d.add(e)
	case isPageOp(op):
		return d.addNavigation(o, s.route(), s.Start.time())
	case op == "ui.interaction.click":
		target := firstNonEmpty(string(a.INPTarget.lenientText), s.name())
		if at := s.Start.time(); target != "" && target != unknownTarget && !d.sentInOtherForm(fromSpan, o.app, "click", target, at) {
			return d.add(o.newAction(at, telemetry.ActionClick, target))
		}
	}
	return nil
}

// addNavigation adds an action for a page that was opened.
func (d *decoder) addNavigation(o eventBase, route string, at time.Time) error {
	if route == "" || d.sentInOtherForm(fromSpan, o.app, "navigate", pathOf(route), at) {
		return nil
	}
	return d.add(o.newAction(at, telemetry.ActionNavigate, route))
}

// route returns the target of a page's span: its name if that is a path, else the path or URL
// in its attributes.
func (s *span) route() string {
	a := s.attrs()
	if name := s.name(); strings.Contains(name, "/") {
		return name
	}
	return firstNonEmpty(string(a.Path.lenientText), a.url(), s.name())
}

// loadTime returns the end of the load event, in milliseconds after the start of the page load.
func (s *span) loadTime(known map[lenientText]page) (float64, bool) {
	switch op := s.op(); {
	case op == "browser.load_event", op == "browser" && (s.name() == "loadEvent" || s.name() == "load"):
	default:
		return 0, false
	}
	start := known[s.ParentID].start
	if end := s.end(); !start.IsZero() && end.After(start) {
		return float64(end.Sub(start).Microseconds()) / 1e3, true
	}
	return 0, false
}

func (d *decoder) addAll(events []telemetry.Event) error {
	for _, e := range events {
		if err := d.add(e); err != nil {
			return err
		}
	}
	return nil
}
