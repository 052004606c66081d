// Package kube is what the bus says of Kubernetes: an event of a cluster, a fault
// with the logs of its containers, and how the watch itself is. It has their form,
// their subjects' tokens and their bounds.
//
// It is pure, and knows neither client-go nor NATS: kubewatch makes these, and
// gateways read them. Its texts come from outside: whoever makes a message masks
// and cuts them before it is published, see Bounded.
package kube

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// ClusterScope stands in a subject for the namespace of what has none. No namespace
// can have that name.
const ClusterScope = "_cluster"

// The types of an event.
const (
	TypeNormal  = "Normal"
	TypeWarning = "Warning"
)

// Bounds of what is published. Texts are in characters, and longer ones are cut.
const (
	// MaxMessage bounds an event's message.
	MaxMessage = 2000
	// MaxName bounds names, and whatever else is one word: it is the longest that
	// Kubernetes has.
	MaxName = 253
	// MaxLabels is how many labels are kept, the first by name; MaxLabel bounds the
	// value of one.
	MaxLabels = 64
	MaxLabel  = 253
	// MaxContainers is how many containers' logs go with a fault, MaxLog how many
	// bytes of each: the last ones (specification, section 9).
	MaxContainers = 5
	MaxLog        = 10 << 10
)

// Fault kinds: the token of a fault in its subject.
const (
	// Crash is a container that ended with an error, OutOfMemory one that was ended
	// for its memory.
	Crash       = "crash"
	OutOfMemory = "out_of_memory"
	// CrashLoop is a container that is not started for a while, because it ended too
	// often; ImagePull one whose image can't be had. They last.
	CrashLoop = "crash_loop"
	ImagePull = "image_pull"
	// NodeNotReady, DeploymentStalled and JobFailed are conditions; they last.
	NodeNotReady      = "node_not_ready"
	DeploymentStalled = "deployment_stalled"
	JobFailed         = "job_failed"
	// Warning is a Warning event of a pod that says none of the above.
	Warning = "warning"
)

// What the alert about a watch that is degraded has in place of a fault's kind and
// an object's: it is of the cluster itself.
const (
	WatchDegraded = "watch_degraded"
	KindCluster   = "Cluster"
)

// Faults lists the kinds of faults.
func Faults() []string {
	return []string{Crash, CrashLoop, ImagePull, OutOfMemory, NodeNotReady, DeploymentStalled, JobFailed, Warning}
}

// Severity is how urgent the alert about a fault is.
func Severity(fault string) alert.Severity {
	switch fault {
	case CrashLoop, OutOfMemory, NodeNotReady:
		return alert.Error
	default:
		return alert.Warning
	}
}

// Message is what one message of the stream KUBERNETES holds: an event, a fault
// (with the event that says it), or how the watch of a cluster is.
type Message struct {
	// Cluster is its name, as kubewatch was given it; ClusterUID is the same for all
	// names of one cluster.
	Cluster    string `json:"cluster"`
	ClusterUID string `json:"cluster_uid,omitempty"`
	// Event is what happened. Of a fault that no event told it is made from the
	// object's state.
	Event *Event `json:"event,omitempty"`
	// Fault is set where it is one.
	Fault *Fault `json:"fault,omitempty"`
	// Logs are of the pod's containers. They follow a fault in a message of their
	// own, with the same Event and Fault.
	Logs []Log `json:"logs,omitempty"`
	// Watch is set where the message is about the watch itself.
	Watch *Watch `json:"watch,omitempty"`
}

// App is the app that the message is about; see App.
func (m *Message) App() string {
	if m.Event == nil {
		return m.Cluster
	}
	return App(m.Event.Labels, m.Cluster)
}

// appLabels are those that name an app, in the order in which they do.
func appLabels() []string { return []string{"app.kubernetes.io/name", "app", "k8s-app"} }

