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
	EventID lenientText          `json:"event_id"`
	SentAt  lenientText          `json:"sent_at"`
	DSN     lenientText          `json:"dsn"`
	Trace   lenientObject[trace] `json:"trace"`
}

// trace is the trace that an envelope belongs to.
type trace struct {
	TraceID lenientText `json:"trace_id"`
	Release lenientText `json:"release"`
}

// itemHeader is the line before a payload.
type itemHeader struct {
	Type lenientText `json:"type"`
	// Length is that of the payload, in bytes. Without it the payload is one line.
	Length lenientText `json:"length"`
	// ItemCount and ContentType are present where the payload is a container of many
	// items.
	ItemCount   lenientText `json:"item_count"`
	ContentType lenientText `json:"content_type"`
}

type item struct {
	header  itemHeader
	payload []byte
}

// items iterates over the items of an envelope.
type items struct {
	d    *decoder
	rest []byte
}

// readHeader reads the header of the envelope, and returns an iterator over its items.
func (d *decoder) readHeader(data []byte) (*items, error) {
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	if len(bytes.TrimSpace(line)) == 0 {
		return nil, errors.New("the envelope is empty: its first line must be its header, a JSON object")
	}
	if err := d.decode(line, decoding.NewObject(&d.header)); err != nil {
		return nil, fmt.Errorf("the envelope's header: %w", err)
	}
	return &items{d: d, rest: rest}, nil
}

// KeyOf returns the public key of the DSN in the header of an envelope, or "". Only some SDKs
// send it: those behind a tunnel, and a few always.
func KeyOf(data []byte) string {
	d := newDecoder(Sender{})
	if _, err := d.readHeader(data); err != nil {
		return ""
	}
	u, err := url.Parse(string(d.header.DSN))
	if err != nil || u.User == nil {
		return ""
	}
	return u.User.Username()
}

// next reads an item, and returns false at the end. Empty lines between items are skipped.
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
		return item{}, false, errors.New("an item's payload must end with a line feed at the offset given by its length")
	}
	return it, true, nil
}

// unusedTypes are the known types of items that become no event.
var unusedTypes = map[lenientText]bool{
	"attachment": true, "client_report": true, "profile": true, "profile_chunk": true,
	"replay_event": true, "replay_recording": true, "replay_video": true,
	"statsd": true, "metric_meta": true, "metric_buckets": true, "trace_metric": true,
	"raw_security": true, "unreal_report": true, "form_data": true, "security": true, "nel": true,
}

func (d *decoder) decodeItem(it item) error {
	switch it.header.Type {
	case "event", "transaction":
		return d.decodeEvent(it.payload)
	case "span":
		return d.decodeSpans(it)
	case "log":
		return d.decodeLogs(it.payload)
	case "session":
		return d.decodeSession(it.payload)
	case "sessions":
		return d.decodeSessions(it.payload)
	case "user_report":
		return d.decodeUserReport(it.payload)
	case "feedback":
		return d.decodeFeedback(it.payload)
	case "check_in":
		return d.decodeCheckIn(it.payload)
	}
	if unusedTypes[it.header.Type] {
		d.countIgnored(string(it.header.Type))
	} else {
		d.countIgnored(ignoredOther)
	}
	return nil
}
