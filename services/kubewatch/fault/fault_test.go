package fault_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/kubewatch/fault"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

var t0 = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

const (
	sec = time.Second
	min = time.Minute
)

// container is the state of a container.
type container = fault.Container

func ended(code int, reason string, when time.Duration) *fault.Ended {
	return &fault.Ended{ExitCode: code, Reason: reason, At: at(when), ID: fmt.Sprintf("containerd://%d", when)}
}

func running(restarts int, since time.Duration, last *fault.Ended) container {
	return container{Name: "web", Running: true, Started: at(since), Restarts: restarts, Last: last}
}

func waiting(reason string, restarts int, last *fault.Ended) container {
	return container{Name: "web", Waiting: reason, Restarts: restarts, Last: last}
}

func dead(restarts int, end, last *fault.Ended) container {
	return container{Name: "web", Restarts: restarts, Ended: end, Last: last}
}

// pod returns a pod with a container.
func pod(c container, change ...func(p *fault.Pod)) *fault.Pod {
	p := &fault.Pod{
		Meta: fault.Meta{Namespace: "shop", Name: "web-1", UID: "u-1", Labels: map[string]string{"app": "web"}}, Node: "n1", Containers: []container{c},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func initial(p *fault.Pod)   { p.Initial = true }
func deleting(p *fault.Pod)  { p.Deleting = true }
func disrupted(p *fault.Pod) { p.Disrupted = true }
func done(p *fault.Pod)      { p.Done = true }
func another(p *fault.Pod)   { p.UID = "u-2" }
func static(p *fault.Pod)    { p.Alias = "manifest" }
func placeless(p *fault.Pod) { p.Node = "" }

var podObject = kube.Object{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u-1"}

// event returns a Warning event of the pod's container.
func event(uid, reason, message string, count int, when time.Duration, change ...func(e *kube.Event)) *kube.Event {
	e := &kube.Event{
		Namespace: "shop", Timestamp: at(when), Type: kube.TypeWarning, Reason: reason, Message: message, InvolvedObject: podObject, Count: count,
		Name: "web-1." + uid, UID: uid, ResourceVersion: fmt.Sprint(count),
	}
	e.InvolvedObject.Container = "web"
	for _, f := range change {
		f(e)
	}
	return e
}

func unnamed(e *kube.Event) { e.InvolvedObject.Container = "" }
func normal(e *kube.Event)  { e.Type = kube.TypeNormal }
func aliased(e *kube.Event) { e.InvolvedObject.UID = "manifest" }
func ofNode(e *kube.Event)  { e.InvolvedObject = kube.Object{Kind: "Node", Name: "n1", UID: "n1"} }
func ofJob(e *kube.Event) {
	e.InvolvedObject = kube.Object{Kind: "Job", Namespace: "shop", Name: "j", UID: "j-1"}
}
func ofOther(e *kube.Event) {
	e.InvolvedObject = kube.Object{Kind: "Service", Namespace: "shop", Name: "s", UID: "s-1"}
}
func sidecar(e *kube.Event) { e.InvolvedObject.Container = "proxy" }
func backOff(uid string, count int, when time.Duration, change ...func(e *kube.Event)) *kube.Event {
	return event(uid, "BackOff", "Back-off restarting failed container web in pod web-1_shop(u-1)", count, when, change...)
}

func node(status string, since time.Duration) *fault.Node {
	return &fault.Node{Meta: fault.Meta{Name: "n1", UID: "un-1"}, Ready: fault.Condition{Status: status, Reason: "KubeletNotReady", Message: "down", Since: at(since)}}
}

func deployment(progressing, reason, failure string) *fault.Deployment {
	return &fault.Deployment{
		Meta:        fault.Meta{Namespace: "shop", Name: "web", UID: "d-1"},
		Progressing: fault.Condition{Status: progressing, Reason: reason, Since: t0}, ReplicaFailure: fault.Condition{Status: failure, Reason: "FailedCreate", Since: t0},
	}
}

func job(failed string, change ...func(j *fault.Job)) *fault.Job {
	j := &fault.Job{Meta: fault.Meta{Namespace: "shop", Name: "j", UID: "j-1"}, Failed: fault.Condition{Status: failed, Reason: "BackoffLimitExceeded", Since: t0}}
	for _, f := range change {
		f(j)
	}
	return j
}

// Inputs of a timeline, in addition to states and events.
type (
	tick   struct{}
	gone   kube.Object
	synced string
	// resume sets how far back a predecessor's messages go, and until when it was alive.
	resume [2]time.Duration
	// restart replaces the tracker by one that recalls all published messages.
	restart struct{}
	// lost removes the newest message: it was not published before the tracker ended.
	lost struct{}
)

type step struct {
	at    time.Duration
	input any
	// want is each finding as "kind state", with "+logs" if logs are wanted.
	want string
}

// player plays a timeline and checks the invariants of every finding.
type player struct {
	t         *testing.T
	tracker   *fault.Tracker
	published map[string]bool
	warned    map[string]bool // by reason
	messages  []kube.Message
	times     []time.Time
	// grouped is set if the pods have workloads: then not every fault has an alert.
	grouped bool
}

func play(t *testing.T) *player {
	return &player{t: t, tracker: fault.New("dev", "c-1"), published: map[string]bool{}, warned: map[string]bool{}}
}

// do passes an input to the tracker.
func (p *player) do(input any, now time.Time) []fault.Finding {
	switch input := input.(type) {
	case *fault.Pod:
		return p.tracker.Pod(input, now)
	case *fault.Node:
		return p.tracker.Node(input, now)
	case *fault.Deployment:
		return p.tracker.Deployment(input, now)
	case *fault.Job:
		return p.tracker.Job(input, now)
	case *kube.Event:
		return p.tracker.Event(input, now)
	case gone:
		return p.tracker.Gone(kube.Object(input), now)
	case synced:
		return p.tracker.Synced(string(input), now)
	case tick:
		return p.tracker.Tick(now)
	case resume:
		p.tracker.Resume(at(input[0]), at(input[1]))
	case lost:
		last := len(p.messages) - 1
		m := p.messages[last]
		delete(p.published, m.Fault.ID+"/"+m.Fault.State)
		p.messages, p.times = p.messages[:last], p.times[:last]
	case restart:
		p.tracker = fault.New("dev", "c-1")
		for i := range p.messages {
			p.tracker.Recall(&p.messages[i], p.times[i])
		}
	default:
		p.t.Fatalf("unknown input %T", input)
	}
	return nil
}

// take checks and records findings, and returns them in the form of step.want.
func (p *player) take(found []fault.Finding, now time.Time) string {
	var out []string
	for _, f := range found {
		m := f.Message
		if m.Fault == nil {
			if err := f.Alert.Validate(); err != nil || f.MsgID == "" {
				p.t.Errorf("update of an alert with the message id %q: Validate = %v, want an id and no error", f.MsgID, err)
			}
			continue
		}
		text := m.Fault.Kind + " " + m.Fault.State
		if f.Capture != nil {
			text += "+logs"
			if f.MsgID != "" != m.Fault.LogsFollow && f.MsgID != "" {
				p.t.Errorf("%s: LogsFollow = %t, want %t", text, m.Fault.LogsFollow, f.MsgID != "")
			}
		}
		if f.MsgID == "" {
			out = append(out, "again "+text)
			continue
		}
		out = append(out, text)
		if p.published[f.MsgID] {
			p.t.Errorf("message %s was published twice, want once", f.MsgID)
		}
		p.published[f.MsgID] = true
		p.messages, p.times = append(p.messages, m), append(p.times, now)
		if f.Alert == nil && m.Fault.Kind == kube.Warning && p.warned[m.Event.Reason] {
			continue // the logs, wanted now or before, bring it
		}
		p.warned[m.Event.Reason] = true
		if f.Alert == nil && p.grouped {
			continue
		}
		if f.Alert == nil {
			p.t.Errorf("%s: no alert, want one", text)
			continue
		}
		if err := f.Alert.Validate(); err != nil {
			p.t.Errorf("%s: Validate of the alert = %v, want nil", text, err)
		}
		if !external.IsKey(m.Fault.ID) || !strings.HasPrefix(f.MsgID, m.Fault.ID+"/") || m.Event == nil || m.Event.Timestamp.IsZero() || m.Fault.Severity != kube.Severity(m.Fault.Kind) {
			p.t.Errorf("fault = %+v, event = %+v; want a valid id that begins the message id %s, a time, and the severity of the kind", m.Fault, m.Event, f.MsgID)
		}
		if (f.Alert.State == external.StateResolved) != (m.Fault.State == kube.StateOver) {
			p.t.Errorf("%s: state of the alert = %s, want that of the fault, %s", text, f.Alert.State, m.Fault.State)
		}
	}
	return strings.Join(out, ", ")
}

// TestTimelines checks the findings for each input of a timeline.
func TestTimelines(t *testing.T) {
	crash1 := ended(2, "Error", 10*sec)
	crash2 := ended(2, "Error", 20*sec)
	oom1 := ended(137, "OOMKilled", 10*sec)
	oom2 := ended(137, "OOMKilled", 20*sec)
	oom3 := ended(137, "OOMKilled", 60*sec)
	const loop = "CrashLoopBackOff"
	for name, steps := range map[string][]step{
		"a crash: end, restart and run are seen": {
			{0, pod(running(0, 0, nil)), ""},
			{10 * sec, pod(dead(0, crash1, nil)), "crash firing+logs"},
			{10 * sec, pod(dead(0, crash1, nil)), ""},
			{11 * sec, pod(running(1, 11*sec, crash1)), ""},
			{20 * min, tick{}, ""},
		},
		"a crash: only the restart is seen": {
			{0, pod(running(0, 0, nil)), ""}, {11 * sec, pod(running(1, 11*sec, crash1)), "crash firing+logs"},
		},
		"of many missed restarts the newest is published": {
			{0, pod(running(0, 0, nil)), ""}, {11 * sec, pod(dead(5, crash2, crash1)), "crash firing+logs"}, {12 * sec, pod(running(6, 12*sec, crash2)), ""},
		},
		"runs without ids are distinguished by number and time": {
			{0, pod(running(0, 0, nil)), ""},
			{1 * sec, pod(dead(0, &fault.Ended{ExitCode: 1, At: at(sec)}, nil)), "crash firing+logs"},
			{2 * sec, pod(running(1, 2*sec, &fault.Ended{ExitCode: 1, At: at(sec)})), ""},
			{3 * sec, pod(dead(1, &fault.Ended{ExitCode: 1, At: at(3 * sec)}, nil)), "crash firing+logs"},
		},
		"a crash before the watch began": {
			{60 * sec, pod(running(1, 11*sec, crash1), initial), ""}, {61 * sec, pod(running(1, 11*sec, crash1)), ""},
		},
		"a new pod that has crashed when it is first seen": {{60 * sec, pod(running(1, 11*sec, crash1)), "crash firing+logs"}},
		"a crash while no kubewatch was active, after a predecessor": {
			{0, resume{-5 * min, 5 * sec}, ""}, {3 * min, pod(running(1, 11*sec, crash1), initial), "crash firing+logs"},
		},
		"a crash that the predecessor could see": {
			{0, resume{-5 * min, 2 * min}, ""}, {3 * min, pod(running(1, 11*sec, crash1), initial), ""},
		},
		"an init container": {
			{0, pod(container{Name: "init", Init: true, Running: true}), ""},
			{sec, pod(container{Name: "init", Init: true, Ended: ended(1, "Error", sec)}), "crash firing+logs"},
		},
		"a container that completes": {
			{0, pod(running(0, 0, nil)), ""}, {sec, pod(dead(0, ended(0, "Completed", sec), nil), done), ""},
		},
		"a deleted pod: its containers end on SIGTERM": {
			{0, pod(running(0, 0, nil)), ""},
			{sec, pod(dead(0, ended(143, "Error", sec), nil), deleting), ""},
			{2 * sec, gone(podObject), ""},
		},
		"a deleted pod: a container is killed":        {{0, pod(dead(0, ended(137, "Error", sec), nil), deleting), ""}},
		"a deleted pod: a container ends with code 1": {{0, pod(dead(0, ended(1, "Error", sec), nil), deleting), ""}},
		"a deleted pod: a container crashes":          {{0, pod(dead(0, ended(2, "Error", sec), nil), deleting), "crash firing+logs"}},
		"an evicted pod":                              {{0, pod(dead(0, ended(137, "Error", sec), nil), disrupted, done), ""}},
		"an evicted pod: out of memory":               {{0, pod(dead(0, ended(137, "OOMKilled", sec), nil), disrupted, done), "out_of_memory firing+logs"}},
		"a container killed by its probe":             {{0, pod(dead(0, ended(137, "Error", sec), nil)), "crash firing+logs"}},
		"ends that a restarted node did not observe": {
			{0, pod(running(1, 11*sec, ended(255, "Unknown", sec))), ""}, {sec, pod(running(2, 21*sec, ended(137, "ContainerStatusUnknown", 2*sec))), ""},
		},
		"out of memory": {
			{0, pod(running(0, 0, nil)), ""}, {10 * sec, pod(dead(0, oom1, nil)), "out_of_memory firing+logs"},
			{11 * sec, pod(running(1, 11*sec, oom1)), ""}, {20 * sec, pod(running(2, 21*sec, oom2)), "out_of_memory firing+logs"},
		},
		"a crash loop, step by step, and its end": {
			{0, pod(running(0, 0, nil)), ""},
			{10 * sec, pod(dead(0, crash1, nil)), "crash firing+logs"},
			{11 * sec, pod(running(1, 11*sec, crash1)), ""},
			{20 * sec, pod(dead(1, crash2, crash1)), "crash firing+logs"},
			{21 * sec, pod(waiting(loop, 1, crash2)), "crash_loop firing+logs"},
			{40 * sec, pod(running(2, 40*sec, crash2)), ""},
			{50 * sec, pod(dead(2, ended(2, "Error", 50*sec), crash2)), ""},
			{51 * sec, pod(waiting(loop, 2, ended(2, "Error", 50*sec))), ""},
			{2 * min, pod(running(3, 2*min, ended(2, "Error", 50*sec))), ""},
			{12*min - sec, tick{}, ""},
			{12 * min, tick{}, "crash_loop over"},
			{13 * min, pod(dead(3, ended(2, "Error", 13*min), nil)), "crash firing+logs"},
			{14 * min, pod(waiting(loop, 3, ended(2, "Error", 13*min))), "crash_loop firing+logs"},
		},
		"a crash loop when first seen: its crash is not published": {
			{min, pod(waiting(loop, 7, crash1), initial), "crash_loop firing+logs"},
			{2 * min, gone(podObject), "crash_loop over"},
		},
		"a crash loop that comes with its crash": {
			{0, pod(running(0, 0, nil)), ""}, {min, pod(waiting(loop, 3, crash1)), "crash_loop firing+logs"},
		},
		"a crash loop of out-of-memory kills: each is published once": {
			{0, pod(running(0, 0, nil)), ""},
			{min, pod(waiting(loop, 3, oom1)), "crash_loop firing+logs, out_of_memory firing+logs"},
			{2 * min, pod(waiting(loop, 4, oom2)), ""},
		},
		"out of memory, then a crash loop of it": {
			{10 * sec, pod(dead(0, oom1, nil)), "out_of_memory firing+logs"},
			{11 * sec, pod(waiting(loop, 0, oom1)), "crash_loop firing+logs"},
			{60 * sec, pod(dead(1, oom3, oom1)), ""},
		},
		"a loop of a container that completes": {
			{0, pod(waiting(loop, 3, ended(0, "Completed", sec))), "crash_loop firing+logs"},
			{min, pod(dead(4, ended(0, "Completed", min), nil)), "crash_loop over"},
		},
		"a loop, and the pod is done":            {{0, pod(waiting(loop, 3, crash1)), "crash_loop firing+logs"}, {min, pod(dead(4, crash2, nil), done), "crash_loop over, crash firing+logs"}},
		"a loop in a deleted pod does not begin": {{0, pod(waiting(loop, 3, crash1), initial, deleting), ""}},
		"a loop that is over when the pod is seen again": {
			{0, pod(waiting(loop, 3, crash1)), "crash_loop firing+logs"}, {time.Hour, pod(running(4, min, crash1)), "crash_loop over"},
		},
		"another pod of the same name": {
			{0, pod(waiting(loop, 3, crash1)), "crash_loop firing+logs"}, {min, pod(waiting(loop, 3, crash2), another), "crash_loop over, crash_loop firing+logs"},
		},
		"a loop: the event comes first": {
			{0, pod(running(0, 0, nil)), ""},
			{sec, backOff("e1", 1, sec), "crash_loop firing+logs"},
			{2 * sec, pod(waiting(loop, 1, crash1)), ""},
			{3 * sec, backOff("e1", 2, 3*sec), ""},
			{time.Hour, tick{}, ""},
		},
		"a loop: the event comes second":                   {{0, pod(waiting(loop, 1, crash1)), "crash_loop firing+logs"}, {sec, backOff("e1", 1, sec), ""}, {2 * sec, backOff("e1", 2, sec, unnamed), ""}},
		"an event without a container":                     {{0, backOff("e1", 1, 0, unnamed), "crash_loop firing+logs"}, {sec, pod(waiting(loop, 1, crash1)), ""}, {min, gone(podObject), "crash_loop over"}},
		"a loop that only events report, and then no more": {{0, backOff("e1", 1, 0), "crash_loop firing+logs"}, {5 * min, backOff("e1", 2, 5*min), ""}, {15 * min, tick{}, ""}, {20 * min, tick{}, "crash_loop over"}},
		"an event older than the present run":              {{min, pod(running(3, 50*sec, crash1), initial), ""}, {min, backOff("e1", 4, 40*sec), ""}},
		"an event repeated after its fault":                {{0, backOff("e1", 1, 0), "crash_loop firing+logs"}, {sec, gone(podObject), "crash_loop over"}, {2 * sec, backOff("e1", 1, 0), ""}},
		"an old event of an unknown object":                {{time.Hour, backOff("e1", 4, 40*sec), ""}},
		"a static pod":                                     {{0, pod(waiting(loop, 1, crash1), static), "crash_loop firing+logs"}, {sec, backOff("e1", 1, sec, aliased), ""}, {min, gone(podObject), "crash_loop over"}},
		"a static pod: the event comes first":              {{0, backOff("e1", 1, 0, aliased), "crash_loop firing+logs"}, {sec, pod(waiting(loop, 1, crash1), static), ""}, {2 * sec, restart{}, ""}, {3 * sec, pod(waiting(loop, 1, crash1), static, initial), "again crash_loop firing+logs"}},
		"an image that cannot be pulled, with alternating reasons": {
			{0, pod(waiting("ContainerCreating", 0, nil)), ""},
			{sec, event("e2", "Failed", `Failed to pull image "shop/web:2": not found`, 1, sec), "image_pull firing"},
			{sec, pod(waiting("ErrImagePull", 0, nil)), ""},
			{2 * sec, event("e3", "Failed", "Error: ErrImagePull", 1, 2*sec), ""},
			{3 * sec, pod(waiting("ImagePullBackOff", 0, nil)), ""},
			{4 * sec, event("e4", "BackOff", `Back-off pulling image "shop/web:2"`, 1, 4*sec), ""},
			{5 * sec, pod(waiting("ErrImagePull", 0, nil)), ""},
			{6 * sec, pod(waiting("ContainerCreating", 0, nil)), ""},
			{7 * sec, pod(running(0, 7*sec, nil)), "image_pull over"},
			{8 * sec, event("e4", "BackOff", `Back-off pulling image "shop/web:2"`, 2, 6*sec), ""},
		},
		"an invalid image name":                     {{0, pod(waiting("InvalidImageName", 0, nil), initial), "image_pull firing"}, {sec, pod(waiting("CreateContainerConfigError", 0, nil)), "image_pull over"}},
		"out of memory: the state comes first":      {{0, pod(dead(0, oom1, nil)), "out_of_memory firing+logs"}, {sec, event("e5", "OOMKilling", "killed", 1, 0), ""}},
		"out of memory: the event comes first":      {{0, event("e5", "OOMKilling", "killed", 1, 0, unnamed), "out_of_memory firing+logs"}, {sec, pod(dead(0, oom1, nil)), ""}, {min, pod(running(1, min, oom2)), "out_of_memory firing+logs"}},
		"out of memory: the end has another reason": {{0, event("e5", "OOMKilling", "killed", 1, 0, unnamed), "out_of_memory firing+logs"}, {sec, pod(dead(0, ended(137, "Error", sec), nil)), ""}},
		"out of memory: the event of the node": {
			{0, pod(running(0, 0, nil), func(p *fault.Pod) { p.UID = "12345678-1234-1234-1234-123456789012" }), ""},
			{sec, event("e5", "OOMKilling", "oom-kill:task_memcg=/kubepods-burstable-pod12345678_1234_1234_1234_123456789012.slice", 1, 0, ofNode), "out_of_memory firing+logs"},
			{sec, event("e6", "OOMKilling", "oom-kill:task_memcg=/kubepods/pod00000000-1234-1234-1234-123456789012/x", 1, 0, ofNode), ""},
			{sec, event("e7", "SystemOOM", "System OOM encountered, victim process: java", 1, 0, ofNode), ""},
		},
		"a node that flaps": {
			{0, node("True", 0), ""},
			{sec, node("Unknown", sec), "node_not_ready firing"},
			{2 * sec, event("e8", "NodeNotReady", "Node n1 status is now: NodeNotReady", 0, sec, ofNode, normal), ""},
			{3 * sec, node("False", 3*sec), ""},
			{10 * sec, node("True", 10*sec), ""},
			{20 * sec, node("False", 20*sec), ""},
			{min, tick{}, ""},
			{2 * min, node("True", 2*min), ""},
			{2*min + 10*sec, node("True", 2*min), ""},
			{2*min + 30*sec, tick{}, "node_not_ready over"},
			{3 * min, event("e8", "NodeNotReady", "Node n1 status is now: NodeNotReady", 0, sec, ofNode, normal), ""},
			{4 * min, node("False", 4*min), "node_not_ready firing"},
			{5 * min, gone(kube.Object{Kind: "Node", Name: "n1", UID: "un-1"}), "node_not_ready over"},
		},
		"a node that only events report": {
			{0, event("e8", "NodeNotReady", "", 0, 0, ofNode, normal), "node_not_ready firing"}, {sec, event("e9", "NodeReady", "", 0, sec, ofNode, normal), "node_not_ready over"},
		},
		"a node: the event comes first": {
			{0, event("e8", "NodeNotReady", "", 0, 0, ofNode, normal), "node_not_ready firing"}, {sec, node("True", -min), ""}, {2 * sec, node("False", 0), ""}, {time.Hour, tick{}, ""},
		},
		"the NodeNotReady event of a pod": {
			{0, node("False", 0), "node_not_ready firing"}, {0, pod(running(0, 0, nil)), ""}, {sec, event("e1", "NodeNotReady", "Node is not ready", 1, sec), ""},
		},
		"a node without a condition yet": {{0, node("", 0), ""}},
		"a stalled deployment": {
			{0, deployment("True", "ReplicaSetUpdated", ""), ""},
			{sec, deployment("False", "ProgressDeadlineExceeded", ""), "deployment_stalled firing"},
			{2 * sec, deployment("False", "ProgressDeadlineExceeded", "True"), ""},
			{3 * sec, deployment("True", "NewReplicaSetAvailable", ""), ""},
			{33 * sec, tick{}, "deployment_stalled over"},
		},
		"a deployment whose pods cannot be created":      {{0, deployment("True", "ReplicaSetUpdated", "True"), "deployment_stalled firing"}},
		"a paused deployment":                            {{0, deployment("Unknown", "DeploymentPaused", "False"), ""}},
		"a failed job":                                   {{0, job("True"), "job_failed firing"}, {sec, event("e", "BackoffLimitExceeded", "", 1, sec, ofJob), ""}, {2 * sec, gone(kube.Object{Kind: "Job", Namespace: "shop", Name: "j", UID: "j-1"}), "job_failed over"}},
		"a failed job: the event comes first":            {{0, job("False"), ""}, {sec, event("e", "BackoffLimitExceeded", "", 1, sec, ofJob), "job_failed firing"}, {2 * sec, job("True"), ""}, {time.Hour, tick{}, ""}},
		"a job that failed before the recalled messages": {{0, resume{min + 2*min, 10 * min}, ""}, {11 * min, job("True", func(j *fault.Job) { j.Initial = true }), ""}, {12 * min, gone(kube.Object{Kind: "Job", Namespace: "shop", Name: "j", UID: "j-1"}), "job_failed over"}},
		"warnings": {
			{0, event("w", "FailedMount", "no such secret", 1, 0), "warning firing+logs"},
			{sec, event("w", "FailedMount", "no such secret", 1, 0), ""},
			{2 * sec, event("w", "FailedMount", "no such secret", 2, 2*sec), "warning firing"},
			{3 * sec, event("x", "FailedMount", "no such volume", 2, 3*sec), ""},
			{4 * sec, event("x", "FailedMount", "no such volume", 2, 3*sec, sidecar), "warning firing"},
			{65 * sec, event("y", "FailedMount", "no such volume", 2, 65*sec), "warning firing+logs"},
			{65 * sec, event("w", "FailedMount", "no such secret", 2, 2*sec), ""},
			{66 * sec, event("z", "Pulled", "", 1, 65*sec, normal), ""},
			{66 * sec, event("z", "FailedToUpdateEndpoint", "", 1, 65*sec, ofOther), ""},
		},
		"warnings and the state": {
			{0, pod(container{Name: "web"}, placeless), ""},
			{0, event("w", "FailedScheduling", "0/3 nodes are available", 1, 0, unnamed), "warning firing"},
			{min, pod(waiting("ContainerCreating", 0, nil)), ""},
			{min, event("v", "FailedMount", "", 1, min), "warning firing"},
			{2 * min, pod(running(0, 2*min, nil)), ""},
			{2 * min, event("u", "Unhealthy", "Readiness probe failed", 1, 2*min), "warning firing+logs"},
			{2*min + sec, event("u", "Unhealthy", "Readiness probe failed", 2, 2*min), "warning firing"},
			{3 * min, pod(running(0, 2*min, nil), deleting), ""},
			{3 * min, event("u", "Unhealthy", "Readiness probe failed", 3, 3*min), ""},
		},
		"restarts of the tracker": {
			{0, pod(running(0, 0, nil)), ""},
			{10 * sec, pod(dead(0, crash1, nil)), "crash firing+logs"},
			{21 * sec, pod(waiting(loop, 1, crash2)), "crash_loop firing+logs"},
			{21 * sec, node("False", 21*sec), "node_not_ready firing"},
			{21 * sec, event("w", "FailedMount", "", 1, 20*sec, sidecar), "warning firing+logs"},
			{22 * sec, restart{}, ""},
			{22 * sec, node("False", 21*sec), ""},
			{23 * sec, pod(waiting(loop, 1, crash2), initial), "again crash firing+logs, again crash_loop firing+logs, again warning firing+logs"},
			{23 * sec, backOff("e", 1, 21*sec), ""},
			{23 * sec, event("w", "FailedMount", "", 1, 20*sec, sidecar), ""},
			{24 * sec, synced("Pod"), ""},
			{25 * sec, restart{}, ""},
			{26 * sec, synced("Pod"), "crash_loop over"},
			{26 * sec, synced("Node"), "node_not_ready over"},
			{27 * sec, restart{}, ""},
			{28 * sec, synced("Pod"), ""},
			{28 * sec, pod(waiting(loop, 1, crash2), initial), "crash_loop firing+logs"},
		},
		"a restart before a crash was published": {
			{0, node("False", 0), "node_not_ready firing"}, {10 * sec, pod(dead(0, crash1, nil)), "crash firing+logs"}, {10 * sec, lost{}, ""},
			{20 * sec, restart{}, ""}, {21 * sec, pod(running(1, 11*sec, crash1), initial), "crash firing+logs"},
		},
		"a restart before the end of a loop was published": {
			{0, pod(waiting(loop, 1, crash1)), "crash_loop firing+logs"}, {min, pod(running(2, min, crash1)), ""}, {11 * min, tick{}, "crash_loop over"}, {11 * min, lost{}, ""},
			{12 * min, restart{}, ""}, {12 * min, pod(running(2, min, crash1), initial), "crash_loop over"},
		},
		"a restart before and after the end of a loop": {
			{0, pod(waiting(loop, 1, crash1)), "crash_loop firing+logs"}, {min, restart{}, ""}, {20 * min, pod(running(2, 2*min, crash1), initial), "crash_loop over"},
			{21 * min, restart{}, ""}, {21 * min, pod(waiting(loop, 3, crash2), initial), "crash_loop firing+logs"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := play(t)
			for i, s := range steps {
				got := p.take(p.do(s.input, at(s.at)), at(s.at))
				if got != s.want {
					t.Errorf("step %d at %s, %T: findings = %q, want %q", i, s.at, s.input, got, s.want)
				}
			}
		})
	}
}

// TestKinds checks that every kind of fault can be found.
func TestKinds(t *testing.T) {
	p := play(t)
	for _, input := range []any{
		pod(dead(0, ended(2, "Error", sec), nil)), pod(dead(0, ended(137, "OOMKilled", 2*sec), nil)), pod(waiting("CrashLoopBackOff", 0, nil)), pod(waiting("ErrImagePull", 0, nil)),
		node("False", 0), deployment("False", "ProgressDeadlineExceeded", ""), job("True"), event("w", "FailedMount", "", 1, 0),
	} {
		p.take(p.do(input, at(sec)), at(sec))
	}
	var kinds []string
	for _, m := range p.messages {
		kinds = append(kinds, m.Fault.Kind)
	}
	for _, kind := range kube.Faults() {
		if !slices.Contains(kinds, kind) {
			t.Errorf("kinds found = %v, want %s among them", kinds, kind)
		}
	}
}
