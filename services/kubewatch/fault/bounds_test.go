package fault_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/services/kubewatch/fault"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

const many = 10_000

// numbered returns pod i without a workload.
func numbered(i int, c container) *fault.Pod {
	return pod(c, func(p *fault.Pod) { p.Name, p.UID = fmt.Sprint("web-", i), fmt.Sprint("u-", i) })
}

// TestFlood checks that of thousands of lasting faults only Burst are published at once and the
// others later, unless they are over by then, and that a node's fault does not wait.
func TestFlood(t *testing.T) {
	p := play(t)
	published := 0
	for i := range many {
		published += len(p.do(numbered(i, waiting("CrashLoopBackOff", 1, nil)), t0))
	}
	if s := p.tracker.Stats(); published != fault.Burst || s.Open != many || s.Waiting != many-fault.Burst {
		t.Fatalf("%d published, %+v; want %d of %d", published, s, fault.Burst, many)
	}
	if got := p.take(p.do(node("False", 0), t0), t0); got != "node_not_ready firing" {
		t.Errorf("findings of a node = %q, want %q", got, "node_not_ready firing")
	}
	if next := p.tracker.Next(); !next.Equal(at(time.Second / fault.Rate)) {
		t.Errorf("Next = %s, want %s", next, at(time.Second/fault.Rate))
	}
	if got := p.take(p.tracker.Tick(at(3*sec)), at(3*sec)); got != strings.TrimPrefix(strings.Repeat(", crash_loop firing+logs", 3*fault.Rate), ", ") {
		t.Errorf("findings after 3 s = %q, want %d crash loops", got, 3*fault.Rate)
	}
	over := 0
	for i := range many {
		over += len(p.tracker.Gone(kube.Object{Kind: "Pod", Namespace: "shop", Name: fmt.Sprint("web-", i), UID: fmt.Sprint("u-", i)}, at(4*sec)))
	}
	if s := p.tracker.Stats(); over != published+3*fault.Rate || s.Waiting != 0 || s.Open != 1 || s.Withheld != uint64(many-over) {
		t.Errorf("%d ends published, %+v; want %d, none waiting, the node open", over, s, published+3*fault.Rate)
	}
}

// TestFloodOfCrashes checks that momentary faults past the limit are counted and not published
// later.
func TestFloodOfCrashes(t *testing.T) {
	p := play(t)
	published := 0
	for i := range many {
		published += len(p.do(numbered(i, dead(0, ended(1, "Error", 0), nil)), t0))
	}
	if s := p.tracker.Stats(); published != fault.Burst || s.Withheld != many-fault.Burst || !p.tracker.Next().IsZero() {
		t.Fatalf("%d published, %+v; want %d of %d", published, s, fault.Burst, many)
	}
	got := p.do(numbered(0, dead(1, ended(1, "Error", min), nil)), at(min))
	if len(got) != 1 || got[0].Alert.Omitted != many-fault.Burst {
		t.Fatalf("findings of the next crash = %+v, want one with %d omitted", got, many-fault.Burst)
	}
	got = p.do(numbered(1, dead(1, ended(1, "Error", min), nil)), at(min))
	if len(got) != 1 || got[0].Alert.Omitted != 0 {
		t.Fatalf("findings of the crash after it = %+v, want one with none omitted", got)
	}
}

// TestOpenBound checks that a fault past MaxOpen begins when it is seen again and there is room.
func TestOpenBound(t *testing.T) {
	tracker := fault.New("dev", "c-1")
	for i := range fault.MaxOpen + 1 {
		tracker.Pod(numbered(i, waiting("CrashLoopBackOff", 1, nil)), t0)
	}
	if s := tracker.Stats(); s.Open != fault.MaxOpen || s.Withheld != 1 {
		t.Fatalf("Stats = %+v, want %d open, 1 withheld", s, fault.MaxOpen)
	}
	tracker.Gone(kube.Object{Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "u-0"}, t0)
	tracker.Pod(numbered(fault.MaxOpen, waiting("CrashLoopBackOff", 1, nil)), t0)
	if s := tracker.Stats(); s.Open != fault.MaxOpen {
		t.Fatalf("Stats after one has ended = %+v, want %d open", s, fault.MaxOpen)
	}
}

