package sentry

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"strconv"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
)

// header is the first line of an envelope.
type header struct {
	EventID text         `json:"event_id"`
	SentAt  text         `json:"sent_at"`
	DSN     text         `json:"dsn"`
	Trace   maybe[trace] `json:"trace"`
}

// trace is what an envelope says of the trace that it belongs to.
type trace struct {
	TraceID text `json:"trace_id"`
	Release text `json:"release"`
}

// itemHeader is the line before a payload.
type itemHeader struct {
	Type text `json:"type"`
	// Length is the payload's, in bytes. Without it the payload is a line.
	Length text `json:"length"`
	// ItemCount and ContentType are there where the payload holds many.
	ItemCount   text `json:"item_count"`
	ContentType text `json:"content_type"`
}

type item struct {
	header  itemHeader
	payload []byte
}

// items are what is left of an envelope.
type items struct {
	d    *decoder
	rest []byte
}

// open reads the envelope's own header.
func (d *decoder) open(data []byte) (*items, error) {
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, errors.New("the envelope is empty: its first line must be its header, a JSON object")
	}
	if err := d.decode(line, decoding.NewObject(&d.header)); err != nil {
		return nil, fmt.Errorf("the envelope's header: %w", err)
	}
	return &items{d: d, rest: rest}, nil
}

// KeyOf is the public key of the DSN in an envelope's header, or empty. It is
// there where the SDK sends through a tunnel, and in what some always send.
func KeyOf(data []byte) string {
	d := newDecoder(Sender{})
	if _, err := d.open(data); err != nil {
		return ""
	}
	u, err := url.Parse(string(d.header.DSN))
	if err != nil || u.User == nil {
		return ""
	}
	return u.User.Username()
}

// next reads an item. Empty lines between items are skipped.
func (i *items) next() (item, bool, error) {
	for len(i.rest) > 0 && (i.rest[0] == '\n' || i.rest[0] == '\r') {
		i.rest = i.rest[1:]
	}
	if len(i.rest) == 0 {
		return item{}, false, nil
	}
	line, rest, _ := bytes.Cut(i.rest, []byte("\n"))
	var it item
	if err := i.d.decode(line, decoding.NewObject(&it.header)); err != nil {
		return item{}, false, fmt.Errorf("an item's header: %w", err)
	}
	if it.header.Length == "" {
		it.payload, i.rest, _ = bytes.Cut(rest, []byte("\n"))
		return it, true, nil
	}
	length, err := strconv.Atoi(string(it.header.Length))
	if err != nil || length < 0 || length > len(rest) {
		return item{}, false, fmt.Errorf("an item's length must be a number of bytes, no more than the %d that follow", len(rest))
	}
	it.payload, i.rest = rest[:length], rest[length:]
	if len(i.rest) > 0 && i.rest[0] != '\n' && i.rest[0] != '\r' {
		return item{}, false, errors.New("an item's payload must end with a line feed, where its length says")
	}
	return it, true, nil
}

// silent are the types of items that nothing is made of.
var silent = map[text]bool{
	"attachment": true, "client_report": true, "profile": true, "profile_chunk": true,
	"replay_event": true, "replay_recording": true, "replay_video": true,
	"statsd": true, "metric_meta": true, "metric_buckets": true, "trace_metric": true,
	"raw_security": true, "unreal_report": true, "form_data": true, "security": true, "nel": true,
}

func (d *decoder) item(it item) error {
	switch it.header.Type {
	case "event", "transaction":
		return d.event(it.payload)
	case "span":
		return d.spanItem(it)
	case "log":
		return d.logs(it.payload)
	case "session":
		return d.session(it.payload)
	case "sessions":
		return d.sessions(it.payload)
	case "user_report":
		return d.userReport(it.payload)
	case "feedback":
		return d.feedback(it.payload)
	case "check_in":
		return d.checkIn(it.payload)
	}
	if silent[it.header.Type] {
		d.ignore(string(it.header.Type))
	} else {
		d.ignore(ignoredOther)
	}
	return nil
}
