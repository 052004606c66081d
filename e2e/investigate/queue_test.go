package investigate

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/e2e/harness/investigation"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
)

// plain is a configuration with one agent and one server, and room for more settings.
const plain = `
llm_providers:
  chat: { type: openai, model: chat-model, base_url: "$MODELS/v1", api_key_env: "" }
mcp_servers:
  cluster: { transport: { type: http, url: "$TOOLS" }, read_only_tools: [probe] }
agents:
  good: { mcp_servers: [cluster] }
agent_chains:
  simple: { stages: [{ name: look, agents: [{ name: good }] }] }
`

// TestConcurrency checks that max_concurrent_sessions holds, that the others wait in their order,
// that the queue is bounded, and that a session that waits is cancelled at once.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	const atOnce, queued = 2, 5
	sys := investigation.Start(t, plain+fmt.Sprintf(`
defaults: { llm_provider: chat }
queue: { worker_count: 20, max_concurrent_sessions: %d, max_queued_sessions: %d }
`, atOnce, queued))
	gates := map[string]*investigation.Gate{}
	var ids, subjects []string
	submit := func() {
		gate := investigation.NewGate(t)
		subject := sys.Models.Script(func(q turn) modeltest.Answer {
			if q.Agent == investigation.Executive {
				return q.Say("in short")
			}
			return gate.Hold(q.Say("done"))
		})
		gates[subject] = gate
		ids, subjects = append(ids, sys.Submit(t, "simple", subject)), append(subjects, subject)
	}
	// asked returns the subjects of the agents' requests, in their order.
	asked := func() (all []string) {
		for _, q := range sys.Models.Turns() {
			if q.Agent == "good" {
				all = append(all, q.Subject)
			}
		}
		return all
	}
	for range atOnce {
		submit()
	}
	investigation.Wait(t, "the first sessions", func() bool { return len(asked()) == atOnce })
	for range queued {
		submit()
	}
	var open struct {
		Active []investigation.Session `json:"active"`
		Queued []investigation.Session `json:"queued"`
	}
	sys.Get(t, "/sessions/active", &open)
	var positions []string
	for _, s := range open.Queued {
		positions = append(positions, fmt.Sprintf("%s at %d is %s", s.ID, s.QueuePosition, s.Status))
	}
	var want []string
	for i, id := range ids[atOnce:] {
		want = append(want, fmt.Sprintf("%s at %d is pending", id, i+1))
	}
	if diff := cmp.Diff(want, positions); diff != "" || len(open.Active) != atOnce {
		t.Errorf("%d active sessions, want %d; queue (-want +got):\n%s", len(open.Active), atOnce, diff)
	}
	body := e2etest.JSON(t, map[string]any{"chain": "simple", "data": "one too many"})
	if a := sys.Send(t, http.MethodPost, "/alerts", body); a.Status != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" {
		t.Errorf("over a full queue: %d with Retry-After %q, want 429 with one: %s", a.Status, a.Header.Get("Retry-After"), a.Body)
	}

	cancelled := atOnce + 1
	sys.Cancel(t, ids[cancelled])
	if got := sys.Session(t, ids[cancelled]); got.Status != "cancelled" || len(got.Stages) != 0 || got.StartedAt != nil {
		t.Errorf("the cancelled session is %s with %d stages, want cancelled at once, without any", got.Status, len(got.Stages))
	}
	if a := sys.Send(t, http.MethodPost, "/sessions/"+ids[cancelled]+"/cancel", ""); a.Status != http.StatusConflict {
		t.Errorf("cancelling again answers %d %s, want 409", a.Status, a.Body)
	}
	waiting := slices.Delete(slices.Clone(subjects), cancelled, cancelled+1)
	for i := range waiting {
		next := i + atOnce
		if all := asked(); len(all) != min(next, len(waiting)) {
			t.Fatalf("%d sessions have asked a model and %d of them were answered, want at most %d at once", len(all), i, atOnce)
		}
		gates[asked()[i]].Open()
		if next >= len(waiting) {
			continue
		}
		investigation.Wait(t, "the next session", func() bool { return len(asked()) > next })
		if got := asked()[next]; got != waiting[next] {
			t.Errorf("session %s asks next, want the oldest that waits: %s", got, waiting[next])
		}
	}
	for i, id := range ids {
		if i != cancelled {
			sys.Await(t, id, "completed")
		}
	}
	if n := len(sys.Models.Asked(subjects[cancelled])); n != 0 {
		t.Errorf("%d requests of the cancelled session, want none", n)
	}
}

