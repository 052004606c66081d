package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// writers is the number of concurrent writers of events. An API server on two
// processors accepts about a thousand events a second.
const writers = 8

// endless is a limit that no test reaches.
const endless = 1 << 40

// flood creates events in a namespace, up to a limit that may change meanwhile or until
// ctx ends, and returns their messages. made is their number so far.
func (w *world) flood(ctx context.Context, ns, prefix string, limit, made *atomic.Int64) (messages []string, err error) {
	var mu sync.Mutex
	var all errgroup.Group
	for next := range writers {
		all.Go(func() error {
			for i := next; int64(i) < limit.Load() && ctx.Err() == nil; i += writers {
				about := thing(ns, fmt.Sprintf("%s-%d", prefix, i))
				_, err := w.server.Event(ctx, ns, *about, corev1.EventTypeNormal, "Flood", about.Name)
				if err != nil && ctx.Err() == nil {
					return err
				}
				if err != nil {
					continue // ctx has ended
				}
				made.Add(1)
				mu.Lock()
				messages = append(messages, about.Name)
				mu.Unlock()
			}
			return nil
		})
	}
	err = all.Wait()
	return messages, err
}

// exactly returns what is wrong with a list that should have each once, in any order.
func exactly(got, want []string) string {
	times := map[string]int{}
	for _, name := range got {
		times[name]++
	}
	var wrong []string
	for _, name := range want {
		if times[name] != 1 {
			wrong = append(wrong, fmt.Sprintf("%s %d times", name, times[name]))
		}
		delete(times, name)
	}
	for name, n := range times {
		wrong = append(wrong, fmt.Sprintf("%s %d times, which were not created", name, n))
	}
	if len(wrong) == 0 {
		return ""
	}
	slices.Sort(wrong)
	return fmt.Sprintf("%d are wrong, of %d: %s", len(wrong), len(want), strings.Join(wrong[:min(10, len(wrong))], ", "))
}

