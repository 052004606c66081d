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

// lenient are the JSON options for payloads.
var lenient = decoding.Lenient()

// lenientText is a text field that also accepts a number or boolean. Any other value is read
// as empty: SDKs differ in such details, and an error with an odd tag is still an error.
type lenientText string

// UnmarshalJSONFrom reads any value.
func (t *lenientText) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	s, err := decoding.ReadText(dec)
	*t = lenientText(s)
	return err
}

// maxNumber is the longest text that is read as a number or a time, in bytes.
const maxNumber = 64

// number parses the text as a finite number.
func (t lenientText) number() (float64, bool) {
	if t == "" || len(t) > maxNumber {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(t), 64)
	return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

// lastSecond is the end of the year 9999, in seconds.
const lastSecond = 253402300800

// time parses the text as a time: seconds since 1970, or RFC 3339, where a missing zone
// means UTC. It returns the zero time for any other text.
func (t lenientText) time() time.Time {
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

// typedText is a text field that may also be written as {"value":...,"type":...}, as newer
// items write attributes.
type typedText struct{ lenientText }

// UnmarshalJSONFrom reads any value.
func (a *typedText) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return a.lenientText.UnmarshalJSONFrom(dec)
	}
	var typed struct {
		Value lenientText `json:"value"`
	}
	err := json.UnmarshalDecode(dec, &typed)
	a.lenientText = typed.Value
	return err
}

// firstNonEmpty returns the first text that is not empty.
func firstNonEmpty[T ~string](texts ...T) string {
	return string(cmp.Or(texts...))
}

// lenientObject is an object field. Any other value is read as the zero value: PHP writes an
// empty object as [].
type lenientObject[T any] struct{ v T }

// UnmarshalJSONFrom reads any value.
func (m *lenientObject[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return dec.SkipValue()
	}
	return json.UnmarshalDecode(dec, &m.v)
}

// lazyObject is a lenientObject that takes no memory while it is absent. It is for large
// objects in spans.
type lazyObject[T any] struct{ p *T }

// object returns the object, which is new and empty if it was absent.
func (l *lazyObject[T]) object() *T {
	if l.p == nil {
		l.p = new(T)
	}
	return l.p
}

// UnmarshalJSONFrom reads any value.
func (l *lazyObject[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return dec.SkipValue()
	}
	return json.UnmarshalDecode(dec, l.object())
}

// objectList is a list of objects, written as an array or, in the older form, as
// {"values":[...]}. Other elements are skipped; over decoding.MaxItems objects are an error.
type objectList[T any] []T

// UnmarshalJSONFrom reads any value.
func (l *objectList[T]) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	switch dec.PeekKind() {
	case '{':
		var old struct {
			Values objectList[T] `json:"values"`
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

// rawValue is the JSON of a value of any type.
type rawValue []byte

// UnmarshalJSONFrom reads any value.
func (o *rawValue) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	v, err := dec.ReadValue()
	*o = bytes.Clone(v)
	return err
}

// decode returns the decoded value, a placeholder if it is longer than limit bytes, or nil if
// it is empty.
func (o rawValue) decode(limit int) any {
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

// tags are texts by name, written as an object or as an array of pairs. At most maxTags are
// kept.
type tags map[string]string

const maxTags = 50

// UnmarshalJSONFrom reads any value.
func (t *tags) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	kept := tags{}
	*t = kept
	keep := func(name, value lenientText) {
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
		var name, value lenientText
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
		var pair []lenientText
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

// fingerprintParts are the texts of a fingerprint, written as an array or as one text. They may
// contain variables such as {{ default }}, which Sentry itself would replace.
type fingerprintParts []lenientText

// UnmarshalJSONFrom reads any value.
func (p *fingerprintParts) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '[' {
		var one lenientText
		err := one.UnmarshalJSONFrom(dec)
		*p = fingerprintParts{one}
		return err
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != ']' {
		var part lenientText
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

// fingerprint returns the fingerprint, or nil if it is empty or too long.
func (p fingerprintParts) fingerprint() telemetry.Fingerprint {
	texts := make([]string, len(p))
	for i, part := range p {
		texts[i] = string(part)
	}
	return telemetry.NewFingerprint(texts...)
}