// TestTimeouts checks the three time-outs, each with settings of its own.
func TestTimeouts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, settings string
		answer         func(turn) modeltest.Answer
		status, says   string
		requests       int
	}{
		{
			name: "session", settings: "defaults: { llm_provider: chat }\nqueue: { session_timeout: 2s }\n",
			answer: func(turn) modeltest.Answer { return investigation.Stall() },
			status: "timed_out", says: "the session took longer than 2s", requests: 1,
		},
		{
			name: "iteration", settings: "defaults: { llm_provider: chat, iteration_timeout: 1s }\n",
			answer: func(turn) modeltest.Answer { return investigation.Stall() },
			status: "failed", says: "2 iterations in a row took longer than 1s", requests: 2,
		},
		{
			name: "tool", settings: "defaults: { llm_provider: chat, tool_timeout: 1s }\n",
			answer: func(q turn) modeltest.Answer {
				if q.Agent == "good" && len(q.Results) == 0 {
					return q.Call("cluster__wait", map[string]any{"until": q.Subject})
				}
				return q.Say("without the tool")
			},
			status: "completed", requests: 3,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sys := investigation.Start(t, plain+c.settings)
			subject := sys.Models.Script(c.answer)
			id := sys.Submit(t, "simple", subject)
			got := sys.Await(t, id, c.status)
			if text := investigation.Value(got.ErrorMessage); !strings.Contains(text, c.says) {
				t.Errorf("error_message %q, want %q in it", text, c.says)
			}
			if n := len(sys.Models.Asked(subject)); n > c.requests {
				t.Errorf("%d requests, want at most %d", n, c.requests)
			}
			for _, e := range sys.Timeline(t, id) {
				if e.Status == "streaming" {
					t.Errorf("event %+v of an ended session, want it ended", e)
				}
			}
			if c.status != "completed" {
				if got.FinalAnalysis != nil || len(got.Stages) != 1 || got.Stages[0].Status != c.status {
					t.Errorf("final_analysis %v and stages %v, want none and one that is %s", got.FinalAnalysis, got.Outline(), c.status)
				}
				return
			}
			if text := lastResult(t, sys, subject); strings.Contains(text, "released") || strings.Contains(text, "cancelled") {
				t.Errorf("the model reads %q, want that the tool took too long", text)
			}
			if n := sys.Tools.Count(t, "wait", subject); n != 1 {
				t.Errorf("the tool was called %d times, want once: a time-out is not repeated", n)
			}
		})
	}
}

// replica is a tocsin investigator in a process of its own.
type replica struct {
	*harness.Process
	url string
}

// TestReplicas runs several investigators on one bus: the bound holds over all of them, any of them
// answers, and another one goes on when one is killed.
func TestReplicas(t *testing.T) {
	t.Parallel()
	const replicas = 3
	sys := investigation.Prepare(t, plain+`
defaults: { llm_provider: chat }
queue: { worker_count: 1, max_concurrent_sessions: 3 }
`)
	sys.Bus = e2etest.UpIn(t, sys.StateDir)
	all := make([]*replica, replicas)
	for i := range all {
		all[i] = startReplica(t, sys)
	}
	at := func(i int) *investigation.System {
		sys.Bus.InvestigatorURL = all[i%replicas].url
		return sys
	}
	for i := range all {
		at(i).AwaitServers(t)
	}
	gate := investigation.NewGate(t)
	var ids, subjects []string
	for i := range 2 * replicas {
		held := true
		subject := sys.Models.Script(func(q turn) modeltest.Answer {
			switch {
			case q.Agent == investigation.Executive:
				return q.Say("in short")
			case len(q.Results) == 0:
				return q.Call("cluster__lookup", map[string]any{"name": q.Subject})
			case held:
				held = false
				return gate.Hold(q.Say("done"))
			}
			return q.Say("done")
		})
		ids, subjects = append(ids, at(i).Submit(t, "simple", subject)), append(subjects, subject)
	}
	// A replica takes one session at a time, so each of them has one.
	investigation.Wait(t, "a session in each replica", func() bool { now, _, _ := gate.Waiting(); return now == replicas })
	for i := range all {
		for _, id := range ids {
			if got := at(i).Session(t, id); got.ID != id {
				t.Errorf("replica %d shows session %s as %s", i, id, got.ID)
			}
		}
	}
	// Two of them end; their sessions go on elsewhere, while the calls of the third stay open.
	for _, r := range all[1:] {
		if err := r.Kill(); err != nil {
			t.Fatal(err)
		}
		e2etest.CheckLog(t, r.Log)
	}
	last := ids[len(ids)-1]
	at(0).Cancel(t, last)
	if got := at(0).Session(t, last); got.Status != "cancelled" {
		t.Errorf("the last session is %s, want cancelled: it waits", got.Status)
	}
	gate.Open()
	for _, id := range ids[:len(ids)-1] {
		at(0).Await(t, id, "completed")
	}
	if _, most, _ := gate.Waiting(); most > replicas {
		t.Errorf("%d sessions were at a model at once, want at most %d", most, replicas)
	}
	// The calls under way in the two processes are asked again, and no tool call is repeated.
	again := 0
	for i, subject := range subjects[:len(subjects)-1] {
		if n := sys.Tools.Count(t, "lookup", subject); n != 1 {
			t.Errorf("session %d: the tool was called %d times, want once", i, n)
		}
		asked := map[string]int{}
		for _, q := range sys.Models.Asked(subject) {
			asked[q.Key()]++
		}
		if first := asked[investigation.StepKey(subject, "good", 0)]; first != 1 {
			t.Errorf("session %d: the first model call was made %d times, want once: %v", i, first, asked)
		}
		again += asked[investigation.StepKey(subject, "good", 1)] - 1
	}
	if again != replicas-1 {
		t.Errorf("%d model calls were made again, want %d: those of the killed processes", again, replicas-1)
	}
}

// startReplica runs an investigator on the bus of the state directory.
func startReplica(t *testing.T, sys *investigation.System) *replica {
	t.Helper()
	p := e2etest.RunUntilKilled(t, sys.StateDir, "investigator", "--investigator="+sys.File, "--investigator-addr=127.0.0.1:0")
	r := &replica{Process: p}
	investigation.Wait(t, "the address of an investigator", func() bool {
		_, after, found := strings.Cut(p.Stdout.String(), "http://")
		address, _, whole := strings.Cut(after, "\n")
		r.url = "http://" + strings.TrimSpace(address)
		return found && whole
	})
	investigation.AwaitReady(t, r.url, p)
	return r
}
