package telemetry

import (
	"math"
	"strings"
)

// payload reads the payload of e's kind; null counts as missing. Most events are log lines and
// requests, so those are read without reflection.
func (r *reader) payload(e, before *Event) error {
	if r.dec.PeekKind() == 'n' {
		return r.dec.SkipValue()
	}
	switch e.Kind {
	case KindLog:
		e.Log = &Log{}
		return r.log(e.Log, before.Log)
	case KindNetwork:
		e.Network = &Network{Status: statusMissing}
		return r.network(e.Network, before.Network)
	case KindVitals:
		return r.value("vitals", &e.Vitals)
	case KindAction:
		return r.value("action", &e.Action)
	case KindMemory:
		return r.value("memory", &e.Memory)
	case KindCircuit:
		return r.value("circuit", &e.Circuit)
	case KindSecurity:
		return r.value("security", &e.Security)
	default: // an unknown kind, which Validate refuses
		return r.dec.SkipValue()
	}
}

func (r *reader) log(l, before *Log) error {
	if before == nil {
		before = &Log{}
	}
	l.noMessage = true
	if err := r.begin('{', "log"); err != nil {
		return err
	}
	for {
		name, more, err := r.name()
		if err != nil || !more {
			return err
		}
		switch string(name) {
		case "level":
			var level string
			level, err = r.text("log.level", string(before.Level))
			l.Level = Level(level)
		case "message":
			l.noMessage = r.dec.PeekKind() == 'n'
			l.Message, err = r.text("log.message", before.Message)
		case "stack":
			l.Stack, err = r.text("log.stack", before.Stack)
		case "source":
			l.Source, err = r.text("log.source", before.Source)
		case "fingerprint":
			l.Fingerprint, err = r.fingerprint()
		case "args":
			err = r.value("log.args", &l.Args)
		default:
			err = r.dec.SkipValue()
		}
		if err != nil {
			return err
		}
	}
}

// Values of Network.Status for Validate: 0 is a valid status.
const (
	statusMissing = math.MinInt
	statusWrong   = -1
)

func (r *reader) network(n, before *Network) error {
	if before == nil {
		before = &Network{}
	}
	if err := r.begin('{', "network"); err != nil {
		return err
	}
	for {
		name, more, err := r.name()
		if err != nil || !more {
			return err
		}
		switch string(name) {
		case "method":
			n.Method, err = r.text("network.method", before.Method)
		case "url":
			n.URL, err = r.text("network.url", before.URL)
		case "status":
			n.Status, err = r.status()
		case "duration_ms":
			n.DurationMS, _, err = r.number("network.duration_ms")
		case "error":
			n.Error, err = r.text("network.error", before.Error)
		case "request_headers":
			n.RequestHeaders, err = r.headers("network.request_headers")
		case "response_headers":
			n.ResponseHeaders, err = r.headers("network.response_headers")
		case "request_body":
			n.RequestBody, err = r.text("network.request_body", before.RequestBody)
		case "response_body":
			n.ResponseBody, err = r.text("network.response_body", before.ResponseBody)
		default:
			err = r.dec.SkipValue()
		}
		if err != nil {
			return err
		}
	}
}

// status reads a status. A whole number may be written as 200.0.
func (r *reader) status() (int, error) {
	f, there, err := r.number("network.status")
	switch {
	case err != nil:
		return 0, err
	case !there:
		return statusMissing, nil
	case f != math.Trunc(f) || f < 0 || f > maxStatus:
		return statusWrong, nil
	default:
		return int(f), nil
	}
}

// headers reads headers in the forms of Node and fetch: an object of strings or of arrays of
// strings, an array of [name, value] pairs, or an array of alternating names and values, as
// Node's rawHeaders. Numbers and booleans are accepted too: apps set Content-Length so. The
// values of one name are joined with a comma, as in HTTP.
func (r *reader) headers(field string) (map[string]string, error) {
	switch r.dec.PeekKind() {
	case 'n':
		return nil, r.dec.SkipValue()
	case '[':
		return r.headerPairs(field)
	default:
	}
	if err := r.begin('{', field); err != nil {
		return nil, err
	}
	headers := map[string]string{}
	for {
		name, more, err := r.name()
		if err != nil || !more {
			return headers, err
		}
		header := string(name)
		value, err := r.headerValue(field + "." + header)
		if err != nil {
			return nil, err
		}
		headers[header] = value
	}
}

// headerPairs reads an array of [name, value] pairs, or of alternating names and values.
func (r *reader) headerPairs(field string) (map[string]string, error) {
	if _, err := r.dec.ReadToken(); err != nil {
		return nil, err
	}
	flat := r.dec.PeekKind() == '"'
	all := map[string][]string{}
	for r.dec.PeekKind() != ']' {
		if !flat {
			if err := r.begin('[', field); err != nil {
				return nil, err
			}
		}
		if r.dec.PeekKind() != '"' {
			return nil, r.refuse(field)
		}
		name, err := r.text(field, "")
		if err != nil {
			return nil, err
		}
		if r.dec.PeekKind() == ']' {
			return nil, r.refuse(field)
		}
		value, err := r.headerValue(field + "." + name)
		if err != nil {
			return nil, err
		}
		all[name] = append(all[name], value)
		if flat {
			continue
		}
		if r.dec.PeekKind() != ']' {
			return nil, r.refuse(field)
		}
		if _, err := r.dec.ReadToken(); err != nil {
			return nil, err
		}
	}
	headers := make(map[string]string, len(all))
	for name, values := range all {
		headers[name] = strings.Join(values, separator)
	}
	_, err := r.dec.ReadToken()
	return headers, err
}

// refuse returns the error for a next value that the field does not accept, or that is not
// JSON.
func (r *reader) refuse(field string) error {
	if r.dec.PeekKind() != ']' {
		if err := r.dec.SkipValue(); err != nil {
			return err
		}
	}
	return invalidField(field, "must be "+wanted(field))
}

// headerValue reads the value of one header, or all values in an array.
func (r *reader) headerValue(field string) (string, error) {
	if r.dec.PeekKind() != '[' {
		return r.scalar(field)
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return "", err
	}
	var values []string
	for r.dec.PeekKind() != ']' {
		value, err := r.scalar(field)
		if err != nil {
			return "", err
		}
		values = append(values, value)
	}
	_, err := r.dec.ReadToken()
	return strings.Join(values, separator), err
}

// separator joins the values of one header (RFC 9110, section 5.2).
const separator = ", "

// scalar reads a string, a number or a boolean; null is an empty string.
func (r *reader) scalar(field string) (string, error) {
	v, err := r.dec.ReadValue()
	if err != nil {
		return "", err
	}
	switch v.Kind() {
	case '0', 't', 'f':
		return string(v), nil
	default:
		return stringOf(field, v, "")
	}
}
