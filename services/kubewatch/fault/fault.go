// Package fault decides what is wrong in a cluster, what of that to publish, and when it
// is resolved.
//
// A fault is found in the state of an object (a container ended with an error, a node is
// not ready) or in a Warning event of a pod. A lasting fault, such as a crash loop, is
// published when it begins and when it ends; a momentary one, such as a crash, once.
// Events and states report the same things in any order: each fault is published for the
// first report. What happened before the watch began is not published, but faults that
// still last are.
//
// Each pod has faults of its own, and the faults of a workload share one alert (see
// group).
//
// The package knows no Kubernetes client, no bus and no clock. Its memory and its rate of
// publishing are bounded. It is deterministic: the same states, events and times give the
// same findings with the same ids, so that a [Tracker] that recalls what its predecessor
// published does not publish it again.
package fault

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// Bounds of a Tracker.
const (
	// MaxObjects is how many objects are tracked at once. The states of further objects
	// are ignored and counted as Untracked; their events are not ignored.
	MaxObjects = 200_000
	// MaxOpen is how many faults may last at once. Further ones are not published until
	// there is room, and counted as Withheld each time they are seen.
	MaxOpen = 20_000
	// MaxRemembered is how many published faults are remembered. Past it the oldest is
	// forgotten, and would be published again if the cluster reported it again.
	MaxRemembered = 50_000
	// Burst and Rate limit the published faults of each kind: Burst at once, and Rate a
	// second after that. Faults that join an existing alert have a second limit of the
	// same size, so that the first fault of a workload does not wait behind the pods of
	// another one.
	//
	// A lasting fault at the limit is published once there is room, if it still lasts. A
	// momentary fault at the limit is counted (Withheld, and Omitted of the kind's next
	// alert). Kinds have separate limits: a node's fault is published while thousands of
	// pods crash.
	Burst = 100
	Rate  = 1
	// Window is how long two reports count as one: Warning events of the same pod,
	// container, reason and count, and an out-of-memory event and the container state
	// that confirms it. It is also the shortest interval between two reads of a pod's
	// logs for warnings.
	Window = time.Minute
)

// How long the good state must last until a fault is over, so that what comes and goes is
// one fault.
const (
	// stableRun is for crash loops: the kubelet resets its back-off after a container ran
	// for 10 minutes.
	stableRun = 10 * time.Minute
	// stableCondition is for conditions, which flap while nodes and deployments start.
	stableCondition = 30 * time.Second
	// eventLifetime is how long a fault of a pod lasts after the newest event, if only
	// events report it. Kubelets repeat their events at least every 5 minutes or so.
	eventLifetime = 15 * time.Minute
	// eventLifetimeOther is for other objects, whose events are not repeated.
	eventLifetimeOther = 24 * time.Hour
	// clockSkew is the assumed difference between the clocks of a cluster's nodes and
	// ours.
	clockSkew = time.Minute
)

// Finding is something to publish. The caller publishes the Alert first, and the Message
// once that is acknowledged: a fault whose Message is stored is not published again, and
// an alert that is published twice counts as one.
type Finding struct {
	// Message must be published under MsgID. An empty MsgID means that it was published
	// before and only its logs are wanted. A Message without a Fault is not published:
	// then the finding is only an update of the Alert.
	Message kube.Message
	MsgID   string
	// Alert is nil if the alert of the workload does not change, or is updated later.
	Alert *external.Alert
	// Capture names the logs to read for the fault, nil for none. See WithLogs.
	Capture *Capture
}

// Capture names the logs of a pod to read.
type Capture struct {
	Namespace, Pod string
	// Targets are at most maxTargets, the failed container first.
	Targets []Target
}

// Target is one log: that of a container's present run or the previous one. An empty
// Container is the pod's only or default container.
type Target struct {
	Container string
	Previous  bool
}

// Stats are the counts of a Tracker.
type Stats struct {
	// Objects are tracked and Open faults last now. Waiting of those wait for the rate
	// limit. Groups are the alerts of lasting faults.
	Objects, Open, Waiting, Groups int
	// Published counts faults and Ended their ends. Duplicates counts reports of a fault
	// that was published, Withheld the faults that were not published at a bound,
	// Untracked the states of objects past MaxObjects, and Grouped the faults published
	// within an alert that another pod of the workload had raised.
	Published, Ended, Duplicates, Withheld, Untracked, Grouped uint64
}
