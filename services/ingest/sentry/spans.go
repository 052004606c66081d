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
	Op           text               `json:"op"`
	SpanID       text               `json:"span_id"`
	ParentID     text               `json:"parent_span_id"`
	TraceID      text               `json:"trace_id"`
	Start        text               `json:"start_timestamp"`
	Status       text               `json:"status"`
	Description  text               `json:"description"`
	Timestamp    text               `json:"timestamp"`
	Data         lazy[attrs]        `json:"data"`
	Measurements lazy[measurements] `json:"measurements"`

	// Only spans in a container have these.
	Name       text        `json:"name"`
	End        text        `json:"end_timestamp"`
	Attributes lazy[attrs] `json:"attributes"`
}

// inContainer reports whether the span has the form of one in a container.
func (s *span) inContainer() bool { return s.End != "" }

func (s *span) attrs() *attrs {
	if s.inContainer() {
		return s.Attributes.get()
	}
	return s.Data.get()
}

func (s *span) op() string { return first(s.Op, s.attrs().Op.text) }

func (s *span) name() string { return first(s.Description, s.Name) }

func (s *span) end() time.Time {
	if s.inContainer() {
		return s.End.time()
	}
	return s.Timestamp.time()
}

// duration is how long a span took, in milliseconds; 0 if that is unknown.
func (s *span) duration() float64 {
	start, end := s.Start.time(), s.end()
	if start.IsZero() || end.Before(start) {
		return 0
	}
	return float64(end.Sub(start).Microseconds()) / 1e3
}

// isPage reports whether a span is the load of a page or a navigation.
func isPage(op string) bool { return op == "pageload" || op == "navigation" }

// spanItem decodes one span, or a container of many.
func (d *decoder) spanItem(it item) error {
	var spans list[span]
	if it.header.ItemCount != "" || strings.Contains(string(it.header.ContentType), ".items.") {
		var container struct {
			Items list[span] `json:"items"`
		}
		if err := d.decode(it.payload, decoding.NewObject(&container)); err != nil {
			return err
		}
		spans = container.Items
	} else {
		spans = make(list[span], 1)
		if err := d.decode(it.payload, decoding.NewObject(&spans[0])); err != nil {
			return err
		}
	}
	known := d.pages(spans)
	var l loads
	for i := range spans {
		s, a := &spans[i], spans[i].attrs()
		o := d.from(a.App.text, "", a.release(), s.TraceID).on(d.page(s, a, known))
		if err := d.span(s, o, known, &l); err != nil {
			return err
		}
	}
	return d.addAll(l.events)
}

// page is the load of a page, or a navigation.
type page struct {
	url   string
	start time.Time // of a load alone
}

// pages finds the pages among the spans, which come in any order, and keeps their URLs.
func (d *decoder) pages(spans list[span]) map[text]page {
	known := map[text]page{}
	for i := range spans {
		s, a := &spans[i], spans[i].attrs()
		op := s.op()
		if !isPage(op) {
			continue
		}
		p := page{url: shared(a.url())}
		if op == "pageload" {
			p.start = s.Start.time()
		}
		known[s.SpanID] = p
		d.keepPage(s.SpanID, p.url)
	}
	return known
}

// page is the page on which a span ran. The URL of a request is not it.
func (d *decoder) page(s *span, a *attrs, known map[text]page) string {
	op := s.op()
	ownURL := isRequest(op) || strings.HasPrefix(op, "resource.")
	if u := a.url(); u != "" && !ownURL {
		return u
	}
	spans := [...]text{a.PageloadID.text, s.ParentID, a.SegmentID.text}
	for _, id := range spans {
		if p := known[id]; id != "" && p.url != "" {
			return p.url
		}
	}
	if u := d.pageOf(spans[:]...); u != "" || ownURL {
		return u
	}
	// The name of the route is better than no page: the rules go by paths.
	for _, name := range []text{a.Transaction.text, a.OldPage.text, a.SegmentName.text} {
		if strings.HasPrefix(string(name), "/") {
			return string(name)
		}
	}
	return ""
}

func isRequest(op string) bool { return op == "http" || strings.HasPrefix(op, "http.") }

// unknownTarget is what an SDK names as target of a click whose element is gone.
const unknownTarget = "<unknown>"

// span makes events of a span, and adds its vitals to l.
func (d *decoder) span(s *span, o origin, known map[text]page, l *loads) error {
	a, op := s.attrs(), s.op()
	device := deviceOf(a.Agent.text)
	l.add(o, s.end(), vitalsOf(s.Measurements.get(), a), device)
	if v, ok := s.loaded(known); ok {
		l.add(o, s.end(), telemetry.Vitals{Load: &v}, device)
	}
	switch {
	case isRequest(op), strings.HasPrefix(op, "resource."):
		n := s.request(op, o)
		if n == nil || op != serverOp && d.seenElsewhere(fromSpan, o.app, "request", requestKey(n), s.end()) {
			return nil
		}
		e := o.event(telemetry.KindNetwork, s.end())
		e.Network = n
		return d.add(e)
	case isPage(op):
		return d.navigation(o, s.route(), s.Start.time())
	case op == "ui.interaction.click":
		target := first(string(a.INPTarget.text), s.name())
		if at := s.Start.time(); target != "" && target != unknownTarget && !d.seenElsewhere(fromSpan, o.app, "click", target, at) {
			return d.add(o.action(at, telemetry.ActionClick, target))
		}
	}
	return nil
}

// navigation reports a page that was opened.
func (d *decoder) navigation(o origin, route string, at time.Time) error {
	if route == "" || d.seenElsewhere(fromSpan, o.app, "navigate", pathOf(route), at) {
		return nil
	}
	return d.add(o.action(at, telemetry.ActionNavigate, route))
}

// route is the target of a page's span: its name if that is a path, and not a general
// word.
func (s *span) route() string {
	a := s.attrs()
	if name := s.name(); strings.Contains(name, "/") {
		return name
	}
	return first(string(a.Path.text), a.url(), s.name())
}

// loaded is the end of the load event, in milliseconds after the start of the page load.
func (s *span) loaded(known map[text]page) (float64, bool) {
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
