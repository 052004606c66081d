package otlp

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// message describes an OTLP message to the guard: it lists the fields that take more memory
// once they are decoded than they have bytes. The guard checks only the form of others.
type message struct {
	fields []field
	// item marks a record, span or data point.
	item bool
	// value marks an AnyValue, which nests.
	value bool
}

type field struct {
	number  protowire.Number
	kind    kind
	message *message
}

type kind int

const (
	nested  kind = iota // messages
	texts               // repeated strings
	varints             // repeated numbers of any length
	fixed64             // repeated numbers of eight bytes
)

func (m *message) field(n protowire.Number) *field {
	for i := range m.fields {
		if m.fields[i].number == n {
			return &m.fields[i]
		}
	}
	return nil
}

// deprecatedScopes is the field that held the scopes before 2022; the decoder still reads
// it.
const deprecatedScopes = 1000

// requests describes the export requests of opentelemetry-proto 1.
var requests = describeRequests()

func describeRequests() map[Signal]*message {
	value := &message{value: true}
	keyValue := &message{fields: []field{{2, nested, value}}}
	value.fields = []field{
		{5, nested, &message{fields: []field{{1, nested, value}}}},    // array_value
		{6, nested, &message{fields: []field{{1, nested, keyValue}}}}, // kvlist_value
	}
	attributes := func(n protowire.Number) field { return field{n, nested, keyValue} }
	leaf := &message{}
	resource := &message{fields: []field{
		attributes(1),
		{3, nested, &message{fields: []field{{3, texts, nil}, {4, texts, nil}}}}, // entity_refs
	}}
	scope := &message{fields: []field{attributes(3)}}
	request := func(content *message) *message {
		scoped := &message{fields: []field{{1, nested, scope}, {2, nested, content}}}
		return &message{fields: []field{{1, nested, &message{fields: []field{
			{1, nested, resource}, {2, nested, scoped}, {deprecatedScopes, nested, scoped},
		}}}}}
	}
	record := &message{item: true, fields: []field{{5, nested, value}, attributes(6)}}
	span := &message{item: true, fields: []field{
		attributes(9),
		{11, nested, &message{fields: []field{attributes(3)}}}, // events
		{13, nested, &message{fields: []field{attributes(4)}}}, // links
		{15, nested, leaf}, // status
	}}
	return map[Signal]*message{
		Logs:    request(record),
		Traces:  request(span),
		Metrics: request(metric(attributes, leaf)),
	}
}

func metric(attributes func(protowire.Number) field, leaf *message) *message {
	exemplar := &message{fields: []field{attributes(7)}}
	buckets := &message{fields: []field{{2, varints, nil}}}
	points := func(fields ...field) *message {
		return &message{fields: []field{{1, nested, &message{item: true, fields: fields}}}}
	}
	number := points(attributes(7), field{5, nested, exemplar})
	return &message{fields: []field{
		{5, nested, number}, // gauge
		{7, nested, number}, // sum
		{9, nested, points(attributes(9), field{6, fixed64, nil}, field{7, fixed64, nil}, field{8, nested, exemplar})},         // histogram
		{10, nested, points(attributes(1), field{8, nested, buckets}, field{9, nested, buckets}, field{11, nested, exemplar})}, // exponential_histogram
		{11, nested, points(attributes(7), field{6, nested, leaf})},                                                            // summary
		attributes(12), // metadata
	}}
}

func (g *guard) protobuf(data []byte) error { return g.walk(data, requests[g.signal], 0) }

// walk counts a message and its fields. It recurses into at most maxDepth values within
// each other.
func (g *guard) walk(data []byte, m *message, depth int) error {
	if m.item {
		if err := g.item(); err != nil {
			return err
		}
	}
	if m.value {
		if depth++; depth > maxDepth {
			return tooDeep()
		}
	}
	if err := g.message(); err != nil {
		return err
	}
	for len(data) > 0 {
		number, wire, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		if wire == protowire.StartGroupType || wire == protowire.EndGroupType {
			return fmt.Errorf("field %d is a group", number)
		}
		length := protowire.ConsumeFieldValue(number, wire, data)
		if length < 0 {
			return protowire.ParseError(length)
		}
		if f := m.field(number); f != nil {
			if err := g.field(f, wire, data[:length], depth); err != nil {
				return err
			}
		}
		data = data[length:]
	}
	return nil
}

func (g *guard) field(f *field, wire protowire.Type, value []byte, depth int) error {
	if wire != protowire.BytesType {
		if f.kind == varints || f.kind == fixed64 {
			return g.numberList(1)
		}
		return fmt.Errorf("field %d has wire type %d", f.number, wire)
	}
	content, n := protowire.ConsumeBytes(value)
	if n < 0 {
		return protowire.ParseError(n)
	}
	switch f.kind {
	case nested:
		return g.walk(content, f.message, depth)
	case texts:
		return g.message()
	case varints:
		return g.numberList(len(content)) // an upper bound: a varint has at least one byte
	default:
		return g.numberList(len(content) / 8)
	}
}
