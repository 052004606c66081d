// Package alert defines the alert, and turns many alerts into the few that an agent reads:
// repetitions are merged ([Merge]), a regression and an anomaly are correlated ([Digest]),
// and symptoms are grouped under their likely cause ([Causes]).
//
// It is pure: it knows no bus, no MCP and no clock. Detectors raise alerts; the gateway and
// the dashboard digest them.
package alert

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// Severity is how urgent an alert is. The zero value is not a severity.
type Severity string

// The severities, from the least to the most urgent.
const (
	Info    Severity = "info"
	Warning Severity = "warning"
	Error   Severity = "error"
)

// Severities lists every severity, from the least to the most urgent.
func Severities() []Severity { return []Severity{Info, Warning, Error} }

// Rank orders severities: 1 for info, 2 for warning, 3 for error, and 0 for anything else.
func (s Severity) Rank() int {
	switch s {
	case Info:
		return 1
	case Warning:
		return 2
	case Error:
		return 3
	default:
		return 0
	}
}

// Category is the kind of detection that raised an alert.
type Category string

// The categories, in the order in which summaries name them.
const (
	Regression      Category = "regression"
	Anomaly         Category = "anomaly"
	Errors          Category = "errors"
	NetworkErrors   Category = "network_errors"
	CI              Category = "ci"
	Noise           Category = "noise"
	Threshold       Category = "threshold"
	Security        Category = "security"
	UserFrustration Category = "user_frustration"
	// Kubernetes is a fault in a cluster.
	Kubernetes Category = "kubernetes"
)

// Categories lists every category in the order in which summaries name them.
func Categories() []Category {
	return []Category{Regression, Anomaly, Errors, NetworkErrors, CI, Noise, Threshold, Security, UserFrustration, Kubernetes}
}

// The sources: which detector raised an alert (docs/reference/alerts.md).
const (
	SourcePerformance = "performance_monitor"
	SourceAnomaly     = "anomaly_detector"
	SourceErrors      = "error_tracker"
	SourceNetwork     = "network_monitor"
	SourceCI          = "ci_webhook"
	SourceNoise       = "noise_detector"
	SourceMemory      = "memory_monitor"
	SourceCircuit     = "circuit_monitor"
	SourceSecurity    = "security_monitor"
	SourceFrustration = "frustration_detector"
	// SourceStorm is the storm limiter, which summarizes the alerts that it suppresses.
	SourceStorm = "storm_limiter"
	// SourceAlertmanager is another monitoring system, whose alerts are forwarded.
	SourceAlertmanager = "alertmanager"
	// SourceKubernetes is kubewatch, which finds faults in clusters.
	SourceKubernetes = "kubernetes_monitor"
)

// SignalKey is the Context key of what an anomaly counted: SignalLogs or SignalRequests.
// Subscription filters use it to distinguish the two.
const SignalKey = "signal"

// OutcomeKey is the Context key of how a finding ended. NewLevel is the one outcome that is
// news by itself: the finding continues, and is the baseline of the next one.
const (
	OutcomeKey = "outcome"
	NewLevel   = "new_level"
)

// The Context keys of where a finding happened, as far as that is known. Alerts with one
// cause are found by them.
const (
	// PageKey has the path template of the page, such as /users/:id.
	PageKey = "page"
	// EndpointKey has the method and path template of a failed request, such as
	// GET /api/users/:id.
	EndpointKey = "endpoint"
	// ReleaseKey has the release of the event. DeployKey has it as well where the release
	// was first seen only minutes before, after another one.
	ReleaseKey = "release"
	DeployKey  = "deploy"
	// CommitKey has the commit of a CI result.
	CommitKey = "commit"
)

// The Context keys of the subject of a Kubernetes fault. An object without a namespace, such
// as a node, has no NamespaceKey.
const (
	ClusterKey   = "cluster"
	NamespaceKey = "namespace"
	// FaultKey has the kind of the fault, as package kube lists them.
	FaultKey = "fault"
)

// The values of SignalKey.
const (
	SignalLogs     = "logs"
	SignalRequests = "requests"
)

// Bounds on text that reaches an agent, in characters.
const (
	MaxTitle  = 200
	MaxDetail = 2000
)

// MaxAlsoResolves is how many alerts one alert resolves in addition to the first.
const MaxAlsoResolves = 9

// Alert is a finding that is worth attention. Its texts may quote the outside world: they
// are data for the reader and never an instruction.
type Alert struct {
	// ID identifies the alert; on the bus it is also the Nats-Msg-Id.
	ID       string
	Severity Severity
	Category Category
	// Title is one line of at most MaxTitle characters.
	Title string
	// Detail holds the data points, at most MaxDetail characters.
	Detail string
	// Timestamp is when the bus received the event that raised the alert. On the wire it
	// is RFC 3339 in UTC with milliseconds.
	Timestamp time.Time
	// Source is the detector that raised it, one of the Source constants.
	Source string
	// App is the application that the alert is about.
	App string
	// URL is the page or request the alert is about, or empty.
	URL string
	// Context holds JSON values for machines, such as method and status. Nil is
	// an empty object on the wire.
	Context map[string]any
	// DedupKey is equal for repetitions of one finding within an app.
	DedupKey string
	// CorrelationID is shared by alerts that belong together. It is the alert's own ID where
	// there are no others.
	CorrelationID string
	// Count is how many findings the alert stands for. 0 and 1 both mean one, and are left
	// out on the wire.
	Count int
	// Revises is the ID of the alert that this one replaces while that is pending, or empty.
	// Where that was delivered, the revision is ignored.
	Revises string
	// Resolves is the ID of the alert that this one resolves, or empty.
	Resolves string
	// AlsoResolves are the IDs of others that it resolves, the oldest first: at most
	// MaxAlsoResolves, and none without Resolves.
	AlsoResolves []string
	// Resolved means that the alert was resolved before it was delivered. Only an inbox sets
	// it, never a detector.
	Resolved bool
	// InhibitedBy is the ID of the likely cause of this alert, or empty. Symptoms is how many
	// alerts are grouped under this one, and Reason why, in words. Only [Causes] sets them.
	InhibitedBy string
	Symptoms    int
	Reason      string
	// Investigation is what is known of the alert's investigation, or nil.
	Investigation *Investigation
	// OnlyInvestigation means that the reader received the alert before, and only the end of
	// its investigation is new. Only an inbox sets it. It is not on the wire.
	OnlyInvestigation bool
	// Seq is the alert's sequence in the stream that it was read from, the newest one's after
	// a merge, and 0 where it was not read from one. It is not on the wire.
	Seq uint64
}

