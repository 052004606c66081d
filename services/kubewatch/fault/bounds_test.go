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

func numbered(i int, c container) *fault.Pod {
	return pod(c, func(p *fault.Pod) { p.Name, p.UID = fmt.Sprint("web-", i), fmt.Sprint("u-", i) })
}

// TestFlood: thousands of pods fail at once. So many are told as there is room for; a
// node is told in between; what lasts comes later, unless it is over by then.
func TestFlood(t *testing.T) {
	p := play(t)
	told := 0
	for i := range many {
		told += len(p.do(numbered(i, waiting("CrashLoopBackOff", 1, nil)), t0))
	}
	if s := p.b.Stats(); told != fault.Burst || s.Open != many || s.Waiting != many-fault.Burst {
		t.Fatalf("%d told, %+v", told, s)
	}
	if got := p.take(p.do(node("False", 0), t0), t0); got != "node_not_ready firing" {
		t.Errorf("a node: %q", got)
	}
	if next := p.b.Next(); !next.Equal(at(time.Second / fault.Rate)) {
		t.Errorf("the next one at %s", next)
	}
	if got := p.take(p.b.Tick(at(3*sec)), at(3*sec)); got != strings.TrimPrefix(strings.Repeat(", crash_loop firing+logs", 3*fault.Rate), ", ") {
		t.Errorf("%q", got)
	}
	over := 0
	for i := range many {
		over += len(p.b.Gone(kube.Object{Kind: "Pod", Namespace: "shop", Name: fmt.Sprint("web-", i), UID: fmt.Sprint("u-", i)}, at(4*sec)))
	}
	if s := p.b.Stats(); over != told+3*fault.Rate || s.Waiting != 0 || s.Open != 1 || s.Withheld != uint64(many-over) {
		t.Errorf("%d are over, %+v", over, s)
	}
}

// TestFloodOfCrashes: what is over with its beginning is not told later, but counted.
func TestFloodOfCrashes(t *testing.T) {
	p := play(t)
	told := 0
	for i := range many {
		told += len(p.do(numbered(i, dead(0, ended(1, "Error", 0), nil)), t0))
	}
	if s := p.b.Stats(); told != fault.Burst || s.Withheld != many-fault.Burst || !p.b.Next().IsZero() {
		t.Fatalf("%d told, %+v", told, s)
	}
	got := p.do(numbered(0, dead(1, ended(1, "Error", min), nil)), at(min))
	if len(got) != 1 || got[0].Alert.Omitted != many-fault.Burst {
		t.Fatalf("%+v", got)
	}
	got = p.do(numbered(1, dead(1, ended(1, "Error", min), nil)), at(min))
	if len(got) != 1 || got[0].Alert.Omitted != 0 {
		t.Fatalf("%+v", got)
	}
}

// TestOpenBound: past it, a fault is told when there is room and it is seen again.
func TestOpenBound(t *testing.T) {
	b := fault.New("dev", "c-1")
	for i := range fault.MaxOpen + 1 {
		b.Pod(numbered(i, waiting("CrashLoopBackOff", 1, nil)), t0)
	}
	if s := b.Stats(); s.Open != fault.MaxOpen || s.Withheld != 1 {
		t.Fatalf("%+v", s)
	}
	b.Gone(kube.Object{Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "u-0"}, t0)
	b.Pod(numbered(fault.MaxOpen, waiting("CrashLoopBackOff", 1, nil)), t0)
	if s := b.Stats(); s.Open != fault.MaxOpen {
		t.Fatalf("%+v", s)
	}
}

// TestObjectBound: past it, states are not looked at, but events are.
func TestObjectBound(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes 200,000 objects")
	}
	b := fault.New("dev", "c-1")
	for i := range fault.MaxObjects {
		b.Job(&fault.Job{Meta: fault.Meta{Name: "j", Namespace: fmt.Sprint(i), UID: fmt.Sprint(i)}}, t0)
	}
	got := b.Pod(pod(dead(0, ended(1, "Error", 0), nil)), t0)
	if s := b.Stats(); len(got) != 0 || s.Objects != fault.MaxObjects || s.Untracked != 1 {
		t.Errorf("%+v, %+v", got, s)
	}
	if got := b.Event(event("w", "FailedMount", "", 1, 0), t0); len(got) != 1 {
		t.Errorf("%+v", got)
	}
}

