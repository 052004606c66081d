package sentry

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// lenient is how payloads are read.
var lenient = decoding.Lenient()

// text is a string, or the text of a number or boolean. Any other value is empty: SDKs in
// many languages differ in such details, and an error with an odd tag is still an error.
type text string

// UnmarshalJSONFrom reads any value.
func (t *text) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	s, err := decoding.ReadText(dec)
	*t = text(s)
	return err
}

// maxNumber is the longest text that is read as a number or a time, in bytes.
const maxNumber = 64

// number is the text as a number.
func (t text) number() (float64, bool) {
	if t == "" || len(t) > maxNumber {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(t), 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// lastSecond is the end of the year 9999, in seconds.
const lastSecond = 253402300800

// time is the text as a time: seconds since 1970, or RFC 3339, where a missing zone is
// UTC. Any other text is the zero time.
func (t text) time() time.Time {
	if t == "" || len(t) > maxNumber {
		return time.Time{}
	}
	if s, ok := t.number(); ok {
		if s <= 0 || s >= lastSecond {
			return time.Time{}
		}
		whole, part := math.Modf(s)
		return time.Unix(int64(whole), int64(part*1e9)).UTC().Round(time.Microsecond)
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05"} {
		if at, err := time.Parse(layout, string(t)); err == nil {
			return at.UTC()
		}
	}
	return time.Time{}
}

// attr is a text that may be written as {"value":...,"type":...}, as newer items write
// attributes.
type attr struct{ text }

// UnmarshalJSONFrom reads any value.
func (a *attr) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return a.text.UnmarshalJSONFrom(dec)
	}
	var typed struct {
		Value text `json:"value"`
	}
	err := json.UnmarshalDecode(dec, &typed)
	a.text = typed.Value
	return err
}

// first is the first text that is not empty.
func first[T ~string](texts ...T) string {
	return string(cmp.Or(texts...))
}

// optional is an object, or its zero value if another value is in its place: PHP writes an
// empty object as [].
type optional[T any] struct{ v T }

// UnmarshalJSONFrom reads any value.
func (m *optional[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return dec.SkipValue()
	}
	return json.UnmarshalDecode(dec, &m.v)
}

// lazy is an optional that takes no memory while it is absent, for large objects in spans.
type lazy[T any] struct{ p *T }

// get is the object, or an empty one.
func (l *lazy[T]) get() *T {
	if l.p == nil {
		l.p = new(T)
	}
	return l.p
}

// UnmarshalJSONFrom reads any value.
func (l *lazy[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return dec.SkipValue()
	}
	return json.UnmarshalDecode(dec, l.get())
}

// list is the objects of an array, or of {"values":[...]} as the older form has it. It
// holds at most decoding.MaxItems.
type list[T any] []T

// UnmarshalJSONFrom reads any value.
func (l *list[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case '{':
		var old struct {
			Values list[T] `json:"values"`
		}
		err := json.UnmarshalDecode(dec, &old)
		*l = old.Values
		return err
	case '[':
	default:
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != ']' {
		if dec.PeekKind() != '{' {
			if err := dec.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if len(*l) >= decoding.MaxItems {
			return fmt.Errorf("a list has over %d entries: %w", decoding.MaxItems, decoding.ErrTooMany)
		}
		var v T
		if err := json.UnmarshalDecode(dec, &v); err != nil {
			return err
		}
		*l = append(*l, v)
	}
	_, err := dec.ReadToken()
	return err
}

// open is a value of any form, as it is written.
type open []byte

// UnmarshalJSONFrom reads any value.
func (o *open) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	v, err := dec.ReadValue()
	*o = bytes.Clone(v)
	return err
}

// value is the decoded value, a placeholder if it is longer than limit bytes, or nil if it
// is empty.
func (o open) value(limit int) any {
	switch string(o) {
	case "", "null", "{}", "[]", `""`:
		return nil
	}
	if len(o) > limit {
		return fmt.Sprintf("(%d bytes are left out)", len(o))
	}
	if o[0] == '"' {
		s, _ := jsontext.AppendUnquote(nil, o) // the decoder has checked it
		return string(s)
	}
	var v any
	if json.Unmarshal(o, &v, lenient) != nil { // unreachable: the decoder has checked it
		return nil
	}
	return v
}

// tags are names and values, written as an object or as a list of pairs. At most maxTags
// are kept.
type tags map[string]string

const maxTags = 50

// UnmarshalJSONFrom reads any value.
func (t *tags) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	kept := tags{}
	*t = kept
	keep := func(name, value text) {
		if len(kept) < maxTags && name != "" && value != "" {
			kept[string(name)] = string(value)
		}
	}
	kind := dec.PeekKind()
	if kind != '{' && kind != '[' {
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != kind+2 { // } is two after {, and ] after [
		var name, value text
		if kind == '{' {
			if err := name.UnmarshalJSONFrom(dec); err != nil {
				return err
			}
			if err := value.UnmarshalJSONFrom(dec); err != nil {
				return err
			}
			keep(name, value)
			continue
		}
		if dec.PeekKind() != '[' {
			if err := dec.SkipValue(); err != nil {
				return err
			}
			continue
		}
		var pair []text
		if err := json.UnmarshalDecode(dec, &pair); err != nil {
			return err
		}
		if len(pair) == 2 {
			keep(pair[0], pair[1])
		}
	}
	_, err := dec.ReadToken()
	return err
}

// parts are the texts of a fingerprint, written as an array or as one text. They may hold
// variables such as {{ default }}, which Sentry replaces when it groups.
type parts []text

// UnmarshalJSONFrom reads any value.
func (p *parts) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '[' {
		var one text
		err := one.UnmarshalJSONFrom(dec)
		*p = parts{one}
		return err
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != ']' {
		var part text
		if err := part.UnmarshalJSONFrom(dec); err != nil {
			return err
		}
		if len(*p) <= telemetry.MaxFingerprintParts { // one more shows that there are too many
			*p = append(*p, part)
		}
	}
	_, err := dec.ReadToken()
	return err
}

// fingerprint is the fingerprint of an event, or nil if it is empty or too long.
func (p parts) fingerprint() telemetry.Fingerprint {
	texts := make([]string, len(p))
	for i, part := range p {
		texts[i] = string(part)
	}
	return telemetry.NewFingerprint(texts...)
}
