// Package investigate runs whole investigations with the real binary: the specification's
// scenarios, kills, secrets, and bad input.
package investigate

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/e2e/harness/investigation"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
)

type turn = investigation.Turn

// scenarios is the configuration of the scenarios that can share a process. Each provider that
// fails has one scenario: its breaker counts failures over the process.
const scenarios = `
llm_providers:
  chat: { type: openai, model: chat-model, base_url: "$MODELS/v1", api_key_env: "", price: { input: 1, output: 2 } }
  responses: { type: openai, model: responses-model, base_url: "$MODELS/v1", api: responses, api_key_env: "", price: { input: 1, output: 2 } }
  claude: { type: anthropic, model: claude-model, base_url: "$MODELS", api_key_env: "", price: { input: 1, output: 2 } }
  resilience: { type: openai, model: failing-model, base_url: "$MODELS/v1", api_key_env: "", retries: 1 }
  propagation: { type: openai, model: failing-model, base_url: "$MODELS/v1", api_key_env: "", retries: 1 }
  unavailable: { type: openai, model: failing-model, base_url: "$MODELS/v1", api_key_env: "", retries: 2 }
  denied: { type: openai, model: failing-model, base_url: "$MODELS/v1", api_key_env: "" }
  limited: { type: openai, model: failing-model, base_url: "$MODELS/v1", api_key_env: "" }
  cut: { type: anthropic, model: failing-model, base_url: "$MODELS", api_key_env: "" }
  cut-responses: { type: openai, model: failing-model, base_url: "$MODELS/v1", api: responses, api_key_env: "" }
mcp_servers:
  cluster: { transport: { type: http, url: "$TOOLS" }, read_only_tools: [probe] }
  local: { transport: { type: stdio, command: "$PROGRAM", args: [serve-tools, local, "$DIR"] } }
  garbage: { transport: { type: stdio, command: "$PROGRAM", args: [serve-tools, garbage, "$DIR"] } }
  hang: { transport: { type: stdio, command: "$PROGRAM", args: [serve-tools, hang, "$DIR"] } }
  exit: { transport: { type: stdio, command: "$PROGRAM", args: [serve-tools, exit, "$DIR"] } }
  gone: { transport: { type: http, url: "http://127.0.0.1:1/" } }
  clash: { transport: { type: stdio, command: "$PROGRAM", args: [serve-tools, clash, "$DIR"] } }
agents:
  collector: { mcp_servers: [cluster] }
  network: { mcp_servers: [cluster] }
  storage: { mcp_servers: [local] }
  checker: { mcp_servers: [local] }
  writer: { mcp_servers: [cluster] }
  good: { mcp_servers: [cluster] }
  bad: { mcp_servers: [cluster] }
  unlucky: { mcp_servers: [garbage, exit, gone, cluster] }
  patient: { mcp_servers: [hang, cluster] }
  careful: { mcp_servers: [clash] }
agent_chains:
  pipeline:
    executive_summary_provider: claude
    stages:
      - { name: gather, agents: [{ name: collector }] }
      - { name: dig, agents: [{ name: network }, { name: storage, llm_provider: claude }], synthesis: { agent: SynthesisAgent, llm_provider: responses } }
      - { name: verify, agents: [{ name: checker }], replicas: 3, llm_provider: responses }
      - { name: conclude, agents: [{ name: writer }] }
  resilience:
    executive_summary_provider: resilience
    stages: [{ name: look, success_policy: any, agents: [{ name: good }, { name: bad, llm_provider: resilience }] }]
  propagation:
    stages:
      - { name: first, agents: [{ name: collector }] }
      - { name: both, success_policy: all, agents: [{ name: good }, { name: bad, llm_provider: propagation }] }
      - { name: never, agents: [{ name: writer }] }
  unavailable: { llm_provider: unavailable, fallback_providers: [claude], executive_summary_provider: chat, stages: [{ name: look, agents: [{ name: good }] }] }
  denied: { llm_provider: denied, fallback_providers: [claude], executive_summary_provider: chat, stages: [{ name: look, agents: [{ name: good }] }] }
  limited: { llm_provider: limited, fallback_providers: [claude], executive_summary_provider: chat, stages: [{ name: look, agents: [{ name: good }] }] }
  cut: { llm_provider: cut, fallback_providers: [chat], executive_summary_provider: chat, stages: [{ name: look, agents: [{ name: good }] }] }
  cut-responses: { llm_provider: cut-responses, fallback_providers: [chat], executive_summary_provider: chat, stages: [{ name: look, agents: [{ name: good }] }] }
  simple: { stages: [{ name: look, agents: [{ name: good }] }] }
  unlucky: { stages: [{ name: look, agents: [{ name: unlucky }] }] }
  patient: { stages: [{ name: look, agents: [{ name: patient }] }] }
  careful: { stages: [{ name: look, agents: [{ name: careful }] }] }
  local: { stages: [{ name: look, agents: [{ name: storage }] }] }
defaults: { llm_provider: chat, alert_type: simple }
queue: { worker_count: 20, max_concurrent_sessions: 20 }
`

