package fault_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/kubewatch/fault"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// replica returns pod i of a deployment.
func replica(i int, c container) *fault.Pod {
	p := numbered(i, c)
	p.Workload = "Deployment/web"
	return p
}

func replicaObject(i int) kube.Object {
	return kube.Object{Kind: "Pod", Namespace: "shop", Name: fmt.Sprint("web-", i), UID: fmt.Sprint("u-", i)}
}

var loops = waiting("CrashLoopBackOff", 3, nil)

// TestGroup checks that the faults of one kind of a deployment's pods share an alert.
func TestGroup(t *testing.T) {
	tracker := fault.New("dev", "c-1")
	first := tracker.Pod(replica(0, loops), t0)
	a := first[0].Alert
	if a.Place != "shop/deployment web (web)" || a.Fault.Workload != "Deployment/web" || a.Fault.Name != "web-0" || a.Detail != "pod web-0; restarts: 3" || a.State != external.StateFiring {
		t.Fatalf("alert = %+v %+v, want a firing one of the workload that shows web-0", a, a.Fault)
	}
	for i := 1; i < 5; i++ {
		if got := tracker.Pod(replica(i, loops), at(time.Duration(i)*sec)); len(got) != 1 || got[0].Message.Fault.Kind != kube.CrashLoop || got[0].Alert != nil {
			t.Fatalf("findings of pod %d = %+v, want a crash loop without an alert", i, got)
		}
	}
	// The alert is updated once, with the number of pods and the first log.
	if g := tracker.WithLogs(&first[0], []kube.Log{{Container: "web", HasPanic: true, Sample: "panic: boom\n"}}); g.Alert == nil || !g.Alert.Fault.Panic {
		t.Errorf("alert with logs = %+v, want one with a panic", g.Alert)
	}
	if next := tracker.Next(); !next.Equal(at(fault.UpdateInterval)) {
		t.Errorf("Next = %s, want %s", next, at(fault.UpdateInterval))
	}
	again := tracker.Tick(at(fault.UpdateInterval))
	if len(again) != 1 || again[0].Message.Fault != nil || again[0].Alert.Key != a.Key || again[0].Alert.Episode != a.Episode ||
		again[0].Alert.Detail != "5 pods: web-0, web-1, web-2 and 2 more; restarts: 3; log of web: panic: boom" {
		t.Fatalf("findings of the update = %+v, want the alert of 5 pods", again)
	}
	// A crash of another pod is part of the loop, a crash of another container is not.
	crash := dead(0, ended(1, "Error", 6*sec), nil)
	if got := tracker.Pod(replica(5, crash), at(7*sec)); len(got) != 1 || got[0].Alert != nil || tracker.WithLogs(&got[0], nil).Alert != nil {
		t.Errorf("findings of a crash within the loop = %+v, want one without an alert", got)
	}
	crash.Name = "proxy"
	if got := tracker.Pod(replica(6, crash), at(7*sec)); len(got) != 1 || got[0].Alert == nil {
		t.Errorf("findings of a crash of another container = %+v, want one with an alert", got)
	}
	if s := tracker.Stats(); s.Groups != 1 || s.Grouped != 5 || s.Open != 5 {
		t.Errorf("Stats = %+v, want 1 group, 5 grouped, 5 open", s)
	}
	for i := range 5 {
		got := tracker.Gone(replicaObject(i), at(min))
		if len(got) != 1 || got[0].Message.Fault.State != kube.StateOver || (got[0].Alert != nil) != (i == 4) {
			t.Fatalf("findings when pod %d of 5 is gone = %+v, want the end of its fault, with an alert for the last", i, got)
		}
		if i == 4 {
			if o := got[0].Alert; o.State != external.StateResolved || o.Key != a.Key || o.Episode != a.Episode || o.Detail != "up to 5 pods at once; restarts: 3" {
				t.Errorf("last alert = %+v, want the resolved one of the episode", o)
			}
		}
	}
	if got := tracker.Pod(replica(7, loops), at(2*min)); len(got) != 1 || got[0].Alert.Key != a.Key || got[0].Alert.Episode == a.Episode {
		t.Errorf("findings of a later loop = %+v, want an alert of a new episode", got)
	}
	if s := tracker.Stats(); s.Groups != 1 || s.Open != 1 {
		t.Errorf("Stats = %+v, want 1 group, 1 open", s)
	}
}

