package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

const testID = "01JD3ZK9Q2W4X6Y8Z0A1B2C3D4"

var testStart = time.Date(2026, 3, 4, 5, 6, 7, 8e6, time.UTC)

func testProvider(name string) Provider {
	return Provider{Name: name, Model: name + "-1", ContextWindow: 200_000, MaxOutput: 16_000, Price: &model.Price{Input: 3, Output: 15}}
}

func testAgent(name string, servers ...string) Agent {
	a := Agent{Name: name, Agent: name, Provider: testProvider("claude"), Fallbacks: []Provider{testProvider("gemini")}, MaxIterations: 5}
	for _, s := range servers {
		a.Servers = append(a.Servers, Server{Name: s})
	}
	return a
}

func testStage(name string, policy Policy, agents ...Agent) Stage {
	st := Stage{Name: name, Agents: agents, Policy: policy}
	if len(agents) > 1 {
		st.Parallel = MultiAgent
		syn := testAgent("SynthesisAgent")
		st.Synthesis = &syn
	}
	return st
}

func testPlan(stages ...Stage) Plan {
	return Plan{
		Chain: "kubernetes", Stages: stages, Summary: testProvider("gemini"), Fallbacks: []Provider{testProvider("claude")},
		Timeout: 40 * time.Minute, IterationTimeout: 6 * time.Minute, ToolTimeout: time.Minute, ChatEnabled: true,
	}
}

// tester is what testing.TB and rapid.T have in common.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// sim is a worker with scripted models and tools, whose clock it moves itself.
type sim struct {
	t        tester
	s        *Session
	messages [][]Fact
	now      time.Time
	epoch    int
	started  map[string]bool
	pending  []Effect
	answer   func(*sim, *Ask) Fact  // Time is set by the sim; an empty fact never comes
	tool     func(*CallTool) string // "" never comes
	list     func(server string) Listed
	pick     func(n int) int // which of the effects under way ends next
	between  func(*sim)      // called before each step
	finished map[string]bool // effects whose outcome was stored
	asked    []string        // purposes, agents and providers in the order of the calls
	requests []model.Request
	maxOpen  int
	objects  map[string]string
	block    func(Effect) bool // effects that have no outcome; nil: none
	blocked  bool              // one was there
	missing  []string          // what is not known of the alert
	perToken int               // bytes of a token, as the providers count
	starts   func(*Ask)        // called before each call of a model; nil: nothing
}

func newSim(t tester, plan Plan) *sim {
	w := &sim{
		t: t, s: &Session{}, now: testStart, started: map[string]bool{}, finished: map[string]bool{}, objects: map[string]string{}, perToken: bytesPerToken,
		pick: func(int) int { return 0 },
		answer: func(_ *sim, a *Ask) Fact {
			return text(a, "answer of "+string(a.Purpose))
		},
		tool: func(c *CallTool) string { return "result of " + c.Tool.Name },
		list: func(server string) Listed {
			var l Listed
			for _, n := range []string{"pods_list", "pods_log", "pods_delete"} {
				l.Tools = append(l.Tools, ListedTool{Name: n, Tool: model.Tool{Name: server + "__" + n, Schema: json.RawMessage(`{"type":"object"}`)}, Repeatable: n != "pods_delete"})
			}
			return l
		},
	}
	w.store(Fact{Submitted: &Submitted{ID: testID, AlertType: "kubernetes", Author: "api-client", Data: Text{Inline: "CrashLoopBackOff shop/checkout"}, Plan: plan}})
	return w
}

func text(a *Ask, s string) Fact {
	return Fact{ModelAnswered: &ModelAnswered{ID: a.ID, Text: Text{Inline: s}, Stop: model.StopEnd, Usage: model.Usage{Input: 100, Output: 10}, Duration: time.Second}}
}

func calls(a *Ask, list ...model.Call) Fact {
	return Fact{ModelAnswered: &ModelAnswered{ID: a.ID, Calls: list, Stop: model.StopEnd, Usage: model.Usage{Input: 100, Output: 10}}}
}

func failed(a *Ask, s string) Fact {
	return Fact{ModelFailed: &ModelFailed{ID: a.ID, Error: s, Kind: model.Unavailable}}
}

