// Package sentry decodes what the SDKs of Sentry send: envelopes, and the single events of
// older SDKs (develop.sentry.dev/sdk/foundations/transport/envelopes).
//
// It decides which item becomes which event. Errors and messages become log lines with
// stack and breadcrumbs; transactions and spans become requests, vitals and navigations;
// structured logs become log lines. It knows nothing of HTTP or keys, and reads no clock:
// times are the sender's own.
//
// An SDK sends many things twice: each error carries the last 100 breadcrumbs, and a
// request is both a breadcrumb and a span. A [Memory] recognizes what was sent before,
// also in an earlier envelope.
package sentry

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// Sender describes who sent an envelope.
type Sender struct {
	// Project is the project of the DSN, as in the path.
	Project string
	// Memory recognizes duplicates. If it is nil, none are recognized.
	Memory Memory
}

// Key identifies a text in a Memory.
type Key [16]byte

// Memory keeps texts from one envelope to the next, for a limited time and up to a bound. If a
// text is forgotten, an event may be duplicated or lack its page.
type Memory interface {
	// Keep stores a text of at most maxKept bytes, and reports whether its key was new. It
	// does not replace a text.
	Keep(key Key, text string) bool
	// Lookup returns the text of a key.
	Lookup(key Key) (string, bool)
}

// Decoded is the result of decoding an envelope.
type Decoded struct {
	Events []telemetry.Event
	// ID is the event id that the SDK expects in the answer, or empty.
	ID string
	// Ignored counts the items that became no event, by their type. Unknown types are
	// counted as other, so there are few keys.
	Ignored map[string]int
}

// Reasons in Ignored that are not types of items.
const (
	ignoredOther     = "other"
	ignoredMalformed = "malformed"
	ignoredInvalid   = "invalid"
	// ignoredNoPage are vitals whose page is unknown: counted under no page, they would
	// distort one baseline.
	ignoredNoPage = "vitals without a page"
)

// Envelope decodes an envelope. Malformed framing is an error. An item with a malformed
// payload is counted as ignored, and is an error only if no item is usable.
func (s Sender) Envelope(data []byte) (Decoded, error) {
	d := newDecoder(s)
	items, err := d.readHeader(data)
	if err != nil {
		return Decoded{}, err
	}
	var broken error
	usable := 0
	for n := 0; ; n++ {
		it, more, err := items.next()
		switch {
		case err != nil:
			return Decoded{}, err
		case !more && usable == 0 && broken != nil:
			return Decoded{}, broken
		case !more:
			return d.result(), nil
		case n >= decoding.MaxItems:
			return Decoded{}, fmt.Errorf("the envelope has over %d items: %w", decoding.MaxItems, decoding.ErrTooMany)
		}
		err = d.decodeItem(it)
		switch {
		case errors.Is(err, decoding.ErrTooMany):
			return Decoded{}, err
		case err != nil:
			d.countIgnored(ignoredMalformed)
			broken = fmt.Errorf("item %d (%s): %w", n, it.header.Type, err)
		default:
			usable++
		}
	}
}

// Store decodes one event, the body of the older endpoint.
func (s Sender) Store(data []byte) (Decoded, error) {
	d := newDecoder(s)
	if len(bytes.TrimSpace(data)) == 0 {
		return Decoded{}, errors.New("the body is empty: send one event, a JSON object")
	}
	if err := d.decodeEvent(data); err != nil {
		return Decoded{}, err
	}
	return d.result(), nil
}

// decoder is the state of decoding one envelope.
type decoder struct {
	sender Sender
	memory Memory
	header header
	out    Decoded
	parts  int // of decoding.MaxParts
}

func newDecoder(s Sender) *decoder {
	d := &decoder{sender: s, memory: s.Memory}
	if d.memory == nil {
		d.memory = noMemory{}
	}
	return d
}

func (d *decoder) result() Decoded {
	if d.out.ID == "" {
		d.setID(d.header.EventID)
	}
	return d.out
}

// setID sets the id in the answer, if there is none yet and this one is valid: 32 hexadecimal
// digits, or a UUID.
func (d *decoder) setID(id lenientText) {
	if d.out.ID != "" || len(id) < 32 || len(id) > 36 || strings.Trim(string(id), "0123456789abcdefABCDEF-") != "" {
		return
	}
	d.out.ID = string(id)
}

func (d *decoder) countIgnored(why string) {
	if d.out.Ignored == nil {
		d.out.Ignored = map[string]int{}
	}
	d.out.Ignored[why]++
}

// add appends an event. An invalid one is counted as ignored.
func (d *decoder) add(e telemetry.Event) error {
	if wrong := e.Validate(); wrong != nil {
		d.countIgnored(ignoredInvalid)
		return nil //nolint:nilerr // an invalid event is left out, the others stay
	}
	if e.Kind == telemetry.KindVitals && e.URL == "" {
		d.countIgnored(ignoredNoPage)
		return nil
	}
	if len(d.out.Events) >= decoding.MaxItems {
		return fmt.Errorf("the envelope makes over %d events: %w", decoding.MaxItems, decoding.ErrTooMany)
	}
	d.out.Events = append(d.out.Events, e)
	return nil
}

// decode reads the JSON of a payload after checking its bounds.
func (d *decoder) decode(payload []byte, into any) error {
	if err := d.checkBounds(payload); err != nil {
		return err
	}
	if err := json.Unmarshal(payload, into, lenient); err != nil {
		if errors.Is(err, decoding.ErrTooMany) {
			return err
		}
		return decoding.Malformed(err)
	}
	return nil
}

// noMemory is a Memory that keeps nothing.
type noMemory struct{}

func (noMemory) Keep(Key, string) bool     { return true }
func (noMemory) Lookup(Key) (string, bool) { return "", false }