// TestAlert: what the alert about a fault says, and what its logs add.
func TestAlert(t *testing.T) {
	b := fault.New("dev", "c-1")
	p := pod(running(0, 0, nil), func(p *fault.Pod) {
		p.Labels = map[string]string{"app.kubernetes.io/name": "checkout", "app": "web", "token": "hunter2hunter2"}
		p.Containers = append(p.Containers, container{Name: "proxy", Running: true}, container{Name: "new", Waiting: "ContainerCreating"})
	})
	b.Pod(p, t0)
	q := *p
	end := ended(2, "Error", 10*sec)
	end.Message = "password=hunter2hunter2\x1b[31m"
	q.Containers = append([]container{dead(3, end, nil)}, p.Containers[1:]...)
	got := b.Pod(&q, at(11*sec))
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	f := got[0]
	a := f.Alert
	if a.App != "checkout" || a.Name != "Container crashed" || a.Place != "shop/web-1 (web)" || a.Detail != "exit code 2; restarts: 3" || !a.StartsAt.Equal(at(10*sec)) ||
		a.Summary != "container web ended with exit code 2 (Error); password=[REDACTED]" || a.Labels["token"] != "[REDACTED]" || q.Labels["token"] == "[REDACTED]" {
		t.Errorf("%+v", a)
	}
	if want := (external.Fault{Cluster: "dev", Namespace: "shop", Kind: "Pod", Name: "web-1", Container: "web", Fault: kube.Crash, ID: f.Message.Fault.ID}); *a.Fault != want {
		t.Errorf("%+v", a.Fault)
	}
	if want := "[{web true} {web false} {proxy false}]"; fmt.Sprint(f.Capture.Targets) != want {
		t.Errorf("%v", f.Capture.Targets)
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
		g := b.WithLogs(&f, tt.logs)
		if g.MsgID != f.Message.Fault.ID+"/logs" || g.Message.Fault.LogsFollow || len(g.Message.Logs) != len(tt.logs) || g.Alert.Detail != tt.detail || g.Alert.Fault.Panic != tt.panics {
			t.Errorf("%+v: %+v", g.Message, g.Alert)
		}
		if g.Alert.Key != a.Key || g.Alert.Episode != a.Episode || g.Alert.State != a.State || g.Alert.Validate() != nil {
			t.Errorf("%+v is not the same alert as %+v", g.Alert, a)
		}
	}
	if !f.Message.Fault.LogsFollow || f.Message.Logs != nil {
		t.Error("the finding was changed")
	}
	// Another crash of the same container: the logs of the first are no news of it.
	r := q
	r.Containers = append([]container{dead(4, ended(2, "Error", 20*sec), end)}, p.Containers[1:]...)
	if got := b.Pod(&r, at(21*sec)); len(got) != 1 || got[0].Alert.Key != a.Key || got[0].Alert.Episode == a.Episode {
		t.Errorf("%+v", got)
	}
	if g := b.WithLogs(&f, nil); g.Alert != nil || g.MsgID == "" {
		t.Errorf("%+v", g)
	}
}

// TestLogsAfterTheEnd: an alert that is resolved doesn't come back with its logs.
func TestLogsAfterTheEnd(t *testing.T) {
	b := fault.New("dev", "c-1")
	got := b.Pod(pod(waiting("CrashLoopBackOff", 1, nil)), t0)
	b.Gone(podObject, at(sec))
	if g := b.WithLogs(&got[0], nil); g.Alert != nil || g.MsgID == "" {
		t.Errorf("%+v", g)
	}
}

