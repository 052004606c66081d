package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/gateway/delivery"
	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// TestHookAndObserveDeliverEachAlertOnce, in either order.
func TestHookAndObserveDeliverEachAlertOnce(t *testing.T) {
	r := newRig(t)
	if got := r.Hook(t, "agent", testrig.Call("PostToolUse")); got != "" {
		t.Fatalf("the hook delivers %s, want nothing", got)
	}
	c := r.open(t, "agent")
	r.Publish(t, r.Alert(alert.Info))
	r.Publish(t, r.Alert(alert.Error))
	c.pending(t, 2)
	if got := r.Hook(t, "agent", testrig.Call("PostToolUse")); !strings.HasPrefix(got, "--- ALERTS (2) ---\n[") || testrig.Titles(t, got) != "alert02 alert01" {
		t.Fatalf("got %v, want a block with alert02 and alert01", got)
	}
	for _, event := range []string{"PostToolUse", "UserPromptSubmit", "Stop", "PreToolUse", "SessionEnd"} {
		if got := r.Hook(t, "agent", testrig.Call(event)); got != "" {
			t.Errorf("%s delivers %s again, want nothing", event, got)
		}
	}
	if got := c.delivered(t); got != "" {
		t.Errorf("observe delivers %s again, want nothing", got)
	}
	r.Publish(t, r.Alert(alert.Warning))
	c.pending(t, 1)
	if got := c.delivered(t); got != "alert03" {
		t.Errorf("got %v, want %v", got, "alert03")
	}
	if got := r.Hook(t, "agent", testrig.Call("UserPromptSubmit")); got != "" {
		t.Errorf("the hook delivers %s again, want nothing", got)
	}
	r.Publish(t, r.Alert(alert.Warning))
	if got := testrig.DeliveredTitles(t, r.Hook(t, "agent", testrig.Call("UserPromptSubmit"))); got != "alert04" {
		t.Errorf("got %v, want %v", got, "alert04")
	}
	if got := testrig.DeliveredTitles(t, r.Hook(t, "another", testrig.Call("PostToolUse"))); got != "alert02 alert04 alert03 alert01" {
		t.Errorf("the hook of another client delivered %s, want all four alerts", got)
	}
}

// TestEachAlertIsDeliveredOnce runs random interleavings of alerts, hooks, waits and observes
// of one client, some of them concurrent. No alert is lost or delivered twice; repetitions
// are delivered as a count.
func TestEachAlertIsDeliveredOnce(t *testing.T) {
	r := newRig(t)
	// Each scenario starts a gateway and takes about 200 ms.
	checks := flag.Lookup("rapid.checks").Value
	before := checks.String()
	if err := checks.Set("20"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = checks.Set(before) }()
	scenarios := 0
	rapid.Check(t, func(rt *rapid.T) {
		scenarios++
		p := &scenario{t: t, rig: r, app: fmt.Sprint("app", scenarios), client: fmt.Sprint("agent", scenarios), delivered: map[string]int{}, sent: map[string]int{}}
		// The inbox starts here: alerts left by other scenarios are not delivered.
		if !testrig.Poll(func() bool { _, err := r.TryHook(p.client, testrig.Call("PostToolUse")); return err == nil }) {
			rt.Fatal("timed out: the hook can't reach the bus")
		}
		p.agent = r.open(t, p.client)
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			// These happen at the same time; only one of them reads stdin.
			together := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"tool", "tool too", "prompt", "stop", "wait", "observe"}), 0, 3, rapid.ID[string]).Draw(rt, "together")
			alerts := rapid.SliceOfN(rapid.IntRange(0, 9), 0, 4).Draw(rt, "alerts")
			var all sync.WaitGroup
			for _, step := range together {
				all.Go(func() { p.do(step) })
			}
			for _, key := range alerts {
				p.publish(key)
			}
			all.Wait()
		}
		p.takeRest()
		if err := p.agent.hangUp(t); err != nil {
			rt.Fatal(err)
		}
		for key, n := range p.sent {
			if delivered := p.delivered[key]; delivered > n || delivered < n && !p.unsure {
				rt.Fatalf("%s was delivered %d times, want %d (fewer only after an unsure end)", key, p.delivered[key], n)
			}
		}
	})
}

// scenario is one client with a gateway and hooks.
type scenario struct {
	t           *testing.T
	rig         *rig
	app, client string
	agent       *client
	sent        map[string]int

	mu        sync.Mutex // guards the fields below: readers deliver concurrently
	delivered map[string]int
	// unsure reports that a claim was not answered in time. It may have succeeded; then its
	// alerts are in history only.
	unsure bool
}

func (p *scenario) publish(key int) {
	a := p.rig.Alert(alert.Severities()[key%3])
	a.App, a.DedupKey = p.app, fmt.Sprint("key", key)
	p.rig.Publish(p.t, a)
	p.sent[a.DedupKey]++
}

func (p *scenario) do(step string) {
	switch step {
	case "tool", "tool too":
		p.tool()
	case "prompt":
		p.hook(testrig.Call("UserPromptSubmit"))
	case "stop":
		p.hook(testrig.Call("Stop"))
	case "wait":
		block, err := delivery.WaitForAlert(context.WithoutCancel(p.t.Context()), delivery.WaitConfig{
			Bus: bus.Config{Dir: p.rig.Dir}, Inbox: inbox.NamedKey(p.client), Timeout: 50 * time.Millisecond, Logger: testrig.Quiet(),
		})
		if err != nil && !errors.Is(err, delivery.ErrNoAlert) {
			p.t.Error(err)
		}
		p.record(block)
	case "observe":
		if blocks := p.agent.call(p.t, "observe", `{}`).blocks; len(blocks) > 1 {
			p.record(blocks[1])
		}
	}
}

func (p *scenario) tool() { p.hook(testrig.Call("PostToolUse")) }

// hook calls the hook once. On a busy machine it may deliver nothing; a later call does.
func (p *scenario) hook(input string) {
	line, err := p.rig.TryHook(p.client, input)
	if err != nil && !errors.Is(err, bus.ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded) {
		p.t.Error(err)
	}
	if err != nil && strings.Contains(err.Error(), "save the inbox position") {
		p.mu.Lock()
		p.unsure = true
		p.mu.Unlock()
	}
	p.record(testrig.AnswerText(p.t, line))
}

func (p *scenario) record(block string) {
	if block == "" {
		return
	}
	if strings.Contains(block, "left out here") {
		p.t.Errorf("the block = %.200s, want all alerts in it", block)
	}
	lines := strings.Split(block, "\n")
	var alerts []alert.Alert
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &alerts); err != nil {
		p.t.Errorf("decode the alerts of %s: %v", block, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range alerts {
		if a.App == p.app {
			p.delivered[a.DedupKey] += a.Occurrences()
		}
	}
}

// takeRest takes the pending alerts until all are delivered.
func (p *scenario) takeRest() {
	want, got := 0, 0
	for _, n := range p.sent {
		want += n
	}
	testrig.Poll(func() bool {
		p.tool()
		p.do("observe")
		got = 0
		for _, n := range p.delivered {
			got += n
		}
		return got >= want
	})
}
