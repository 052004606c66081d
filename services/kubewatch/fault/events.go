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

// reading is one row of what events say.
type reading struct {
	// object is the kind of the object that it is about.
	object string
	// reasons are those of the event, says is a part of its message, in lower case.
	// Empty is any.
	reasons []string
	says    string
	fault   string
}

// readings are in order: the first one that fits counts. A Warning event of a pod that
// none fits is a warning, and any other event no fault.
var readings = []reading{
	{KindPod, []string{"BackOff", waitingCrashLoop}, "restarting failed", kube.CrashLoop},
	{KindPod, []string{waitingCrashLoop}, "", kube.CrashLoop},
	{KindPod, []string{"BackOff"}, "pulling image", kube.ImagePull},
	{KindPod, []string{"Failed"}, "failed to pull", kube.ImagePull},
	{KindPod, []string{"Failed"}, "errimagepull", kube.ImagePull},
	{KindPod, []string{"Failed"}, "imagepullbackoff", kube.ImagePull},
	{KindPod, []string{"Failed"}, "errimageneverpull", kube.ImagePull},
	{KindPod, []string{"Failed"}, "invalidimagename", kube.ImagePull},
	{KindPod, append([]string{"InspectFailed"}, imagePulls...), "", kube.ImagePull},
	{KindPod, []string{"OOMKilling", oomKilled}, "", kube.OutOfMemory},
	{KindPod, []string{"NodeNotReady"}, "", kube.NodeNotReady},
	{KindNode, []string{"NodeNotReady"}, "", kube.NodeNotReady},
	{KindNode, []string{"OOMKilling", "SystemOOM"}, "", kube.OutOfMemory},
	{KindDeployment, []string{deadlineExceeded}, "", kube.DeploymentStalled},
	{KindJob, []string{"BackoffLimitExceeded", "DeadlineExceeded", "PodFailurePolicy", "FailedIndexes", "MaxFailedIndexesExceeded"}, "", kube.JobFailed},
}

// read says what an event says, empty where it is no fault.
func read(e *kube.Event) string {
	kind := e.InvolvedObject.Kind
	if e.Type != kube.TypeWarning && kind != KindNode { // that a node isn't ready is said as Normal
		return ""
	}
	message := ""
	for _, r := range readings {
		if r.object != kind || !slices.Contains(r.reasons, e.Reason) {
			continue
		}
		if message == "" && r.says != "" {
			message = strings.ToLower(e.Message)
		}
		if strings.Contains(message, r.says) {
			return r.fault
		}
	}
	if kind == KindPod {
		return kube.Warning
	}
	return ""
}

// Event takes an event, whose texts are masked. It may be told again, and be older than
// the states that came.
func (b *Book) Event(e *kube.Event, now time.Time) []Finding {
	switch {
	case e.InvolvedObject.Name == "": // about nothing
		return nil
	case e.InvolvedObject.Kind == KindNode && e.Reason == "NodeReady":
		return b.nodeReady(e, now)
	}
	switch kind := read(e); kind {
	case "":
		return nil
	case kube.Warning:
		return b.warn(e, now)
	case kube.OutOfMemory:
		return b.outOfMemory(e, now)
	case kube.NodeNotReady:
		if e.InvolvedObject.Kind != KindNode {
			return b.nodeOfPod(e, now)
		}
		return b.said(e, kind, now)
	default:
		return b.said(e, kind, now)
	}
}

// said takes an event that says what lasts. An old one says nothing of now: there the
// state of its object counts.
func (b *Book) said(e *kube.Event, kind string, now time.Time) []Finding {
	t := b.known(e.InvolvedObject)
	if (t == nil || !t.seen) && !e.Timestamp.IsZero() && now.Sub(e.Timestamp) > unseen {
		return nil
	}
	if t == nil {
		if t = b.noted(e.InvolvedObject); t == nil {
			return nil
		}
	}
	container := e.InvolvedObject.Container
	if t.pod != nil && container == "" && len(t.pod.Containers) == 1 {
		container = t.pod.Containers[0].Name
	}
	if l := t.open1(kind, container); l != nil {
		b.stats.Joined++
		if l.why == whyUnseen && l.index >= 0 {
			b.set(l, now.Add(patience(t.kind)), whyUnseen)
		}
		return nil
	}
	if b.stale(t, e, kind, container) {
		b.stats.Joined++
		b.drop(t)
		return nil
	}
	out, l := b.opened(nil, t, kind, b.event(t, e, kind, container), false, time.Time{}, now)
	if l != nil {
		b.set(l, now.Add(patience(t.kind)), whyUnseen)
	}
	b.drop(t)
	return out
}

// open1 is the open fault that an event speaks of: of the container that it names, or of
// any where it or the fault names none.
func (t *object) open1(kind, container string) *lasting {
	if l := t.find(kind, container); l != nil {
		return l
	}
	for _, l := range t.open {
		if l.kind == kind && (container == "" || l.container == "") {
			return l
		}
	}
	return nil
}

