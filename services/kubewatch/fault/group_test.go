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

// replica is a pod of a deployment in which the container is as it is.
func replica(i int, c container) *fault.Pod {
	p := numbered(i, c)
	p.Workload = "Deployment/web"
	return p
}

func replicaObject(i int) kube.Object {
	return kube.Object{Kind: "Pod", Namespace: "shop", Name: fmt.Sprint("web-", i), UID: fmt.Sprint("u-", i)}
}

var loops = waiting("CrashLoopBackOff", 3, nil)

// TestGroup: what is wrong with the pods of a deployment in one way is one alert, and a
// fault of each.
func TestGroup(t *testing.T) {
	b := fault.New("dev", "c-1")
	first := b.Pod(replica(0, loops), t0)
	a := first[0].Alert
	if a.Place != "shop/deployment web (web)" || a.Fault.Workload != "Deployment/web" || a.Fault.Name != "web-0" || a.Detail != "pod web-0; restarts: 3" || a.State != external.StateFiring {
		t.Fatalf("%+v %+v", a, a.Fault)
	}
	for i := 1; i < 5; i++ {
		if got := b.Pod(replica(i, loops), at(time.Duration(i)*sec)); len(got) != 1 || got[0].Message.Fault.Kind != kube.CrashLoop || got[0].Alert != nil {
			t.Fatalf("pod %d: %+v", i, got)
		}
	}
	// It is told again how many it is of, once, with what the first log says.
	if g := b.WithLogs(&first[0], []kube.Log{{Container: "web", HasPanic: true, Sample: "panic: boom\n"}}); g.Alert == nil || !g.Alert.Fault.Panic {
		t.Errorf("%+v", g.Alert)
	}
	if next := b.Next(); !next.Equal(at(fault.UpdateInterval)) {
		t.Errorf("again at %s", next)
	}
	again := b.Tick(at(fault.UpdateInterval))
	if len(again) != 1 || again[0].Message.Fault != nil || again[0].Alert.Key != a.Key || again[0].Alert.Episode != a.Episode ||
		again[0].Alert.Detail != "5 pods: web-0, web-1, web-2 and 2 more; restarts: 3; log of web: panic: boom" {
		t.Fatalf("%+v", again)
	}
	// A crash of another pod is part of it, but for other containers.
	crash := dead(0, ended(1, "Error", 6*sec), nil)
	if got := b.Pod(replica(5, crash), at(7*sec)); len(got) != 1 || got[0].Alert != nil || b.WithLogs(&got[0], nil).Alert != nil {
		t.Errorf("%+v", got)
	}
	crash.Name = "proxy"
	if got := b.Pod(replica(6, crash), at(7*sec)); len(got) != 1 || got[0].Alert == nil {
		t.Errorf("%+v", got)
	}
	if s := b.Stats(); s.Groups != 1 || s.Grouped != 5 || s.Open != 5 {
		t.Errorf("%+v", s)
	}
	for i := range 5 {
		got := b.Gone(replicaObject(i), at(min))
		if len(got) != 1 || got[0].Message.Fault.State != kube.StateOver || (got[0].Alert != nil) != (i == 4) {
			t.Fatalf("the end of %d: %+v", i, got)
		}
		if i == 4 {
			if o := got[0].Alert; o.State != external.StateResolved || o.Key != a.Key || o.Episode != a.Episode || o.Detail != "up to 5 pods at once; restarts: 3" {
				t.Errorf("%+v", o)
			}
		}
	}
	if got := b.Pod(replica(7, loops), at(2*min)); len(got) != 1 || got[0].Alert.Key != a.Key || got[0].Alert.Episode == a.Episode {
		t.Errorf("it is no news: %+v", got)
	}
	if s := b.Stats(); s.Groups != 1 || s.Open != 1 {
		t.Errorf("%+v", s)
	}
}