// TestKillUnderLoad kills kubewatch while over a thousand events are created: one that
// is started again, and then one that took over, continues where it was. A subscriber
// and the bus get each event and each resolved fault once.
func TestKillUnderLoad(t *testing.T) {
	t.Parallel()
	all := together(t)
	w := all.as(t, all.server.Kubeconfig())
	ns := w.server.Namespace(t)
	c := w.stdio(t)
	events := c.subscribe(t, filters{"namespaces": []string{ns}, "reason": "Flood"})
	faults := c.subscribe(t, filters{"namespaces": []string{ns}, "mode": "faults"})
	var want, crashed []string
	round := func(name string, watching, next func() *harness.Process) {
		t.Helper()
		began, pods := time.Now(), make([]*corev1.Pod, 10)
		for i := range pods {
			pods[i] = w.pod(t, ns, fmt.Sprintf("%s-pod-%d", name, i), nil)
			crashed = append(crashed, pods[i].Name)
		}
		const atLeast, after = 1000, 200 // all events, and those that are created after the kill
		var limit, made atomic.Int64
		limit.Store(endless)
		ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
		defer cancel()
		flooded := make(chan error, 1)
		var names []string
		go func() {
			var err error
			names, err = w.flood(ctx, ns, name, &limit, &made)
			flooded <- err
		}()
		before := len(want)
		if !harness.Poll(ctx, patience, func() bool { return len(c.messages(events)) >= before+atLeast/4 }) {
			t.Fatalf("%s: %d events came of %d made, want at least %d", name, len(c.messages(events))-before, made.Load(), atLeast/4)
		}
		end := func(pods []*corev1.Pod) {
			for _, p := range pods {
				must(w.server.Crash(t.Context(), p, "app", 2))(t)
			}
		}
		end(pods[:3])
		if err := watching().Kill(); err != nil {
			t.Fatal(err)
		}
		killed := made.Load()
		limit.Store(max(atLeast, killed+after))
		end(pods[3:7])
		next()
		end(pods[7:])
		if err := <-flooded; err != nil {
			t.Fatal(err)
		}
		want = append(want, names...)
		if !harness.Poll(t.Context(), 2*patience, func() bool { return len(c.messages(events)) >= len(want) }) {
			t.Fatalf("%s: after its end %s", name, exactly(c.messages(events), want))
		}
		c.await(t, faults, "the last pod", func(n note) bool { return n.Data.Event != nil && n.Data.Event.Involved.Name == pods[9].Name })
		t.Logf("%s: %d of %d were made when it was killed, and all there after %s", name, killed, len(names), time.Since(began).Round(time.Millisecond))
	}
	first := w.watch
	second := func() *harness.Process { return kubewatch(t, w.bus, w.server.Kubeconfig()) }
	var again, standby *harness.Process
	round("restarted", func() *harness.Process { return first }, func() *harness.Process { again = second(); return again })
	standby = second()
	round("taken", func() *harness.Process { return again }, func() *harness.Process { return standby })

	if wrong := exactly(c.messages(events), want); wrong != "" {
		t.Errorf("at the subscriber %s, want nothing", wrong)
	}
	// Twice there was a time without a watch. Each degradation that was reported is
	// followed by a recovery.
	if !harness.Poll(t.Context(), patience, func() bool {
		degraded, recovered := errorsOf(c, events)
		return degraded == recovered && degraded <= 2
	}) {
		degraded, recovered := errorsOf(c, events)
		t.Errorf("degraded %d times, recovered %d times, want both at most twice, and as often", degraded, recovered)
	}
	if wrong := exactly(firsts(c.notesOf(faults)), crashed); wrong != "" {
		t.Errorf("of the pods %s, want nothing", wrong)
	}
	var stored, faulty []string
	for _, m := range w.published(t, ns) {
		switch {
		case m.Fault == nil:
			stored = append(stored, m.Event.Message)
		case len(m.Logs) == 0:
			faulty = append(faulty, m.Event.InvolvedObject.Name)
		}
	}
	if wrong := exactly(stored, want); wrong != "" {
		t.Errorf("on the bus %s, want nothing", wrong)
	}
	if wrong := exactly(faulty, crashed); wrong != "" {
		t.Errorf("of the pods on the bus %s, want nothing", wrong)
	}
}

// firsts returns the names of the objects of faults, without the updates with logs.
func firsts(notes []note) (names []string) {
	for _, n := range notes {
		if n.Data.FaultID != "" && len(n.Data.Logs) == 0 {
			names = append(names, n.Data.Event.Involved.Name)
		}
	}
	return names
}

// wire is a gateway over stdio, line by line.
type wire struct {
	*harness.Lines
	mu sync.Mutex
	// lines are the lines that it has written.
	lines []string
}

func dialWire(t *testing.T, w *world) *wire {
	t.Helper()
	c := &wire{}
	c.Lines = must(harness.StartLines(binary(t), w.bus.StateDir, func(_ time.Time, line []byte) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lines = append(c.lines, string(line))
	}, "--client=wire"))(t)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("tocsin gateway: %v\n%s", err, c.Log)
		}
	})
	c.request(t, 0, "initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"wire","version":"1"}}`)
	c.write(t, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	// A gateway that has just started may not know yet that a cluster is watched.
	answer, request := "", 1000
	if !harness.Poll(t.Context(), patience, func() bool {
		request++
		answer, _ = c.request(t, request, "tools/call", `{"name":"events_list_subscriptions","arguments":{}}`)
		return !strings.Contains(answer, "no Kubernetes cluster is watched")
	}) {
		t.Fatalf("events_list_subscriptions = %s after %s, want an answer without \"no Kubernetes cluster is watched\"", answer, patience)
	}
	return c
}

func (c *wire) write(t *testing.T, line string) {
	t.Helper()
	if err := c.Send([]byte(line)); err != nil {
		t.Fatal(err)
	}
}

func (c *wire) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines[:len(c.lines):len(c.lines)]
}

