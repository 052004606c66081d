// Package telemetry defines the events that senders report: one [Event] for each log line,
// request, page load and so on, with the rules that make it valid.
//
// It decodes and validates. Ingest limits requests, package redact masks secrets, and the
// detectors interpret events.
package telemetry

import "time"

// Kind is the kind of an event; the payload has the same name.
type Kind string

// The kinds of events.
const (
	KindLog      Kind = "log"
	KindNetwork  Kind = "network"
	KindVitals   Kind = "vitals"
	KindAction   Kind = "action"
	KindMemory   Kind = "memory"
	KindCircuit  Kind = "circuit"
	KindSecurity Kind = "security"
)

// Kinds lists every kind.
func Kinds() []Kind {
	return []Kind{KindLog, KindNetwork, KindVitals, KindAction, KindMemory, KindCircuit, KindSecurity}
}

// DefaultApp is the app of an event that names none.
const DefaultApp = "default"

// Event is one piece of telemetry. Exactly one payload is set, the one that
// Kind names.
type Event struct {
	Kind Kind `json:"kind"`
	// App is the name of the application.
	App string `json:"app,omitempty"`
	// Session identifies one visitor or process of an app.
	Session string `json:"session,omitempty"`
	// Release is the running version, deploy or commit of the app.
	Release string `json:"release,omitempty"`
	// Time is by the sender's clock and only displayed; rules use the time of arrival.
	Time time.Time `json:"time,omitzero"`
	// URL is the page on which it happened.
	URL string `json:"url,omitempty"`

	Log      *Log      `json:"log,omitempty"`
	Network  *Network  `json:"network,omitempty"`
	Vitals   *Vitals   `json:"vitals,omitempty"`
	Action   *Action   `json:"action,omitempty"`
	Memory   *Memory   `json:"memory,omitempty"`
	Circuit  *Circuit  `json:"circuit,omitempty"`
	Security *Security `json:"security,omitempty"`
}

// Level is the level of a log line.
type Level string

// The levels of log lines.
const (
	LevelDebug Level = "debug"
	LevelInfo  Level = "info"
	LevelWarn  Level = "warn"
	LevelError Level = "error"
)

// Log is a line that an app or a page wrote.
type Log struct {
	Level Level `json:"level"`
	// Message may be empty, as in console.log("").
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
	// Source is file:line:col.
	Source string `json:"source,omitempty"`
	// Fingerprint groups errors, where the sender sets it.
	Fingerprint Fingerprint `json:"fingerprint,omitempty"`
	Args        []any       `json:"args,omitempty"`

	// noMessage is set if the message is absent, as opposed to empty, for Validate.
	noMessage bool
}

// Network is a request that an app or a page made.
type Network struct {
	Method string `json:"method"`
	URL    string `json:"url"`
	// Status is the HTTP status, or 0 when the request failed without one.
	Status          int               `json:"status"`
	DurationMS      float64           `json:"duration_ms,omitzero"`
	Error           string            `json:"error,omitempty"`
	RequestHeaders  map[string]string `json:"request_headers,omitempty"`
	ResponseHeaders map[string]string `json:"response_headers,omitempty"`
	RequestBody     string            `json:"request_body,omitempty"`
	ResponseBody    string            `json:"response_body,omitempty"`
}

// Vitals are the web vitals of a page load. A nil metric was not measured.
type Vitals struct {
	FCP  *float64 `json:"fcp_ms,omitempty"`
	LCP  *float64 `json:"lcp_ms,omitempty"`
	INP  *float64 `json:"inp_ms,omitempty"`
	TTFB *float64 `json:"ttfb_ms,omitempty"`
	Load *float64 `json:"load_ms,omitempty"`
	CLS  *float64 `json:"cls,omitempty"`
	// Device is the class of the device, where the sender reports it.
	Device Device `json:"device,omitempty"`
}

// The types of actions.
const (
	ActionClick    = "click"
	ActionInput    = "input"
	ActionSubmit   = "submit"
	ActionNavigate = "navigate"
)

// Action is something that a user did on a page.
type Action struct {
	Type   string `json:"type"`
	Target string `json:"target"`
}

// Memory is how much memory an app uses, and its limit.
type Memory struct {
	UsedBytes  float64 `json:"used_bytes"`
	LimitBytes float64 `json:"limit_bytes"`
}

// The states of a circuit breaker.
const (
	CircuitClosed   = "closed"
	CircuitHalfOpen = "half_open"
	CircuitOpen     = "open"
)

// Circuit is the state of a circuit breaker.
type Circuit struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// Security is a violation that a browser or an app reported.
type Security struct {
	// Type is csp, cors, mixed_content or another word of the reporter's.
	Type       string `json:"type"`
	Message    string `json:"message,omitempty"`
	BlockedURL string `json:"blocked_url,omitempty"`
}