// TestScenarios runs side by side, in one process, the scenarios that need no settings of
// their own.
func TestScenarios(t *testing.T) {
	t.Parallel()
	sys := investigation.Start(t, scenarios)
	for name, test := range map[string]func(*testing.T, *investigation.System){
		"Pipeline":           pipeline,
		"FailureResilience":  failureResilience,
		"FailurePropagation": failurePropagation,
		"Fallbacks":          fallbacks,
		"LargeResults":       largeResults,
		"Cancellation":       cancellation,
		"BadModels":          badModels,
		"BadServers":         badServers,
		"BadTools":           badTools,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); test(t, sys) })
	}
}

// pipeline is four stages and two syntheses: one agent, two agents of two providers, three
// replicas, one agent that concludes. All three APIs of models and both transports of tools take
// part.
func pipeline(t *testing.T, sys *investigation.System) {
	subject := sys.Models.Script(func(q turn) modeltest.Answer {
		switch {
		case q.Agent == investigation.Executive:
			return q.Say("the limit is too small")
		case q.Agent == "SynthesisAgent" && strings.Contains(q.Messages[0].Text, `the stage "dig"`):
			return q.Say("both agents blame the memory limit")
		case q.Agent == "SynthesisAgent":
			return q.Say("all replicas confirm it")
		case q.Agent == "collector" && len(q.Results) == 0:
			return q.Call("cluster__lookup", map[string]any{"name": q.Subject + "-1"})
		case q.Agent == "collector":
			return q.Say("one pod restarts")
		case q.Agent == "network" && len(q.Results) == 0:
			return q.Call("cluster__echo", map[string]any{"network": q.Subject})
		case q.Agent == "network":
			return q.Say("the network is fine")
		case q.Agent == "storage" && len(q.Results) == 0:
			a := q.Call("local__lookup", map[string]any{"name": q.Subject + "-2"})
			a.Thinking = "perhaps the disk is full"
			return a
		case q.Agent == "storage":
			return q.Say("the storage is fine")
		case strings.HasPrefix(q.Agent, "checker-"):
			return q.Say("confirmed by " + q.Agent)
		case len(q.Results) == 0:
			return q.Call("cluster__lookup", map[string]any{"name": q.Subject + "-3"})
		}
		return q.Conclude("proven", "the memory limit is too small", q.Results[0].CallID, "its memory limit of 64 MiB is too small")
	})
	id := sys.Submit(t, "pipeline", subject)
	got := sys.Await(t, id, "completed")
	want := []string{
		"gather: investigation completed collector=completed/chat",
		"dig: investigation completed multi_agent network=completed/chat storage=completed/claude",
		"dig - Synthesis: synthesis completed SynthesisAgent=completed/responses",
		"verify: investigation completed replica checker-1=completed/responses checker-2=completed/responses checker-3=completed/responses",
		"verify - Synthesis: synthesis completed SynthesisAgent=completed/responses",
		"conclude: investigation completed writer=completed/chat",
	}
	if diff := cmp.Diff(want, got.Outline()); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	if got.TotalStages != 6 || got.CompletedStages != 6 {
		t.Errorf("%d of %d stages are completed, want 6 of 6", got.CompletedStages, got.TotalStages)
	}
	// 2 + 2 + 2 + 1 + 3 + 1 + 2 turns and the summary; 4 calls and the lists of 7 agents.
	const turns, calls = 14, 4
	if got.LLMInteractionCount != turns || got.InputTokens != 10*turns || got.OutputTokens != 5*turns {
		t.Errorf("%d model calls with %d and %d tokens, want %d with %d and %d", got.LLMInteractionCount, got.InputTokens, got.OutputTokens, turns, 10*turns, 5*turns)
	}
	if n := sys.Tools.Count(t, "lookup", subject) + sys.Tools.Count(t, "echo", subject); n != calls {
		t.Errorf("the servers took %d calls, want %d", n, calls)
	}
	c := got.Conclusion
	if c.Confidence != "proven" || len(c.Evidence) != 1 || !c.Evidence[0].Supported || !strings.Contains(c.Cause, "the memory limit") {
		t.Errorf("conclusion %+v, want it proven with one piece of supported evidence", c)
	}
	if text := investigation.Value(got.FinalAnalysis); !strings.Contains(text, "the memory limit is too small") {
		t.Errorf("final_analysis %q, want the conclusion as Markdown", text)
	}
	if text := investigation.Value(got.ExecutiveSummary); !strings.Contains(text, "the limit is too small") {
		t.Errorf("executive_summary %q, want that of the model", text)
	}
	pipelineRequests(t, sys, subject)
	pipelineRecord(t, sys, id, subject, turns, calls)
}

