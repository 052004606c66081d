package display

import (
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// Kubernetes returns a copy of a message of a cluster that is safe to show. Line feeds and
// tabs stay in samples of logs alone.
func Kubernetes(m kube.Message, mask *redact.Engine) kube.Message {
	text := func(fields ...*string) {
		for _, field := range fields {
			*field = sanitize.Visible(mask.String(*field))
		}
	}
	text(&m.Cluster)
	if m.Event != nil {
		e := *m.Event
		o := &e.InvolvedObject
		text(&e.Namespace, &e.Type, &e.Reason, &e.Message, &e.Component, &e.Name, &o.APIVersion, &o.Kind, &o.Name, &o.Namespace, &o.Container)
		e.Message = sanitize.Cut(e.Message, kube.MaxMessage)
		if e.Labels != nil {
			e.Labels = make(map[string]string, len(m.Event.Labels))
			for name, value := range m.Event.Labels {
				text(&name, &value)
				e.Labels[name] = value
			}
		}
		m.Event = &e
	}
	if m.Fault != nil {
		f := *m.Fault
		text(&f.Reason)
		f.ID, f.Kind = sanitize.Visible(f.ID), sanitize.Visible(f.Kind)
		m.Fault = &f
	}
	if m.Watch != nil {
		w := *m.Watch
		text(&w.Error)
		m.Watch = &w
	}
	var logs []kube.Log
	for _, l := range m.Logs {
		text(&l.Container, &l.Error)
		l.Sample = sanitize.Strip(mask.String(l.Sample))
		logs = append(logs, l)
	}
	m.Logs = logs
	return m
}
