// Package kubernetes has the gateway's decisions about Kubernetes messages: which filters
// a subscription may have and which messages pass them ([Filter]), how many subscriptions
// are allowed ([Quota]), which clusters are watched ([Watchers]), the notifications that a
// subscriber receives ([Notification]), and which stored messages a history query returns
// ([History]). These types are pure: they know no bus, no MCP session and no clock.
//
// [Subscriptions] uses them to follow the bus and to write the notifications of one client.
package kubernetes

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/namespaces"
)

// Mode is the kind of messages that a subscription delivers.
type Mode string

const (
	// Events delivers the Kubernetes events of a cluster.
	Events Mode = "events"
	// Faults delivers the faults of its objects, with the logs of their containers.
	Faults Mode = "faults"
)

// Bounds of the arguments, in bytes.
const (
	// MaxName bounds names.
	MaxName = kube.MaxName
	// MaxKind bounds a kind, which is a DNS label in other case. It is shorter than a
	// subject's token, and so never cut there.
	MaxKind = 63
	// MaxSelector bounds a label selector.
	MaxSelector = 1024
	// MaxReason bounds a reason. It is the limit of Kubernetes.
	MaxReason = 128
)

// Filters are the filters of a subscription. Empty ones match everything.
type Filters struct {
	// Namespaces are those of the involved objects; [kube.ClusterScope] stands for
	// objects without a namespace.
	Namespaces []string `json:"namespaces,omitempty"`
	// LabelSelector selects by the labels of the involved object, in kubectl's syntax.
	LabelSelector string `json:"labelSelector,omitempty"`
	// InvolvedKind is compared without regard to case.
	InvolvedKind      string `json:"involvedKind,omitempty"`
	InvolvedName      string `json:"involvedName,omitempty"`
	InvolvedNamespace string `json:"involvedNamespace,omitempty"`
	// Type is Normal or Warning.
	Type string `json:"type,omitempty"`
	// Reason is a prefix of the event's reason, or of a fault's kind.
	Reason string `json:"reason,omitempty"`
}

// empty reports whether the filters match everything.
func (f Filters) empty() bool {
	return len(f.Namespaces) == 0 && f.LabelSelector == "" && f.InvolvedKind == "" && f.InvolvedName == "" &&
		f.InvolvedNamespace == "" && f.Type == "" && f.Reason == ""
}

// Filter decides which messages of one cluster a subscription delivers.
type Filter struct {
	cluster string
	mode    Mode
	filters Filters
	labels  labels.Selector
}

// NewFilter checks the filters that a client asks for. If the gateway is limited to some
// namespaces and the client names none, the filter has the gateway's. Its errors name the
// argument and the allowed values.
func NewFilter(cluster string, mode Mode, wanted Filters, shown namespaces.Set) (Filter, error) {
	f := Filter{cluster: cluster, mode: mode, filters: wanted, labels: labels.Everything()}
	f.filters.Namespaces = slices.Compact(slices.Sorted(slices.Values(wanted.Namespaces)))
	if err := f.checkNames(); err != nil {
		return Filter{}, err
	}
	if err := f.limit(shown); err != nil {
		return Filter{}, err
	}
	if wanted.LabelSelector != "" {
		selector, err := labels.Parse(wanted.LabelSelector)
		if err != nil || len(wanted.LabelSelector) > MaxSelector {
			return Filter{}, fmt.Errorf("labelSelector must be a label selector in the syntax of kubectl, such as app=web,tier in (front,back), of at most %d bytes", MaxSelector)
		}
		if f.labels, f.filters.LabelSelector = selector, selector.String(); f.filters.LabelSelector == "" { // such as ","
			return Filter{}, errors.New("labelSelector must name at least one label, such as app=web")
		}
	}
	if f.filters.empty() {
		return Filter{}, errors.New("a subscription must not select everything: set at least one of namespaces, labelSelector, involvedKind, involvedName, involvedNamespace, type, reason")
	}
	return f, nil
}

func (f *Filter) checkNames() error {
	w := f.filters
	bad := slices.ContainsFunc(w.Namespaces, func(name string) bool { return !namespaces.Valid(name) })
	switch {
	case f.mode != Events && f.mode != Faults:
		return errors.New("mode must be one of events, faults")
	case bad || len(w.Namespaces) > namespaces.Max:
		return fmt.Errorf("namespaces must be a list of at most %d names of namespaces; %s stands for objects without one, such as nodes", namespaces.Max, kube.ClusterScope)
	case w.InvolvedNamespace != "" && !namespaces.Valid(w.InvolvedNamespace):
		return fmt.Errorf("involvedNamespace must be the name of a namespace, or %s for objects without one", kube.ClusterScope)
	case len(w.InvolvedKind) > MaxKind || strings.ContainsFunc(w.InvolvedKind, notAlphanumeric):
		return fmt.Errorf("involvedKind must be a kind such as Pod: letters and digits, at most %d", MaxKind)
	case len(w.InvolvedName) > MaxName:
		return fmt.Errorf("involvedName must be a name of at most %d bytes", MaxName)
	case w.Type != "" && w.Type != kube.TypeNormal && w.Type != kube.TypeWarning:
		return errors.New("type must be one of Normal, Warning")
	case f.mode == Faults && w.Type == kube.TypeNormal:
		return errors.New("type must be Warning, or left out, with mode faults: no fault is Normal")
	case len(w.Reason) > MaxReason:
		return fmt.Errorf("reason must be the beginning of a reason, at most %d bytes", MaxReason)
	case w.InvolvedNamespace != "" && len(w.Namespaces) > 0 && !slices.Contains(w.Namespaces, w.InvolvedNamespace):
		return errors.New("involvedNamespace must be one of namespaces, or left out: an object is in one namespace only")
	}
	return nil
}