// TestJobAttempts checks that the attempts of a job share an alert that counts them, until none
// came for a while, also over a restart.
func TestJobAttempts(t *testing.T) {
	tracker := fault.New("dev", "c-1")
	var messages []kube.Message
	var times []time.Time
	var alerts []*external.Alert
	try := func(i int, when time.Duration) {
		p := numbered(i, dead(0, ended(1, "Error", when), nil))
		p.Workload = "Job/migrate"
		found := tracker.Pod(p, at(when))
		if len(found) != 1 {
			t.Fatalf("findings of attempt %d = %+v, want one", i, found)
		}
		messages, times = append(messages, found[0].Message), append(times, at(when))
		if a := found[0].Alert; a != nil {
			alerts = append(alerts, a)
		}
	}
	for i, when := range []time.Duration{0, 10 * sec, 30 * sec, 70 * sec, 5 * min} {
		try(i, when)
	}
	last := alerts[len(alerts)-1]
	if len(alerts) != 5 || last.Episode != alerts[0].Episode || last.Detail != "5 times, in pods web-0, web-1, web-2 and others; exit code 1" || last.Fault.Name != "web-4" {
		t.Errorf("%d alerts, the last %+v; want 5 of one episode that counts 5 attempts", len(alerts), last)
	}
	tracker = fault.New("dev", "c-1")
	for i := range messages {
		tracker.Recall(&messages[i], times[i])
	}
	try(5, 14*min)
	if a := alerts[len(alerts)-1]; len(alerts) != 6 || a.Key != last.Key || a.Episode != last.Episode || !strings.HasPrefix(a.Detail, "6 times") {
		t.Errorf("alert after a restart = %+v, want the sixth attempt of the episode", a)
	}
	try(6, 25*min)
	if a := alerts[len(alerts)-1]; len(alerts) != 7 || a.Episode == last.Episode {
		t.Errorf("alert of a later attempt = %+v, want a new episode", a)
	}
}

// TestNextRelease checks that the faults of the next version of a deployment raise an alert of
// their own while the version before still fails, and that each is resolved by itself.
func TestNextRelease(t *testing.T) {
	tracker := fault.New("dev", "c-1")
	podOf := func(i int, version string, c container) *fault.Pod {
		p := replica(i, c)
		p.Workload = "Deployment/web/" + version
		return p
	}
	before := tracker.Pod(podOf(0, "7d9f", loops), t0)[0].Alert
	if got := tracker.Pod(podOf(1, "5c4b", dead(0, ended(1, "Error", min), nil)), at(min)); len(got) != 1 || got[0].Alert == nil {
		t.Errorf("findings of its crash = %+v, want one with an alert", got)
	}
	next := tracker.Pod(podOf(1, "5c4b", loops), at(2*min))
	if len(next) != 1 || next[0].Alert == nil || next[0].Alert.Key == before.Key || next[0].Alert.Place != before.Place {
		t.Fatalf("findings of its loop = %+v, want one with an alert of another key at the same place", next)
	}
	if got := tracker.Gone(replicaObject(0), at(3*min)); len(got) != 1 || got[0].Alert == nil || got[0].Alert.Key != before.Key || got[0].Alert.State != external.StateResolved {
		t.Errorf("findings when the version before ends = %+v, want its alert resolved", got)
	}
	if got := tracker.Gone(replicaObject(1), at(4*min)); len(got) != 1 || got[0].Alert == nil || got[0].Alert.Key != next[0].Alert.Key {
		t.Errorf("findings when the next version ends = %+v, want its alert", got)
	}
}

