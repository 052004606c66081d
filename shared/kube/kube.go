// Package kube defines the messages about Kubernetes on the bus: an event of a cluster, a fault
// with the logs of its containers, and the state of the watch itself, with their bounds and
// the tokens of their subjects.
//
// It is pure, and knows neither client-go nor NATS: kubewatch publishes messages, gateways
// read them. Texts come from outside: kubewatch masks and truncates them before it
// publishes them.
package kube

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// ClusterScope is the token of a subject for objects without a namespace. No namespace can have
// that name.
const ClusterScope = "_cluster"

// The types of an event.
const (
	TypeNormal  = "Normal"
	TypeWarning = "Warning"
)

// Bounds of a message. Texts are in characters, and longer ones are truncated.
const (
	// MaxMessage bounds an event's message.
	MaxMessage = 2000
	// MaxName bounds names and other single words: the longest that Kubernetes allows.
	MaxName = 253
	// MaxLabels is how many labels are kept, the first by name. MaxLabel bounds a value.
	MaxLabels = 64
	MaxLabel  = 253
	// MaxContainers is how many containers' logs go with a fault, MaxLog how many bytes of
	// each: the last ones.
	MaxContainers = 5
	MaxLog        = 10 << 10
)

// Fault kinds: the token of a fault in its subject.
const (
	// Crash is a container that ended with an error, OutOfMemory one that was killed for its
	// memory.
	Crash       = "crash"
	OutOfMemory = "out_of_memory"
	// CrashLoop is a container that waits to be restarted because it crashed too often,
	// ImagePull one whose image can't be pulled. They last until they are resolved.
	CrashLoop = "crash_loop"
	ImagePull = "image_pull"
	// NodeNotReady, DeploymentStalled and JobFailed are conditions, which last as well.
	NodeNotReady      = "node_not_ready"
	DeploymentStalled = "deployment_stalled"
	JobFailed         = "job_failed"
	// Warning is a Warning event of a pod that is none of the above.
	Warning = "warning"
)

// The fault kind and object kind of the alert about a degraded watch, which is about the
// cluster itself.
const (
	WatchDegraded = "watch_degraded"
	KindCluster   = "Cluster"
)

// Faults lists the kinds of faults.
func Faults() []string {
	return []string{Crash, CrashLoop, ImagePull, OutOfMemory, NodeNotReady, DeploymentStalled, JobFailed, Warning}
}

// Severity returns the severity of the alert about a fault.
func Severity(fault string) alert.Severity {
	switch fault {
	case CrashLoop, OutOfMemory, NodeNotReady:
		return alert.Error
	default:
		return alert.Warning
	}
}

// Message is one message of the stream KUBERNETES: an event, a fault with its event, or the
// state of the watch of a cluster.
type Message struct {
	// Cluster is the configured name of the cluster; ClusterUID is the same for all names of
	// one cluster.
	Cluster    string `json:"cluster"`
	ClusterUID string `json:"cluster_uid,omitempty"`
	// Event is what happened. For a fault without an event it is made from the object's state.
	Event *Event `json:"event,omitempty"`
	// Fault is set for a fault.
	Fault *Fault `json:"fault,omitempty"`
	// Logs are those of the pod's containers. They follow a fault in a message of their own,
	// with the same Event and Fault.
	Logs []Log `json:"logs,omitempty"`
	// Watch is set for a message about the watch itself.
	Watch *Watch `json:"watch,omitempty"`
}

// App returns the app that the message is about, see [App].
func (m *Message) App() string {
	if m.Event == nil {
		return m.Cluster
	}
	return App(m.Event.Labels, m.Cluster)
}

// appLabels are the labels that name an app, in order of precedence.
func appLabels() []string { return []string{"app.kubernetes.io/name", "app", "k8s-app"} }

// App returns the app of an object of a cluster: by its labels, else the cluster's name. It is
// that of the object's telemetry, where that uses the same names.
func App(labels map[string]string, cluster string) string {
	for _, name := range appLabels() {
		if app := labels[name]; app != "" {
			return app
		}
	}
	return cluster
}

