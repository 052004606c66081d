package sentry

import "strings"

// addTransaction adds the events of a transaction and of its spans.
func (d *decoder) addTransaction(e *event, o eventBase) error {
	t := &e.Contexts.v.Trace.v
	root := span{
		Op: t.Op, SpanID: t.SpanID, Start: e.StartTimestamp, Timestamp: e.Timestamp, Status: t.Status,
		Description: e.Transaction, Data: t.Data, Measurements: e.Measurements,
	}
	a := root.Data.object()
	a.Method.lenientText = lenientText(firstNonEmpty(e.Request.v.Method, lenientText(a.method())))
	a.FullURL.lenientText = lenientText(firstNonEmpty(e.Request.v.URL, lenientText(a.url())))
	if _, ok := parseStatus(a.status()); !ok {
		a.Status = typedText{e.Contexts.v.Response.v.StatusCode}
	}
	a.Agent.lenientText = lenientText(firstNonEmpty(a.Agent.lenientText, e.Request.v.agent()))
	a.Op.lenientText = lenientText(root.op())
	if a.Op.lenientText == serverOp {
		a.Method.lenientText, a.FullURL.lenientText = serverRequest(&root)
	}
	o = o.onPage(a.url())
	known := d.collectPages(objectList[span]{root})
	var l pageLoads
	if err := d.addSpan(&root, o, known, &l); err != nil {
		return err
	}
	for i := range e.Spans {
		s := &e.Spans[i]
		if s.ParentID == "" {
			s.ParentID = root.SpanID
		}
		if err := d.addSpan(s, o, known, &l); err != nil {
			return err
		}
	}
	return d.addAll(l.events)
}

// serverRequest returns the request that a server answered: that of the attributes, else that
// in the transaction's name.
func serverRequest(root *span) (method, url lenientText) {
	a := root.attrs()
	m, u := splitRequestName(root.name())
	if u == "" && strings.HasPrefix(root.name(), "/") {
		u = root.name()
	}
	return lenientText(firstNonEmpty(a.method(), m)), lenientText(firstNonEmpty(a.url(), u))
}