// TestTries: the tries of a job are one alert, which counts them, until none came for a
// while; that holds for who comes next, too.
func TestTries(t *testing.T) {
	b := fault.New("dev", "c-1")
	var told []kube.Message
	var times []time.Time
	var alerts []*external.Alert
	try := func(i int, when time.Duration) {
		p := numbered(i, dead(0, ended(1, "Error", when), nil))
		p.Workload = "Job/migrate"
		found := b.Pod(p, at(when))
		if len(found) != 1 {
			t.Fatalf("%+v", found)
		}
		told, times = append(told, found[0].Message), append(times, at(when))
		if a := found[0].Alert; a != nil {
			alerts = append(alerts, a)
		}
	}
	for i, when := range []time.Duration{0, 10 * sec, 30 * sec, 70 * sec, 5 * min} {
		try(i, when)
	}
	last := alerts[len(alerts)-1]
	if len(alerts) != 5 || last.Episode != alerts[0].Episode || last.Detail != "5 times, in pods web-0, web-1, web-2 and others; exit code 1" || last.Fault.Name != "web-4" {
		t.Errorf("%d alerts, %+v", len(alerts), last)
	}
	b = fault.New("dev", "c-1")
	for i := range told {
		b.Recall(&told[i], times[i])
	}
	try(5, 14*min)
	if a := alerts[len(alerts)-1]; len(alerts) != 6 || a.Key != last.Key || a.Episode != last.Episode || !strings.HasPrefix(a.Detail, "6 times") {
		t.Errorf("after a restart: %+v", a)
	}
	try(6, 25*min)
	if a := alerts[len(alerts)-1]; len(alerts) != 7 || a.Episode == last.Episode {
		t.Errorf("later: %+v", a)
	}
}

// TestNextRelease: what is wrong with the next version of a deployment is news while the
// one before still fails, and each is over by itself.
func TestNextRelease(t *testing.T) {
	b := fault.New("dev", "c-1")
	of := func(i int, version string, c container) *fault.Pod {
		p := replica(i, c)
		p.Workload = "Deployment/web/" + version
		return p
	}
	before := b.Pod(of(0, "7d9f", loops), t0)[0].Alert
	if got := b.Pod(of(1, "5c4b", dead(0, ended(1, "Error", min), nil)), at(min)); len(got) != 1 || got[0].Alert == nil {
		t.Errorf("its crash: %+v", got)
	}
	next := b.Pod(of(1, "5c4b", loops), at(2*min))
	if len(next) != 1 || next[0].Alert == nil || next[0].Alert.Key == before.Key || next[0].Alert.Place != before.Place {
		t.Fatalf("%+v", next)
	}
	if got := b.Gone(replicaObject(0), at(3*min)); len(got) != 1 || got[0].Alert == nil || got[0].Alert.Key != before.Key || got[0].Alert.State != external.StateResolved {
		t.Errorf("the end of the one before: %+v", got)
	}
	if got := b.Gone(replicaObject(1), at(4*min)); len(got) != 1 || got[0].Alert == nil || got[0].Alert.Key != next[0].Alert.Key {
		t.Errorf("its own: %+v", got)
	}
}

// TestGroupFlood: many pods of a workload are few alerts, of all of them, and another
// workload's first fault doesn't wait behind them.
func TestGroupFlood(t *testing.T) {
	b := fault.New("dev", "c-1")
	p := &player{t: t, b: b, published: map[string]bool{}, warned: map[string]bool{}}
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
		count(b.Pod(replica(i, loops), t0), t0)
	}
	if s := b.Stats(); alerts != 1 || faults != 1+fault.Burst || s.Waiting != pods-1-fault.Burst {
		t.Fatalf("%d alerts, %d faults, %+v", alerts, faults, s)
	}
	other := replica(pods, loops)
	other.Workload = "Deployment/other"
	if got := b.Pod(other, at(sec)); len(got) != 1 || got[0].Alert == nil {
		t.Fatalf("another workload waits: %+v", got)
	}
	tick := func(until time.Duration) {
		for next := b.Next(); !next.IsZero() && !next.After(at(until)); next = b.Next() {
			count(b.Tick(next), next)
		}
	}
	tick(fault.UpdateInterval)
	if alerts != 2 {
		t.Errorf("%d alerts", alerts)
	}
	tick(10 * min)
	if alerts > 8 || faults != pods {
		t.Errorf("%d alerts, %d faults", alerts, faults)
	}
	alerts = 0
	for i := range pods {
		count(b.Gone(replicaObject(i), at(11*min)), at(11*min))
	}
	if s := b.Stats(); alerts != 1 || s.Groups != 1 || s.Open != 1 || s.Waiting != 0 {
		t.Errorf("%d alerts, %+v", alerts, s)
	}
}