// pipelineRequests checks what the agents read of each other.
func pipelineRequests(t *testing.T, sys *investigation.System, subject string) {
	t.Helper()
	apis := map[string]int{}
	for _, q := range sys.Models.Asked(subject) {
		apis[q.API]++
		first := q.Messages[0].Text
		has := func(wanted bool, parts ...string) {
			t.Helper()
			for _, part := range parts {
				if strings.Contains(first, part) != wanted {
					t.Errorf("%s is asked with %q: %t, want %t\n%s", q.Agent, part, !wanted, wanted, first)
				}
			}
		}
		switch {
		case q.Agent == "collector":
			has(true, "The service "+subject+" restarts")
		case q.Agent == "network", q.Agent == "storage":
			has(true, "one pod restarts")
			has(false, "the network is fine", "the storage is fine")
		case q.Agent == "SynthesisAgent" && strings.Contains(first, `"dig"`):
			has(true, "one pod restarts", "the network is fine", "the storage is fine", "perhaps the disk is full", investigation.LookupResult(subject+"-2"))
		case strings.HasPrefix(q.Agent, "checker-"):
			has(true, "one pod restarts", "both agents blame the memory limit")
			has(false, "the network is fine", "the storage is fine")
		case q.Agent == "writer":
			has(true, "one pod restarts", "both agents blame the memory limit", "all replicas confirm it")
			has(false, "confirmed by checker-2", "the storage is fine")
		}
		if slices.Contains(q.Tools, "conclude") != (q.Agent == "writer") {
			t.Errorf("%s has the tools %v, want conclude for the writer alone", q.Agent, q.Tools)
		}
		if slices.Contains(q.Tools, "cluster__change") {
			t.Errorf("%s has the tools %v, want none that changes something", q.Agent, q.Tools)
		}
	}
	for _, api := range []string{"chat", "responses", "messages"} {
		if apis[api] == 0 {
			t.Errorf("requests by API: %v, want some of %s", apis, api)
		}
	}
}

// pipelineRecord checks the timeline and the trace.
func pipelineRecord(t *testing.T, sys *investigation.System, id, subject string, turns, calls int) {
	t.Helper()
	kinds := map[string]int{}
	seen := map[int64]bool{}
	last := int64(0)
	for _, e := range sys.Timeline(t, id) {
		kinds[e.EventType]++
		if e.Status != "completed" || seen[e.SequenceNumber] || e.UpdatedSequence <= last {
			t.Errorf("event %+v, want it completed, with a number of its own, after %d", e, last)
		}
		seen[e.SequenceNumber], last = true, e.UpdatedSequence
	}
	if kinds["final_analysis"] != 9 || kinds["executive_summary"] != 1 || kinds["error"] != 0 || kinds["llm_thinking"] != 1 {
		t.Errorf("timeline events by type: %v, want 9 final analyses, one executive summary, one of thinking, no error", kinds)
	}
	trace := sys.Trace(t, id)
	models, tools := len(trace.Session), 0
	for _, st := range trace.Stages {
		for _, e := range st.Executions {
			models += len(e.LLM)
			for _, it := range e.MCP {
				if it.InteractionType == "tool_call" {
					tools++
				}
			}
		}
	}
	if models != turns || tools != calls || len(trace.Session) != 1 {
		t.Errorf("the trace has %d model calls, %d of them of the session, and %d tool calls; want %d, 1 and %d", models, len(trace.Session), tools, turns, calls)
	}
	first := trace.Stages[0].Executions[0]
	var asked investigation.LLMDetail
	sys.Get(t, "/sessions/"+id+"/trace/llm/"+first.LLM[1].ID, &asked)
	if n := len(asked.Conversation); n != 5 || asked.Conversation[0].Role != "system" || asked.Conversation[3].Role != "tool" || !strings.Contains(asked.Conversation[n-1].Content, "one pod restarts") {
		t.Errorf("the second call of the collector has the conversation %+v, want system, user, assistant, tool and the answer", asked.Conversation)
	}
	i := slices.IndexFunc(first.MCP, func(it investigation.MCPInteraction) bool { return it.InteractionType == "tool_call" })
	if i < 0 {
		t.Fatalf("the collector has the MCP interactions %+v, want a tool_call", first.MCP)
	}
	var called investigation.MCPDetail
	sys.Get(t, "/sessions/"+id+"/trace/mcp/"+first.MCP[i].ID, &called)
	if called.ServerName != "cluster" || investigation.Value(called.ToolName) != "lookup" || investigation.Value(called.ToolResult) != investigation.LookupResult(subject+"-1") || string(called.ToolArguments) != `{"name":"`+subject+`-1"}` {
		t.Errorf("tool call %+v, want lookup of the first pod with its result", called)
	}
	if a := sys.Send(t, http.MethodGet, "/sessions/"+id+"/trace/llm/"+first.MCP[i].ID, ""); a.Status != http.StatusNotFound {
		t.Errorf("a tool call as a model call: %d, want 404", a.Status)
	}
}