// TestObjectBound checks that past MaxObjects states are ignored and events are not.
func TestObjectBound(t *testing.T) {
	if testing.Short() {
		t.Skip("creates 200,000 objects")
	}
	tracker := fault.New("dev", "c-1")
	for i := range fault.MaxObjects {
		tracker.Job(&fault.Job{Meta: fault.Meta{Name: "j", Namespace: fmt.Sprint(i), UID: fmt.Sprint(i)}}, t0)
	}
	got := tracker.Pod(pod(dead(0, ended(1, "Error", 0), nil)), t0)
	if s := tracker.Stats(); len(got) != 0 || s.Objects != fault.MaxObjects || s.Untracked != 1 {
		t.Errorf("findings = %+v, Stats = %+v; want none, %d objects, 1 untracked", got, s, fault.MaxObjects)
	}
	if got := tracker.Event(event("w", "FailedMount", "", 1, 0), t0); len(got) != 1 {
		t.Errorf("findings of an event = %+v, want one", got)
	}
}

// TestAlert checks the content of an alert, and what logs add to it.
func TestAlert(t *testing.T) {
	tracker := fault.New("dev", "c-1")
	p := pod(running(0, 0, nil), func(p *fault.Pod) {
		p.Labels = map[string]string{"app.kubernetes.io/name": "checkout", "app": "web", "token": "hunter2hunter2"}
		p.Containers = append(p.Containers, container{Name: "proxy", Running: true}, container{Name: "new", Waiting: "ContainerCreating"})
	})
	tracker.Pod(p, t0)
	q := *p
	end := ended(2, "Error", 10*sec)
	end.Message = "password=hunter2hunter2\x1b[31m"
	q.Containers = append([]container{dead(3, end, nil)}, p.Containers[1:]...)
	got := tracker.Pod(&q, at(11*sec))
	if len(got) != 1 {
		t.Fatalf("findings = %+v, want one", got)
	}
	f := got[0]
	a := f.Alert
	if a.App != "checkout" || a.Name != "Container crashed" || a.Place != "shop/web-1 (web)" || a.Detail != "exit code 2; restarts: 3" || !a.StartsAt.Equal(at(10*sec)) ||
		a.Summary != "container web ended with exit code 2 (Error); password=[REDACTED]" || a.Labels["token"] != "[REDACTED]" {
		t.Errorf("alert = %+v, want the crash of web in shop/web-1 with masked texts and labels", a)
	}
	if q.Labels["token"] == "[REDACTED]" {
		t.Error("the labels of the pod were masked, want a copy masked")
	}
	if want := (external.Fault{Cluster: "dev", Namespace: "shop", Kind: "Pod", Name: "web-1", Container: "web", Fault: kube.Crash, ID: f.Message.Fault.ID}); *a.Fault != want {
		t.Errorf("fault of the alert = %+v, want %+v", *a.Fault, want)
	}
	if want := "[{web true} {web false} {proxy false}]"; fmt.Sprint(f.Capture.Targets) != want {
		t.Errorf("targets of the capture = %v, want %s", f.Capture.Targets, want)
	}
	for _, tt := range []struct {
		logs   []kube.Log
		detail string
		panics bool
	}{
		{[]kube.Log{{Container: "web", Sample: "a\nb\n\nc\nd\n"}}, "exit code 2; restarts: 3; log of web ends: b ⏎ c ⏎ d", false},
		{[]kube.Log{{Container: "web", Error: "refused"}}, "exit code 2; restarts: 3; no log of web: refused", false},
		{[]kube.Log{{Container: "web", Sample: "x"}, {Container: "proxy", HasPanic: true, Sample: "y\npanic: nil map\nmain.go"}}, "exit code 2; restarts: 3; log of proxy: panic: nil map", true},
		{[]kube.Log{{Container: "web", HasPanic: true, Sample: "panic: " + strings.Repeat("ä", 5000)}}, "exit code 2; restarts: 3; log of web: panic: " + strings.Repeat("ä", 292) + "…", true},
		{nil, "exit code 2; restarts: 3", false},
	} {
		g := tracker.WithLogs(&f, tt.logs)
		if want := f.Message.Fault.ID + "/logs"; g.MsgID != want || g.Message.Fault.LogsFollow || len(g.Message.Logs) != len(tt.logs) {
			t.Errorf("finding with logs = %q %+v, want %q with %d logs and no more to follow", g.MsgID, g.Message, want, len(tt.logs))
		}
		if g.Alert.Detail != tt.detail || g.Alert.Fault.Panic != tt.panics {
			t.Errorf("alert with logs: detail = %q, panic = %t; want %q, %t", g.Alert.Detail, g.Alert.Fault.Panic, tt.detail, tt.panics)
		}
		if g.Alert.Key != a.Key || g.Alert.Episode != a.Episode || g.Alert.State != a.State || g.Alert.Validate() != nil {
			t.Errorf("alert with logs = %+v, want an update of %+v", g.Alert, a)
		}
	}
	if !f.Message.Fault.LogsFollow || f.Message.Logs != nil {
		t.Error("WithLogs has changed the finding, want a copy")
	}
	// After another crash of the container, the logs of the first do not update the alert.
	r := q
	r.Containers = append([]container{dead(4, ended(2, "Error", 20*sec), end)}, p.Containers[1:]...)
	if got := tracker.Pod(&r, at(21*sec)); len(got) != 1 || got[0].Alert.Key != a.Key || got[0].Alert.Episode == a.Episode {
		t.Errorf("findings of another crash = %+v, want an alert of a new episode", got)
	}
	if g := tracker.WithLogs(&f, nil); g.Alert != nil || g.MsgID == "" {
		t.Errorf("late logs = %+v, want a message without an alert", g)
	}
}

