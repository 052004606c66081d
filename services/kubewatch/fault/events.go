package fault

import (
	"hash/fnv"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/kube"
)

// eventRule matches events to a kind of fault.
type eventRule struct {
	// object is the kind of the involved object.
	object string
	// reasons are the event's, substring is part of its message in lower case. An empty
	// substring matches any message.
	reasons   []string
	substring string
	fault     string
}

// eventRules are tried in order. A Warning event of a pod that no rule matches is a
// warning; any other event that none matches is not a fault.
var eventRules = []eventRule{
	{KindPod, []string{"BackOff", waitingCrashLoop}, "restarting failed", kube.CrashLoop},
	{KindPod, []string{waitingCrashLoop}, "", kube.CrashLoop},
	{KindPod, []string{"BackOff"}, "pulling image", kube.ImagePull},
	{KindPod, []string{"Failed"}, "failed to pull", kube.ImagePull},
	{KindPod, []string{"Failed"}, "errimagepull", kube.ImagePull},
	{KindPod, []string{"Failed"}, "imagepullbackoff", kube.ImagePull},
	{KindPod, []string{"Failed"}, "errimageneverpull", kube.ImagePull},
	{KindPod, []string{"Failed"}, "invalidimagename", kube.ImagePull},
	{KindPod, append([]string{"InspectFailed"}, imagePullReasons...), "", kube.ImagePull},
	{KindPod, []string{"OOMKilling", oomKilled}, "", kube.OutOfMemory},
	{KindPod, []string{"NodeNotReady"}, "", kube.NodeNotReady},
	{KindNode, []string{"NodeNotReady"}, "", kube.NodeNotReady},
	{KindNode, []string{"OOMKilling", "SystemOOM"}, "", kube.OutOfMemory},
	{KindDeployment, []string{deadlineExceeded}, "", kube.DeploymentStalled},
	{KindJob, []string{"BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy", "FailedIndexes", "MaxFailedIndexesExceeded"}, "", kube.JobFailed},
}

// classify returns the kind of fault that an event reports, empty for none.
func classify(e *kube.Event) string {
	kind := e.InvolvedObject.Kind
	if e.Type != kube.TypeWarning && kind != KindNode { // NodeNotReady has the type Normal
		return ""
	}
	message := ""
	for _, r := range eventRules {
		if r.object != kind || !slices.Contains(r.reasons, e.Reason) {
			continue
		}
		if message == "" && r.substring != "" {
			message = strings.ToLower(e.Message)
		}
		if strings.Contains(message, r.substring) {
			return r.fault
		}
	}
	if kind == KindPod {
		return kube.Warning
	}
	return ""
}

// Event takes an event, whose texts are masked. It may be repeated, and older than states
// that arrived before.
func (t *Tracker) Event(e *kube.Event, now time.Time) []Finding {
	switch {
	case e.InvolvedObject.Name == "":
		return nil
	case e.InvolvedObject.Kind == KindNode && e.Reason == "NodeReady":
		return t.nodeReady(e, now)
	}
	switch kind := classify(e); kind {
	case "":
		return nil
	case kube.Warning:
		return t.warning(e, now)
	case kube.OutOfMemory:
		return t.outOfMemory(e, now)
	case kube.NodeNotReady:
		if e.InvolvedObject.Kind != KindNode {
			return t.podOfNode(e, now)
		}
		return t.lastingEvent(e, kind, now)
	default:
		return t.lastingEvent(e, kind, now)
	}
}

// lastingEvent takes an event of a lasting fault. It ignores an old event of an object whose
// state was not seen: the state will show whether the fault still lasts.
func (t *Tracker) lastingEvent(e *kube.Event, kind string, now time.Time) []Finding {
	o := t.find(e.InvolvedObject)
	if (o == nil || !o.seen) && !e.Timestamp.IsZero() && now.Sub(e.Timestamp) > eventLifetime {
		return nil
	}
	if o == nil {
		if o = t.findOrAdd(e.InvolvedObject); o == nil {
			return nil
		}
	}
	container := e.InvolvedObject.Container
	if o.pod != nil && container == "" && len(o.pod.Containers) == 1 {
		container = o.pod.Containers[0].Name
	}
	if l := o.openFaultOfEvent(kind, container); l != nil {
		t.stats.Duplicates++
		if l.endReason == noMoreEvents && l.endTimer.queued {
			t.scheduleEnd(l, now.Add(lifetimeOfEvents(o.kind)), noMoreEvents)
		}
		return nil
	}
	if t.isStale(o, e, kind, container) {
		t.stats.Duplicates++
		t.forgetIfUnused(o)
		return nil
	}
	out, l := t.beginFault(nil, o, kind, t.eventReport(o, e, kind, container), onset{}, now)
	if l != nil {
		t.scheduleEnd(l, now.Add(lifetimeOfEvents(o.kind)), noMoreEvents)
	}
	t.forgetIfUnused(o)
	return out
}

// lifetimeOfEvents returns how long a fault lasts after the newest event, if only events
// report it.
func lifetimeOfEvents(kind string) time.Duration {
	if kind == KindPod {
		return eventLifetime
	}
	return eventLifetimeOther
}

