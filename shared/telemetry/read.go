package telemetry

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// reader decodes events token by token, which is faster than reflection, and skips payloads
// of other kinds. Its errors are a *FieldError without an index, or the decoder's.
type reader struct {
	dec  *jsontext.Decoder
	src  bytes.Buffer
	data []byte
}

func newReader(data []byte) *reader {
	r := &reader{dec: new(jsontext.Decoder)}
	r.reset(data)
	return r
}

func (r *reader) reset(data []byte) {
	r.data, r.src = data, *bytes.NewBuffer(data)
	r.dec.Reset(&r.src, lenient) // the decoder does not copy a Buffer's bytes
}

// whole reads and validates the only event of a text.
func (r *reader) whole(e, before *Event) error {
	if err := r.event(e, before); err != nil {
		return err
	}
	if !r.ended() {
		return invalidField("", "is followed by something: send an array of events, or one a line as application/x-ndjson")
	}
	return asError(e.Validate())
}

// ended reports whether nothing is left.
func (r *reader) ended() bool {
	_, err := r.dec.ReadToken()
	return errors.Is(err, io.EOF)
}

// early is a payload that came before the kind of its event.
type early struct {
	name string
	raw  []byte
}

// event reads one event. Texts that equal those of the event before it, which may be nil, share
// their memory: most events of a batch have the same app, session and page.
func (r *reader) event(e, before *Event) error {
	if before == nil {
		before = &Event{}
	}
	if err := r.begin('{', ""); err != nil {
		return err
	}
	var kept []early
	for {
		name, more, err := r.name()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		switch string(name) {
		case "kind":
			e.Kind, err = r.kind()
		case "app":
			e.App, err = r.text("app", before.App)
		case "session":
			e.Session, err = r.text("session", before.Session)
		case "release":
			e.Release, err = r.optionalText("release", before.Release)
		case "url":
			e.URL, err = r.text("url", before.URL)
		case "time":
			e.Time, err = r.time("time")
		default:
			switch {
			case string(name) == string(e.Kind):
				err = r.payload(e, before)
			case e.Kind == "" && slices.Contains(kinds, Kind(name)):
				kept = append(kept, early{name: string(name)})
				kept[len(kept)-1].raw, err = r.raw()
			default:
				err = r.dec.SkipValue()
			}
		}
		if err != nil {
			return err
		}
	}
	if e.App == "" {
		e.App = DefaultApp
	}
	for _, k := range kept {
		if k.name == string(e.Kind) {
			return newReader(k.raw).payload(e, before)
		}
	}
	return nil
}

var kinds = Kinds()

func (r *reader) kind() (Kind, error) {
	v, err := r.dec.ReadValue()
	if err != nil {
		return "", err
	}
	for _, k := range kinds {
		if len(v) == len(k)+2 && string(v[1:len(v)-1]) == string(k) {
			return k, nil
		}
	}
	text, err := stringOf("kind", v, "")
	return Kind(text), err
}

// begin reads the delimiter of an object or array.
func (r *reader) begin(delim jsontext.Kind, field string) error {
	if r.dec.PeekKind() == delim {
		_, err := r.dec.ReadToken()
		return err
	}
	if err := r.dec.SkipValue(); err != nil {
		return err
	}
	return invalidField(field, "must be "+wanted(field))
}

// name reads the name of the next member; more is false at the end of the object. The name is
// valid until the next read.
func (r *reader) name() (name []byte, more bool, err error) {
	if r.dec.PeekKind() == '}' {
		_, err := r.dec.ReadToken()
		return nil, false, err
	}
	v, err := r.dec.ReadValue()
	if err != nil {
		return nil, false, err
	}
	name = v[1 : len(v)-1]
	if bytes.IndexByte(name, '\\') >= 0 {
		name, _ = jsontext.AppendUnquote(nil, v) // the decoder has checked it
	}
	return name, true, nil
}

// raw reads any value. The result remains valid: it is part of the data that is read.
func (r *reader) raw() ([]byte, error) {
	v, err := r.dec.ReadValue()
	end := r.dec.InputOffset()
	return r.data[end-int64(len(v)) : end], err
}

// text reads a string; null is read as "". If the string equals like, it returns like and
// allocates nothing.
func (r *reader) text(field, like string) (string, error) {
	v, err := r.dec.ReadValue()
	if err != nil {
		return "", err
	}
	return stringOf(field, v, like)
}