// TestGroupPassedOn: while one of its pods waits for room, what is told of a workload is
// not over, also for who comes next.
func TestGroupPassedOn(t *testing.T) {
	p := play(t)
	p.grouped = true
	const pods = fault.Burst + 3 // two of them wait
	for i := range pods {
		p.take(p.do(replica(i, loops), t0), t0)
	}
	for i := range pods - 2 {
		p.take(p.do(gone(replicaObject(i)), t0), t0)
	}
	if s := p.b.Stats(); s.Open != 2 || s.Waiting != 1 {
		t.Fatalf("%+v", s)
	}
	p.do(restart{}, t0)
	if s := p.b.Stats(); s.Open != 1 || s.Groups != 1 {
		t.Fatalf("%+v", s)
	}
	p.take(p.do(replica(pods-1, loops), t0), t0)
	if got := p.do(gone(replicaObject(pods-2)), t0); got[len(got)-1].Alert != nil {
		t.Errorf("%+v", got)
	}
	if got := p.do(gone(replicaObject(pods-1)), t0); len(got) != 1 || got[0].Alert == nil || got[0].Alert.State != external.StateResolved {
		t.Errorf("%+v", got)
	}
}

// TestBeforeGroups: what was told before alerts went by workload ends as it was told.
func TestBeforeGroups(t *testing.T) {
	b := fault.New("dev", "c-1")
	old := b.Pod(numbered(0, loops), t0)[0]
	b = fault.New("dev", "c-1")
	b.Recall(&old.Message, t0)
	if got := b.Pod(replica(0, loops), at(min)); len(got) != 1 || got[0].MsgID != "" { // its logs
		t.Errorf("%+v", got)
	}
	if got := b.Pod(replica(1, loops), at(min)); len(got) != 1 || got[0].Alert.Key == old.Alert.Key {
		t.Errorf("%+v", got)
	}
	if got := b.Gone(replicaObject(0), at(min)); len(got) != 1 || got[0].Alert == nil || got[0].Alert.Key != old.Alert.Key || got[0].Alert.Episode != old.Alert.Episode {
		t.Errorf("%+v", got)
	}
}

// TestGroupHalfForgotten: of an alert whose first fault the stream no longer has, the end
// is that of the alert.
func TestGroupHalfForgotten(t *testing.T) {
	b := fault.New("dev", "c-1")
	b.Pod(replica(0, loops), t0)
	b.Gone(replicaObject(0), t0)
	second := b.Pod(replica(1, loops), at(min))[0]
	newest := b.Pod(replica(2, loops), at(2*min))[0]
	b = fault.New("dev", "c-1")
	b.Recall(&newest.Message, at(2*min))
	if got := b.Pod(replica(1, loops), at(3*min)); len(got) != 1 || got[0].Alert == nil || got[0].Alert.Episode != second.Alert.Episode {
		t.Errorf("%+v", got)
	}
	b.Gone(replicaObject(1), at(3*min))
	if got := b.Gone(replicaObject(2), at(3*min)); len(got) != 1 || got[0].Alert == nil || got[0].Alert.State != external.StateResolved || got[0].Alert.Episode != second.Alert.Episode {
		t.Errorf("%+v", got)
	}
}

// readers are who gets the alerts, as the detector tells them.
type readers struct {
	rt *rapid.T
	// firing is the episode of what is not over, by key, was all of them.
	firing map[string]string
	was    map[string]bool
	// said is when an alert was told last, but with its logs.
	said map[string]time.Time
}

