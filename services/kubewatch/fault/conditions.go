package fault

import (
	"time"

	"github.com/tocsin-bus/tocsin/shared/kube"
)

// The statuses of a condition.
const (
	isTrue  = "True"
	isFalse = "False"
)

const deadlineExceeded = "ProgressDeadlineExceeded"

// conditionFault is a condition of an object and what it means.
type conditionFault struct {
	kind      string
	condition Condition
	isBad     bool
	endReason string
}

// Node takes the state of a node.
func (t *Tracker) Node(n *Node, now time.Time) []Finding {
	out, o, _ := t.trackObject(KindNode, &n.Meta, now)
	if o == nil {
		return out
	}
	o.ready = n.Ready
	bad := n.Ready.Status != "" && n.Ready.Status != isTrue
	return t.checkCondition(out, o, &n.Meta, conditionFault{kube.NodeNotReady, n.Ready, bad, "the node is ready"}, now)
}

// Deployment takes the state of a deployment.
func (t *Tracker) Deployment(d *Deployment, now time.Time) []Finding {
	out, o, _ := t.trackObject(KindDeployment, &d.Meta, now)
	if o == nil {
		return out
	}
	c, bad := d.Progressing, d.Progressing.Status == isFalse && d.Progressing.Reason == deadlineExceeded
	if !bad {
		c, bad = d.ReplicaFailure, d.ReplicaFailure.Status == isTrue
	}
	return t.checkCondition(out, o, &d.Meta, conditionFault{kube.DeploymentStalled, c, bad, "the deployment progresses"}, now)
}

// Job takes the state of a job. A failed job stays failed until it is deleted.
func (t *Tracker) Job(j *Job, now time.Time) []Finding {
	out, o, _ := t.trackObject(KindJob, &j.Meta, now)
	if o == nil {
		return out
	}
	return t.checkCondition(out, o, &j.Meta, conditionFault{kube.JobFailed, j.Failed, j.Failed.Status == isTrue, "the job runs"}, now)
}

func (t *Tracker) checkCondition(out []Finding, o *object, m *Meta, c conditionFault, now time.Time) []Finding {
	l := o.openFault(c.kind, "")
	switch {
	case c.isBad && l == nil:
		out, _ = t.beginFault(out, o, c.kind, t.conditionReport(o, m, c.kind, c.condition, now), onset{c.condition.Since, m.Initial}, now)
	case c.isBad:
		t.confirm(l)
	case l != nil && (!l.endTimer.queued || l.endReason == noMoreEvents):
		t.scheduleEnd(l, now.Add(stableCondition), c.endReason)
	}
	return out
}
