package sentry

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// logLine is a structured log.
type logLine struct {
	Timestamp  lenientText   `json:"timestamp"`
	TraceID    lenientText   `json:"trace_id"`
	Level      lenientText   `json:"level"`
	Body       lenientText   `json:"body"`
	Attributes logAttributes `json:"attributes"`
}

// logAttributes are the attributes of a log line: at most maxAttributes, without those about
// the SDK, and of those about the user only the id.
type logAttributes struct {
	kept                     map[string]any
	app, release, file, line lenientText
}

const (
	maxAttributes = 50
	maxAttribute  = 2 << 10 // bytes of JSON
)

// decodeLogs decodes a container of structured logs.
func (d *decoder) decodeLogs(payload []byte) error {
	var container struct {
		Items objectList[logLine] `json:"items"`
	}
	if err := d.decode(payload, decoding.NewObject(&container)); err != nil {
		return err
	}
	for i := range container.Items {
		line := &container.Items[i]
		l := telemetry.Log{Level: logLevel(line.Level), Message: string(line.Body), Source: line.Attributes.source()}
		if shown := line.Attributes.kept; len(shown) > 0 {
			l.Args = []any{shown}
		}
		o := d.baseOf(line.Attributes.app, "", line.Attributes.release, line.TraceID)
		if err := d.add(o.newLog(line.Timestamp.time(), l)); err != nil {
			return err
		}
	}
	return nil
}

// logLevel returns the level of a structured log: info if it is missing.
func logLevel(l lenientText) telemetry.Level {
	if l == "" {
		return telemetry.LevelInfo
	}
	return parseLevel(l)
}

// source returns the position in the code as file:line, or "".
func (a *logAttributes) source() string {
	if a.file == "" || a.line == "" {
		return string(a.file)
	}
	return string(a.file + ":" + a.line)
}

// UnmarshalJSONFrom reads any value.
func (a *logAttributes) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		var name lenientText
		if err := name.UnmarshalJSONFrom(dec); err != nil {
			return err
		}
		if err := a.readAttribute(dec, string(name)); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// readAttribute reads the value of one attribute.
func (a *logAttributes) readAttribute(dec *jsontext.Decoder, name string) error {
	var known *lenientText
	switch name {
	case "app":
		known = &a.app
	case "sentry.release":
		known = &a.release
	case "code.file.path", "code.filepath":
		known = &a.file
	case "code.line.number", "code.lineno":
		known = &a.line
	}
	if known != nil {
		var v typedText
		err := v.UnmarshalJSONFrom(dec)
		*known = v.lenientText
		return err
	}
	isUserData := strings.HasPrefix(name, "user.") && name != "user.id"
	if strings.HasPrefix(name, "sentry.") || isUserData || len(a.kept) >= maxAttributes {
		return dec.SkipValue()
	}
	var raw rawValue
	var err error
	if dec.PeekKind() == '{' { // with its type
		var typed struct {
			Value rawValue `json:"value"`
		}
		err = json.UnmarshalDecode(dec, &typed)
		raw = typed.Value
	} else {
		err = raw.UnmarshalJSONFrom(dec)
	}
	if shown := raw.decode(maxAttribute); err == nil && shown != nil {
		if a.kept == nil {
			a.kept = map[string]any{}
		}
		a.kept[name] = shown
	}
	return err
}