// store goes through the codec, as the journal does.
func (w *sim) store(facts ...Fact) {
	w.t.Helper()
	w.now = w.now.Add(time.Millisecond)
	for i := range facts {
		facts[i].Time = w.now
	}
	b, err := Encode(facts)
	if err != nil {
		w.t.Fatal(err)
	}
	if facts, err = Decode(b); err != nil {
		w.t.Fatal(err)
	}
	w.messages = append(w.messages, facts)
	if err := w.s.Apply(facts, uint64(len(w.messages))); err != nil {
		w.t.Fatal(err)
	}
}

func (w *sim) claim() {
	w.epoch++
	w.started, w.pending = map[string]bool{}, nil
	w.store(Fact{Claimed: &Claimed{Worker: "w", Epoch: w.epoch}})
}

// crash ends the worker, and another one folds what is stored.
func (w *sim) crash() {
	s, err := Fold(w.messages)
	if err != nil {
		w.t.Fatal(err)
	}
	w.s = s
	w.claim()
}

// step does one thing, and reports whether there was something to do.
func (w *sim) step() bool {
	w.t.Helper()
	if w.between != nil {
		w.between(w)
	}
	d := Next(w.s, w.now)
	if len(d.Facts) > 0 {
		w.store(d.Facts...)
		return true
	}
	live := map[string]bool{}
	open := map[string]int{}
	asking := map[string]string{}
	for _, e := range d.Effects {
		if live[e.Key] {
			w.t.Fatalf("the effect %s is named twice", e.Key)
		}
		live[e.Key] = true
		if e.Call != nil {
			open[e.Call.Execution]++
			w.maxOpen = max(w.maxOpen, open[e.Call.Execution])
		}
		if e.Ask != nil {
			if other, more := asking[e.Ask.Execution]; more {
				w.t.Fatalf("the execution %q has two calls of models under way, %s and %s; want one", e.Ask.Execution, other, e.Key)
			}
			asking[e.Ask.Execution] = e.Key
		}
	}
	w.pending = slices.DeleteFunc(w.pending, func(e Effect) bool { return !live[e.Key] })
	for _, e := range d.Effects {
		if w.started[e.Key] {
			continue
		}
		if w.finished[e.Key] {
			w.t.Fatalf("the effect %s is started again after its outcome was stored", e.Key)
		}
		w.started[e.Key] = true
		w.check(e)
		w.pending = append(w.pending, e)
		if len(e.Before) > 0 {
			w.store(e.Before...)
			return true
		}
	}
	if n := len(w.pending); n > 0 {
		for range n {
			i := w.pick(len(w.pending))
			e := w.pending[i]
			if f := w.outcome(e); f.Known() {
				w.pending = slices.Delete(w.pending, i, i+1)
				w.finished[e.Key] = true
				w.store(f)
				return true
			}
		}
	}
	if !d.Wake.IsZero() {
		w.now = d.Wake
		return true
	}
	return false
}

func (w *sim) outcome(e Effect) Fact {
	if w.block != nil && w.block(e) {
		w.blocked = true
		return Fact{}
	}
	switch {
	case e.Gather != nil:
		return Fact{Gathered: &Gathered{Known: []Known{{ID: "k1", Title: "deployment", Text: "checkout 1.4.2 at 10:02"}}, Missing: w.missing}}
	case e.List != nil:
		f := &ToolsListed{Execution: e.List.Execution}
		for i, srv := range e.List.Servers {
			l := w.list(srv.Name)
			l.Server, l.ID = srv.Name, e.List.IDs[i]
			f.Servers = append(f.Servers, l)
		}
		return Fact{ToolsListed: f}
	case e.Ask != nil:
		return w.answer(w, e.Ask)
	case e.Call != nil:
		result := w.tool(e.Call)
		if result == "" {
			return Fact{}
		}
		t, store := NewText(result)
		if store {
			w.objects[t.Object] = result
		}
		return Fact{ToolAnswered: &ToolAnswered{Execution: e.Call.Execution, CallID: e.Call.CallID, Result: t}}
	case e.Read != nil:
		return e.Read.Answer(Load(w.load).text(e.Read.Text), w.now)
	default:
		return e.Check.Check(w.load, w.now)
	}
}

