package fault_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/kubewatch/fault"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

// cluster is the real state of a cluster. The tracker sees only what it is shown.
type cluster struct {
	*player
	rt      *rapid.T
	now     time.Time
	pods    []*realPod
	made    int
	runs    int
	failed  int // runs that ended with an error
	crashes int // published
	events  []*kube.Event
	// last is the state of the newest fault of each key.
	last map[string]string
}

// realPod is a pod with one container.
type realPod struct {
	meta  fault.Meta
	c     container
	shown bool
}

func (c *cluster) found(found []fault.Finding) {
	c.take(found, c.now)
	for _, f := range found {
		if f.MsgID == "" || f.Message.Fault == nil {
			continue
		}
		m := f.Message
		switch kind := m.Fault.Kind; kind {
		case kube.Crash, kube.OutOfMemory:
			c.crashes++
		case kube.Warning:
		default:
			key, _, _ := strings.Cut(m.Fault.ID, "-")
			if c.last[key] == m.Fault.State || c.last[key] == "" && m.Fault.State == kube.StateOver {
				c.rt.Errorf("%s: state %s published after %q, want each state once, the fault first", kind, m.Fault.State, c.last[key])
			}
			c.last[key] = m.Fault.State
		}
	}
}

func (c *cluster) pod(t *rapid.T) *realPod {
	if len(c.pods) == 0 || len(c.pods) < 3 && rapid.IntRange(0, 9).Draw(t, "new") == 0 {
		c.made++
		p := &realPod{meta: fault.Meta{Namespace: "shop", Name: fmt.Sprint("web-", c.made%2), UID: fmt.Sprint("u-", c.made)}}
		p.c = container{Name: "web", Running: true, Started: c.now}
		c.pods = append(c.pods, p)
		return p
	}
	return c.pods[rapid.IntRange(0, len(c.pods)-1).Draw(t, "pod")]
}

func (c *cluster) show(p *realPod, first bool) {
	state := &fault.Pod{Meta: p.meta, Node: "n1", Containers: []container{p.c}}
	state.Initial = first
	c.found(c.tracker.Pod(state, c.now))
	p.shown = true
}

