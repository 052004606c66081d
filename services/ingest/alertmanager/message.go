package alertmanager

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
)

// version is the version of the messages, which Alertmanager has not changed since 2016. A
// payload without a version, as a custom template may write, is accepted.
const version = "4"

// message has the used fields of a webhook's message. Each alert repeats the labels that
// all alerts of the group share.
type message struct {
	Version         string `json:"version"`
	TruncatedAlerts uint64 `json:"truncatedAlerts"`
	Receiver        string `json:"receiver"`
	GroupLabels     labels `json:"groupLabels"`
	Alerts          group  `json:"alerts"`
}

type group []promAlert

type labels map[string]string

// promAlert is one alert in Alertmanager's form.
type promAlert struct {
	Status      string `json:"status"`
	Labels      labels `json:"labels"`
	Annotations labels `json:"annotations"`
	// The times are strings here, so that a malformed one does not invalidate the alert.
	StartsAt     string `json:"startsAt"`
	EndsAt       string `json:"endsAt"`
	GeneratorURL string `json:"generatorURL"`
	Fingerprint  string `json:"fingerprint"`
}

// read decodes a message. It stops at the bounds of package decoding, before a small body
// becomes many alerts or labels in memory.
func read(data []byte) (*message, error) {
	if err := decoding.CheckJSON(data, decoding.MaxParts); err != nil {
		return nil, err
	}
	var m message
	b := &bounds{labels: decoding.MaxParts}
	err := json.Unmarshal(data, &m,
		json.WithUnmarshalers(json.JoinUnmarshalers(json.UnmarshalFromFunc(b.readGroup), json.UnmarshalFromFunc(b.readLabels))),
		jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	switch {
	case err != nil:
		return nil, decodeError(err)
	case m.Version != version && m.Version != "":
		return nil, fmt.Errorf("version must be %q: send what Alertmanager's webhook sends", version)
	case m.Alerts == nil:
		return nil, errors.New("alerts must be an array of alerts")
	}
	return &m, nil
}

// bounds refuses messages with too many alerts, labels or annotations while they are
// decoded.
type bounds struct {
	labels int // how many labels and annotations may still follow
}

func (b *bounds) readGroup(dec *jsontext.Decoder, g *group) error {
	if dec.PeekKind() != '[' {
		return errors.ErrUnsupported // the default decoder then reports the error
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	all := group{}
	for dec.PeekKind() != ']' {
		if len(all) == decoding.MaxItems {
			return fmt.Errorf("more than %d alerts: set max_alerts or %w", decoding.MaxItems, decoding.ErrTooMany)
		}
		var a promAlert
		if err := json.UnmarshalDecode(dec, &a); err != nil {
			return err
		}
		all = append(all, a)
	}
	*g = all
	_, err := dec.ReadToken()
	return err
}

func (b *bounds) readLabels(dec *jsontext.Decoder, l *labels) error {
	if dec.PeekKind() != '{' {
		return errors.ErrUnsupported
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	all := labels{}
	for dec.PeekKind() != '}' {
		if b.labels--; b.labels < 0 {
			return fmt.Errorf("more than %d labels and annotations: set max_alerts or %w", decoding.MaxParts, decoding.ErrTooMany)
		}
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		key := name.String() // a copy: the decoder reuses its buffer
		var value string
		if err := json.UnmarshalDecode(dec, &value); err != nil {
			return err
		}
		all[key] = value
	}
	*l = all
	_, err := dec.ReadToken()
	return err
}

// decodeError words an error for the sender: it names the field instead of a Go type.
func decodeError(err error) error {
	var typed *json.SemanticError
	switch {
	case errors.Is(err, decoding.ErrTooMany):
		for errors.As(err, &typed) && typed.Err != nil {
			err = typed.Err
		}
		return err
	case errors.As(err, &typed) && typed.JSONPointer != "":
		field := strings.ReplaceAll(strings.TrimPrefix(string(typed.JSONPointer), "/"), "/", ".")
		return fmt.Errorf("%s must be %s", field, typeName(field))
	case errors.As(err, &typed):
		return errors.New("a message of Alertmanager must be a JSON object")
	default:
		return fmt.Errorf("malformed JSON: %w", err)
	}
}

// typeName describes the JSON type of a field.
func typeName(field string) string {
	switch last := field[strings.LastIndexByte(field, '.')+1:]; {
	case field == "truncatedAlerts":
		return "a number of alerts"
	case field == "alerts":
		return "an array of alerts"
	case strings.HasPrefix(field, "alerts.") && strings.Count(field, ".") == 1:
		return "an object with status, labels and annotations"
	case last == "labels" || last == "annotations" || last == "groupLabels":
		return "an object of strings"
	default:
		return "a string"
	}
}