// failing answers requests to the model that fails, and others as good does.
func failing(fail modeltest.Answer, good func(turn) modeltest.Answer) func(turn) modeltest.Answer {
	return func(q turn) modeltest.Answer {
		if q.Model == "failing-model" {
			return fail
		}
		return good(q)
	}
}

// look calls lookup once, and answers.
func look(q turn) modeltest.Answer {
	switch {
	case q.Agent == investigation.Executive:
		return q.Say("in short")
	case len(q.Results) == 0 && slices.Contains(q.Tools, "cluster__lookup"):
		return q.Call("cluster__lookup", map[string]any{"name": q.Subject})
	}
	return q.Say("found by " + q.Agent)
}

// failureResilience is a stage with the policy any: one agent fails, the stage goes on. So does the
// session whose executive summary fails.
func failureResilience(t *testing.T, sys *investigation.System) {
	subject := sys.Models.Script(failing(modeltest.Fail(400, "the request is bad"), look))
	id := sys.Submit(t, "resilience", subject)
	got := sys.Await(t, id, "completed")
	want := []string{
		"look: investigation completed multi_agent good=completed/chat bad=failed/resilience",
		"look - Synthesis: synthesis completed SynthesisAgent=completed/chat",
	}
	if diff := cmp.Diff(want, got.Outline()); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	if text := investigation.Value(got.Stages[0].Executions[1].ErrorMessage); !strings.Contains(text, "the request is bad") {
		t.Errorf("the failed agent has the error %q, want that of its provider", text)
	}
	if got.ExecutiveSummary != nil || !strings.Contains(investigation.Value(got.ExecutiveSummaryError), "the request is bad") || got.ErrorMessage != nil {
		t.Errorf("executive_summary %v with error %q and error_message %v, want only executive_summary_error", got.ExecutiveSummary, investigation.Value(got.ExecutiveSummaryError), got.ErrorMessage)
	}
	if text := investigation.Value(got.FinalAnalysis); !strings.Contains(text, "found by SynthesisAgent") {
		t.Errorf("final_analysis %q, want that of the synthesis", text)
	}
	for _, q := range sys.Models.Asked(subject) {
		if q.Agent == "SynthesisAgent" && !strings.Contains(q.Messages[0].Text, "the request is bad") {
			t.Errorf("the synthesis does not read why an agent failed:\n%s", q.Messages[0].Text)
		}
	}
}

// failurePropagation is a stage with the policy all: one agent fails, the other runs to its end, no
// further stage starts. A retry keeps the completed stage.
func failurePropagation(t *testing.T, sys *investigation.System) {
	mended := false
	subject := sys.Models.Script(func(q turn) modeltest.Answer {
		if q.Model == "failing-model" && !mended {
			mended = true
			return modeltest.Fail(400, "the request is bad")
		}
		return look(q)
	})
	id := sys.Submit(t, "propagation", subject)
	got := sys.Await(t, id, "failed")
	want := []string{
		"first: investigation completed collector=completed/chat",
		"both: investigation failed multi_agent good=completed/chat bad=failed/propagation",
	}
	if diff := cmp.Diff(want, got.Outline()); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	if text := investigation.Value(got.ErrorMessage); !strings.Contains(text, `"both"`) || !strings.Contains(text, "bad: ") || !strings.Contains(text, "the request is bad") {
		t.Errorf("error_message %q, want the stage, the agent and the reason", text)
	}
	if got.FinalAnalysis != nil || got.ExecutiveSummary != nil {
		t.Errorf("final_analysis %v and executive_summary %v, want neither", got.FinalAnalysis, got.ExecutiveSummary)
	}
	if a := sys.Send(t, http.MethodPost, "/sessions/"+id+"/retry", ""); a.Status != http.StatusAccepted {
		t.Fatalf("retry answers %d %s, want 202", a.Status, a.Body)
	}
	got = sys.Await(t, id, "completed")
	if got.CompletedStages != 4 || got.TotalStages != 4 {
		t.Errorf("%d of %d stages are completed after the retry, want 4 of 4", got.CompletedStages, got.TotalStages)
	}
	asked := map[string]int{}
	for _, q := range sys.Models.Asked(subject) {
		asked[q.Agent]++
	}
	if want := map[string]int{"collector": 2, "good": 4, "bad": 3, "SynthesisAgent": 1, "writer": 2, investigation.Executive: 1}; !cmp.Equal(asked, want) {
		t.Errorf("requests by agent: %v, want %v: the completed stage is kept, the failed one runs again", asked, want)
	}
	if a := sys.Send(t, http.MethodPost, "/sessions/"+id+"/retry", ""); a.Status != http.StatusConflict {
		t.Errorf("retry of a completed session answers %d %s, want 409", a.Status, a.Body)
	}
}