// TestGroupFlood checks that many pods of a workload give few alerts, and that the first fault
// of another workload does not wait behind them.
func TestGroupFlood(t *testing.T) {
	tracker := fault.New("dev", "c-1")
	p := &player{t: t, tracker: tracker, published: map[string]bool{}, warned: map[string]bool{}}
	p.grouped = true
	alerts, faults := 0, 0
	count := func(found []fault.Finding, now time.Time) {
		p.take(found, now)
		for _, f := range found {
			if f.Alert != nil {
				alerts++
			}
			if f.Message.Fault != nil {
				faults++
			}
		}
	}
	const pods = 500
	for i := range pods {
		count(tracker.Pod(replica(i, loops), t0), t0)
	}
	if s := tracker.Stats(); alerts != 1 || faults != 1+fault.Burst || s.Waiting != pods-1-fault.Burst {
		t.Fatalf("%d alerts, %d faults, %+v; want 1, %d and the others waiting", alerts, faults, s, 1+fault.Burst)
	}
	other := replica(pods, loops)
	other.Workload = "Deployment/other"
	if got := tracker.Pod(other, at(sec)); len(got) != 1 || got[0].Alert == nil {
		t.Fatalf("findings of another workload = %+v, want one with an alert", got)
	}
	tick := func(until time.Duration) {
		for next := tracker.Next(); !next.IsZero() && !next.After(at(until)); next = tracker.Next() {
			count(tracker.Tick(next), next)
		}
	}
	tick(fault.UpdateInterval)
	if alerts != 2 {
		t.Errorf("%d alerts after the first update, want 2", alerts)
	}
	tick(10 * min)
	if alerts > 8 || faults != pods {
		t.Errorf("%d alerts, %d faults after 10 min; want at most 8 alerts, %d faults", alerts, faults, pods)
	}
	alerts = 0
	for i := range pods {
		count(tracker.Gone(replicaObject(i), at(11*min)), at(11*min))
	}
	if s := tracker.Stats(); alerts != 1 || s.Groups != 1 || s.Open != 1 || s.Waiting != 0 {
		t.Errorf("%d alerts when all pods are gone, %+v; want 1, and the other workload open", alerts, s)
	}
}

// TestGroupOverRestart checks that the alert of a workload is not resolved while one of its
// faults waits for the rate limit, also over a restart.
func TestGroupOverRestart(t *testing.T) {
	p := play(t)
	p.grouped = true
	const pods = fault.Burst + 3 // two of them wait
	for i := range pods {
		p.take(p.do(replica(i, loops), t0), t0)
	}
	for i := range pods - 2 {
		p.take(p.do(gone(replicaObject(i)), t0), t0)
	}
	if s := p.tracker.Stats(); s.Open != 2 || s.Waiting != 1 {
		t.Fatalf("Stats = %+v, want 2 open, 1 waiting", s)
	}
	p.do(restart{}, t0)
	if s := p.tracker.Stats(); s.Open != 1 || s.Groups != 1 {
		t.Fatalf("Stats after a restart = %+v, want 1 open in 1 group", s)
	}
	p.take(p.do(replica(pods-1, loops), t0), t0)
	if got := p.do(gone(replicaObject(pods-2)), t0); got[len(got)-1].Alert != nil {
		t.Errorf("findings when the last but one is gone = %+v, want no alert", got)
	}
	if got := p.do(gone(replicaObject(pods-1)), t0); len(got) != 1 || got[0].Alert == nil || got[0].Alert.State != external.StateResolved {
		t.Errorf("findings when the last is gone = %+v, want a resolved alert", got)
	}
}

// TestRecallWithoutWorkload checks that the alert of a fault that was published without a
// workload, as by earlier versions, is resolved by its own key.
func TestRecallWithoutWorkload(t *testing.T) {
	tracker := fault.New("dev", "c-1")
	old := tracker.Pod(numbered(0, loops), t0)[0]
	tracker = fault.New("dev", "c-1")
	tracker.Recall(&old.Message, t0)
	if got := tracker.Pod(replica(0, loops), at(min)); len(got) != 1 || got[0].MsgID != "" { // only its logs
		t.Errorf("findings of the recalled fault = %+v, want only its logs", got)
	}
	if got := tracker.Pod(replica(1, loops), at(min)); len(got) != 1 || got[0].Alert.Key == old.Alert.Key {
		t.Errorf("findings of another pod = %+v, want an alert of another key", got)
	}
	if got := tracker.Gone(replicaObject(0), at(min)); len(got) != 1 || got[0].Alert == nil || got[0].Alert.Key != old.Alert.Key || got[0].Alert.Episode != old.Alert.Episode {
		t.Errorf("findings when the pod is gone = %+v, want the alert %+v", got, old.Alert)
	}
}

