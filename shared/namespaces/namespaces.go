// Package namespaces decides which Kubernetes namespaces a gateway, a hook or a
// command shows: kubewatch publishes the messages of a whole cluster, and a reader
// may be limited to part of it (--kubernetes-namespaces).
//
// It is pure and compares the names inside a message. It never uses the tokens of a
// subject, which may be shortened.
package namespaces

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// Max is the number of namespaces that a reader may be limited to.
const Max = 100

// maxName is the length of the longest namespace: it is a DNS label.
const maxName = 63

// maskedKey matches a dedup key that contained a secret: its digest, and what masking left of it.
var maskedKey = regexp.MustCompile(`(?s)^[0-9a-f]{8}(?:-[0-9a-f]{8}){3}(?: (.*))?$`)

// Set is the set of namespaces that are shown. The zero value is all of them.
type Set struct{ names []string }

// New returns the set of the names, or of all namespaces if there are no names. The name
// [kube.ClusterScope] stands for objects without a namespace. The error names the allowed
// values.
func New(names []string) (Set, error) {
	var s Set
	for _, name := range names {
		name = strings.TrimSpace(name)
		if !Valid(name) {
			return Set{}, fmt.Errorf("must be names of namespaces (a-z, 0-9 and -, at most %d characters) or %s for objects without one: %q is neither", maxName, kube.ClusterScope, name)
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

// Valid reports whether a name is valid for a namespace, or is [kube.ClusterScope].
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

// Limited reports whether some namespaces are not shown.
func (s Set) Limited() bool { return len(s.names) > 0 }

// Names returns the names of the set; none means all namespaces.
func (s Set) Names() []string { return slices.Clone(s.names) }

// Has reports whether a namespace is shown. Empty and [kube.ClusterScope] stand for objects
// without a namespace.
func (s Set) Has(namespace string) bool {
	if namespace == "" {
		namespace = kube.ClusterScope
	}
	return !s.Limited() || slices.Contains(s.names, namespace)
}

// Shows reports whether a message is shown. Messages about the watch always are: they
// belong to no namespace, and every reader must know whether the watch is degraded.
func (s Set) Shows(m *kube.Message) bool {
	if m.Event == nil {
		return m.Watch != nil || !s.Limited()
	}
	return s.Has(m.Event.InvolvedObject.Namespace)
}

// ShowsAlert reports whether an alert is shown. Alerts of other categories than Kubernetes
// always are.
func (s Set) ShowsAlert(a alert.Alert) bool {
	if !s.Limited() || a.Category != alert.Kubernetes {
		return true
	}
	if a.Context[alert.FaultKey] == kube.WatchDegraded {
		return true
	}
	namespace, known := a.Context[alert.NamespaceKey].(string)
	if _, there := a.Context[alert.NamespaceKey]; there && !known {
		return false // not a namespace
	}
	return s.Has(namespace)
}

// ShowsKey reports whether the alert with a dedup key is shown, if only the key is known:
// kubernetes:<cluster>:<namespace>:<kind>/<name>[/<container>]:<fault>[/<reason>]. The
// cluster's name may contain colons. A key that the investigator masked may be about any namespace
// where too little of it is left.
func (s Set) ShowsKey(key string) bool {
	if !s.Limited() {
		return true
	}
	if masked := maskedKey.FindStringSubmatch(key); masked != nil {
		if key = masked[1]; key == "" || key[0] == '[' {
			return false
		}
	}
	if !strings.HasPrefix(key, "kubernetes:") {
		return true
	}
	parts := strings.Split(key, ":")
	const minParts = 5
	return len(parts) >= minParts && (parts[len(parts)-1] == kube.WatchDegraded || s.Has(parts[len(parts)-3]))
}
