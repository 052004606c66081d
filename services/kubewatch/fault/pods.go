package fault

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/tocsin-bus/tocsin/shared/kube"
)

// waitingCrashLoop is the reason for which the container of a crash loop waits.
const waitingCrashLoop = "CrashLoopBackOff"

// imagePullReasons are the reasons of waiting containers, and of events, for an image that
// cannot be pulled. The kubelet alternates between the first two.
var imagePullReasons = []string{
	"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
}

// neutralReasons are the reasons of waiting containers from which nothing follows about
// their image.
var neutralReasons = []string{"", "ContainerCreating", "PodInitializing"}

// unobservedEnds are the reasons of ends that no kubelet observed, as when a node restarts
// or is lost. Their exit code is not real.
var unobservedEnds = []string{"ContainerStatusUnknown", "Unknown"}

const oomKilled = "OOMKilled"

// The reasons for which a fault is over, as its message shows them.
const (
	noMoreEvents = "no further event reported it"
	ranStable    = "the container has run for 10 minutes"
)

// Pod takes the state of a pod. The states of one pod must come in order.
func (t *Tracker) Pod(p *Pod, now time.Time) []Finding {
	out, o, first := t.trackObject(KindPod, &p.Meta, now)
	if o == nil {
		return out
	}
	o.pod = p
	for i := range p.Containers {
		out = t.checkContainer(out, o, &p.Containers[i], first, now)
	}
	for _, f := range o.missingLogs {
		if now.Sub(f.at) > eventLifetime {
			continue // the container's previous log is another one by now
		}
		key, _ := splitID(f.message.Fault.ID)
		if latest, ok := t.latest.Get(key); ok && latest.over {
			continue
		}
		if c := t.capture(o, f.message.Event.InvolvedObject.Container); c != nil {
			out = append(out, Finding{Message: *f.message, Capture: c})
		}
	}
	o.missingLogs = nil
	return out
}

func (t *Tracker) checkContainer(out []Finding, o *object, c *Container, first bool, now time.Time) []Finding {
	p := o.pod
	end, number := c.newestEnd()
	// A new end is examined once. What the end before was matters for the crash loop.
	var newest *run
	var isNew, wasOOM bool
	if end != nil {
		newest = o.run(c.Name)
		wasOOM = newest.oom
		if id := runID(end, number); newest.id != id {
			newest.id, newest.oom = id, false
			isNew = isCrash(p, end) && (!first || !t.happenedBeforeWatch(p.Initial, end.At))
		}
	}
	loopBefore := o.openFault(kube.CrashLoop, c.Name)
	out, loop := t.checkCrashLoop(out, o, c, end, wasOOM, now)
	if loop == nil && c.Running {
		loop = loopBefore // the loop is over, but this end was part of it
	}
	out = t.checkImagePull(out, o, c, end, now)
	if !isNew {
		return out
	}
	kind := kube.Crash
	if end.Reason == oomKilled {
		kind, newest.oom = kube.OutOfMemory, true
	}
	kill, _ := t.oomKills.Get(o.id)
	switch {
	case kill.unconfirmed && now.Sub(kill.at) < Window && (kind == kube.OutOfMemory || end.ExitCode == 128+9):
		// An event has reported it.
		newest.oom = true
		t.oomKills.Add(o.id, oomKill{at: now})
		t.stats.Duplicates++
		return out
	case kind == kube.OutOfMemory:
		t.oomKills.Add(o.id, oomKill{at: now})
		if loop != nil && loop.oomKilled {
			t.stats.Duplicates++
			return out
		}
		if loop != nil {
			loop.oomKilled = true
		}
	case loop != nil: // a crash loop consists of crashes
		t.stats.Duplicates++
		return out
	}
	return append(out, t.addMomentary(momentary{
		object: o, kind: kind, container: c.Name, episode: newest.id,
		describe: func() (report, *Capture) { return t.containerReport(o, c, kind, end, now), t.capture(o, c.Name) },
	}, now)...)
}

