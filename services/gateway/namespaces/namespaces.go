// Package namespaces decides which Kubernetes namespaces a gateway, a hook or a
// command shows: kubewatch publishes the messages of a whole cluster, and a reader
// may be limited to part of it (--kubernetes-namespaces).
//
// It is pure and compares the names inside a message. It never uses the tokens of a
// subject, which may be shortened.
package namespaces

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// Max is how many namespaces a gateway may be limited to.
const Max = 100

// maxName is the longest name of a namespace: a label of DNS.
const maxName = 63

// Set is what may be shown. The zero value is everything.
type Set struct{ names []string }

// New is the set of those names, or everything where there are none. The name
// kube.ClusterScope stands for what is in no namespace. Its error says what is
// allowed.
func New(names []string) (Set, error) {
	var s Set
	for _, name := range names {
		name = strings.TrimSpace(name)
		if !Valid(name) {
			return Set{}, fmt.Errorf("must be names of namespaces (a-z, 0-9 and -, at most %d characters) or %s for what is in none: %q is neither", maxName, kube.ClusterScope, name)
		}
		if !slices.Contains(s.names, name) {
			s.names = append(s.names, name)
		}
	}
	if len(s.names) > Max {
		return Set{}, fmt.Errorf("must be at most %d namespaces", Max)
	}
	return s, nil
}

// Valid says whether a namespace can have that name, or whether it is
// kube.ClusterScope.
func Valid(name string) bool {
	if name == kube.ClusterScope {
		return true
	}
	if name == "" || len(name) > maxName || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
}

// Limited says that something is not shown.
func (s Set) Limited() bool { return len(s.names) > 0 }

// Names are those that are shown; none means everything.
func (s Set) Names() []string { return slices.Clone(s.names) }

// Has says whether a namespace may be shown, or what is in none where that is
// empty or kube.ClusterScope.
func (s Set) Has(namespace string) bool {
	if namespace == "" {
		namespace = kube.ClusterScope
	}
	return !s.Limited() || slices.Contains(s.names, namespace)
}

// Shows says whether a message may be shown. How the watch itself is says nothing of
// a namespace, and everybody has to know it.
func (s Set) Shows(m *kube.Message) bool {
	if m.Event == nil {
		return m.Watch != nil || !s.Limited()
	}
	return s.Has(m.Event.InvolvedObject.Namespace)
}

// ShowsAlert says whether an alert may be shown: any that is not of Kubernetes, and of
// those what Shows says of messages.
func (s Set) ShowsAlert(a alert.Alert) bool {
	if !s.Limited() || a.Category != alert.Kubernetes {
		return true
	}
	if a.Context[alert.FaultKey] == kube.WatchDegraded {
		return true
	}
	namespace, known := a.Context[alert.NamespaceKey].(string)
	if _, there := a.Context[alert.NamespaceKey]; there && !known {
		return false // whoever says so, it is no namespace
	}
	return s.Has(namespace)
}

// ShowsKey says whether the dedup key of an alert may be shown, where only that is
// known: kubernetes:<cluster>:<namespace>:<kind>/<name>[/<container>]:<fault>[/<reason>].
// The cluster's name may have colons.
func (s Set) ShowsKey(key string) bool {
	if !s.Limited() || !strings.HasPrefix(key, "kubernetes:") {
		return true
	}
	parts := strings.Split(key, ":")
	const least = 5
	return len(parts) >= least && (parts[len(parts)-1] == kube.WatchDegraded || s.Has(parts[len(parts)-3]))
}