// isStale reports whether an event is about a fault that was over when it arrived. Events
// may arrive long after the states.
func (t *Tracker) isStale(o *object, e *kube.Event, kind, container string) bool {
	if before, ok := t.latest.Get(t.key(o.id, container, kind, "")); ok && before.over && !e.Timestamp.After(before.at) {
		return true
	}
	switch {
	case kind == kube.NodeNotReady && o.seen:
		return o.ready.Status == isTrue && o.ready.Since.After(e.Timestamp)
	case o.pod == nil:
		return false
	case o.pod.Done:
		return true
	}
	c := o.pod.container(container)
	switch {
	case c == nil:
		return false
	case kind == kube.CrashLoop:
		return c.Running && c.Started.After(e.Timestamp)
	default: // image pull
		return c.Running || c.Ended != nil || c.Waiting == waitingCrashLoop
	}
}

// nodeReady ends the fault of a node whose state is not known.
func (t *Tracker) nodeReady(e *kube.Event, now time.Time) []Finding {
	o := t.find(e.InvolvedObject)
	if o == nil || o.seen {
		return nil
	}
	if l := o.openFault(kube.NodeNotReady, ""); l != nil && e.Timestamp.After(l.message.Event.Timestamp) {
		return t.endFault(nil, l, "the node is ready", now)
	}
	return nil
}

// podOfNode takes the event that a pod gets if its node is not ready. It duplicates the
// node's fault if nodes are watched.
func (t *Tracker) podOfNode(e *kube.Event, now time.Time) []Finding {
	if o := t.find(e.InvolvedObject); o != nil && o.pod != nil {
		if n := t.find(kube.Object{Kind: KindNode, Name: o.pod.Node}); n != nil && n.seen {
			t.stats.Duplicates++
			return nil
		}
	}
	return t.warning(e, now)
}

// podUID is a pod's uid within the name of a control group, as in the kernel's message
// about a process that it killed.
var podUID = regexp.MustCompile(`pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})\b`)

// outOfMemory takes an event about a process that was killed for its memory. A node's event
// counts if it names a known pod.
func (t *Tracker) outOfMemory(e *kube.Event, now time.Time) []Finding {
	event := *e
	o := t.findOrTransient(e.InvolvedObject)
	if e.InvolvedObject.Kind == KindNode {
		m := podUID.FindStringSubmatch(e.Message)
		if m == nil {
			return nil
		}
		if o = t.objects[strings.ReplaceAll(m[1], "_", "-")]; o == nil || o.pod == nil {
			return nil
		}
		event.InvolvedObject = o.pod.Object(KindPod)
	}
	container := event.InvolvedObject.Container
	loop := o.openFaultOfEvent(kube.CrashLoop, container)
	if kill, ok := t.oomKills.Get(o.id); ok && now.Sub(kill.at) < Window || loop != nil && loop.oomKilled {
		t.stats.Duplicates++
		return nil
	}
	t.oomKills.Add(o.id, oomKill{at: now, unconfirmed: true})
	if loop != nil {
		loop.oomKilled = true
	}
	return t.addMomentary(momentary{
		object: o, kind: kube.OutOfMemory, container: container, episode: eventEpisode(e),
		describe: func() (report, *Capture) {
			return t.eventReport(o, &event, kube.OutOfMemory, container), t.capture(o, container)
		},
	}, now)
}

// warning takes a Warning event of a pod that is no other fault.
func (t *Tracker) warning(e *kube.Event, now time.Time) []Finding {
	o := t.findOrTransient(e.InvolvedObject)
	if o.pod != nil && o.pod.Deleting && e.Reason == "Unhealthy" {
		return nil // a pod that terminates does not answer its probes
	}
	container := e.InvolvedObject.Container
	window := strings.Join([]string{o.namespace, o.name, container, e.Reason, strconv.Itoa(e.Count)}, "\x00")
	if at, ok := t.warnings.Get(window); ok && now.Sub(at) < Window {
		t.stats.Duplicates++
		return nil
	}
	out := t.addMomentary(momentary{
		object: o, kind: kube.Warning, container: container, qualifier: e.Reason, episode: eventEpisode(e),
		describe: func() (report, *Capture) {
			return t.eventReport(o, e, kube.Warning, container), t.captureForWarning(o, container, now)
		},
	}, now)
	if len(out) > 0 {
		t.warnings.Add(window, now)
	}
	return out
}

// captureForWarning names the logs to read for a warning, at most once in a Window for each
// pod.
func (t *Tracker) captureForWarning(o *object, container string, now time.Time) *Capture {
	if at, ok := t.logsRead.Get(o.id); ok && now.Sub(at) < Window {
		return nil
	}
	c := t.capture(o, container)
	if c != nil {
		t.logsRead.Add(o.id, now)
	}
	return c
}

// eventEpisode returns the episode of an event's fault: which event it is, and its count.
func eventEpisode(e *kube.Event) string {
	sum := fnv.New64a()
	id := e.UID
	if id == "" {
		id = e.Namespace + "/" + e.Name
	}
	_, _ = sum.Write([]byte(id)) // a hash never fails
	return strconv.FormatUint(sum.Sum64(), 16) + "." + strconv.Itoa(max(e.Count, 1))
}
