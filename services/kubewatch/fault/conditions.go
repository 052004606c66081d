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

// Node takes the state of a node.
func (b *Book) Node(n *Node, now time.Time) []Finding {
	out, t, _ := b.see(KindNode, &n.Meta, now)
	if t == nil {
		return out
	}
	t.ready = n.Ready
	return b.condition(out, t, kube.NodeNotReady, &n.Meta, n.Ready, n.Ready.Status != "" && n.Ready.Status != isTrue, "the node is ready", now)
}

// Deployment takes the state of a deployment.
func (b *Book) Deployment(d *Deployment, now time.Time) []Finding {
	out, t, _ := b.see(KindDeployment, &d.Meta, now)
	if t == nil {
		return out
	}
	c, bad := d.Progressing, d.Progressing.Status == isFalse && d.Progressing.Reason == deadlineExceeded
	if !bad {
		c, bad = d.ReplicaFailure, d.ReplicaFailure.Status == isTrue
	}
	return b.condition(out, t, kube.DeploymentStalled, &d.Meta, c, bad, "the deployment goes on", now)
}

// Job takes the state of a job. A failed one stays so until it is gone.
func (b *Book) Job(j *Job, now time.Time) []Finding {
	out, t, _ := b.see(KindJob, &j.Meta, now)
	if t == nil {
		return out
	}
	return b.condition(out, t, kube.JobFailed, &j.Meta, j.Failed, j.Failed.Status == isTrue, "the job goes on", now)
}

func (b *Book) condition(out []Finding, t *object, kind string, m *Meta, c Condition, bad bool, well string, now time.Time) []Finding {
	l := t.find(kind, "")
	switch {
	case bad && l == nil:
		out, _ = b.opened(out, t, kind, b.state(t, m, kind, c, now), m.Initial, c.Since, now)
	case bad:
		b.lasts(l)
	case l != nil && (l.index < 0 || l.why == whyUnseen):
		b.set(l, now.Add(steady), well)
	}
	return out
}
