package sentry

import "strings"

// transaction makes events of a transaction and of its spans.
func (d *decoder) transaction(e *event, o origin) error {
	t := &e.Contexts.v.Trace.v
	root := span{
		Op: t.Op, SpanID: t.SpanID, Start: e.StartTimestamp, Timestamp: e.Timestamp, Status: t.Status,
		Description: e.Transaction, Data: t.Data, Measurements: e.Measurements,
	}
	a := root.Data.get()
	a.Method.text = text(first(e.Request.v.Method, text(a.method())))
	a.FullURL.text = text(first(e.Request.v.URL, text(a.url())))
	if _, ok := statusOf(a.status()); !ok {
		a.Status = attr{e.Contexts.v.Response.v.StatusCode}
	}
	a.Agent.text = text(first(a.Agent.text, e.Request.v.agent()))
	a.Op.text = text(root.op())
	if a.Op.text == serverOp {
		a.Method.text, a.FullURL.text = serverRequest(&root)
	}
	o = o.on(a.url())
	known := d.pages(list[span]{root})
	var l loads
	if err := d.span(&root, o, known, &l); err != nil {
		return err
	}
	for i := range e.Spans {
		s := &e.Spans[i]
		if s.ParentID == "" {
			s.ParentID = root.SpanID
		}
		if err := d.span(s, o, known, &l); err != nil {
			return err
		}
	}
	return d.addAll(l.events)
}

// serverRequest is what a server was asked for: the request, else the transaction's name.
func serverRequest(root *span) (method, url text) {
	a := root.attrs()
	m, u := split(root.name())
	if u == "" && strings.HasPrefix(root.name(), "/") {
		u = root.name()
	}
	return text(first(a.method(), m)), text(first(a.url(), u))
}