// fallbacks are providers that fail in different ways, each with one that goes on.
func fallbacks(t *testing.T, sys *investigation.System) {
	cutOnce := func() func(turn) modeltest.Answer {
		cut := false
		return func(q turn) modeltest.Answer {
			a := look(q)
			if !cut {
				a.CutAfter, cut = 3, true
			}
			return a
		}
	}
	for _, c := range []struct {
		chain, what string
		fail        func(turn) modeltest.Answer
		requests    int
		fallback    bool
	}{
		{"unavailable", "503 is tried twice", func(turn) modeltest.Answer { return modeltest.Fail(503, "overloaded") }, 2, true},
		{"denied", "401 is not repeated", func(turn) modeltest.Answer { return modeltest.Fail(401, "no access") }, 1, true},
		{"limited", "a long Retry-After is not waited for", func(turn) modeltest.Answer {
			a := modeltest.Fail(429, "too many requests")
			a.Header = map[string]string{"Retry-After": "600"}
			return a
		}, 1, true},
		{"cut", "a stream that is cut after its first chunk is asked again", cutOnce(), 3, false},
		{"cut-responses", "a stream of the Responses API that is cut is asked again", cutOnce(), 3, false},
	} {
		t.Run(c.chain, func(t *testing.T) {
			t.Parallel()
			subject := sys.Models.Script(func(q turn) modeltest.Answer {
				if q.Model == "failing-model" {
					return c.fail(q)
				}
				return look(q)
			})
			id := sys.Submit(t, c.chain, subject)
			got := sys.Await(t, id, "completed")
			requests := 0
			for _, q := range sys.Models.Asked(subject) {
				if q.Model == "failing-model" {
					requests++
				}
			}
			if requests != c.requests {
				t.Errorf("%s: the first provider got %d requests, want %d", c.what, requests, c.requests)
			}
			events := 0
			for _, e := range sys.Timeline(t, id) {
				if e.EventType == "provider_fallback" {
					events++
				}
			}
			if (events == 1) != c.fallback || events > 1 {
				t.Errorf("%s: %d provider_fallback events, want one: %t", c.what, events, c.fallback)
			}
			if provider := got.Stages[0].Executions[0].LLMProvider; (provider != c.chain) != c.fallback {
				t.Errorf("%s: the agent ends with the provider %s", c.what, provider)
			}
		})
	}
}

// largeResults is a result that is over what a model is shown: it searches it with read_result, and
// cites a line that it was shown only there.
func largeResults(t *testing.T, sys *investigation.System) {
	subject := sys.Models.Script(func(q turn) modeltest.Answer {
		switch {
		case q.Agent == investigation.Executive:
			return q.Say("in short")
		case len(q.Results) == 0:
			return q.Call("cluster__big", map[string]any{})
		case len(q.Results) == 1:
			return q.Call("read_result", map[string]any{"id": q.Results[0].CallID, "search": "the disk of"})
		case len(q.Results) == 2:
			return q.Call("read_result", map[string]any{"id": q.Results[0].CallID, "offset": foundAt(q.Results[1].Text)})
		}
		return q.Conclude("proven", "the disk is full", q.Results[0].CallID, investigation.BigLine)
	})
	id := sys.Submit(t, "simple", subject)
	got := sys.Await(t, id, "completed")
	if c := got.Conclusion; c.Confidence != "proven" || len(c.Evidence) != 1 || !c.Evidence[0].Supported {
		t.Errorf("conclusion %+v, want it proven by the line in the middle", c)
	}
	asked := sys.Models.Asked(subject)
	var final turn
	for _, q := range asked {
		if q.Agent == "good" {
			final = q
		}
	}
	if len(final.Results) != 3 {
		t.Fatalf("the last request has %d results, want 3", len(final.Results))
	}
	shown, found, read := final.Results[0].Text, final.Results[1].Text, final.Results[2].Text
	// 15% of a window of 128,000 tokens of 4 bytes are 76,800 bytes.
	if len(shown) > 80_000 || len(shown) < 50_000 || strings.Contains(shown, investigation.BigLine) || !strings.Contains(shown, "line 0:") || !strings.Contains(shown, "line 7999:") || !strings.Contains(shown, "read_result") {
		t.Errorf("the model is shown %d bytes of the result, want its head and its tail of 76,800 bytes, and how to read the rest", len(shown))
	}
	if !strings.Contains(found, investigation.BigLine) || !strings.Contains(found, "1 places") {
		t.Errorf("the search found %q, want one place with the line", found)
	}
	if !strings.Contains(read, "the disk of node seven") {
		t.Errorf("read_result from offset %d shows %.300q, want the line", foundAt(found), read)
	}
	for _, e := range sys.Timeline(t, id) {
		if e.EventType == "llm_tool_call" && len(e.Content) > 33<<10 { // 32 KB and a hint
			t.Errorf("a timeline event has %d bytes, want at most 32 KB", len(e.Content))
		}
	}
	var whole investigation.MCPDetail
	for _, it := range sys.Trace(t, id).Stages[0].Executions[0].MCP {
		if investigation.Value(it.ToolName) == "big" {
			sys.Get(t, "/sessions/"+id+"/trace/mcp/"+it.ID, &whole)
		}
	}
	if text := investigation.Value(whole.ToolResult); !strings.Contains(text, investigation.BigLine) || len(text) < 300_000 {
		t.Errorf("the trace has %d bytes of the result, want it whole", len(text))
	}
}

