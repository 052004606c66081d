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
	Timestamp  text       `json:"timestamp"`
	TraceID    text       `json:"trace_id"`
	Level      text       `json:"level"`
	Body       text       `json:"body"`
	Attributes attributes `json:"attributes"`
}

// attributes are those of a log line: at most maxAttributes, without what the SDK says
// about itself, and of the user only the id.
type attributes struct {
	shown                    map[string]any
	app, release, file, line text
}

const (
	maxAttributes = 50
	maxAttribute  = 2 << 10 // bytes of JSON
)

// logs decodes a container of structured logs.
func (d *decoder) logs(payload []byte) error {
	var container struct {
		Items list[logLine] `json:"items"`
	}
	if err := d.decode(payload, decoding.NewObject(&container)); err != nil {
		return err
	}
	for i := range container.Items {
		line := &container.Items[i]
		l := telemetry.Log{Level: logLevel(line.Level), Message: string(line.Body), Source: line.Attributes.source()}
		if shown := line.Attributes.shown; len(shown) > 0 {
			l.Args = []any{shown}
		}
		o := d.from(line.Attributes.app, "", line.Attributes.release, line.TraceID)
		if err := d.add(o.log(line.Timestamp.time(), l)); err != nil {
			return err
		}
	}
	return nil
}

// logLevel is the level of a structured log; a missing one is info.
func logLevel(l text) telemetry.Level {
	if l == "" {
		return telemetry.LevelInfo
	}
	return level(l)
}

// source is the position in the code, if the SDK sends it.
func (a *attributes) source() string {
	if a.file == "" || a.line == "" {
		return string(a.file)
	}
	return string(a.file + ":" + a.line)
}

// UnmarshalJSONFrom reads any value.
func (a *attributes) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	if dec.PeekKind() != '{' {
		return dec.SkipValue()
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() != '}' {
		var name text
		if err := name.UnmarshalJSONFrom(dec); err != nil {
			return err
		}
		if err := a.attribute(dec, string(name)); err != nil {
			return err
		}
	}
	_, err := dec.ReadToken()
	return err
}

// attribute reads the value of one attribute.
func (a *attributes) attribute(dec *jsontext.Decoder, name string) error {
	var known *text
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
		var v attr
		err := v.UnmarshalJSONFrom(dec)
		*known = v.text
		return err
	}
	ofUser := strings.HasPrefix(name, "user.") && name != "user.id"
	if strings.HasPrefix(name, "sentry.") || ofUser || len(a.shown) >= maxAttributes {
		return dec.SkipValue()
	}
	var raw open
	var err error
	if dec.PeekKind() == '{' { // with its type
		var typed struct {
			Value open `json:"value"`
		}
		err = json.UnmarshalDecode(dec, &typed)
		raw = typed.Value
	} else {
		err = raw.UnmarshalJSONFrom(dec)
	}
	if shown := raw.value(maxAttribute); err == nil && shown != nil {
		if a.shown == nil {
			a.shown = map[string]any{}
		}
		a.shown[name] = shown
	}
	return err
}
