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
	out, t, first := b.see(KindPod, &p.Meta, now)
	if t == nil {
		return out
	}
	t.pod = p
	for i := range p.Containers {
		out = b.container(out, t, &p.Containers[i], first, now)
	}
	for _, w := range t.wanting {
		if now.Sub(w.at) > unseen {
			continue // what the container wrote then is no longer its last
		}
		key, _ := split(w.message.Fault.ID)
		if stands, ok := b.latest.Get(key); ok && stands.over {
			continue
		}
		if c := b.capture(t, w.message.Event.InvolvedObject.Container); c != nil {
			out = append(out, Finding{Message: *w.message, Capture: c})
		}
	}
	t.wanting = nil
	return out
}

func (b *Book) container(out []Finding, t *object, c *Container, first bool, now time.Time) []Finding {
	p := t.pod
	end, number := c.newest()
	// The newest end is news once; what it was before counts for the crash loop.
	var newest *run
	var fresh, killed bool
	if end != nil {
		newest = t.run(c.Name)
		killed = newest.oom
		if id := runID(end, number); newest.id != id {
			newest.id, newest.oom = id, false
			fresh = crashed(p, end) && (!first || !b.past(p.Initial, end.At))
		}
	}
	looped := t.find(kube.CrashLoop, c.Name)
	out, loop := b.loop(out, t, c, end, killed, now)
	if loop == nil && c.Running {
		loop = looped // it is over, but the end was part of it
	}
	out = b.pull(out, t, c, end, now)
	if !fresh {
		return out
	}
	kind := kube.Crash
	if end.Reason == oomKilled {
		kind, newest.oom = kube.OutOfMemory, true
	}
	before, _ := b.killed.Get(t.uid)
	switch {
	case before.event && now.Sub(before.at) < Window && (kind == kube.OutOfMemory || end.ExitCode == 128+9):
		// An event said so already.
		newest.oom = true
		b.killed.Add(t.uid, kill{at: now})
		b.stats.Joined++
		return out
	case kind == kube.OutOfMemory:
		b.killed.Add(t.uid, kill{at: now})
		if loop != nil && loop.killed {
			b.stats.Joined++
			return out
		}
		if loop != nil {
			loop.killed = true
		}
	case loop != nil: // that is what a crash loop is made of
		b.stats.Joined++
		return out
	}
	return b.once(out, t, kind, c.Name, "", newest.id, now, func() (said, *Capture) { return b.about(t, c, kind, end, now), b.capture(t, c.Name) })
}

// loop looks for a crash loop of a container, which is returned while it lasts. killed
// says that the end before was told as out of memory.
func (b *Book) loop(out []Finding, t *object, c *Container, end *Ended, killed bool, now time.Time) ([]Finding, *lasting) {
	p := t.pod
	l := t.find(kube.CrashLoop, c.Name)
	switch {
	case c.Waiting == waitingCrashLoop && p.Deleting && l == nil: // it is not started again
	case c.Waiting == waitingCrashLoop:
		if l = t.adopt(l, kube.CrashLoop, c.Name); l != nil {
			b.lasts(l)
			break
		}
		if out, l = b.opened(out, t, kube.CrashLoop, b.about(t, c, kube.CrashLoop, end, now), p.Initial, time.Time{}, now); l != nil {
			l.killed = killed
		}
	case l == nil:
	case p.Done || c.Ended != nil && c.Ended.ExitCode == 0 && c.Ended.Signal == 0:
		return b.end(out, l, "the container is done", now), nil
	case c.Running:
		due := c.Started.Add(steadyRun)
		if c.Started.IsZero() || c.Started.After(now) { // by another clock
			if due = now.Add(steadyRun); l.index >= 0 && l.due.Before(due) && l.why == whyRuns {
				due = l.due
			}
		}
		if !due.After(now) {
			return b.end(out, l, whyRuns, now), nil
		}
		b.set(l, due, whyRuns)
	default:
		b.set(l, time.Time{}, "")
	}
	return out, l
}

// pull looks for an image that can't be had.
func (b *Book) pull(out []Finding, t *object, c *Container, end *Ended, now time.Time) []Finding {
	l := t.find(kube.ImagePull, c.Name)
	switch {
	case slices.Contains(imagePulls, c.Waiting) && t.pod.Deleting && l == nil:
	case slices.Contains(imagePulls, c.Waiting):
		if l = t.adopt(l, kube.ImagePull, c.Name); l != nil {
			b.lasts(l)
			break
		}
		out, _ = b.opened(out, t, kube.ImagePull, b.about(t, c, kube.ImagePull, end, now), t.pod.Initial, time.Time{}, now)
	case l == nil:
	case t.pod.Done:
		return b.end(out, l, "the pod is done", now)
	case c.Running || c.Ended != nil || !slices.Contains(notYet, c.Waiting):
		return b.end(out, l, "the image is there", now)
	default:
		b.set(l, time.Time{}, "")
	}
	return out
}

// lasts says that the state of its object says so, too: what events set is off.
func (b *Book) lasts(l *lasting) {
	b.stats.Joined++
	b.set(l, time.Time{}, "")
}

// adopt finds what an event said of a container that it didn't name.
func (t *object) adopt(l *lasting, kind, container string) *lasting {
	if l == nil {
		if l = t.find(kind, ""); l != nil {
			l.container = container
		}
	}
	return l
}

func (t *object) run(container string) *run {
	for i := range t.runs {
		if t.runs[i].container == container {
			return &t.runs[i]
		}
	}
	t.runs = append(t.runs, run{container: container})
	return &t.runs[len(t.runs)-1]
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
	// Many programs answer the signal with exit code 1: a rollout is no row of crashes.
	told := end.ExitCode == 128+15 || end.ExitCode == 128+9 || end.ExitCode == 1 || end.Signal == 15 || end.Signal == 9
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
