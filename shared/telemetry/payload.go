package telemetry

import "math"

// payload reads the payload of e's kind; null is none. Log lines and requests
// are most of what comes, so they are read by hand.
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
	default: // a kind that is none, and refused for that
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

// Marks of a status while it is validated: a missing one is an error, and 0 is
// not.
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

// status reads a whole number however it is written: 200.0 is one.
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

// headers reads an object of strings. Numbers and booleans are taken as they
// stand: apps set Content-Length so.
func (r *reader) headers(field string) (map[string]string, error) {
	if r.dec.PeekKind() == 'n' {
		return nil, r.dec.SkipValue()
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
		v, err := r.dec.ReadValue()
		if err != nil {
			return nil, err
		}
		switch v.Kind() {
		case '0', 't', 'f':
			headers[header] = string(v)
		default:
			if headers[header], err = stringOf(field+"."+header, v, ""); err != nil {
				return nil, err
			}
		}
	}
}