// TestLogsAfterTheEnd checks that logs do not reopen a resolved alert.
func TestLogsAfterTheEnd(t *testing.T) {
	tracker := fault.New("dev", "c-1")
	got := tracker.Pod(pod(waiting("CrashLoopBackOff", 1, nil)), t0)
	tracker.Gone(podObject, at(sec))
	if g := tracker.WithLogs(&got[0], nil); g.Alert != nil || g.MsgID == "" {
		t.Errorf("late logs = %+v, want a message without an alert", g)
	}
}

// TestOver checks the content of a resolved alert.
func TestOver(t *testing.T) {
	tracker := fault.New("dev", "c-1")
	first := tracker.Node(node("False", 0), at(sec))[0]
	tracker.Node(node("True", min), at(min))
	if l := tracker.Pod(pod(waiting("CrashLoopBackOff", 3, ended(2, "Error", sec))), at(min)); len(l) != 1 || l[0].Alert.Detail != "exit code 2; restarts: 3" {
		t.Errorf("findings of a crash loop = %+v, want one with its exit code and restarts", l)
	}
	if l := tracker.Gone(podObject, at(min)); len(l) != 1 || l[0].Alert.Detail != "restarts: 3" { // the exit code is not that of the end
		t.Errorf("findings when the pod is gone = %+v, want one with its restarts only", l)
	}
	over := tracker.Tick(at(2 * min))
	if len(over) != 1 {
		t.Fatalf("findings of Tick = %+v, want one", over)
	}
	a, m := over[0].Alert, over[0].Message
	if a.Key != first.Alert.Key || a.Episode != first.Alert.Episode || a.Summary != "over: the node is ready" || a.Level != first.Alert.Level || !a.EndsAt.Equal(at(2*min)) || !a.StartsAt.Equal(t0) || a.State != external.StateResolved {
		t.Errorf("alert = %+v, want %+v resolved, with the reason and the time", a, first.Alert)
	}
	if m.Event.Message != "over: the node is ready" || m.Event.Type != kube.TypeNormal || m.Fault.ID != first.Message.Fault.ID || first.Message.Event.Type != kube.TypeWarning {
		t.Errorf("event = %+v, fault = %+v; want a Normal event of the same fault with the reason", m.Event, m.Fault)
	}
}