// foundAt returns the first offset that a search of read_result found, or 0.
func foundAt(result string) (offset int) {
	_, after, _ := strings.Cut(result, "offset ")
	_, _ = fmt.Sscanf(after, "%d:", &offset) // else it stays 0, and the line is not shown
	return offset
}

// cancellation cancels sessions in a model call and in a tool call. Those that wait are cancelled
// in TestConcurrency.
func cancellation(t *testing.T, sys *investigation.System) {
	cancelled := func(t *testing.T, id string) {
		t.Helper()
		sys.Cancel(t, id)
		got := sys.Await(t, id, "cancelled")
		if want := []string{"look: investigation cancelled good=cancelled/chat"}; !cmp.Equal(got.Outline(), want) {
			t.Errorf("stages %v, want %v", got.Outline(), want)
		}
		if got.FinalAnalysis != nil || got.CompletedAt == nil {
			t.Errorf("final_analysis %v, completed_at %v; want only the time", got.FinalAnalysis, got.CompletedAt)
		}
		for _, e := range sys.Timeline(t, id) {
			if e.Status == "streaming" {
				t.Errorf("event %+v of a cancelled session, want it ended", e)
			}
		}
		if a := sys.Send(t, http.MethodPost, "/sessions/"+id+"/cancel", ""); a.Status != http.StatusConflict {
			t.Errorf("cancelling again answers %d %s, want 409", a.Status, a.Body)
		}
	}
	t.Run("in a model call", func(t *testing.T) {
		t.Parallel()
		subject := sys.Models.Script(func(turn) modeltest.Answer { return investigation.Stall() })
		id := sys.Submit(t, "simple", subject)
		investigation.Wait(t, "the request of "+subject, func() bool { return len(sys.Models.Asked(subject)) == 1 })
		cancelled(t, id)
		if n := len(sys.Models.Asked(subject)); n != 1 {
			t.Errorf("%d requests, want one: nothing is asked after a cancellation", n)
		}
	})
	t.Run("in a tool call", func(t *testing.T) {
		t.Parallel()
		subject := sys.Models.Script(func(q turn) modeltest.Answer {
			return q.Call("cluster__wait", map[string]any{"until": q.Subject})
		})
		id := sys.Submit(t, "simple", subject)
		investigation.Wait(t, "the tool call of "+subject, func() bool { return sys.Tools.Count(t, "wait", subject) == 1 })
		cancelled(t, id)
		investigation.Wait(t, "the end of the tool call", func() bool {
			return slices.ContainsFunc(sys.Tools.Calls(t), func(c investigation.ToolCall) bool {
				return c.Ended == "cancelled" && strings.Contains(string(c.Arguments), subject)
			})
		})
	})
	t.Run("retried", func(t *testing.T) {
		t.Parallel()
		first := true
		subject := sys.Models.Script(func(q turn) modeltest.Answer {
			if first {
				first = false
				return investigation.Stall()
			}
			return look(q)
		})
		id := sys.Submit(t, "simple", subject)
		investigation.Wait(t, "the request of "+subject, func() bool { return len(sys.Models.Asked(subject)) == 1 })
		cancelled(t, id)
		if a := sys.Send(t, http.MethodPost, "/sessions/"+id+"/retry", ""); a.Status != http.StatusAccepted {
			t.Fatalf("retry answers %d %s, want 202", a.Status, a.Body)
		}
		if got := sys.Await(t, id, "completed"); got.ErrorMessage != nil {
			t.Errorf("error_message %q after a retry that completed, want none", *got.ErrorMessage)
		}
	})
}