// TestProperties checks that no fault is published twice and that each one that begins ends
// once, over random changes of a cluster that shows a random part in random order, and
// over restarts.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &cluster{player: play(t), rt: rt, now: t0, last: map[string]string{}}
		rt.Repeat(map[string]func(*rapid.T){
			"time passes": func(rt *rapid.T) {
				c.now = c.now.Add(rapid.SampledFrom([]time.Duration{sec, 10 * sec, min, 11 * min}).Draw(rt, "for"))
				if next := c.tracker.Next(); !next.IsZero() && !next.After(c.now) {
					c.found(c.tracker.Tick(c.now))
				}
				if next := c.tracker.Next(); !next.IsZero() && !next.After(c.now) {
					rt.Errorf("Next after Tick at %s = %s, want later", c.now, next)
				}
			},
			"a container ends": func(rt *rapid.T) {
				p := c.pod(rt)
				if !p.c.Running {
					return
				}
				c.runs++
				end := &fault.Ended{ExitCode: rapid.SampledFrom([]int{0, 1, 137}).Draw(rt, "code"), At: c.now, ID: fmt.Sprint("run-", c.runs)}
				if end.ExitCode == 137 && rapid.Bool().Draw(rt, "out of memory") {
					end.Reason = "OOMKilled"
				}
				if end.ExitCode != 0 {
					c.failed++
				}
				p.c = container{Name: "web", Restarts: p.c.Restarts, Ended: end, Last: p.c.Last}
			},
			"a container waits": func(rt *rapid.T) {
				if p := c.pod(rt); p.c.Ended != nil {
					p.c = container{Name: "web", Restarts: p.c.Restarts, Waiting: "CrashLoopBackOff", Last: p.c.Ended}
					c.events = append(c.events, &kube.Event{
						Timestamp: c.now, Type: kube.TypeWarning, Reason: "BackOff", Message: "Back-off restarting failed container", UID: fmt.Sprint("e-", len(c.events)),
						InvolvedObject: kube.Object{Kind: "Pod", Namespace: "shop", Name: p.meta.Name, UID: p.meta.UID, Container: rapid.SampledFrom([]string{"web", ""}).Draw(rt, "named")},
					})
				}
			},
			"a container starts": func(rt *rapid.T) {
				p := c.pod(rt)
				if p.c.Running {
					return
				}
				last := p.c.Last
				if p.c.Ended != nil {
					last = p.c.Ended
				}
				p.c = container{Name: "web", Restarts: p.c.Restarts + 1, Running: true, Started: c.now, Last: last}
			},
			"a pod is shown": func(rt *rapid.T) { c.show(c.pod(rt), false) },
			"an event comes": func(rt *rapid.T) {
				if len(c.events) > 0 {
					c.found(c.tracker.Event(c.events[rapid.IntRange(0, len(c.events)-1).Draw(rt, "event")], c.now))
				}
			},
			"a warning comes": func(rt *rapid.T) {
				p := c.pod(rt)
				c.found(c.tracker.Event(&kube.Event{
					Timestamp: c.now, Type: kube.TypeWarning, Reason: rapid.SampledFrom([]string{"Unhealthy", "FailedMount"}).Draw(rt, "reason"), Count: rapid.IntRange(1, 3).Draw(rt, "count"),
					UID:            rapid.SampledFrom([]string{"w1", "w2"}).Draw(rt, "uid"),
					InvolvedObject: kube.Object{Kind: "Pod", Namespace: "shop", Name: p.meta.Name, UID: p.meta.UID},
				}, c.now))
			},
			"a pod is gone": func(rt *rapid.T) {
				if len(c.pods) == 0 {
					return
				}
				i := rapid.IntRange(0, len(c.pods)-1).Draw(rt, "pod")
				p := c.pods[i]
				c.pods = append(c.pods[:i:i], c.pods[i+1:]...)
				if p.shown {
					c.found(c.tracker.Gone(p.meta.Object("Pod"), c.now))
				}
			},
			"a restart": func(rt *rapid.T) {
				if len(c.messages) > 0 && rapid.Bool().Draw(rt, "the newest was not published") {
					m := c.messages[len(c.messages)-1]
					c.do(lost{}, c.now)
					key, _, _ := strings.Cut(m.Fault.ID, "-")
					switch {
					case m.Fault.Kind == kube.Crash || m.Fault.Kind == kube.OutOfMemory:
						c.crashes--
					case m.Fault.State == kube.StateOver:
						c.last[key] = kube.StateFiring
					case strings.HasSuffix(m.Fault.ID, "-0"):
						c.last[key] = ""
					default:
						c.last[key] = kube.StateOver
					}
				}
				c.do(restart{}, c.now)
				for _, p := range c.pods {
					c.show(p, true)
				}
				c.found(c.tracker.Synced("Pod", c.now))
			},
			"": func(rt *rapid.T) {
				if c.crashes > c.failed {
					rt.Errorf("%d crashes published, want at most %d", c.crashes, c.failed)
				}
			},
		})
		for _, p := range c.pods {
			c.show(p, false)
			c.found(c.tracker.Gone(p.meta.Object("Pod"), c.now))
		}
		// Faults that only events report end by themselves.
		c.now = c.now.Add(24 * time.Hour)
		c.found(c.tracker.Tick(c.now))
		for key, state := range c.last {
			if state == kube.StateFiring {
				rt.Errorf("fault %s lasts after all pods are gone, want it over", key)
			}
		}
		if s := c.tracker.Stats(); s.Open != 0 || s.Objects != 0 || s.Waiting != 0 {
			rt.Errorf("Stats at the end = %+v, want nothing open, known or waiting", s)
		}
	})
}
