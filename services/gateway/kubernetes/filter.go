// Package kubernetes holds what a gateway decides about Kubernetes messages: which
// filters a subscription may have and which messages pass them ([Filter]), how many
// subscriptions are allowed ([Quota]), which clusters are watched ([Watchers]), the
// notifications that a subscriber receives ([Notification]), and which stored
// messages a history query returns ([History]).
//
// It is pure: it knows no bus, no MCP session and no clock.
package kubernetes

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tocsin-bus/tocsin/services/gateway/namespaces"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// Mode is what is delivered.
type Mode string

const (
	// Events are the events of a cluster, as they are.
	Events Mode = "events"
	// Faults are what is wrong with its objects, with the logs of their containers.
	Faults Mode = "faults"
)

// Bounds of the arguments, in bytes.
const (
	// MaxName bounds names.
	MaxName = kube.MaxName
	// MaxKind bounds a kind, which is a label of DNS in other case. Shorter than a
	// subject's token, it is whole there.
	MaxKind = 63
	// MaxSelector bounds a selector of labels, MaxReason a reason: the longest that
	// Kubernetes has.
	MaxSelector = 1024
	MaxReason   = 128
)

// Filters are what a client asks for. What is empty matches everything.
type Filters struct {
	// Namespaces are those of the involved objects; kube.ClusterScope stands for
	// what is in none.
	Namespaces []string `json:"namespaces,omitempty"`
	// LabelSelector is about the labels of the involved object, as kubectl takes it.
	LabelSelector string `json:"labelSelector,omitempty"`
	// InvolvedKind goes by letters and not by case.
	InvolvedKind      string `json:"involvedKind,omitempty"`
	InvolvedName      string `json:"involvedName,omitempty"`
	InvolvedNamespace string `json:"involvedNamespace,omitempty"`
	// Type is Normal or Warning.
	Type string `json:"type,omitempty"`
	// Reason is how the reason begins; of a fault that may be its kind instead.
	Reason string `json:"reason,omitempty"`
}

// any says that nothing is left out.
func (f Filters) any() bool {
	return len(f.Namespaces) == 0 && f.LabelSelector == "" && f.InvolvedKind == "" && f.InvolvedName == "" &&
		f.InvolvedNamespace == "" && f.Type == "" && f.Reason == ""
}

// Filter says which messages of one cluster a subscription gets.
type Filter struct {
	cluster string
	mode    Mode
	filters Filters
	labels  labels.Selector
}

// NewFilter checks what a client asks for. Where not everything may be shown, the filter
// has the namespaces that may be. Its errors name the argument and what is allowed.
func NewFilter(cluster string, mode Mode, wish Filters, shown namespaces.Set) (Filter, error) {
	f := Filter{cluster: cluster, mode: mode, filters: wish, labels: labels.Everything()}
	f.filters.Namespaces = slices.Compact(slices.Sorted(slices.Values(wish.Namespaces)))
	if err := f.checkNames(); err != nil {
		return Filter{}, err
	}
	if err := f.limit(shown); err != nil {
		return Filter{}, err
	}
	if wish.LabelSelector != "" {
		selector, err := labels.Parse(wish.LabelSelector)
		if err != nil || len(wish.LabelSelector) > MaxSelector {
			return Filter{}, fmt.Errorf("labelSelector must be a selector of labels as kubectl takes it, such as app=web,tier in (front,back), of at most %d bytes", MaxSelector)
		}
		if f.labels, f.filters.LabelSelector = selector, selector.String(); f.filters.LabelSelector == "" { // such as ","
			return Filter{}, errors.New("labelSelector must name at least one label, such as app=web")
		}
	}
	if f.filters.any() {
		return Filter{}, errors.New("a subscription to everything in all namespaces is too much: namespaces must name at least one, or one of labelSelector, involvedKind, involvedName, involvedNamespace, type and reason must be given")
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
		return fmt.Errorf("namespaces must be a list of at most %d names of namespaces; %s stands for what is in none, such as nodes", namespaces.Max, kube.ClusterScope)
	case w.InvolvedNamespace != "" && !namespaces.Valid(w.InvolvedNamespace):
		return fmt.Errorf("involvedNamespace must be the name of a namespace, or %s for what is in none", kube.ClusterScope)
	case len(w.InvolvedKind) > MaxKind || strings.ContainsFunc(w.InvolvedKind, noLetter):
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
		return errors.New("involvedNamespace must be one of namespaces, or left out: nothing is in two")
	}
	return nil
}

func noLetter(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
}

// limit takes the namespaces that may be shown, where none is named.
func (f *Filter) limit(shown namespaces.Set) error {
	if !shown.Limited() {
		return nil
	}
	hidden := func(name string) bool { return !shown.Has(name) }
	switch {
	case slices.ContainsFunc(f.filters.Namespaces, hidden):
		return fmt.Errorf("namespaces must be of those that this gateway shows: %s", strings.Join(shown.Names(), ", "))
	case f.filters.InvolvedNamespace != "" && hidden(f.filters.InvolvedNamespace):
		return fmt.Errorf("involvedNamespace must be one that this gateway shows: %s", strings.Join(shown.Names(), ", "))
	case len(f.filters.Namespaces) == 0 && f.filters.InvolvedNamespace == "":
		f.filters.Namespaces = slices.Sorted(slices.Values(shown.Names()))
	}
	return nil
}

// Cluster is the cluster's name.
func (f Filter) Cluster() string { return f.cluster }

// Mode is what is delivered.
func (f Filter) Mode() Mode { return f.mode }

// Filters are the filters as they apply.
func (f Filter) Filters() Filters { return f.filters }

// MatchesWatch reports whether a message is about the watch of the subscription's cluster.
func (f Filter) MatchesWatch(m *kube.Message) bool { return m.Watch != nil && m.Cluster == f.cluster }

// Matches reports whether a message is to be delivered: an event or a fault, as the mode
// is. The end of a fault is none.
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

// sameKind says whether a kind is a valid one, but for case. As in subjects, that is of
// ASCII alone: what folds to a letter from outside of it is longer.
func sameKind(kind, valid string) bool {
	return len(kind) == len(valid) && strings.EqualFold(kind, valid)
}

// Subjects are what to follow for what may match, and for how the watch is. They
// let through more than Matches, and never less. None of them is within another.
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
		// With any type it lets the watch's through as well, which is told of as a
		// cluster.
		kind := bus.Token(f.filters.InvolvedKind)
		watch = watch || f.filters.Type == "" && (scope == "" || scope == kube.ClusterScope) && (f.filters.InvolvedKind == "" || kind == "cluster")
	}
	if !watch {
		subjects = append(subjects, bus.KubernetesFilter{Cluster: f.cluster}.Watch())
	}
	return subjects
}