// checkCrashLoop returns the crash loop of a container while it lasts. wasOOM is set if the
// end before was published as out of memory.
func (t *Tracker) checkCrashLoop(out []Finding, o *object, c *Container, end *Ended, wasOOM bool, now time.Time) ([]Finding, *lasting) {
	p := o.pod
	l := o.openFault(kube.CrashLoop, c.Name)
	switch {
	case c.Waiting == waitingCrashLoop && p.Deleting && l == nil: // it will not be restarted
	case c.Waiting == waitingCrashLoop:
		if l = o.assignContainer(l, kube.CrashLoop, c.Name); l != nil {
			t.confirm(l)
			break
		}
		out, l = t.beginFault(out, o, kube.CrashLoop, t.containerReport(o, c, kube.CrashLoop, end, now), onset{initial: p.Initial}, now)
		if l != nil {
			l.oomKilled = wasOOM
		}
	case l == nil:
	case p.Done || c.Ended != nil && c.Ended.ExitCode == 0 && c.Ended.Signal == 0:
		return t.endFault(out, l, "the container has completed", now), nil
	case c.Running:
		end := c.Started.Add(stableRun)
		if c.Started.IsZero() || c.Started.After(now) { // another clock
			if end = now.Add(stableRun); l.endTimer.queued && l.endTimer.at.Before(end) && l.endReason == ranStable {
				end = l.endTimer.at
			}
		}
		if !end.After(now) {
			return t.endFault(out, l, ranStable, now), nil
		}
		t.scheduleEnd(l, end, ranStable)
	default:
		t.cancelEnd(l)
	}
	return out, l
}

// checkImagePull begins and ends the fault of an image that cannot be pulled.
func (t *Tracker) checkImagePull(out []Finding, o *object, c *Container, end *Ended, now time.Time) []Finding {
	l := o.openFault(kube.ImagePull, c.Name)
	switch {
	case slices.Contains(imagePullReasons, c.Waiting) && o.pod.Deleting && l == nil:
	case slices.Contains(imagePullReasons, c.Waiting):
		if l = o.assignContainer(l, kube.ImagePull, c.Name); l != nil {
			t.confirm(l)
			break
		}
		out, _ = t.beginFault(out, o, kube.ImagePull, t.containerReport(o, c, kube.ImagePull, end, now), onset{initial: o.pod.Initial}, now)
	case l == nil:
	case o.pod.Done:
		return t.endFault(out, l, "the pod has completed", now)
	case c.Running || c.Ended != nil || !slices.Contains(neutralReasons, c.Waiting):
		return t.endFault(out, l, "the image was pulled", now)
	default:
		t.cancelEnd(l)
	}
	return out
}

// confirm records that the state of an object reports a fault: it no longer ends for lack
// of events.
func (t *Tracker) confirm(l *lasting) {
	t.stats.Duplicates++
	t.cancelEnd(l)
}

// assignContainer assigns a fault that an event reported without a container to one.
func (o *object) assignContainer(l *lasting, kind, container string) *lasting {
	if l == nil {
		if l = o.openFault(kind, ""); l != nil {
			l.container = container
		}
	}
	return l
}

// runID returns an id of a run of a container.
func runID(end *Ended, number int) string {
	sum := fnv.New64a()
	if end.ID != "" {
		_, _ = sum.Write([]byte(end.ID)) // a hash never fails
	} else {
		_, _ = fmt.Fprintf(sum, "%d/%d", number, end.At.Unix())
	}
	return strconv.FormatUint(sum.Sum64(), 16)
}

// isCrash reports whether a run ended with an error that is not the consequence of a
// termination of the pod.
func isCrash(p *Pod, end *Ended) bool {
	// Many programs exit with code 1 on SIGTERM: a rollout is not a series of crashes.
	terminated := end.ExitCode == 128+15 || end.ExitCode == 128+9 || end.ExitCode == 1 || end.Signal == 15 || end.Signal == 9
	switch {
	case end.ExitCode == 0 && end.Signal == 0, slices.Contains(unobservedEnds, end.Reason):
		return false
	case end.Reason == oomKilled:
		return true
	default:
		return !terminated || !p.Deleting && !p.Disrupted
	}
}

// maxTargets bounds the containers of a pod whose logs are wanted.
const maxTargets = 20

// capture names the logs of a pod to read: those of the failed container, then those of the
// others that ever ran. For a pod whose state was not seen it is only the named container.
func (t *Tracker) capture(o *object, container string) *Capture {
	capture := &Capture{Namespace: o.namespace, Pod: o.name}
	if o.pod == nil {
		capture.Targets = []Target{{container, true}, {container, false}}
		return capture
	}
	if o.pod.Node == "" {
		return nil
	}
	add := func(c *Container) {
		ran := c.Running || c.Ended != nil || c.Last != nil || c.Restarts > 0
		if !ran && c.Waiting != "" || len(capture.Targets) >= 2*maxTargets {
			return
		}
		if c.Restarts > 0 || c.Last != nil {
			capture.Targets = append(capture.Targets, Target{c.Name, true})
		}
		capture.Targets = append(capture.Targets, Target{c.Name, false})
	}
	if c := o.pod.container(container); c != nil {
		add(c)
	}
	for i := range o.pod.Containers {
		if c := &o.pod.Containers[i]; c.Name != container {
			add(c)
		}
	}
	if len(capture.Targets) == 0 {
		return nil
	}
	return capture
}