// TestOver: the end of an alert says how it ended, and when.
func TestOver(t *testing.T) {
	b := fault.New("dev", "c-1")
	first := b.Node(node("False", 0), at(sec))[0]
	b.Node(node("True", min), at(min))
	if l := b.Pod(pod(waiting("CrashLoopBackOff", 3, ended(2, "Error", sec))), at(min)); len(l) != 1 || l[0].Alert.Detail != "exit code 2; restarts: 3" {
		t.Errorf("%+v", l)
	}
	if l := b.Gone(podObject, at(min)); len(l) != 1 || l[0].Alert.Detail != "restarts: 3" { // not how it ended
		t.Errorf("%+v", l)
	}
	over := b.Tick(at(2 * min))
	if len(over) != 1 {
		t.Fatalf("%+v", over)
	}
	a, m := over[0].Alert, over[0].Message
	if a.Key != first.Alert.Key || a.Episode != first.Alert.Episode || a.Summary != "over: the node is ready" || a.Level != first.Alert.Level || !a.EndsAt.Equal(at(2*min)) || !a.StartsAt.Equal(t0) || a.State != external.StateResolved {
		t.Errorf("%+v", a)
	}
	if m.Event.Message != "over: the node is ready" || m.Event.Type != kube.TypeNormal || m.Fault.ID != first.Message.Fault.ID || first.Message.Event.Type != kube.TypeWarning {
		t.Errorf("%+v, %+v", m.Event, m.Fault)
	}
}

// TestWarningCounts: a warning that counts on is a fault each time, and one alert, which
// has the logs from when they are there.
func TestWarningCounts(t *testing.T) {
	b := fault.New("dev", "c-1")
	one := b.Event(event("w", "FailedMount", "m", 1, 0), t0)[0]
	two := b.Event(event("w", "FailedMount", "m", 2, sec), at(sec))[0]
	if one.MsgID == two.MsgID || one.Alert.Name != "FailedMount" || one.Capture == nil || two.Capture != nil || two.Alert != nil {
		t.Errorf("%+v, %+v", one.Alert, two.Alert)
	}
	logs := b.WithLogs(&one, []kube.Log{{Container: "web", Sample: "x\n"}})
	if logs.Alert == nil || logs.Alert.Key != one.Alert.Key || logs.Alert.Episode != one.Alert.Episode || logs.Alert.Detail != "log of web ends: x" {
		t.Errorf("%+v", logs.Alert)
	}
	// Of a pod that has no logs, the newest words are the alert's.
	b.Pod(pod(container{Name: "web"}, placeless), at(min))
	first := b.Event(event("s", "FailedScheduling", "0/3 nodes", 1, min), at(min))[0]
	again := b.Event(event("s", "FailedScheduling", "0/4 nodes", 2, 2*min), at(2*min))[0]
	if again.Alert == nil || again.Alert.Key != first.Alert.Key || again.Alert.Episode != first.Alert.Episode || again.Alert.Summary != "0/4 nodes" {
		t.Errorf("%+v, %+v", first.Alert, again.Alert)
	}
}

// TestWarningsInTurn: two events of one reason in turn, as of a readiness and a liveness
// probe, are one alert, also for who comes next, until nothing was heard for a while.
func TestWarningsInTurn(t *testing.T) {
	b := fault.New("dev", "c-1")
	b.Pod(pod(container{Name: "web"}, placeless), t0)
	episodes := map[string]bool{}
	var told []kube.Message
	say := func(uid string, count int, when time.Duration) {
		for _, f := range b.Event(event(uid, "Unhealthy", uid, count, when), at(when)) {
			told = append(told, f.Message)
			if f.Alert != nil { // else it is told later, with what comes until then
				episodes[f.Alert.Key+" "+f.Alert.Episode] = true
			}
		}
	}
	for i := range 30 {
		say("ready", 2*i+1, time.Duration(i)*min)
		say("live", 2*i+2, time.Duration(i)*min)
	}
	if len(told) != 60 || len(episodes) != 1 {
		t.Errorf("%d were told, %v", len(told), episodes)
	}
	b = fault.New("dev", "c-1")
	for i := range told {
		b.Recall(&told[i], at(time.Duration(i/2)*min))
	}
	b.Pod(pod(container{Name: "web"}, placeless), at(30*min))
	if say("third", 1, 30*min); len(told) != 61 || len(episodes) != 1 {
		t.Errorf("%d were told, %v", len(told), episodes)
	}
	if say("third", 2, 46*min); len(episodes) != 2 {
		t.Errorf("a quarter of an hour later: %v", episodes)
	}
}