// optionalText is text, but returns "" for any other value than a string. It is for fields that
// were added later: some senders use these names for something else.
func (r *reader) optionalText(field, like string) (string, error) {
	if r.dec.PeekKind() == '"' {
		return r.text(field, like)
	}
	return "", r.dec.SkipValue()
}

func stringOf(field string, v jsontext.Value, like string) (string, error) {
	switch v.Kind() {
	case 'n':
		return "", nil
	case '"':
		return unquoted(v, like), nil
	default:
		return "", invalidField(field, "must be "+wanted(field))
	}
}

// unquoted returns the text of a JSON string. Invalid UTF-8 becomes U+FFFD.
func unquoted(v jsontext.Value, like string) string {
	if inner := v[1 : len(v)-1]; bytes.IndexByte(inner, '\\') < 0 {
		switch {
		case string(inner) == like:
			return like
		case utf8.Valid(inner):
			return string(inner)
		}
	}
	text, _ := jsontext.AppendUnquote(nil, v) // the decoder has checked it, except for invalid UTF-8
	return string(text)
}

// time reads an RFC 3339 time; null is the zero time.
func (r *reader) time(field string) (t time.Time, err error) {
	if r.dec.PeekKind() == 'n' {
		return t, r.dec.SkipValue()
	}
	text, err := r.text(field, "")
	if err == nil && t.UnmarshalText([]byte(text)) != nil {
		err = invalidField(field, "must be "+wanted(field))
	}
	return t, err
}

// number reads a number. there is false for null.
func (r *reader) number(field string) (n float64, there bool, err error) {
	v, err := r.dec.ReadValue()
	switch {
	case err != nil:
		return 0, false, err
	case v.Kind() == 'n':
		return 0, false, nil
	case v.Kind() != '0':
		return 0, false, invalidField(field, "must be "+wanted(field))
	}
	n, err = strconv.ParseFloat(string(v), 64)
	if err != nil {
		return 0, false, invalidField(field, "must be "+wanted(field)+largest)
	}
	return n, true, nil
}

// largest is added to the error for a number that is too large.
const largest = ", no larger than 1.8e308"

// value decodes a value by reflection. It is for values that are small or rare.
func (r *reader) value(field string, into any) error {
	v, err := r.dec.ReadValue()
	if err != nil {
		return err
	}
	err = json.Unmarshal(v, into, lenient)
	var typed *json.SemanticError
	if !errors.As(err, &typed) {
		return err
	}
	for token := range typed.JSONPointer.Tokens() {
		field += "." + token
	}
	reason := "must be " + wanted(field)
	if errors.Is(err, strconv.ErrRange) {
		reason += largest
	}
	return invalidField(field, reason)
}

// wanted returns the description of a field's type, for errors.
func wanted(field string) string {
	if field == "" {
		return "a JSON object"
	}
	if w, ok := types[field]; ok {
		return w
	}
	switch {
	case strings.HasPrefix(field, "log.args."):
		return "a number" // only numbers that are too large are refused there
	case strings.HasPrefix(field, "network.request_headers."), strings.HasPrefix(field, "network.response_headers."):
		return "a string, a number, a boolean or an array of these"
	}
	return "a string"
}

// headerForms describes the allowed forms of headers.
const headerForms = "an object of strings, numbers, booleans and arrays of these, an array of [name, value] pairs, or an array of names and values by turns"

// types describes the types of the fields that are not strings.
var types = map[string]string{
	"time":                     "an RFC 3339 time such as 2026-01-28T14:30:00.000Z",
	"log":                      "an object",
	"network":                  "an object",
	"vitals":                   "an object",
	"action":                   "an object",
	"memory":                   "an object",
	"circuit":                  "an object",
	"security":                 "an object",
	"log.args":                 "an array",
	"network.status":           "a whole number from 0 to 999",
	"network.duration_ms":      "a number of milliseconds",
	"network.request_headers":  headerForms,
	"network.response_headers": headerForms,
	"vitals.fcp_ms":            "a number of milliseconds",
	"vitals.lcp_ms":            "a number of milliseconds",
	"vitals.inp_ms":            "a number of milliseconds",
	"vitals.ttfb_ms":           "a number of milliseconds",
	"vitals.load_ms":           "a number of milliseconds",
	"vitals.cls":               "a number",
	"memory.used_bytes":        "a number of bytes",
	"memory.limit_bytes":       "a number of bytes",
}