// TestRecallWithoutFirstFault checks that an alert whose first fault the stream no longer has
// is resolved in its episode.
func TestRecallWithoutFirstFault(t *testing.T) {
	tracker := fault.New("dev", "c-1")
	tracker.Pod(replica(0, loops), t0)
	tracker.Gone(replicaObject(0), t0)
	second := tracker.Pod(replica(1, loops), at(min))[0]
	newest := tracker.Pod(replica(2, loops), at(2*min))[0]
	tracker = fault.New("dev", "c-1")
	tracker.Recall(&newest.Message, at(2*min))
	if got := tracker.Pod(replica(1, loops), at(3*min)); len(got) != 1 || got[0].Alert == nil || got[0].Alert.Episode != second.Alert.Episode {
		t.Errorf("findings of a recalled group = %+v, want an alert of episode %s", got, second.Alert.Episode)
	}
	tracker.Gone(replicaObject(1), at(3*min))
	if got := tracker.Gone(replicaObject(2), at(3*min)); len(got) != 1 || got[0].Alert == nil || got[0].Alert.State != external.StateResolved || got[0].Alert.Episode != second.Alert.Episode {
		t.Errorf("findings at the end = %+v, want a resolved alert of episode %s", got, second.Alert.Episode)
	}
}

// alertChecker checks the sequence of alerts.
type alertChecker struct {
	rt *rapid.T
	// firing are the episodes that are not resolved, by key; raised are all of them.
	firing map[string]string
	raised map[string]bool
	// published is when an alert was last published, except for updates with logs.
	published map[string]time.Time
}

