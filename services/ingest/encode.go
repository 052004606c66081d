package ingest

import (
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// maxMessage is the largest message with more than one event, in bytes. With headers, it is
// below the default limit of a NATS server, 1 MiB. One event always fits, because its texts
// have been cut.
const maxMessage = 512 << 10

// topic is what the events of one message share.
type topic struct {
	app  string
	kind telemetry.Kind
}

// group has the messages of one topic: the full ones, and the open JSON array to which the
// next event is added.
type group struct {
	topic
	full [][]byte
	open []byte
}

// eventMessages encodes events as messages, one or more for each app and kind. Events of
// one app and kind keep their order. The sender, if it is known, is a header.
func eventMessages(events []telemetry.Event, sender string) ([]*nats.Msg, error) {
	byTopic := map[topic]*group{}
	var groups []*group
	var g *group // of the previous event: most batches have one topic
	for i := range events {
		e := &events[i]
		if t := (topic{e.App, e.Kind}); g == nil || g.topic != t {
			if g = byTopic[t]; g == nil {
				g = &group{topic: t}
				byTopic[t] = g
				groups = append(groups, g)
			}
		}
		if err := g.add(e); err != nil {
			return nil, fmt.Errorf("encode event %d: %w", i, err)
		}
		if i == 0 { // room for the rest, if it is like the first
			g.open = slices.Grow(g.open, min(len(g.open)*len(events)*9/8, maxMessage))
		}
	}
	var header nats.Header // shared by all messages: a batch can have thousands of apps
	if sender != "" {
		header = nats.Header{bus.HeaderSender: {sender}}
	}
	msgs := make([]*nats.Msg, 0, len(groups))
	for _, g := range groups {
		subject := bus.TelemetrySubject(g.app, g.kind)
		for _, data := range append(g.full, append(g.open, ']')) {
			msgs = append(msgs, &nats.Msg{Subject: subject, Header: header, Data: data})
		}
	}
	return msgs, nil
}

func (g *group) add(e *telemetry.Event) error {
	before := len(g.open)
	separator := byte(',')
	if before == 0 {
		separator = '['
	}
	data, err := appendEvent(append(g.open, separator), e)
	if err != nil {
		return err
	}
	if before == 0 || len(data) < maxMessage { // the closing bracket is to come
		g.open = data
		return nil
	}
	// The open array is full without this event, which begins a new one.
	g.open = append([]byte{'['}, data[before+1:]...)
	g.full = append(g.full, append(data[:before], ']'))
	return nil
}

// appendEvent appends the same JSON as telemetry.Encode. It encodes the common fields and
// logs, which are most of the traffic, without reflection, which took half of the time of a
// batch.
func appendEvent(dst []byte, e *telemetry.Event) ([]byte, error) {
	o := object{append(dst, '{'), nil}
	o.text(`"kind":`, string(e.Kind))
	o.optional(`,"app":`, e.App)
	o.optional(`,"session":`, e.Session)
	o.optional(`,"release":`, e.Release)
	if !e.Time.IsZero() {
		o.dst = append(o.dst, `,"time":"`...)
		o.dst = append(e.Time.UTC().AppendFormat(o.dst, time.RFC3339Nano), '"')
	}
	o.optional(`,"url":`, e.URL)
	if e.Log != nil {
		o.dst = append(o.dst, `,"log":{`...)
		o.log(e.Log)
		o.dst = append(o.dst, '}')
	}
	switch {
	case e.Network != nil:
		o.value(`,"network":`, e.Network)
	case e.Vitals != nil:
		o.value(`,"vitals":`, e.Vitals)
	case e.Action != nil:
		o.value(`,"action":`, e.Action)
	case e.Memory != nil:
		o.value(`,"memory":`, e.Memory)
	case e.Circuit != nil:
		o.value(`,"circuit":`, e.Circuit)
	case e.Security != nil:
		o.value(`,"security":`, e.Security)
	}
	return append(o.dst, '}'), o.err
}

// object is a JSON object that is being written, and the first error. Names include the
// comma before them.
type object struct {
	dst []byte
	err error
}

func (o *object) log(l *telemetry.Log) {
	o.text(`"level":`, string(l.Level))
	o.text(`,"message":`, l.Message)
	o.optional(`,"stack":`, l.Stack)
	o.optional(`,"source":`, l.Source)
	if len(l.Fingerprint) > 0 {
		o.value(`,"fingerprint":`, l.Fingerprint)
	}
	if len(l.Args) > 0 {
		o.value(`,"args":`, l.Args)
	}
}

func (o *object) text(name, value string) {
	var err error
	o.dst, err = jsontext.AppendQuote(append(o.dst, name...), value)
	o.note(err)
}

func (o *object) optional(name, value string) {
	if value != "" {
		o.text(name, value)
	}
}

func (o *object) value(name string, value any) {
	data, err := json.Marshal(value)
	o.note(err)
	o.dst = append(append(o.dst, name...), data...)
}

func (o *object) note(err error) {
	if o.err == nil {
		o.err = err
	}
}