// TestRepeats: warnings that count on take no room from what is new.
func TestRepeats(t *testing.T) {
	b := fault.New("dev", "c-1")
	told := 0
	for i := range 10 * fault.Burst {
		told += len(b.Event(event("w", "Unhealthy", "m", i+1, 0), t0))
	}
	if told != 1+fault.Burst {
		t.Errorf("%d were told", told)
	}
	if got := b.Event(event("v", "FailedMount", "m", 1, 0), t0); len(got) != 1 || got[0].Alert.Omitted != 0 {
		t.Errorf("%+v", got)
	}
}

// TestMemory: what is remembered of all that was told is bounded: it is forgotten in the
// order in which it was told.
func TestMemory(t *testing.T) {
	b := fault.New("dev", "c-1")
	first := b.Event(event("w", "FailedMount", "m", 1, 0), t0)
	if len(first) != 1 {
		t.Fatalf("%+v", first)
	}
	m := first[0].Message
	for i := range fault.MaxRemembered {
		f := *m.Fault
		f.ID, f.LogsFollow = fmt.Sprint("k", i, "-1"), false
		b.Recall(&kube.Message{Cluster: "dev", Event: m.Event, Fault: &f}, t0)
	}
	if s := b.Stats(); s.Objects != 0 || s.Open != 0 {
		t.Errorf("%+v", s)
	}
	if got := b.Event(event("w", "FailedMount", "m", 1, 0), at(time.Hour)); len(got) != 1 {
		t.Errorf("it is still known: %+v", got)
	}
}

// FuzzEvent: whatever an event says, what is made of it is valid, bounded and told once.
func FuzzEvent(f *testing.F) {
	f.Add("Pod", "shop", "web-1", "u", "web", "BackOff", "Back-off restarting failed container", "Warning", 3)
	f.Add("Node", "", "n1", "n1", "", "OOMKilling", "pod12345678-1234-1234-1234-123456789012", "Warning", 0)
	f.Add("Job", "shop", "j", "", "", "BackoffLimitExceeded", "\xff\x1b", "Warning", -1)
	f.Add("Pod", "", "", "", "", "", "", "Warning", 1<<40)
	f.Fuzz(func(t *testing.T, kind, namespace, name, uid, container, reason, message, class string, count int) {
		b := fault.New("dev", "")
		e := &kube.Event{
			Timestamp: t0, Type: class, Reason: reason, Message: message, Count: count, UID: uid,
			InvolvedObject: kube.Object{Kind: kind, Namespace: namespace, Name: name, UID: uid, Container: container},
		}
		found := b.Event(e, t0)
		for _, f := range found {
			if err := f.Alert.Validate(); err != nil {
				t.Error(err)
			}
			if n := utf8.RuneCountInString(f.Message.Event.Message); n > kube.MaxMessage {
				t.Errorf("%d characters", n)
			}
		}
		if again := b.Event(e, t0); len(found) > 1 || len(again) != 0 {
			t.Errorf("%d, and again %d", len(found), len(again))
		}
	})
}

// BenchmarkPod: the state of a pod that is well comes again.
func BenchmarkPod(b *testing.B) {
	book := fault.New("dev", "c-1")
	pods := make([]*fault.Pod, many)
	for i := range pods {
		pods[i] = numbered(i, running(1, 0, ended(1, "Error", 0)))
		pods[i].Initial = true
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for _, p := range pods {
		book.Pod(p, t0)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		book.Pod(pods[i%many], t0)
		i++
	}
	b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/many, "B/pod")
}

// BenchmarkCrash: each state is another crash, with its message and its alert.
func BenchmarkCrash(b *testing.B) {
	book := fault.New("dev", "c-1")
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		now := time.Duration(i) * sec
		if got := book.Pod(numbered(i%many, dead(i, ended(1, "Error", now), nil)), at(now)); len(got) != 1 {
			b.Fatal(i, len(got))
		}
	}
}

// BenchmarkFlood: each state is another crash, and there is no room for it.
func BenchmarkFlood(b *testing.B) {
	book := fault.New("dev", "c-1")
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		book.Pod(numbered(i%many, dead(i, ended(1, "Error", time.Duration(i)), nil)), t0)
	}
}