// App is the app that an object of a cluster belongs to: the same as that of its
// telemetry, where that is named as usual. It is what its labels say, else the
// cluster's name.
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
	// Timestamp is when it happened last, as the cluster says.
	Timestamp time.Time `json:"timestamp"`
	// Type is Normal or Warning.
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Labels are those of the involved object, as far as they are known.
	Labels map[string]string `json:"labels,omitempty"`
	// InvolvedObject is what it is about.
	InvolvedObject Object `json:"involvedObject"`
	// Count is how often it happened, where that is over 1.
	Count int `json:"count,omitempty"`
	// Component is who says so, such as kubelet.
	Component string `json:"component,omitempty"`
	// Name, UID and ResourceVersion are the event's own. They are empty where no
	// event told it.
	Name            string `json:"name,omitempty"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// Object is what an event is about. Namespace is empty where it has none.
type Object struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Namespace  string `json:"namespace,omitempty"`
	UID        string `json:"uid,omitempty"`
	// Container is the container of a pod that it is about, where it is one.
	Container string `json:"container,omitempty"`
}

// Scope is the namespace that stands in subjects, and that filters go by.
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

// Fault is what is wrong with an object.
type Fault struct {
	// ID is the same for all that is said of one fault: when it begins, its logs, its
	// end.
	ID string `json:"id"`
	// Kind is one of Faults.
	Kind string `json:"kind"`
	// State is firing, or over: of what lasts, the end is told too.
	State    string         `json:"state"`
	Severity alert.Severity `json:"severity"`
	// Restarts of the container so far.
	Restarts int `json:"restarts,omitempty"`
	// ExitCode and Reason are how the container ended, where it did.
	ExitCode int    `json:"exitCode,omitempty"`
	Reason   string `json:"reason,omitempty"`
	// Workload is the kind, the name and the version of what the pod at fault is one of,
	// such as Deployment/web/7d9f; see SplitWorkload. Alerts go by it; Episode is that of the alert, empty where there is
	// none. Of other objects, and of pods that are none's, both are empty.
	Workload string `json:"workload,omitempty"`
	Episode  string `json:"episode,omitempty"`
	// LogsFollow says that another message will bring the logs.
	LogsFollow bool `json:"logsFollow,omitempty"`
}

// Log is the end of what a container wrote.
type Log struct {
	Container string `json:"container"`
	// Previous says that it is of the container before the restart.
	Previous bool `json:"previous"`
	// HasPanic says that a line in it is the mark of a panic.
	HasPanic bool `json:"hasPanic"`
	// Sample is at most MaxLog bytes: the last ones. Truncated says that there was
	// more.
	Sample    string `json:"sample"`
	Truncated bool   `json:"truncated,omitempty"`
	// Error says why there is no sample, such as that the cluster refused it.
	Error string `json:"error,omitempty"`
}

// Watch is how the watch of a cluster is.
type Watch struct {
	// Degraded says that the cluster can't be watched, and Error why. Its end is a
	// message too.
	Degraded bool   `json:"degraded"`
	Error    string `json:"error,omitempty"`
	// Since is when that began.
	Since time.Time `json:"since,omitzero"`
}

// Leader is what the active kubewatch of a cluster says of itself, every few
// seconds, in the bucket of leaders. Without it for the bucket's TTL there is none.
type Leader struct {
	Cluster    string `json:"cluster"`
	ClusterUID string `json:"cluster_uid,omitempty"`
	// ID is the kubewatch's own.
	ID string `json:"id"`
	// Watch is how the watch is now.
	Watch Watch `json:"watch"`
}

// SplitWorkload is a workload in its parts. The version is empty where it has none, as of
// a job, and all of it where the text is no workload.
func SplitWorkload(workload string) (kind, name, version string) {
	kind, rest, ok := strings.Cut(workload, "/")
	if !ok {
		return "", "", ""
	}
	name, version, _ = strings.Cut(rest, "/")
	return kind, name, version
}

// Tail is the end of a text: at most limit bytes, beginning with a whole rune. What
// is no UTF-8 is cut anywhere.
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
