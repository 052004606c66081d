package fault

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/tocsin-bus/tocsin/shared/kube"
)

// Why a container waits.
const waitingCrashLoop = "CrashLoopBackOff"

// imagePulls are the reasons for which a container waits, or an event is sent, where
// its image can't be had. The kubelet changes between the first two.
var imagePulls = []string{
	"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
}

// notYet are the reasons for which a container waits that say nothing of its image.
var notYet = []string{"", "ContainerCreating", "PodInitializing"}

// unknownEnds are the reasons of an end that nobody saw, as when a node restarts or is
// lost: how it ended is not known, and the exit code is made up.
var unknownEnds = []string{"ContainerStatusUnknown", "Unknown"}

const oomKilled = "OOMKilled"

// Pod takes the state of a pod. States of one pod come in order.
func (b *Book) Pod(p *Pod, now time.Time) []Finding {
	out, t, first := b.see(nil, KindPod, &p.Meta, now)
	if t == nil {
		return out
	}
	t.pod = p
	for i := range p.Containers {
		out = b.container(out, t, &p.Containers[i], first, now)
	}
	for _, m := range t.wanting {
		if c := b.capture(t, m.Event.InvolvedObject.Container); c != nil {
			out = append(out, Finding{Message: *m, Capture: c})
		}
	}
	t.wanting = nil
	return out
}

func (b *Book) container(out []Finding, t *object, c *Container, first bool, now time.Time) []Finding {
	p := t.pod
	end, number := c.newest()
	var now1 *run
	var fresh bool
	var wasOOM bool
	if end != nil {
		id := runID(end, number)
		now1 = t.run(c.Name)
		if now1 == nil {
			t.runs = append(t.runs, run{container: c.Name})
			now1 = &t.runs[len(t.runs)-1]
		}
		wasOOM = now1.oom
		if now1.id != id {
			now1.id, now1.oom = id, false
			fresh = crashed(p, end) && (!first || !b.past(p.Initial, end.At))
		}
	}

	loop := t.find(kube.CrashLoop, c.Name)
	switch {
	case c.Waiting == waitingCrashLoop:
		if loop == nil {
			out, loop = b.opened(out, t, kube.CrashLoop, b.about(t, c, kube.CrashLoop, end, now), p.Initial, time.Time{}, now)
			if loop != nil {
				loop.killed = wasOOM
			}
		} else {
			b.joined(loop)
			b.set(loop, time.Time{}, "")
		}
	case loop == nil:
	case p.Done || c.Ended != nil && c.Ended.ExitCode == 0 && c.Ended.Signal == 0:
		out = b.end(out, loop, "the container is done", now)
		loop = nil
	case c.Running:
		since := c.Started
		if since.IsZero() || since.After(now) {
			since = now
			if loop.index >= 0 && loop.why != whyUnseen {
				since = loop.due.Add(-steadyRun)
			}
		}
		if due := since.Add(steadyRun); due.After(now) {
			b.set(loop, due, "the container has run for "+words(steadyRun))
		} else {
			out = b.end(out, loop, "the container has run for "+words(steadyRun), now)
			loop = nil
		}
	default:
		b.set(loop, time.Time{}, "")
	}

	pull := t.find(kube.ImagePull, c.Name)
	switch {
	case slices.Contains(imagePulls, c.Waiting):
		if pull == nil {
			out, _ = b.opened(out, t, kube.ImagePull, b.about(t, c, kube.ImagePull, end, now), p.Initial, time.Time{}, now)
		} else {
			b.joined(pull)
			b.set(pull, time.Time{}, "")
		}
	case pull == nil:
	case p.Done:
		out = b.end(out, pull, "the pod is done", now)
	case c.Running || c.Ended != nil || !slices.Contains(notYet, c.Waiting):
		out = b.end(out, pull, "the image is there", now)
	default:
		b.set(pull, time.Time{}, "")
	}

	if !fresh {
		return out
	}
	kind := kube.Crash
	if end.Reason == oomKilled {
		kind = kube.OutOfMemory
	}
	switch {
	case t.killed.After(now.Add(-Window)) && (kind == kube.OutOfMemory || end.ExitCode == 137) && t.eventKilled:
		// The event of its node said so.
		t.eventKilled = false
		now1.oom = true
		b.stats.Joined++
		return out
	case kind == kube.OutOfMemory:
		now1.oom = true
		if loop != nil && loop.killed {
			b.stats.Joined++
			return out
		}
		t.killed, t.eventKilled = now, false
		if loop != nil {
			loop.killed = true
		}
	case loop != nil:
		// A crash loop is made of crashes.
		b.stats.Joined++
		return out
	}
	return b.once(out, t, kind, b.about(t, c, kind, end, now), now1.id, b.capture(t, c.Name), now)
}

func (t *object) run(container string) *run {
	for i := range t.runs {
		if t.runs[i].container == container {
			return &t.runs[i]
		}
	}
	return nil
}

func (t *object) find(kind, container string) *lasting {
	for _, l := range t.open {
		if l.kind == kind && l.container == container {
			return l
		}
	}
	return nil
}

// runID tells one run of a container from the next.
func runID(end *Ended, number int) string {
	sum := fnv.New64a()
	if end.ID != "" {
		_, _ = sum.Write([]byte(end.ID)) // a hash takes everything
	} else {
		_, _ = fmt.Fprintf(sum, "%d/%d", number, end.At.Unix())
	}
	return strconv.FormatUint(sum.Sum64(), 16)
}

// crashed says whether a run ended with an error of its own, and not because the pod
// was told to end.
func crashed(p *Pod, end *Ended) bool {
	told := end.ExitCode == 128+15 || end.ExitCode == 128+9 || end.Signal == 15 || end.Signal == 9
	switch {
	case end.ExitCode == 0 && end.Signal == 0, slices.Contains(unknownEnds, end.Reason):
		return false
	case end.Reason == oomKilled:
		return true
	default:
		return !told || !p.Deleting && !p.Disrupted
	}
}

// maxTargets bounds how many containers' logs are wanted of a pod.
const maxTargets = 20

// capture is which logs of a pod to read: of the container at fault, and of its others
// after it. Those that never ran have none. Of a pod whose state was not seen it is
// the container that is named.
func (b *Book) capture(t *object, container string) *Capture {
	c := &Capture{Namespace: t.namespace, Pod: t.name.name}
	if t.pod == nil {
		c.Targets = []Target{{container, true}, {container, false}}
		return c
	}
	if t.pod.Node == "" {
		return nil
	}
	add := func(of *Container) {
		ran := of.Running || of.Ended != nil || of.Last != nil || of.Restarts > 0
		if !ran && of.Waiting != "" || len(c.Targets) >= 2*maxTargets {
			return
		}
		if of.Restarts > 0 || of.Last != nil {
			c.Targets = append(c.Targets, Target{of.Name, true})
		}
		c.Targets = append(c.Targets, Target{of.Name, false})
	}
	if of := t.pod.container(container); of != nil {
		add(of)
	}
	for i := range t.pod.Containers {
		if of := &t.pod.Containers[i]; of.Name != container {
			add(of)
		}
	}
	if len(c.Targets) == 0 {
		return nil
	}
	return c
}