// Event is an event of Kubernetes, core/v1.
type Event struct {
	// Namespace is that of the event itself.
	Namespace string `json:"namespace"`
	// Timestamp is when it happened last, by the cluster's clock.
	Timestamp time.Time `json:"timestamp"`
	// Type is Normal or Warning.
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Labels are those of the involved object, where they are known.
	Labels map[string]string `json:"labels,omitempty"`
	// InvolvedObject is the object that the event is about.
	InvolvedObject Object `json:"involvedObject"`
	// Count is the number of occurrences, left out for 1.
	Count int `json:"count,omitempty"`
	// Component is the reporting component, such as kubelet.
	Component string `json:"component,omitempty"`
	// Name, UID and ResourceVersion are the event's own, empty where it was made from the
	// object's state.
	Name            string `json:"name,omitempty"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// Object is the object of an event. Namespace is empty where it has none.
type Object struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Namespace  string `json:"namespace,omitempty"`
	UID        string `json:"uid,omitempty"`
	// Container is set where the event is about one container of a pod.
	Container string `json:"container,omitempty"`
}

// Scope returns the namespace for subjects and filters.
func (o Object) Scope() string {
	if o.Namespace == "" {
		return ClusterScope
	}
	return o.Namespace
}

// The states of a fault.
const (
	StateFiring = "firing"
	StateOver   = "over"
)

// Fault is a fault of an object.
type Fault struct {
	// ID is the same in all messages about one fault: its beginning, its logs, its end.
	ID string `json:"id"`
	// Kind is one of Faults.
	Kind string `json:"kind"`
	// State is firing or over. The end is published for faults that last.
	State    string         `json:"state"`
	Severity alert.Severity `json:"severity"`
	// Restarts of the container so far.
	Restarts int `json:"restarts,omitempty"`
	// ExitCode and Reason are those of the ended container.
	ExitCode int    `json:"exitCode,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Workload is the kind, name and version of the workload of the pod, such as
	// Deployment/web/7d9f, see [SplitWorkload]. Alerts are about workloads; Episode is that of
	// the alert, empty where there is none. Both are empty for other objects, and for pods
	// without a workload.
	Workload string `json:"workload,omitempty"`
	Episode  string `json:"episode,omitempty"`
	// LogsFollow means that another message will have the logs.
	LogsFollow bool `json:"logsFollow,omitempty"`
}

// Log is the end of the log of a container.
type Log struct {
	Container string `json:"container"`
	// Previous means that it is from before the restart.
	Previous bool `json:"previous"`
	// HasPanic means that a line of it is that of a panic.
	HasPanic bool `json:"hasPanic"`
	// Sample has the last MaxLog bytes. Truncated means that there are more.
	Sample    string `json:"sample"`
	Truncated bool   `json:"truncated,omitempty"`
	// Error is why there is no sample, such as that the cluster refused it.
	Error string `json:"error,omitempty"`
}

// Watch is the state of the watch of a cluster.
type Watch struct {
	// Degraded means that the cluster can't be watched; Error is why. The recovery is a
	// message too.
	Degraded bool   `json:"degraded"`
	Error    string `json:"error,omitempty"`
	// Since is when it became degraded.
	Since time.Time `json:"since,omitzero"`
}

// Leader is the content of the lease of a cluster, which the active kubewatch renews every few
// seconds in the bucket kubewatch. It expires with the TTL of the bucket.
type Leader struct {
	Cluster    string `json:"cluster"`
	ClusterUID string `json:"cluster_uid,omitempty"`
	// ID is that of the active kubewatch.
	ID string `json:"id"`
	// Watch is the present state of the watch.
	Watch Watch `json:"watch"`
}

// SplitWorkload returns the parts of a workload. The version is empty where it has none, as for
// a job; it is the whole text where that is no workload.
func SplitWorkload(workload string) (kind, name, version string) {
	kind, rest, ok := strings.Cut(workload, "/")
	if !ok {
		return "", "", ""
	}
	name, version, _ = strings.Cut(rest, "/")
	return kind, name, version
}

// Tail returns the last limit bytes of a text, or fewer, so that it begins with a whole rune.
// Text that is no UTF-8 is cut anywhere.
func Tail(text []byte, limit int) []byte {
	if len(text) <= limit {
		return text
	}
	text = text[len(text)-limit:]
	for i := range min(len(text), utf8.UTFMax) {
		if utf8.RuneStart(text[i]) {
			return text[i:]
		}
	}
	if len(text) < utf8.UTFMax { // the end of one rune
		return nil
	}
	return text
}