// request sends a request, and returns the answer and its line number.
func (c *wire) request(t *testing.T, id int, method, params string) (answer string, at int) {
	t.Helper()
	c.write(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
	prefix := fmt.Sprintf(`"id":%d,`, id)
	read := 0
	if !harness.Poll(t.Context(), patience, func() bool {
		lines := c.all()
		for ; read < len(lines); read++ {
			if strings.Contains(lines[read], prefix) && !strings.Contains(lines[read], `"method"`) {
				answer, at = lines[read], read
				return true
			}
		}
		return false
	}) {
		t.Fatalf("no answer to %s within %s, want one", method, patience)
	}
	return answer, at
}

func (c *wire) call(t *testing.T, id int, tool, args string) (text string, at int) {
	t.Helper()
	answer, at := c.request(t, id, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, args))
	var r struct {
		Result struct {
			Content []struct{ Text string }
			IsError bool
		}
	}
	if err := json.Unmarshal([]byte(answer), &r); err != nil || r.Result.IsError || len(r.Result.Content) != 1 {
		t.Fatalf("%s: got %v %s, want no IsError and 1 entry in Content", tool, err, answer)
	}
	return r.Result.Content[0].Text, at
}

func (c *wire) subscribe(t *testing.T, id int, args string) string {
	t.Helper()
	text, _ := c.call(t, id, "events_subscribe", args)
	var s struct {
		ID string `json:"subscriptionId"`
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil || s.ID == "" {
		t.Fatalf("got %v %s, want a ID", err, text)
	}
	return s.ID
}

// count returns how many notifications of a subscription there are from a line on.
func (c *wire) count(id string, from int) int {
	n := 0
	for _, line := range c.all()[from:] {
		if strings.Contains(line, `"notifications/message"`) && strings.Contains(line, id) {
			n++
		}
	}
	return n
}

// TestUnsubscribeUnderLoad checks that no notification of a subscription is written
// after the answer that ends it, and none before the answer that starts it, while
// events arrive as fast as the server accepts them.
func TestUnsubscribeUnderLoad(t *testing.T) {
	t.Parallel()
	w := together(t)
	ns := w.server.Namespace(t)
	c := dialWire(t, w)
	args := fmt.Sprintf(`{"cluster":%q,"namespaces":[%q]}`, w.cluster, ns)
	stays := c.subscribe(t, 1, args)
	ctx, stop := context.WithCancel(t.Context())
	var limit, made atomic.Int64
	limit.Store(endless)
	began := time.Now()
	flooded := make(chan error, 1)
	go func() {
		_, err := w.flood(ctx, ns, "flood", &limit, &made)
		flooded <- err
	}()
	defer func() { stop(); <-flooded }()
	for i := range 5 {
		id := c.subscribe(t, 10+i, args)
		if !harness.Poll(t.Context(), patience, func() bool { return c.count(id, 0) >= 50 }) {
			t.Fatalf("%d notifications of %s came of %d events made, want at least 50", c.count(id, 0), id, made.Load())
		}
		_, at := c.call(t, 20+i, "events_unsubscribe", fmt.Sprintf(`{"subscriptionId":%q}`, id))
		before := c.count(stays, at)
		if !harness.Poll(t.Context(), patience, func() bool { return c.count(stays, at) >= before+100 }) {
			t.Fatalf("%d notifications of the other subscription came of %d events made, want at least %d", c.count(stays, at), made.Load(), before+100)
		}
		if n := c.count(id, at+1); n > 0 {
			t.Errorf("%d notifications came after the answer to events_unsubscribe, want none", n)
		}
		for _, line := range c.all() {
			if strings.Contains(line, id) { // the first is the answer
				if strings.Contains(line, `"notifications/message"`) {
					t.Errorf("the first line with %s is the notification %s, want the answer to events_subscribe", id, line)
				}
				break
			}
		}
	}
	t.Logf("%.0f events a second", float64(made.Load())/time.Since(began).Seconds())
}