// count returns the tokens of a request as the providers count them.
func (w *sim) count(r model.Request) int { return (requestBytes(r) + w.perToken - 1) / w.perToken }

// load reads the objects that the sim stored.
func (w *sim) load(t Text) (string, error) {
	whole, ok := w.objects[t.Object]
	if !ok {
		return "", fmt.Errorf("there is no object %s", t.Object)
	}
	return whole, nil
}

// check holds what is true of each model call.
func (w *sim) check(e Effect) {
	w.t.Helper()
	if e.Ask == nil {
		return
	}
	a, r := e.Ask, e.Ask.Request
	if w.starts != nil {
		w.starts(a)
	}
	w.asked = append(w.asked, fmt.Sprintf("%s %s", a.Purpose, a.Provider.Name))
	w.requests = append(w.requests, r)
	if n := RequestTokens(r) + maxOutput(a.Provider); n > a.Provider.ContextWindow {
		w.t.Fatalf("a request of %d tokens for a window of %d", n, a.Provider.ContextWindow)
	}
	counted := w.s.executions[a.Execution] != nil && w.s.executions[a.Execution].density > 0
	if n := w.count(r) + maxOutput(a.Provider); counted && n > a.Provider.ContextWindow {
		w.t.Fatalf("a request of %d tokens, as the provider counts, for a window of %d", n, a.Provider.ContextWindow)
	}
	if err := wellFormed(r.Messages); err != nil {
		w.t.Fatalf("the conversation of %s: %v", a.Purpose, err)
	}
}

func wellFormed(messages []model.Message) error {
	if len(messages) == 0 || messages[0].Role != model.RoleUser {
		return errors.New("it does not begin with a message of a user")
	}
	var open []model.Call
	for i, m := range messages {
		if m.Role == model.RoleTool {
			if len(open) == 0 || open[0].ID != m.CallID {
				return fmt.Errorf("message %d is the result of %q, want of %v", i, m.CallID, open)
			}
			open = open[1:]
			continue
		}
		if len(open) > 0 {
			return fmt.Errorf("message %d comes before the results of %v", i, open)
		}
		open = m.Calls
	}
	if len(open) > 0 {
		return fmt.Errorf("the calls %v have no results", open)
	}
	return nil
}

// maxSteps bounds a session of a test.
const maxSteps = 5000

func (w *sim) run() *Session {
	w.t.Helper()
	if w.epoch == 0 {
		w.claim()
	}
	for range maxSteps {
		if w.s.Ended() {
			return w.s
		}
		if !w.step() {
			w.t.Fatalf("the session %s waits for nothing", w.s.status)
		}
	}
	w.t.Fatalf("the session has not ended after %d steps; it asked %v", maxSteps, w.asked[max(0, len(w.asked)-20):])
	return nil
}

// random is a number for a key, the same each time.
func random(seed uint64, parts ...string) uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, seed, parts)
	return h.Sum64()
}

// fingerprint is what a session led to, without times and sequences.
func fingerprint(s *Session) string {
	b := &strings.Builder{}
	d := DetailOf(s, nil)
	fmt.Fprintln(b, d.Status, str(d.ErrorMessage), str(d.FinalAnalysis), string(d.Conclusion), str(d.ExecutiveSummary), str(d.ExecutiveSummaryError))
	fmt.Fprintln(b, d.InputTokens, d.OutputTokens, d.LLMInteractionCount, d.MCPInteractionCount)
	for _, st := range d.Stages {
		fmt.Fprintln(b, st.ID, st.StageName, st.Status, st.Attempt)
		for _, e := range st.Executions {
			fmt.Fprintln(b, " ", e.ExecutionID, e.Status, e.LLMProvider, e.Iterations, str(e.ErrorMessage))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(s.events)) {
		e := s.events[id]
		if e.kind != EventFallback && e.kind != EventNote { // numbered as they happened
			fmt.Fprintln(b, id, e.kind, e.status, e.content)
		}
	}
	return b.String()
}

func str(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

func decode(t tester, b []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("decoding %s: %v", b, err)
	}
}
