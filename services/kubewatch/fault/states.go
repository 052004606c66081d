package fault

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/kube"
)

// Meta identifies an object.
type Meta struct {
	Namespace, Name, UID string
	// Alias is another uid that events may contain: that of the manifest, for a static pod.
	Alias  string
	Labels map[string]string
	// Initial is set on the objects of the first list: faults in it that are over happened
	// before the watch began.
	Initial bool
}

// Pod is the state of a pod. It is immutable.
type Pod struct {
	Meta
	// Workload is the kind, name and version of the pod's workload, such as
	// Deployment/web/7d9f. It is empty for a pod without one.
	Workload string
	// Node is where it is scheduled, empty if it is not.
	Node string
	// Deleting is set if the pod is terminating, Disrupted if the cluster removes
	// it: it is evicted or preempted, or its node shuts down.
	Deleting, Disrupted bool
	// Done is set if none of its containers will run again.
	Done bool
	// Containers are in the order of the pod, init containers first.
	Containers []Container
}

// Container is the state of a container of a pod. All but the name is zero until the node
// has reported it.
type Container struct {
	Name string
	// Init is set for an init container.
	Init bool
	// Waiting is the reason why it is not running, Message the explanation.
	Waiting, Message string
	// Running is set while it runs, since Started.
	Running bool
	Started time.Time
	// Restarts is the number of restarts.
	Restarts int
	// Ended is the end of the present run, Last that of the previous one.
	Ended, Last *Ended
}

// Ended is the end of a run of a container.
type Ended struct {
	ExitCode, Signal int
	Reason, Message  string
	At               time.Time
	// ID is the id of the run, if known.
	ID string
}

// Condition is a condition of an object.
type Condition struct {
	// Status is True, False or Unknown, and empty if the object has no such condition.
	Status, Reason, Message string
	// Since is when the status changed.
	Since time.Time
}

// Node is the state of a node.
type Node struct {
	Meta
	Ready Condition
}

// Deployment is the state of a deployment.
type Deployment struct {
	Meta
	Progressing, ReplicaFailure Condition
}

// Job is the state of a job.
type Job struct {
	Meta
	Failed Condition
}

// The kinds of objects whose states are watched.
const (
	KindPod        = "Pod"
	KindNode       = "Node"
	KindDeployment = "Deployment"
	KindJob        = "Job"
)

// apiVersions are the API versions of the kinds.
var apiVersions = map[string]string{KindPod: "v1", KindNode: "v1", KindDeployment: "apps/v1", KindJob: "batch/v1"}

// Object returns a reference to the object.
func (m *Meta) Object(kind string) kube.Object {
	return kube.Object{APIVersion: apiVersions[kind], Kind: kind, Name: m.Name, Namespace: m.Namespace, UID: m.UID}
}

// newestEnd returns the end of the newest run that ended, and the number of that run; 0 is
// the first. The end is nil if no run has ended.
func (c *Container) newestEnd() (end *Ended, number int) {
	switch {
	case c.Ended != nil:
		return c.Ended, c.Restarts
	case c.Last != nil:
		return c.Last, c.Restarts - 1
	default:
		return nil, 0
	}
}

func (p *Pod) container(name string) *Container {
	for i := range p.Containers {
		if p.Containers[i].Name == name {
			return &p.Containers[i]
		}
	}
	return nil
}
