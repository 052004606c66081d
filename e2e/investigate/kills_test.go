package investigate

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness/investigation"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
)

// killed is the configuration of the tests that kill the process: two stages, tools over HTTP and
// of a process.
const killed = `
llm_providers:
  chat: { type: openai, model: chat-model, base_url: "$MODELS/v1", api_key_env: "" }
  claude: { type: anthropic, model: claude-model, base_url: "$MODELS", api_key_env: "" }
mcp_servers:
  cluster: { transport: { type: http, url: "$TOOLS" }, read_only_tools: [probe] }
  local: { transport: { type: stdio, command: "$PROGRAM", args: [serve-tools, local, "$DIR"] }, read_only_tools: [probe] }
agents:
  scout: { mcp_servers: [cluster, local] }
  writer: { mcp_servers: [cluster] }
agent_chains:
  both:
    executive_summary_provider: claude
    stages:
      - { name: look, agents: [{ name: scout }] }
      - { name: judge, agents: [{ name: writer, llm_provider: claude }] }
defaults: { llm_provider: chat }
queue: { worker_count: 20, max_concurrent_sessions: 20 }
`

// afterUnknown is the result of a call that must not be repeated.
const afterUnknown = "unknown: the process ended during the call"

// scripted is a session of the chain "both": scout calls three tools one after the other and
// answers, writer concludes, and the summary follows.
func scripted(q turn, third string) modeltest.Answer {
	switch {
	case q.Agent == investigation.Executive:
		return q.Say("in short")
	case q.Agent == "writer":
		return q.Conclude("likely", "the memory limit", "scout_1", "its memory limit of 64 MiB is too small")
	case len(q.Results) == 0:
		return q.Call("cluster__lookup", map[string]any{"name": q.Subject + "-1"})
	case len(q.Results) == 1:
		return q.Call("local__lookup", map[string]any{"name": q.Subject + "-2"})
	case len(q.Results) == 2:
		return q.Call(third, map[string]any{"until": q.Subject})
	}
	return q.Say("the memory limit is too small")
}

// TestKill kills the whole process while sessions stand at each kind of step. Each of them goes on
// where it was.
func TestKill(t *testing.T) {
	t.Parallel()
	sys := investigation.Start(t, killed)
	type session struct {
		name, tool string
		// stalls is the step that has no answer before the kill, if it is one of a model.
		stalls func(turn) bool
		// models and calls are the repetitions after the kill.
		models, calls int
		id, subject   string
	}
	sessions := []*session{
		{name: "in the first model call", tool: "cluster__wait", stalls: func(q turn) bool { return q.Agent == "scout" && len(q.Results) == 0 }, models: 1},
		{name: "in a model call that knows results", tool: "cluster__wait", stalls: func(q turn) bool { return q.Agent == "scout" && len(q.Results) == 2 }, models: 1},
		{name: "in a tool call over HTTP", tool: "cluster__wait", calls: 1},
		{name: "in a tool call of a process", tool: "local__wait", calls: 1},
		{name: "in a tool call over HTTP that may not be repeated", tool: "cluster__probe"},
		{name: "in a tool call of a process that may not be repeated", tool: "local__probe"},
		{name: "between two stages", tool: "cluster__wait", stalls: func(q turn) bool { return q.Agent == "writer" }, models: 1},
		{name: "in the executive summary", tool: "cluster__wait", stalls: func(q turn) bool { return q.Agent == investigation.Executive }, models: 1},
	}
	for _, s := range sessions {
		stalled := false
		s.subject = sys.Models.Script(func(q turn) modeltest.Answer {
			if s.stalls != nil && s.stalls(q) && !stalled {
				stalled = true
				return investigation.Stall()
			}
			return scripted(q, s.tool)
		})
		if s.stalls != nil { // its tool call does not wait
			sys.Tools.Release(t, s.subject)
		}
		s.id = sys.Submit(t, "both", s.subject)
	}
	for _, s := range sessions {
		investigation.Wait(t, "the session "+s.name, func() bool {
			if s.stalls != nil {
				return slices.ContainsFunc(sys.Models.Asked(s.subject), s.stalls)
			}
			_, tool, _ := strings.Cut(s.tool, "__")
			return sys.Tools.Count(t, tool, s.subject) == 1
		})
	}
	sys.Kill(t)
	sys.Up(t)
	up := time.Now()
	for _, s := range sessions {
		if s.stalls == nil {
			sys.Tools.Release(t, s.subject)
		}
	}
	for _, s := range sessions {
		got := sys.Await(t, s.id, "completed")
		t.Logf("%s: completed %.1f s after the restart", s.name, time.Since(up).Seconds())
		asked := sys.Models.Asked(s.subject)
		if want := 6 + s.models; len(asked) != want {
			t.Errorf("%s: %d requests to models, want %d", s.name, len(asked), want)
		}
		_, tool, _ := strings.Cut(s.tool, "__")
		if n, first, second := sys.Tools.Count(t, tool, s.subject), sys.Tools.Count(t, "lookup", s.subject+"-1"), sys.Tools.Count(t, "lookup", s.subject+"-2"); n != 1+s.calls || first != 1 || second != 1 {
			t.Errorf("%s: %s was called %d times, the two lookups %d and %d times; want %d, 1 and 1", s.name, tool, n, first, second, 1+s.calls)
		}
		unknown := false
		for _, q := range asked {
			for _, r := range q.Results {
				unknown = unknown || strings.Contains(r.Text, afterUnknown)
			}
		}
		if want := tool == "probe"; unknown != want {
			t.Errorf("%s: the model reads that a result is unknown: %t, want %t", s.name, unknown, want)
		}
		if c := got.Conclusion; c.Confidence != "likely" || len(c.Evidence) != 1 || !c.Evidence[0].Supported {
			t.Errorf("%s: conclusion %+v, want it likely, with evidence from before the kill", s.name, c)
		}
	}
}