// stale says whether an event speaks of what was over when it came: it may come long
// after the state.
func (b *Book) stale(t *object, e *kube.Event, kind, container string) bool {
	if before, ok := b.latest.Get(b.key(t, container, kind, "")); ok && before.over && !e.Timestamp.After(before.at) {
		return true
	}
	switch {
	case kind == kube.NodeNotReady && t.seen:
		return t.ready.Status == isTrue && t.ready.Since.After(e.Timestamp)
	case t.pod == nil:
		return false
	case t.pod.Done:
		return true
	}
	c := t.pod.container(container)
	switch {
	case c == nil:
		return false
	case kind == kube.CrashLoop:
		return c.Running && c.Started.After(e.Timestamp)
	default: // an image that isn't there
		return c.Running || c.Ended != nil || c.Waiting == waitingCrashLoop
	}
}

// nodeReady ends what an event of the node began, where its state is not known.
func (b *Book) nodeReady(e *kube.Event, now time.Time) []Finding {
	t := b.known(e.InvolvedObject)
	if t == nil || t.seen {
		return nil
	}
	if l := t.find(kube.NodeNotReady, ""); l != nil && e.Timestamp.After(l.message.Event.Timestamp) {
		return b.end(nil, l, "the node is ready", now)
	}
	return nil
}

// nodeOfPod takes what pods are told when their node is not ready: the node's fault
// says it, where nodes are watched.
func (b *Book) nodeOfPod(e *kube.Event, now time.Time) []Finding {
	if t := b.known(e.InvolvedObject); t != nil && t.pod != nil {
		if n := b.known(kube.Object{Kind: KindNode, Name: t.pod.Node}); n != nil && n.seen {
			b.stats.Joined++
			return nil
		}
	}
	return b.warn(e, now)
}

// podUID is that of a pod within the name of a control group, as in the kernel's line
// about a process that it ended.
var podUID = regexp.MustCompile(`pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})\b`)

// outOfMemory takes an event about a process that was ended for its memory. One of a
// node counts where it names a pod that is known.
func (b *Book) outOfMemory(e *kube.Event, now time.Time) []Finding {
	about := *e
	t := b.known(e.InvolvedObject)
	if e.InvolvedObject.Kind == KindNode {
		m := podUID.FindStringSubmatch(e.Message)
		if m == nil {
			return nil
		}
		if t = b.objects[strings.ReplaceAll(m[1], "_", "-")]; t == nil || t.pod == nil {
			return nil
		}
		about.InvolvedObject = t.pod.Object(KindPod)
	}
	if t == nil {
		t = passing(e.InvolvedObject)
	}
	container := about.InvolvedObject.Container
	loop := t.open1(kube.CrashLoop, container)
	if at, ok := b.killed.Get(t.uid); ok && now.Sub(at.at) < Window || loop != nil && loop.killed {
		b.stats.Joined++
		return nil
	}
	b.killed.Add(t.uid, kill{at: now, event: true})
	if loop != nil {
		loop.killed = true
	}
	return b.once(nil, t, kube.OutOfMemory, container, "", eventID(e), now, func() (said, *Capture) {
		return b.event(t, &about, kube.OutOfMemory, container), b.capture(t, container)
	})
}

// passing is an object that is not known and of which nothing lasts, so that it need not
// be.
func passing(o kube.Object) *object {
	return &object{name: name{o.Kind, o.Namespace, o.Name}, uid: identity(o)}
}

// warn takes a Warning event of a pod that says nothing else.
func (b *Book) warn(e *kube.Event, now time.Time) []Finding {
	t := b.known(e.InvolvedObject)
	if t == nil {
		t = passing(e.InvolvedObject)
	}
	if t.pod != nil && t.pod.Deleting && e.Reason == "Unhealthy" {
		return nil // it no longer answers because it was told to end
	}
	container := e.InvolvedObject.Container
	window := strings.Join([]string{t.namespace, t.name.name, container, e.Reason, strconv.Itoa(e.Count)}, "\x00")
	if at, ok := b.warned.Get(window); ok && now.Sub(at) < Window {
		b.stats.Joined++
		return nil
	}
	out := b.once(nil, t, kube.Warning, container, e.Reason, eventID(e), now, func() (said, *Capture) {
		return b.event(t, e, kube.Warning, container), b.warningLogs(t, container, now)
	})
	if len(out) > 0 {
		b.warned.Add(window, now)
	}
	return out
}

// warningLogs is which logs to read for a warning: of one pod once in a while.
func (b *Book) warningLogs(t *object, container string, now time.Time) *Capture {
	if at, ok := b.read.Get(t.uid); ok && now.Sub(at) < Window {
		return nil
	}
	logs := b.capture(t, container)
	if logs != nil {
		b.read.Add(t.uid, now)
	}
	return logs
}

// eventID is an episode: which event it is, and how often it has happened.
func eventID(e *kube.Event) string {
	sum := fnv.New64a()
	id := e.UID
	if id == "" {
		id = e.Namespace + "/" + e.Name
	}
	_, _ = sum.Write([]byte(id)) // a hash takes everything
	return strconv.FormatUint(sum.Sum64(), 16) + "." + strconv.Itoa(max(e.Count, 1))
}