// TestWarningCounts checks that each count of a repeated warning is a fault, and that all share
// one alert, which gets the logs when they are read.
func TestWarningCounts(t *testing.T) {
	tracker := fault.New("dev", "c-1")
	one := tracker.Event(event("w", "FailedMount", "m", 1, 0), t0)[0]
	two := tracker.Event(event("w", "FailedMount", "m", 2, sec), at(sec))[0]
	if one.MsgID == two.MsgID || one.Alert.Name != "FailedMount" || one.Capture == nil || two.Capture != nil || two.Alert != nil {
		t.Errorf("first = %+v, second = %+v; want two messages, one alert and one capture of logs", one, two)
	}
	logs := tracker.WithLogs(&one, []kube.Log{{Container: "web", Sample: "x\n"}})
	if logs.Alert == nil || logs.Alert.Key != one.Alert.Key || logs.Alert.Episode != one.Alert.Episode || logs.Alert.Detail != "log of web ends: x" {
		t.Errorf("alert with logs = %+v, want an update of the first with the end of the log", logs.Alert)
	}
	// The alert of a pod without logs shows the newest message.
	tracker.Pod(pod(container{Name: "web"}, placeless), at(min))
	first := tracker.Event(event("s", "FailedScheduling", "0/3 nodes", 1, min), at(min))[0]
	again := tracker.Event(event("s", "FailedScheduling", "0/4 nodes", 2, 2*min), at(2*min))[0]
	if again.Alert == nil || again.Alert.Key != first.Alert.Key || again.Alert.Episode != first.Alert.Episode || again.Alert.Summary != "0/4 nodes" {
		t.Errorf("first = %+v, second = %+v; want an update with the newest message", first.Alert, again.Alert)
	}
}

// TestAlternatingWarnings checks that two alternating events of one reason, as of a readiness and
// a liveness probe, share one alert until none came for a while, also over a restart.
func TestAlternatingWarnings(t *testing.T) {
	tracker := fault.New("dev", "c-1")
	tracker.Pod(pod(container{Name: "web"}, placeless), t0)
	episodes := map[string]bool{}
	var messages []kube.Message
	send := func(uid string, count int, when time.Duration) {
		for _, f := range tracker.Event(event(uid, "Unhealthy", uid, count, when), at(when)) {
			messages = append(messages, f.Message)
			if f.Alert != nil { // else the alert is updated later
				episodes[f.Alert.Key+" "+f.Alert.Episode] = true
			}
		}
	}
	for i := range 30 {
		send("ready", 2*i+1, time.Duration(i)*min)
		send("live", 2*i+2, time.Duration(i)*min)
	}
	if len(messages) != 60 || len(episodes) != 1 {
		t.Errorf("%d faults published in the episodes %v, want all in one episode", len(messages), episodes)
	}
	tracker = fault.New("dev", "c-1")
	for i := range messages {
		tracker.Recall(&messages[i], at(time.Duration(i/2)*min))
	}
	tracker.Pod(pod(container{Name: "web"}, placeless), at(30*min))
	if send("third", 1, 30*min); len(messages) != 61 || len(episodes) != 1 {
		t.Errorf("%d faults published in the episodes %v, want all in one episode", len(messages), episodes)
	}
	if send("third", 2, 46*min); len(episodes) != 2 {
		t.Errorf("episodes after a pause of 16 min = %v, want 2", episodes)
	}
}

// TestRepeats checks that repeated warnings do not use the rate limit of new ones.
func TestRepeats(t *testing.T) {
	tracker := fault.New("dev", "c-1")
	published := 0
	for i := range 10 * fault.Burst {
		published += len(tracker.Event(event("w", "Unhealthy", "m", i+1, 0), t0))
	}
	if published != 1+fault.Burst {
		t.Errorf("%d faults published, want %d", published, 1+fault.Burst)
	}
	if got := tracker.Event(event("v", "FailedMount", "m", 1, 0), t0); len(got) != 1 || got[0].Alert.Omitted != 0 {
		t.Errorf("findings of a new warning = %+v, want one with none omitted", got)
	}
}

