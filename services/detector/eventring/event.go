package eventring

import (
	"github.com/tocsin-bus/tocsin/services/detector/network"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// ranks has the severities of the levels of logs and of the states of circuits.
var ranks = map[string]alert.Severity{
	string(telemetry.LevelWarn): alert.Warning, string(telemetry.LevelError): alert.Error,
	telemetry.CircuitHalfOpen: alert.Warning, telemetry.CircuitOpen: alert.Error,
}

// rank returns the rank of the severity of an event, which a query may filter by. A refused
// request (4xx) and a security event are warnings; memory depends on its limits.
func rank(e *telemetry.Event) int {
	severity := alert.Info
	switch {
	case e.Log != nil:
		severity = ranks[string(e.Log.Level)]
	case e.Network != nil && network.Failed(e.Network.Status):
		severity = alert.Error
	case e.Network != nil && e.Network.Status >= 400, e.Security != nil:
		severity = alert.Warning
	case e.Circuit != nil:
		severity = ranks[e.Circuit.State]
	case e.Memory != nil && e.Memory.UsedBytes >= 0.9*e.Memory.LimitBytes:
		severity = alert.Error
	case e.Memory != nil && e.Memory.UsedBytes >= 0.75*e.Memory.LimitBytes:
		severity = alert.Warning
	}
	return max(severity.Rank(), alert.Info.Rank())
}

// eventSize is about how many bytes an event takes in addition to its text.
const eventSize = 512

// size returns about how many bytes an event takes.
func size(e *telemetry.Event) int {
	n := eventSize + len(e.Session) + len(e.Release) + len(e.URL)
	if l := e.Log; l != nil {
		n += len(l.Message) + len(l.Stack) + len(l.Source)
		for _, part := range l.Fingerprint {
			n += 16 + len(part)
		}
		for _, arg := range l.Args {
			n += valueSize(arg)
		}
	}
	if r := e.Network; r != nil {
		n += len(r.URL) + len(r.Error) + len(r.RequestBody) + len(r.ResponseBody) +
			headerSize(r.RequestHeaders) + headerSize(r.ResponseHeaders)
	}
	if a := e.Action; a != nil {
		n += len(a.Target)
	}
	if c := e.Circuit; c != nil {
		n += len(c.Name) + len(c.Reason)
	}
	if s := e.Security; s != nil {
		n += len(s.Message) + len(s.BlockedURL)
	}
	return n
}

func headerSize(h map[string]string) int {
	n := 0
	for name, value := range h {
		n += 64 + len(name) + len(value)
	}
	return n
}

// valueSize returns about how many bytes a decoded JSON value takes.
func valueSize(value any) int {
	const word = 32
	n := word
	switch v := value.(type) {
	case string:
		n += len(v)
	case []any:
		for _, item := range v {
			n += valueSize(item)
		}
	case map[string]any:
		for name, item := range v {
			n += word + len(name) + valueSize(item)
		}
	}
	return n
}
