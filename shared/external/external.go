// Package external defines alerts of other monitoring systems: their form and what is valid.
//
// It knows no sender's format and decides nothing: decoders of ingest create them, the
// stream TELEMETRY keeps them, and the detector raises alerts from them.
package external

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// Sources lists the systems that can raise such alerts.
func Sources() []string { return []string{alert.SourceAlertmanager, alert.SourceKubernetes} }

// The states of an Alert.
const (
	StateFiring   = "firing"
	StateResolved = "resolved"
)

// Bounds of an Alert. Texts are in characters: longer ones are truncated before they are
// stored. Key and Episode are identity and never truncated.
const (
	// MaxKey bounds Key and Episode, in bytes.
	MaxKey = 64
	// MaxName bounds names, of labels as well.
	MaxName = 200
	// MaxText bounds Summary and Detail.
	MaxText = alert.MaxDetail
	// MaxURL bounds the links.
	MaxURL = 2000
	// MaxLabels is how many labels are kept, the first by name.
	MaxLabels = 32
	// MaxLabel bounds the value of a label.
	MaxLabel = 300
)

// Alert is one alert as its sender reported it.
type Alert struct {
	// Source is the system that raised it, one of Sources.
	Source string `json:"source"`
	// Key identifies an alert of a source in all its states: 1 to MaxKey of letters, digits and
	// . _ : + -, so that it needs no masking.
	Key string `json:"key"`
	// Episode identifies one firing of the alert, in the characters of Key. It may be empty.
	Episode string `json:"episode,omitempty"`
	// State is firing or resolved.
	State string `json:"state"`
	// Severity is that while it fires. Level is the sender's word for it.
	Severity alert.Severity `json:"severity"`
	Level    string         `json:"level,omitempty"`
	// App is the application; empty means the default one.
	App string `json:"app,omitempty"`
	// Name is the rule that raised it, Place the pod, host or service that it is about.
	Name  string `json:"name,omitempty"`
	Place string `json:"place,omitempty"`
	// Summary is one sentence, Detail has more.
	Summary string `json:"summary,omitempty"`
	Detail  string `json:"detail,omitempty"`
	// URL links to its source, Dashboard and Runbook to pages that help.
	URL       string `json:"url,omitempty"`
	Dashboard string `json:"dashboard,omitempty"`
	Runbook   string `json:"runbook,omitempty"`
	// Labels are at most MaxLabels. GroupBy are the names of those by which the sender groups
	// its alerts.
	Labels  map[string]string `json:"labels,omitempty"`
	GroupBy []string          `json:"group_by,omitempty"`
	// Receiver is the sender's name for the recipient.
	Receiver string `json:"receiver,omitempty"`
	// StartsAt and EndsAt are zero where they are not known.
	StartsAt time.Time `json:"starts_at,omitzero"`
	EndsAt   time.Time `json:"ends_at,omitzero"`
	// Omitted is how many more alerts of the group the sender left out.
	Omitted int `json:"omitted,omitzero"`
	// Fault is set for all alerts of alert.SourceKubernetes, and for no others.
	Fault *Fault `json:"fault,omitempty"`
}