// TestMemory checks that the memory of published faults is bounded and forgets the oldest first.
func TestMemory(t *testing.T) {
	tracker := fault.New("dev", "c-1")
	first := tracker.Event(event("w", "FailedMount", "m", 1, 0), t0)
	if len(first) != 1 {
		t.Fatalf("findings = %+v, want one", first)
	}
	m := first[0].Message
	for i := range fault.MaxRemembered {
		f := *m.Fault
		f.ID, f.LogsFollow = fmt.Sprint("k", i, "-1"), false
		tracker.Recall(&kube.Message{Cluster: "dev", Event: m.Event, Fault: &f}, t0)
	}
	if s := tracker.Stats(); s.Objects != 0 || s.Open != 0 {
		t.Errorf("Stats = %+v, want no object and nothing open", s)
	}
	if got := tracker.Event(event("w", "FailedMount", "m", 1, 0), at(time.Hour)); len(got) != 1 {
		t.Errorf("findings of the forgotten fault = %+v, want one", got)
	}
}

// FuzzEvent checks that the findings of any event are valid, bounded and published once.
func FuzzEvent(f *testing.F) {
	f.Add("Pod", "shop", "web-1", "u", "web", "BackOff", "Back-off restarting failed container", "Warning", 3)
	f.Add("Node", "", "n1", "n1", "", "OOMKilling", "pod12345678-1234-1234-1234-123456789012", "Warning", 0)
	f.Add("Job", "shop", "j", "", "", "BackoffLimitExceeded", "\xff\x1b", "Warning", -1)
	f.Add("Pod", "", "", "", "", "", "", "Warning", 1<<40)
	f.Fuzz(func(t *testing.T, kind, namespace, name, uid, container, reason, message, class string, count int) {
		tracker := fault.New("dev", "")
		e := &kube.Event{
			Timestamp: t0, Type: class, Reason: reason, Message: message, Count: count, UID: uid,
			InvolvedObject: kube.Object{Kind: kind, Namespace: namespace, Name: name, UID: uid, Container: container},
		}
		found := tracker.Event(e, t0)
		for _, f := range found {
			if err := f.Alert.Validate(); err != nil {
				t.Errorf("Validate of the alert = %v, want nil", err)
			}
			if n := utf8.RuneCountInString(f.Message.Event.Message); n > kube.MaxMessage {
				t.Errorf("message has %d characters, want at most %d", n, kube.MaxMessage)
			}
		}
		if again := tracker.Event(e, t0); len(found) > 1 || len(again) != 0 {
			t.Errorf("%d findings, and %d when it is repeated; want at most 1, then 0", len(found), len(again))
		}
	})
}

// BenchmarkPod measures an unchanged state of a healthy pod.
func BenchmarkPod(b *testing.B) {
	tracker := fault.New("dev", "c-1")
	pods := make([]*fault.Pod, many)
	for i := range pods {
		pods[i] = numbered(i, running(1, 0, ended(1, "Error", 0)))
		pods[i].Initial = true
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for _, p := range pods {
		tracker.Pod(p, t0)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		tracker.Pod(pods[i%many], t0)
		i++
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/many, "B/pod")
}

// BenchmarkCrash measures states that are each another crash, with a message and an alert.
func BenchmarkCrash(b *testing.B) {
	tracker := fault.New("dev", "c-1")
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		now := time.Duration(i) * sec
		if got := tracker.Pod(numbered(i%many, dead(i, ended(1, "Error", now), nil)), at(now)); len(got) != 1 {
			b.Fatalf("crash %d: %d findings, want 1", i, len(got))
		}
	}
}

// BenchmarkFlood measures states that are each another crash, past the rate limit.
func BenchmarkFlood(b *testing.B) {
	tracker := fault.New("dev", "c-1")
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		tracker.Pod(numbered(i%many, dead(i, ended(1, "Error", time.Duration(i)), nil)), t0)
	}
}