func notAlphanumeric(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
}

// limit checks the namespaces against those that the gateway shows, which are the default.
func (f *Filter) limit(shown namespaces.Set) error {
	if !shown.Limited() {
		return nil
	}
	hidden := func(name string) bool { return !shown.Has(name) }
	switch {
	case slices.ContainsFunc(f.filters.Namespaces, hidden):
		return fmt.Errorf("namespaces must be among those that this gateway shows: %s", strings.Join(shown.Names(), ", "))
	case f.filters.InvolvedNamespace != "" && hidden(f.filters.InvolvedNamespace):
		return fmt.Errorf("involvedNamespace must be one that this gateway shows: %s", strings.Join(shown.Names(), ", "))
	case len(f.filters.Namespaces) == 0 && f.filters.InvolvedNamespace == "":
		f.filters.Namespaces = slices.Sorted(slices.Values(shown.Names()))
	}
	return nil
}

// Cluster returns the cluster's name.
func (f Filter) Cluster() string { return f.cluster }

// Mode returns what is delivered.
func (f Filter) Mode() Mode { return f.mode }

// Filters returns the filters in effect.
func (f Filter) Filters() Filters { return f.filters }

// MatchesWatch reports whether a message is about the watch of the filter's cluster.
func (f Filter) MatchesWatch(m *kube.Message) bool { return m.Watch != nil && m.Cluster == f.cluster }

// Matches reports whether a subscription delivers a message: an event or a fault, by the mode.
// The end of a fault is not delivered.
func (f Filter) Matches(m *kube.Message) bool {
	e := m.Event
	if e == nil || m.Watch != nil || m.Cluster != f.cluster {
		return false
	}
	w, o := f.filters, e.InvolvedObject
	switch f.mode {
	case Faults:
		if m.Fault == nil || m.Fault.State == kube.StateOver {
			return false
		}
		if !strings.HasPrefix(e.Reason, w.Reason) && !strings.HasPrefix(m.Fault.Kind, w.Reason) {
			return false
		}
	default:
		if m.Fault != nil || w.Type != "" && e.Type != w.Type || !strings.HasPrefix(e.Reason, w.Reason) {
			return false
		}
	}
	return (len(w.Namespaces) == 0 || slices.Contains(w.Namespaces, o.Scope())) &&
		(w.InvolvedNamespace == "" || o.Scope() == w.InvolvedNamespace) &&
		(w.InvolvedKind == "" || sameKind(o.Kind, w.InvolvedKind)) &&
		(w.InvolvedName == "" || o.Name == w.InvolvedName) &&
		f.labels.Matches(labels.Set(e.Labels))
}

// sameKind reports whether a kind equals a valid one in ASCII without regard to case, as
// in subjects. Other characters that fold to ASCII letters have more bytes.
func sameKind(kind, valid string) bool {
	return len(kind) == len(valid) && strings.EqualFold(kind, valid)
}

// Subjects returns the subjects to subscribe to for messages that match and for those
// about the watch. They may pass more than Matches does, never less. None of them contains
// another.
func (f Filter) Subjects() []string {
	scopes := f.filters.Namespaces
	if f.filters.InvolvedNamespace != "" {
		scopes = []string{f.filters.InvolvedNamespace}
	}
	if len(scopes) == 0 {
		scopes = []string{""}
	}
	subjects := make([]string, 0, len(scopes)+1)
	watch := false
	for _, scope := range scopes {
		subject := bus.KubernetesFilter{Cluster: f.cluster, Namespace: scope, Type: f.filters.Type, Kind: f.filters.InvolvedKind}
		if f.mode == Faults {
			subjects = append(subjects, subject.Faults())
			continue
		}
		subjects = append(subjects, subject.Events())
		// Without a type, the subject passes messages about the watch, too: their object is
		// the cluster.
		kind := bus.Token(f.filters.InvolvedKind)
		watch = watch || f.filters.Type == "" && (scope == "" || scope == kube.ClusterScope) && (f.filters.InvolvedKind == "" || kind == "cluster")
	}
	if !watch {
		subjects = append(subjects, bus.KubernetesFilter{Cluster: f.cluster}.Watch())
	}
	return subjects
}
