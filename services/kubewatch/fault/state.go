package fault

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/kube"
)

// Meta is what an object is known by.
type Meta struct {
	Namespace, Name, UID string
	// Alias is another uid that events may name: that of the manifest, for a pod that
	// a node runs by itself.
	Alias  string
	Labels map[string]string
	// Initial says that it comes of the first list of its kind: what is past in it
	// happened before anybody watched.
	Initial bool
}

// Pod is what is looked at of a pod. Nobody changes it any more.
type Pod struct {
	Meta
	// Workload is the kind, the name and the version of what it is a pod of, as in
	// Deployment/web/7d9f. It is empty where it is one by itself.
	Workload string
	// Node is where it runs, empty where it has no place yet.
	Node string
	// Deleting says that it was told to end, Disrupted that the cluster puts it away:
	// it is evicted, preempted, or its node shuts down.
	Deleting, Disrupted bool
	// Done says that none of its containers runs again.
	Done bool
	// Containers are in the order of the pod, the initial ones first.
	Containers []Container
}

// Container is the state of one container of a pod. All of it is zero but for the
// name where the node said nothing of it yet.
type Container struct {
	Name string
	// Init says that it runs before the others.
	Init bool
	// Waiting is why it doesn't run yet, and Message what is said of that.
	Waiting, Message string
	// Running says that it runs, and Started since when.
	Running bool
	Started time.Time
	// Restarts is how often it was started again.
	Restarts int
	// Ended is how the present run ended, Last how the one before it did.
	Ended, Last *Ended
}

// Ended is how a run of a container ended.
type Ended struct {
	ExitCode, Signal int
	Reason, Message  string
	At               time.Time
	// ID is the run's own, where it is known.
	ID string
}

// Condition is one of an object's.
type Condition struct {
	// Status is True, False or Unknown, and empty where the object has no such one.
	Status, Reason, Message string
	// Since is when its status changed.
	Since time.Time
}

// Node is what is looked at of a node.
type Node struct {
	Meta
	Ready Condition
}

// Deployment is what is looked at of a deployment.
type Deployment struct {
	Meta
	Progressing, ReplicaFailure Condition
}

// Job is what is looked at of a job.
type Job struct {
	Meta
	Failed Condition
}

// The kinds of objects whose states are looked at.
const (
	KindPod        = "Pod"
	KindNode       = "Node"
	KindDeployment = "Deployment"
	KindJob        = "Job"
)

// versions are the API versions of the kinds.
var versions = map[string]string{KindPod: "v1", KindNode: "v1", KindDeployment: "apps/v1", KindJob: "batch/v1"}

// Object is the object of a kind.
func (m *Meta) Object(kind string) kube.Object {
	return kube.Object{APIVersion: versions[kind], Kind: kind, Name: m.Name, Namespace: m.Namespace, UID: m.UID}
}

// newest is how the newest run that ended did, and which run of the container that
// was: 0 is the first. Nil where none has.
func (c *Container) newest() (end *Ended, number int) {
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
