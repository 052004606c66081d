package telemetry

import (
	"math"
	"slices"
	"strings"
)

// maxStatus is the highest status: three digits, as in HTTP (RFC 9110,
// section 15). Some servers use those above 599.
const maxStatus = 999

// Validate returns a *FieldError of index 0 for the first invalid field, or nil.
func (e *Event) Validate() *FieldError {
	if !slices.Contains(kinds, e.Kind) {
		return invalidField("kind", "must be one of "+joinNames(kinds))
	}
	switch e.Kind {
	case KindLog:
		return e.Log.validate()
	case KindNetwork:
		return e.Network.validate()
	case KindVitals:
		return e.Vitals.validate()
	case KindAction:
		return e.Action.validate()
	case KindMemory:
		return e.Memory.validate()
	case KindCircuit:
		return e.Circuit.validate()
	default:
		return e.Security.validate()
	}
}

func invalidField(field, reason string) *FieldError { return &FieldError{Field: field, Reason: reason} }

func missingPayload(k Kind) *FieldError {
	return invalidField(string(k), "is required for an event of kind "+string(k))
}

// asError returns e as an error: a nil *FieldError in an error is not nil.
func asError(e *FieldError) error {
	if e == nil {
		return nil
	}
	return e
}

// required returns an error for an absent or empty text.
func required(field, value string) *FieldError {
	if value == "" {
		return invalidField(field, "is required")
	}
	return nil
}

func oneOf[T ~string](field string, value T, allowed ...T) *FieldError {
	if slices.Contains(allowed, value) {
		return nil
	}
	return invalidField(field, "must be one of "+joinNames(allowed))
}

func joinNames[T ~string](values []T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	return strings.Join(words, ", ")
}

// firstError returns the first error that is not nil.
func firstError(errs ...*FieldError) *FieldError {
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return nil
}

// finite reports whether JSON can represent a number. What decoders compute may be infinite.
func finite(v float64) bool { return !math.IsInf(v, 0) && !math.IsNaN(v) }

func (l *Log) validate() *FieldError {
	if l == nil {
		return missingPayload(KindLog)
	}
	if e := oneOf("log.level", l.Level, LevelDebug, LevelInfo, LevelWarn, LevelError); e != nil {
		return e
	}
	if l.noMessage {
		return required("log.message", "")
	}
	return nil
}

func (n *Network) validate() *FieldError {
	if n == nil {
		return missingPayload(KindNetwork)
	}
	if e := firstError(required("network.method", n.Method), required("network.url", n.URL)); e != nil {
		return e
	}
	switch {
	case n.Status == statusMissing:
		return invalidField("network.status", "is required: "+types["network.status"]+", 0 for a request that failed")
	case n.Status < 0 || n.Status > maxStatus:
		return invalidField("network.status", "must be "+types["network.status"])
	case n.DurationMS < 0:
		return invalidField("network.duration_ms", "must not be negative")
	case !finite(n.DurationMS):
		return invalidField("network.duration_ms", "must be a finite number")
	}
	return nil
}

func (v *Vitals) validate() *FieldError {
	if v == nil {
		return missingPayload(KindVitals)
	}
	measured := false
	for _, m := range []struct {
		name  string
		value *float64
	}{{"fcp_ms", v.FCP}, {"lcp_ms", v.LCP}, {"inp_ms", v.INP}, {"ttfb_ms", v.TTFB}, {"load_ms", v.Load}, {"cls", v.CLS}} {
		if m.value == nil {
			continue
		}
		measured = true
		if *m.value < 0 {
			return invalidField("vitals."+m.name, "must not be negative")
		}
		if !finite(*m.value) {
			return invalidField("vitals."+m.name, "must be a finite number")
		}
	}
	if !measured {
		return invalidField("vitals", "must have at least one of fcp_ms, lcp_ms, inp_ms, ttfb_ms, load_ms, cls")
	}
	return nil
}

func (a *Action) validate() *FieldError {
	if a == nil {
		return missingPayload(KindAction)
	}
	return firstError(
		oneOf("action.type", a.Type, ActionClick, ActionInput, ActionSubmit, ActionNavigate),
		required("action.target", a.Target),
	)
}

func (m *Memory) validate() *FieldError {
	switch {
	case m == nil:
		return missingPayload(KindMemory)
	case !(m.UsedBytes > 0) || !finite(m.UsedBytes):
		return invalidField("memory.used_bytes", "must be a positive number of bytes")
	case !(m.LimitBytes > 0) || !finite(m.LimitBytes):
		return invalidField("memory.limit_bytes", "must be a positive number of bytes")
	}
	return nil
}

func (c *Circuit) validate() *FieldError {
	if c == nil {
		return missingPayload(KindCircuit)
	}
	return firstError(
		required("circuit.name", c.Name),
		oneOf("circuit.state", c.State, CircuitClosed, CircuitHalfOpen, CircuitOpen),
	)
}

func (s *Security) validate() *FieldError {
	if s == nil {
		return missingPayload(KindSecurity)
	}
	return required("security.type", s.Type)
}