// lastResult returns the newest result that the agent of a subject was shown.
func lastResult(t *testing.T, sys *investigation.System, subject string) string {
	t.Helper()
	text := ""
	for _, q := range sys.Models.Asked(subject) {
		if len(q.Results) > 0 {
			text = q.Results[len(q.Results)-1].Text
		}
	}
	if text == "" {
		t.Fatalf("no request about %s has a result", subject)
	}
	return text
}

// badModels are answers that no agent can use as they are.
func badModels(t *testing.T, sys *investigation.System) {
	for _, c := range []struct {
		name   string
		answer func(turn) modeltest.Answer // the first one
		says   string                      // of the result that the model reads then
	}{
		{"an unknown tool", func(q turn) modeltest.Answer { return q.Call("cluster__destroy", nil) }, "There is no tool"},
		{"a tool that is withheld", func(q turn) modeltest.Answer { return q.Call("cluster__change", nil) }, "There is no tool"},
		{"broken arguments", func(turn) modeltest.Answer { return modeltest.Use("broken", "cluster__lookup", `{"name": "web-1`) }, "arguments"},
		{"arguments that the tool refuses", func(q turn) modeltest.Answer { return q.Call("cluster__lookup", map[string]any{"nom": 1}) }, "name is missing"},
		{"arguments that are cut", func(turn) modeltest.Answer {
			a := modeltest.Use("cut", "cluster__lookup", `{"name": "web-`)
			a.Stop = "length"
			return a
		}, "incomplete"},
		{"conclude with other calls", func(q turn) modeltest.Answer {
			a := q.Conclude("likely", "too early")
			a.Calls = append(a.Calls, modeltest.Call{ID: "other", Name: "cluster__lookup", Arguments: `{"name":"web-1"}`})
			return a
		}, ""},
		{"a conclusion that breaks the schema", func(turn) modeltest.Answer {
			return modeltest.Use("early", "conclude", `{"cause":"x","confidence":"certain"}`)
		}, "confidence"},
		{"a call that is made twice", func(q turn) modeltest.Answer {
			a := q.Call("cluster__lookup", map[string]any{"name": q.Subject})
			a.Calls = append(a.Calls, modeltest.Call{ID: "again", Name: "cluster__lookup", Arguments: a.Calls[0].Arguments})
			return a
		}, "Not called again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			subject := sys.Models.Script(func(q turn) modeltest.Answer {
				if q.Agent == "good" && len(q.Results) == 0 {
					return c.answer(q)
				}
				return q.Say("it works")
			})
			id := sys.Submit(t, "simple", subject)
			got := sys.Await(t, id, "completed")
			if text := lastResult(t, sys, subject); !strings.Contains(text, c.says) {
				t.Errorf("the model reads %q, want %q in it", text, c.says)
			}
			if c := got.Conclusion; c.Confidence != "unproven" || c.Structured == nil || *c.Structured {
				t.Errorf("conclusion %+v, want prose that is unproven", c)
			}
		})
	}
	t.Run("nothing", func(t *testing.T) {
		t.Parallel()
		subject := sys.Models.Script(func(turn) modeltest.Answer { return modeltest.Answer{} })
		id := sys.Submit(t, "simple", subject)
		got := sys.Await(t, id, "failed")
		if n := len(sys.Models.Asked(subject)); n != 3 || !strings.Contains(investigation.Value(got.ErrorMessage), "empty") {
			t.Errorf("%d requests and error_message %q, want 3 and that the answers are empty", n, investigation.Value(got.ErrorMessage))
		}
	})
	t.Run("the same for ever", func(t *testing.T) {
		t.Parallel()
		subject := sys.Models.Script(func(q turn) modeltest.Answer {
			if q.Agent != "good" || strings.Contains(q.Messages[len(q.Messages)-1].Text, "repeated") {
				return q.Say("it ends")
			}
			return modeltest.Answer{Text: q.Subject + " goes round and round in circles, and on. ", Endless: true}
		})
		sys.Await(t, sys.Submit(t, "simple", subject), "completed")
	})
}