// TestGroupProperties: whatever the pods of workloads do, and whenever who tells of it ends,
// there is an alert of a workload just while a fault of it is told and not over, its
// beginning and its end are told once, and it is told no more often than it may be.
func TestGroupProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p, now := play(t), t0
		p.grouped = true
		r := readers{rt, map[string]string{}, map[string]bool{}, map[string]time.Time{}}
		open := map[string]map[string]bool{} // faults by workload
		pods := map[int]*fault.Pod{}
		var logs []fault.Finding
		hears := func(found []fault.Finding, lost bool) {
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
				r.hears(f.Alert, len(open[workloadOf(f)]) > 0 && !lost, now)
			}
		}
		index := func(rt *rapid.T) int { return rapid.IntRange(0, 7).Draw(rt, "pod") }
		restarted := func() {
			p.do(restart{}, now)
			r.said, logs = map[string]time.Time{}, nil
			for i := range 8 {
				if pods[i] != nil {
					q := *pods[i]
					q.Initial = true
					hears(p.b.Pod(&q, now), false)
				}
			}
			hears(p.b.Synced("Pod", now), false)
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
				for next := p.b.Next(); !next.IsZero() && !next.After(until); next = p.b.Next() {
					if next.After(now) {
						now = next
					}
					hears(p.b.Tick(now), false)
				}
				now = until
			},
			"a pod changes": func(rt *rapid.T) { hears(p.b.Pod(state(rt, index(rt)), now), false) },
			"a pod is gone": func(rt *rapid.T) {
				i := index(rt)
				delete(pods, i)
				hears(p.b.Gone(replicaObject(i), now), false)
			},
			"logs come": func(rt *rapid.T) {
				if len(logs) == 0 {
					return
				}
				f := logs[0]
				logs = logs[1:]
				got := p.b.WithLogs(&f, []kube.Log{{Container: "web", Sample: "panic: x\n", HasPanic: rapid.Bool().Draw(rt, "panics")}})
				p.messages, p.times = append(p.messages, got.Message), append(p.times, now)
				if a := got.Alert; a != nil {
					if a.State != external.StateFiring || f.Message.Fault.Kind == kube.CrashLoop && r.firing["crash_loop "+a.Key] != a.Episode {
						rt.Errorf("logs bring back %+v", a)
					}
				}
			},
			"a restart": func(*rapid.T) { restarted() },
			"a restart after an alert whose fault was not published": func(rt *rapid.T) {
				hears(p.b.Pod(state(rt, index(rt)), now), true)
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
					rt.Errorf("%d crash loops are told of %d workloads that have one: %v", n, firing, r.firing)
				}
			},
		})
		for i := range 8 {
			hears(p.b.Gone(replicaObject(i), now), false)
		}
		if s := p.b.Stats(); len(r.firing) != 0 || s.Groups != 0 || s.Open != 0 || s.Waiting != 0 {
			rt.Errorf("%v is left, %+v", r.firing, s)
		}
	})
}

func workloadOf(f fault.Finding) string {
	if f.Alert != nil {
		return f.Alert.Fault.Workload
	}
	return ""
}

func (r *readers) loops() (keys []string) {
	for key := range r.firing {
		if strings.HasPrefix(key, "crash_loop ") {
			keys = append(keys, key)
		}
	}
	return keys
}

// hears takes an alert; others says that faults of its workload are told and not over.
func (r *readers) hears(a *external.Alert, others bool, now time.Time) {
	if a == nil || a.Fault.Fault != kube.CrashLoop && a.Fault.Fault != kube.ImagePull {
		return
	}
	key := a.Fault.Fault + " " + a.Key
	before, firing := r.firing[key]
	switch {
	case a.State == external.StateResolved:
		if firing && before != a.Episode {
			r.rt.Errorf("%s: %s ends, which is %s", key, a.Episode, before)
		}
		if a.Fault.Fault == kube.CrashLoop && others {
			r.rt.Errorf("%s ends while it lasts", key)
		}
		delete(r.firing, key)
		delete(r.said, key)
	case firing:
		if before != a.Episode {
			r.rt.Errorf("%s is told as %s, which is %s", key, a.Episode, before)
		}
		if last, ok := r.said[key]; ok && now.Sub(last) < fault.UpdateInterval {
			r.rt.Errorf("%s is told again after %s", key, now.Sub(last))
		}
		r.said[key] = now
	default:
		if r.was[key+a.Episode] {
			r.rt.Errorf("%s: %s is told as news again", key, a.Episode)
		}
		r.firing[key], r.said[key], r.was[key+a.Episode] = a.Episode, now, true
	}
}