// TestGroupProperties checks that a workload has an alert exactly while a fault of it is
// published and not over, that the alert is raised and resolved once, and that it is updated
// no more often than allowed, over random changes of pods and restarts.
func TestGroupProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p, now := play(t), t0
		p.grouped = true
		r := alertChecker{rt, map[string]string{}, map[string]bool{}, map[string]time.Time{}}
		open := map[string]map[string]bool{} // faults by workload
		pods := map[int]*fault.Pod{}
		var logs []fault.Finding
		check := func(found []fault.Finding, lost bool) {
			for i, f := range found {
				lost := lost && i == len(found)-1
				if m := f.Message; m.Fault != nil && f.MsgID != "" && !lost {
					p.take(found[i:i+1], now)
					if m.Fault.Kind == kube.CrashLoop {
						if open[m.Fault.Workload] == nil {
							open[m.Fault.Workload] = map[string]bool{}
						}
						if m.Fault.State == kube.StateFiring {
							open[m.Fault.Workload][m.Fault.ID] = true
						} else {
							delete(open[m.Fault.Workload], m.Fault.ID)
						}
					}
				}
				if f.Capture != nil && !lost {
					logs = append(logs, f)
				}
				r.check(f.Alert, len(open[workloadOf(f)]) > 0 && !lost, now)
			}
		}
		index := func(rt *rapid.T) int { return rapid.IntRange(0, 7).Draw(rt, "pod") }
		restarted := func() {
			p.do(restart{}, now)
			r.published, logs = map[string]time.Time{}, nil
			for i := range 8 {
				if pods[i] != nil {
					q := *pods[i]
					q.Initial = true
					check(p.tracker.Pod(&q, now), false)
				}
			}
			check(p.tracker.Synced("Pod", now), false)
		}
		state := func(rt *rapid.T, i int) *fault.Pod {
			c := rapid.SampledFrom([]container{
				loops, loops, running(3, now.Sub(t0), nil), dead(4, ended(1, "Error", now.Sub(t0)), nil), waiting("ErrImagePull", 0, nil),
			}).Draw(rt, "state")
			q := replica(i, c)
			q.Workload = []string{"Deployment/web", "Job/once"}[i%2]
			pods[i] = q
			return q
		}
		rt.Repeat(map[string]func(*rapid.T){
			"time passes": func(rt *rapid.T) {
				until := now.Add(rapid.SampledFrom([]time.Duration{sec, 4 * sec, 10 * sec, min, 11 * min}).Draw(rt, "for"))
				for next := p.tracker.Next(); !next.IsZero() && !next.After(until); next = p.tracker.Next() {
					if next.After(now) {
						now = next
					}
					check(p.tracker.Tick(now), false)
				}
				now = until
			},
			"a pod changes": func(rt *rapid.T) { check(p.tracker.Pod(state(rt, index(rt)), now), false) },
			"a pod is gone": func(rt *rapid.T) {
				i := index(rt)
				delete(pods, i)
				check(p.tracker.Gone(replicaObject(i), now), false)
			},
			"logs come": func(rt *rapid.T) {
				if len(logs) == 0 {
					return
				}
				f := logs[0]
				logs = logs[1:]
				got := p.tracker.WithLogs(&f, []kube.Log{{Container: "web", Sample: "panic: x\n", HasPanic: rapid.Bool().Draw(rt, "panics")}})
				p.messages, p.times = append(p.messages, got.Message), append(p.times, now)
				if a := got.Alert; a != nil {
					if a.State != external.StateFiring || f.Message.Fault.Kind == kube.CrashLoop && r.firing["crash_loop "+a.Key] != a.Episode {
						rt.Errorf("logs update the alert %+v, which is resolved; want no update", a)
					}
				}
			},
			"a restart": func(*rapid.T) { restarted() },
			"a restart after an alert whose fault was not published": func(rt *rapid.T) {
				check(p.tracker.Pod(state(rt, index(rt)), now), true)
				restarted()
			},
			"": func(rt *rapid.T) {
				firing := 0
				for _, w := range open {
					if len(w) > 0 {
						firing++
					}
				}
				if n := len(r.loops()); n != firing {
					rt.Errorf("%d crash loop alerts fire, want %d: %v", n, firing, r.firing)
				}
			},
		})
		for i := range 8 {
			check(p.tracker.Gone(replicaObject(i), now), false)
		}
		if s := p.tracker.Stats(); len(r.firing) != 0 || s.Groups != 0 || s.Open != 0 || s.Waiting != 0 {
			rt.Errorf("firing at the end = %v, Stats = %+v; want none", r.firing, s)
		}
	})
}

func workloadOf(f fault.Finding) string {
	if f.Alert != nil {
		return f.Alert.Fault.Workload
	}
	return ""
}

func (r *alertChecker) loops() (keys []string) {
	for key := range r.firing {
		if strings.HasPrefix(key, "crash_loop ") {
			keys = append(keys, key)
		}
	}
	return keys
}

// check takes an alert. others is set if faults of its workload are published and not over.
func (r *alertChecker) check(a *external.Alert, others bool, now time.Time) {
	if a == nil || a.Fault.Fault != kube.CrashLoop && a.Fault.Fault != kube.ImagePull {
		return
	}
	key := a.Fault.Fault + " " + a.Key
	before, firing := r.firing[key]
	switch {
	case a.State == external.StateResolved:
		if firing && before != a.Episode {
			r.rt.Errorf("%s: episode %s is resolved, want %s", key, a.Episode, before)
		}
		if a.Fault.Fault == kube.CrashLoop && others {
			r.rt.Errorf("%s is resolved while a fault lasts, want it firing", key)
		}
		delete(r.firing, key)
		delete(r.published, key)
	case firing:
		if before != a.Episode {
			r.rt.Errorf("%s: episode %s is updated, want %s", key, a.Episode, before)
		}
		if last, ok := r.published[key]; ok && now.Sub(last) < fault.UpdateInterval {
			r.rt.Errorf("%s is updated after %s, want at least %s", key, now.Sub(last), fault.UpdateInterval)
		}
		r.published[key] = now
	default:
		if r.raised[key+a.Episode] {
			r.rt.Errorf("%s: episode %s is raised twice, want once", key, a.Episode)
		}
		r.firing[key], r.published[key], r.raised[key+a.Episode] = a.Episode, now, true
	}
}