// badServers are MCP servers that can't be used, beside one that can.
func badServers(t *testing.T, sys *investigation.System) {
	for _, c := range []struct {
		chain   string
		servers []string
	}{
		{"unlucky", []string{"garbage", "exit", "gone"}},
		{"patient", []string{"hang"}},
	} {
		t.Run(c.chain, func(t *testing.T) {
			t.Parallel()
			subject := sys.Models.Script(look)
			id := sys.Submit(t, c.chain, subject)
			sys.Await(t, id, "completed")
			if n := sys.Tools.Count(t, "lookup", subject); n != 1 {
				t.Errorf("the server that works was called %d times, want once", n)
			}
			system := sys.Models.Asked(subject)[0].System
			var notes []string
			for _, e := range sys.Timeline(t, id) {
				if e.EventType == "note" {
					notes = append(notes, e.Content)
				}
			}
			for _, name := range c.servers {
				if !strings.Contains(system, name) {
					t.Errorf("the instructions do not name the server %s:\n%s", name, system)
				}
				if !strings.Contains(strings.Join(notes, "\n"), "The server "+name+" can't be used") {
					t.Errorf("notes %q, want one about %s", notes, name)
				}
			}
		})
	}
	t.Run("names that clash", func(t *testing.T) {
		t.Parallel()
		subject := sys.Models.Script(func(q turn) modeltest.Answer {
			if q.Agent != "careful" || len(q.Results) == 2 {
				return q.Say("both work")
			}
			a := modeltest.Answer{}
			for _, tool := range q.Tools {
				if strings.HasPrefix(tool, "clash__") {
					a.Calls = append(a.Calls, modeltest.Call{ID: "to_" + tool, Name: tool, Arguments: "{}"})
				}
			}
			return a
		})
		sys.Await(t, sys.Submit(t, "careful", subject), "completed")
		results := map[string]bool{}
		for _, q := range sys.Models.Asked(subject) {
			for _, r := range q.Results {
				results[investigation.Unfenced(t, r.Text)] = true
			}
		}
		if want := map[string]bool{"this is the tool with a point": true, "this is the tool with a line": true}; !cmp.Equal(results, want) {
			t.Errorf("results %v, want both tools under names of their own", results)
		}
	})
}

// badTools are results that no model can read as they are.
func badTools(t *testing.T, sys *investigation.System) {
	for _, c := range []struct {
		chain, tool, says string
	}{
		{"simple", "cluster__image", "[image, image/png, 12345 bytes, not shown]"},
		{"simple", "cluster__fail", "forbidden"},
		{"local", "local__image", "[image, image/png, 12345 bytes, not shown]"},
		{"local", "local__fail", "forbidden"},
		{"local", "local__flood", "8 MiB"},
	} {
		t.Run(c.tool, func(t *testing.T) {
			t.Parallel()
			working, _, _ := strings.Cut(c.tool, "__")
			subject := sys.Models.Script(func(q turn) modeltest.Answer {
				switch {
				case q.Agent == investigation.Executive || len(q.Results) == 2:
					return q.Say("both are answered")
				case len(q.Results) == 0:
					return q.Call(c.tool, map[string]any{})
				}
				return q.Call(working+"__lookup", map[string]any{"name": q.Subject})
			})
			sys.Await(t, sys.Submit(t, c.chain, subject), "completed")
			asked := sys.Models.Asked(subject)
			results := asked[len(asked)-2].Results
			if len(results) != 2 || !strings.Contains(results[0].Text, c.says) || len(results[0].Text) > 4<<10 {
				t.Fatalf("the model reads %.300v, want a short text with %q, and a second result", results, c.says)
			}
			if got, want := investigation.Unfenced(t, results[1].Text), investigation.LookupResult(subject); got != want {
				t.Errorf("the next call is answered with %q, want %q: the server works again", got, want)
			}
		})
	}
	t.Run("what is withheld", func(t *testing.T) {
		t.Parallel()
		var out struct {
			Servers []struct {
				ID    string `json:"id"`
				Tools []struct {
					Name    string `json:"name"`
					Offered bool   `json:"offered"`
					WhyNot  string `json:"why_not"`
				} `json:"tools"`
			} `json:"servers"`
		}
		offered := map[string]bool{}
		investigation.Wait(t, "the tools of cluster and local", func() bool {
			sys.Get(t, "/system/mcp-servers", &out)
			for _, s := range out.Servers {
				for _, tool := range s.Tools {
					offered[s.ID+" "+tool.Name] = tool.Offered
					if !tool.Offered && tool.WhyNot == "" {
						t.Errorf("the tool %s of %s is withheld without a reason", tool.Name, s.ID)
					}
				}
			}
			return offered["cluster lookup"] && offered["local lookup"]
		})
		for _, tool := range []string{"cluster change", "local change", "local probe"} {
			if is, known := offered[tool]; is || !known {
				t.Errorf("%s: offered %t, known %t; want it listed and withheld", tool, is, known)
			}
		}
		for _, tool := range []string{"cluster probe", "cluster lookup", "local lookup"} {
			if !offered[tool] {
				t.Errorf("%s is withheld, want it offered", tool)
			}
		}
	})
}