// Occurrences returns how many findings the alert stands for: at least one.
func (a Alert) Occurrences() int { return max(a.Count, 1) }

// AsOriginal returns a revision under the ID of the alert that it revises. Any other alert is
// returned as it is.
func (a Alert) AsOriginal() Alert {
	if a.Revises == "" {
		return a
	}
	if a.CorrelationID == a.ID {
		a.CorrelationID = a.Revises
	}
	a.ID, a.Revises = a.Revises, ""
	return a
}

// wire is the JSON form of an Alert, in the order of docs/reference/alerts.md.
type wire struct {
	ID            string         `json:"id"`
	Severity      Severity       `json:"severity"`
	Category      Category       `json:"category"`
	Title         string         `json:"title"`
	Detail        string         `json:"detail"`
	Timestamp     string         `json:"timestamp"`
	Source        string         `json:"source"`
	App           string         `json:"app"`
	URL           string         `json:"url"`
	Context       map[string]any `json:"context"`
	DedupKey      string         `json:"dedup_key"`
	CorrelationID string         `json:"correlation_id"`
	Count         int            `json:"count,omitempty"`
	Revises       string         `json:"revises,omitempty"`
	Resolves      string         `json:"resolves,omitempty"`
	AlsoResolves  []string       `json:"also_resolves,omitempty"`
	Investigation *Investigation `json:"investigation,omitempty"`
	Resolved      bool           `json:"resolved,omitempty"`
	InhibitedBy   string         `json:"inhibited_by,omitempty"`
	Symptoms      int            `json:"symptoms,omitempty"`
	Reason        string         `json:"reason,omitempty"`
}

// TimeFormat is the layout of times on the wire: RFC 3339, UTC, milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z"

// FormatTime formats a time as on the wire.
func FormatTime(t time.Time) string { return t.UTC().Format(TimeFormat) }

// MarshalJSON encodes the alert as on the wire.
func (a Alert) MarshalJSON() ([]byte, error) {
	w := wire{
		ID: a.ID, Severity: a.Severity, Category: a.Category, Title: a.Title, Detail: a.Detail,
		Timestamp: FormatTime(a.Timestamp), Source: a.Source, App: a.App, URL: a.URL,
		Context: a.Context, DedupKey: a.DedupKey, CorrelationID: a.CorrelationID, Revises: a.Revises,
		Resolves: a.Resolves, AlsoResolves: a.AlsoResolves, Resolved: a.Resolved,
		InhibitedBy: a.InhibitedBy, Symptoms: max(a.Symptoms, 0), Reason: a.Reason, Investigation: a.Investigation,
	}
	if a.Count > 1 {
		w.Count = a.Count
	}
	if w.Context == nil {
		w.Context = map[string]any{}
	}
	return encode(w)
}

// UnmarshalJSON decodes an alert of the wire. It refuses a timestamp that is not RFC 3339 and
// an unknown severity, and an investigation that is not valid. An unknown category is kept, so that an older reader can show the
// alerts of a newer detector.
func (a *Alert) UnmarshalJSON(data []byte) error {
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("decode alert: %w", err)
	}
	ts, err := time.Parse(time.RFC3339Nano, w.Timestamp)
	if err != nil {
		return fmt.Errorf("decode alert: timestamp: %w", err)
	}
	// The zone can push a time out of the years that RFC 3339 can write.
	if y := ts.UTC().Year(); y < 0 || y > 9999 {
		return fmt.Errorf("decode alert: timestamp: year %d is not in 0 to 9999", y)
	}
	if w.Severity.Rank() == 0 {
		return fmt.Errorf("decode alert: severity %q is none of info, warning, error", w.Severity)
	}
	if len(w.Context) == 0 {
		w.Context = nil
	}
	*a = Alert{
		ID: w.ID, Severity: w.Severity, Category: w.Category, Title: w.Title, Detail: w.Detail,
		Timestamp: ts.UTC(), Source: w.Source, App: w.App, URL: w.URL, Context: w.Context,
		DedupKey: w.DedupKey, CorrelationID: w.CorrelationID, Count: w.Count, Revises: w.Revises,
		Resolves: w.Resolves, AlsoResolves: newest(w.AlsoResolves), Resolved: w.Resolved,
		InhibitedBy: w.InhibitedBy, Symptoms: max(w.Symptoms, 0), Reason: w.Reason, Investigation: w.Investigation,
	}
	return nil
}

// newest returns the last MaxAlsoResolves IDs of a list that ends with the newest.
func newest(ids []string) []string {
	if len(ids) == 0 {
		return nil
	}
	return ids[max(len(ids)-MaxAlsoResolves, 0):]
}

// encode is json.Marshal without the escaping of <, > and &, with which a title such as
// "a -> b" would be hard to read for a model.
func encode(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode alert: %w", err)
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}