// Fault is the subject of an alert about a fault in a Kubernetes cluster. Cluster, Kind and
// Name are never empty; names are truncated to kube.MaxName characters.
type Fault struct {
	Cluster string `json:"cluster"`
	// Namespace is empty where the object has none.
	Namespace string `json:"namespace,omitempty"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Container string `json:"container,omitempty"`
	// Workload is the kind, name and version of the workload of a pod, such as
	// Deployment/web/7d9f. The alert is about all its pods, and Name is one of them. It may be
	// empty.
	Workload string `json:"workload,omitempty"`
	// Fault is one of kube.Faults: 1 to MaxKey of the characters of Key. ID identifies the
	// fault, in the same characters; it may be empty.
	Fault string `json:"fault"`
	ID    string `json:"id"`
	// Panic means that a line in the logs of a container marks a panic.
	Panic bool `json:"panic,omitempty"`
}

// FieldError is returned for an invalid field, with what is allowed.
type FieldError struct{ Field, Reason string }

func (e *FieldError) Error() string { return e.Field + " " + e.Reason }

// Validate returns a *FieldError for what is not allowed, or nil.
func (a *Alert) Validate() error {
	switch {
	case !slices.Contains(Sources(), a.Source):
		return &FieldError{"source", "must be one of " + strings.Join(Sources(), ", ")}
	case a.Key == "" || !IsKey(a.Key):
		return &FieldError{"key", fmt.Sprintf("must be 1 to %d of letters, digits and . _ : + -", MaxKey)}
	case !IsKey(a.Episode):
		return &FieldError{"episode", fmt.Sprintf("must be at most %d of letters, digits and . _ : + -", MaxKey)}
	case a.State != StateFiring && a.State != StateResolved:
		return &FieldError{"state", "must be one of firing, resolved"}
	case a.Severity.Rank() == 0:
		return &FieldError{"severity", "must be one of info, warning, error"}
	case len(a.Labels) > MaxLabels:
		return &FieldError{"labels", fmt.Sprintf("must be at most %d", MaxLabels)}
	case len(a.GroupBy) > MaxLabels:
		return &FieldError{"group_by", fmt.Sprintf("must be at most %d", MaxLabels)}
	case !isRepresentable(a.StartsAt):
		return &FieldError{"starts_at", "must be in the years 1 to 9999"}
	case !isRepresentable(a.EndsAt):
		return &FieldError{"ends_at", "must be in the years 1 to 9999"}
	case a.Omitted < 0:
		return &FieldError{"omitted", "must not be negative"}
	case (a.Source == alert.SourceKubernetes) != (a.Fault != nil):
		return &FieldError{"fault", "must be set if, and only if, source is " + alert.SourceKubernetes}
	case a.Fault != nil:
		return a.Fault.validate()
	}
	return nil
}

func (f *Fault) validate() error {
	for _, named := range []struct{ field, name string }{{"cluster", f.Cluster}, {"kind", f.Kind}, {"name", f.Name}} {
		if named.name == "" {
			return &FieldError{"fault." + named.field, "must not be empty"}
		}
	}
	switch {
	case f.Fault == "" || !IsKey(f.Fault):
		return &FieldError{"fault.fault", fmt.Sprintf("must be 1 to %d of letters, digits and . _ : + -", MaxKey)}
	case !IsKey(f.ID):
		return &FieldError{"fault.id", fmt.Sprintf("must be at most %d of letters, digits and . _ : + -", MaxKey)}
	}
	return nil
}

// IsKey reports whether a text is valid as Key or Episode, or empty.
func IsKey(s string) bool {
	if len(s) > MaxKey {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && strings.IndexByte("._:+-", c) < 0 {
			return false
		}
	}
	return true
}

// isRepresentable reports whether RFC 3339 can represent a time, in UTC.
func isRepresentable(t time.Time) bool {
	y := t.UTC().Year()
	return y >= 1 && y <= 9999
}

// EachText calls visit for each plain text but the links, with its bound in characters. Labels
// and GroupBy are left to the caller.
func (a *Alert) EachText(visit func(text *string, limit int)) {
	visit(&a.Level, MaxName)
	visit(&a.App, MaxName)
	visit(&a.Name, MaxName)
	visit(&a.Place, MaxName)
	visit(&a.Summary, MaxText)
	visit(&a.Detail, MaxText)
	visit(&a.Receiver, MaxName)
	if f := a.Fault; f != nil {
		visit(&f.Cluster, kube.MaxName)
		visit(&f.Namespace, kube.MaxName)
		visit(&f.Kind, kube.MaxName)
		visit(&f.Name, kube.MaxName)
		visit(&f.Container, kube.MaxName)
		visit(&f.Workload, kube.MaxName)
	}
}

// EachLink calls visit for each link.
func (a *Alert) EachLink(visit func(link *string, limit int)) {
	visit(&a.URL, MaxURL)
	visit(&a.Dashboard, MaxURL)
	visit(&a.Runbook, MaxURL)
}
