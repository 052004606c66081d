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

// TestEachAlertIsDeliveredOnce plays any interleaving of alerts, hooks, waits and observes
// of one client, also at the same time: nothing is lost or delivered twice. Repetitions
// are delivered as a count.
func TestEachAlertIsDeliveredOnce(t *testing.T) {
	r := newRig(t)
	// Each play starts a gateway and takes some 200 ms.
	checks := flag.Lookup("rapid.checks").Value
	before := checks.String()
	if err := checks.Set("20"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = checks.Set(before) }()
	plays := 0
	rapid.Check(t, func(rt *rapid.T) {
		plays++
		p := &play{t: t, rig: r, app: fmt.Sprint("app", plays), client: fmt.Sprint("agent", plays), delivered: map[string]int{}, sent: map[string]int{}}
		// The inbox starts here: alerts that other plays left are not delivered.
		if !testrig.Poll(func() bool { _, err := r.TryHook(p.client, testrig.Call("PostToolUse")); return err == nil }) {
			rt.Fatal("timed out: the hook can't reach the bus")
		}
		p.agent = r.open(t, p.client)
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			// These happen at the same time; only one of them reads stdin.
			together := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"tool", "tool too", "prompt", "stop", "wait", "observe"}), 0, 3, rapid.ID[string]).Draw(rt, "together")
			alerts := rapid.SliceOfN(rapid.IntRange(0, 9), 0, 4).Draw(rt, "alerts")
			var all sync.WaitGroup
			for _, what := range together {
				all.Go(func() { p.do(what) })
			}
			for _, key := range alerts {
				p.publish(key)
			}
			all.Wait()
		}
		p.rest()
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

// play is one client with a gateway and hooks.
type play struct {
	t           *testing.T
	rig         *rig
	app, client string
	agent       *client
	sent        map[string]int

	mu        sync.Mutex // guards what follows: readers deliver at the same time
	delivered map[string]int
	// unsure: a claim was not answered in time. It may have been made, and its alerts are
	// in history alone then.
	unsure bool
}

func (p *play) publish(key int) {
	a := p.rig.Alert(alert.Severities()[key%3])
	a.App, a.DedupKey = p.app, fmt.Sprint("key", key)
	p.rig.Publish(p.t, a)
	p.sent[a.DedupKey]++
}

func (p *play) do(what string) {
	switch what {
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
		p.hear(block)
	case "observe":
		if blocks := p.agent.call(p.t, "observe", `{}`).blocks; len(blocks) > 1 {
			p.hear(blocks[1])
		}
	}
}

func (p *play) tool() { p.hook(testrig.Call("PostToolUse")) }

// hook calls once: on a busy machine it delivers nothing, and a later call does.
func (p *play) hook(input string) {
	line, err := p.rig.TryHook(p.client, input)
	if err != nil && !errors.Is(err, bus.ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded) {
		p.t.Error(err)
	}
	if err != nil && strings.Contains(err.Error(), "save the inbox position") {
		p.mu.Lock()
		p.unsure = true
		p.mu.Unlock()
	}
	p.hear(testrig.AnswerText(p.t, line))
}

func (p *play) hear(block string) {
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

// rest takes what is left, until all is delivered.
func (p *play) rest() {
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
