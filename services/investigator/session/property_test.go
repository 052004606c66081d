package session

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox/excerpt"
)

// drawPlan draws a chain with small windows and limits.
func drawPlan(t *rapid.T) Plan {
	agent := func(name string) Agent {
		a := testAgent(name)
		if rapid.Bool().Draw(t, "tools") {
			a = testAgent(name, "kubernetes", "metrics")
			if rapid.Bool().Draw(t, "summaries") {
				a.Servers[1].Summarization = &Summarization{Threshold: 50, MaxTokens: 20, Provider: testProvider("gemini")}
			}
		}
		a.MaxIterations = rapid.IntRange(1, 6).Draw(t, "iterations")
		a.Provider.ContextWindow = rapid.SampledFrom([]int{2000, 4000, 20_000, 200_000}).Draw(t, "window")
		a.Provider.MaxOutput = rapid.SampledFrom([]int{0, 500, 16_000}).Draw(t, "output")
		a.Fallbacks[0].ContextWindow = rapid.SampledFrom([]int{2000, 8000, 200_000}).Draw(t, "fallback window")
		a.Fallbacks = a.Fallbacks[:rapid.IntRange(0, 1).Draw(t, "fallbacks")]
		return a
	}
	var stages []Stage
	for i := range rapid.IntRange(1, 3).Draw(t, "stages") {
		var agents []Agent
		for j := range rapid.IntRange(1, 3).Draw(t, "agents") {
			agents = append(agents, agent("agent-"+strconv.Itoa(j+1)))
		}
		stages = append(stages, testStage("stage "+strconv.Itoa(i+1), rapid.SampledFrom([]Policy{Any, All}).Draw(t, "policy"), agents...))
	}
	return testPlan(stages...)
}

// drawSim is a worker whose models and tools do anything, but the same for the same request.
func drawSim(t *rapid.T, plan Plan, seed uint64) *sim {
	w := newSim(t, plan)
	w.perToken = []int{1, 2, 3, bytesPerToken, 6}[seed%5]
	answer := func(a *Ask) Fact {
		r := random(seed, a.ID)
		n := random(seed, a.ID, "n")
		if a.Purpose != PurposeIteration && a.Purpose != PurposeSynthesis {
			if r%5 == 0 {
				return failed(a, "overloaded")
			}
			return text(a, strings.Repeat("text ", int(n%300)+1))
		}
		switch r % 10 {
		case 0:
			return failed(a, "overloaded")
		case 1:
			return text(a, "")
		case 2:
			return text(a, strings.Repeat("text ", int(n%3000)+1))
		case 3:
			return calls(a, model.Call{ID: "end", Name: conclusion.ToolName, Arguments: []string{`{"cause":"x","confidence":"proven"}`, `{`, ``}[n%3]})
		}
		names := []string{"kubernetes__pods_list", "kubernetes__pods_log", "metrics__pods_log", "rm", excerpt.ToolName, conclusion.ToolName}
		var list []model.Call
		for i := range n%6 + 1 {
			v := random(seed, a.ID, strconv.Itoa(int(i)))
			list = append(list, model.Call{ID: []string{"", "c", "c" + strconv.Itoa(int(v%50))}[v%3], Name: names[v>>8%6], Arguments: []string{`{}`, `{"id":"c"}`, `{"a`, `{"n":` + strconv.Itoa(int(v%1000)) + `}`}[v>>16%4]})
		}
		f := calls(a, list...)
		if r%7 == 0 {
			f.ModelAnswered.Stop = model.StopLength
			f.ModelAnswered.Thinking = Text{Inline: "hm"}
		}
		return f
	}
	w.answer = func(w *sim, a *Ask) Fact {
		f := answer(a)
		if f.ModelAnswered != nil {
			f.ModelAnswered.Usage.Input = w.count(a.Request)
		} else if random(seed, a.ID, "wait")%2 == 0 {
			f.ModelFailed.RetryAt = w.now.Add(10 * time.Second)
		}
		return f
	}
	w.tool = func(c *CallTool) string {
		v := random(seed, c.ID)
		return strings.Repeat("line of "+c.CallID+"\n", int(v%[]uint64{1, 100, 5000, 40_000}[v>>20%4])+1)
	}
	return w
}

// Every session ends with any answers of its models; no request exceeds its window, each conversation is
// well-formed, and nothing is asked again that was answered: the sim checks each effect. A worker
// that is replaced at any message leads to the same end.
func TestCrashesChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := drawPlan(t)
		seed := rapid.Uint64().Draw(t, "seed")
		calm := drawSim(t, plan, seed)
		want := fingerprint(calm.run())

		w := drawSim(t, plan, seed)
		w.between = func(w *sim) {
			if w.s.takeovers+1 < maxTakeovers && rapid.IntRange(0, 3).Draw(t, "crash") == 0 {
				w.crash()
			}
		}
		if got := fingerprint(w.run()); got != want {
			t.Fatalf("with crashes the session ends differently.\ngot:\n%s\nwant:\n%s", got, want)
		}
		if calm.maxOpen > maxParallel {
			t.Fatalf("%d tool calls of one agent side by side, want at most %d", calm.maxOpen, maxParallel)
		}
		for _, s := range []*Session{calm.s, w.s} {
			checkTimeline(t, s)
		}
	})
}

// The order in which agents and tools answer changes nothing in what a session led to.
func TestOrderOfAnswersChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := drawPlan(t)
		seed := rapid.Uint64().Draw(t, "seed")
		want := fingerprint(drawSim(t, plan, seed).run())
		w := drawSim(t, plan, seed)
		w.pick = func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "next") }
		if got := fingerprint(w.run()); got != want {
			t.Fatalf("in another order the session ends differently.\ngot:\n%s\nwant:\n%s", got, want)
		}
	})
}

// Once the session has spent its limits, no call of a model begins but forced conclusions: those
// that were under way then, one for each running agent, are all that it spends beyond them.
func TestOvershootOfLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := drawPlan(t)
		limit := rapid.IntRange(1, 60_000).Draw(t, "max tokens")
		plan.Limits.MaxTokens = limit
		agents := 1
		for _, st := range plan.Stages {
			agents = max(agents, len(st.Agents))
		}
		w := drawSim(t, plan, rapid.Uint64().Draw(t, "seed"))
		w.pick = func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "next") }
		answer := w.answer
		forced, most := 0, 0
		w.answer = func(w *sim, a *Ask) Fact {
			f := answer(w, a)
			if u := f.ModelAnswered; u != nil {
				spent := u.Usage.Input + u.Usage.Output
				most = max(most, spent)
				if a.Purpose == PurposeForcedConclusion {
					forced += spent
				}
			}
			return f
		}
		w.starts = func(a *Ask) {
			if spent := w.s.spent().tokens; spent >= limit && a.Purpose != PurposeForcedConclusion {
				t.Fatalf("a call for %s begins with %d tokens spent, want none at the limit of %d", a.Purpose, spent, limit)
			}
		}
		s := w.run()
		if got, bound := s.spent().tokens-forced, limit+agents*most; got >= bound {
			t.Fatalf("%d tokens besides forced conclusions, want fewer than %d: the limit of %d and a call of at most %d for each of %d agents", got, bound, limit, most, agents)
		}
	})
}

// A session that is cancelled at any fact ends cancelled, with all that ran in it.
func TestCancellationAtAnyFact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawSim(t, drawPlan(t), rapid.Uint64().Draw(t, "seed"))
		at := rapid.IntRange(0, 60).Draw(t, "cancelled at")
		cancelled := false
		w.between = func(w *sim) {
			if len(w.messages) == at/2 {
				checkViews(t, w.s)
			}
			if !cancelled && len(w.messages) > at {
				facts, err := Cancel(w.s, "me", "not needed")
				if err != nil {
					t.Fatal(err)
				}
				cancelled = true
				w.store(facts...)
			}
		}
		s := w.run()
		if !cancelled {
			return
		}
		if s.Status() != StatusCancelled || s.err != "not needed" {
			t.Fatalf("status %s, error %q; want cancelled, %q", s.Status(), s.err, "not needed")
		}
		for _, st := range s.stages {
			if !ended(st.status) {
				t.Fatalf("the stage %s is %s after the end", st.Name, st.status)
			}
			for _, e := range st.execs {
				if !ended(e.status) {
					t.Fatalf("the execution of %s is %s after the end", e.agent.Name, e.status)
				}
			}
		}
		if _, err := Cancel(s, "me", ""); err == nil {
			t.Fatal("an ended session is cancelled, want an error")
		}
		checkTimeline(t, s)
		checkViews(t, s)
	})
}

// checkTimeline reads the timeline in small parts while it is complete: each change has a number
// of its own, and an event is seen with its last one.
func checkTimeline(t *rapid.T, s *Session) {
	seen := map[string]bool{}
	after := int64(0)
	for {
		part := Timeline(s, after, 3)
		if len(part.Events) == 0 {
			if part.Next != after {
				t.Fatalf("next is %d after nothing new at %d", part.Next, after)
			}
			break
		}
		for _, e := range part.Events {
			if e.UpdatedSequence <= after || seen[e.ID] || e.SequenceNumber > e.UpdatedSequence {
				t.Fatalf("event %+v after %d", e, after)
			}
			if s.Ended() && e.Status == StatusStreaming {
				t.Fatalf("event %+v after the end", e)
			}
			after, seen[e.ID] = e.UpdatedSequence, true
		}
	}
	if len(seen) != len(s.events) {
		t.Fatalf("%d events of %d were seen", len(seen), len(s.events))
	}
}

// Apply stands any facts in any order: those that the journal prevents, too.
func TestAnyOrderOfFactsIsFolded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawSim(t, drawPlan(t), rapid.Uint64().Draw(t, "seed"))
		w.run()
		messages := append([][]Fact(nil), w.messages[1:]...)
		messages = rapid.Permutation(messages).Draw(t, "order")
		s := &Session{}
		if err := s.Apply(w.messages[0], 1); err != nil {
			t.Fatal(err)
		}
		for i, m := range messages {
			if err := s.Apply(m, uint64(i)+2); err != nil {
				t.Fatal(err)
			}
			Next(s, w.now)
		}
		for _, e := range s.executions {
			if len(e.turn) == 0 && len(e.messages) > 0 {
				if err := wellFormed(e.messages); err != nil {
					t.Fatal(err)
				}
			}
		}
		checkTimeline(t, s)
		checkViews(t, s)
	})
}

func FuzzDecode(f *testing.F) {
	w := newSim(f, testPlan(testStage("work", Any, testAgent("a", "kubernetes"))))
	w.run()
	for _, m := range w.messages {
		b, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`[{"time":"2026-03-04T05:06:07Z","from_the_future":{"a":1}}]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		facts, err := Decode(b)
		if err != nil {
			return
		}
		if _, err := Encode(facts); err != nil && !strings.Contains(err.Error(), "year outside of range") {
			t.Fatalf("Encode of decoded facts: %v", err)
		}
		s, err := Fold(w.messages[:len(w.messages)/2])
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Apply(facts, 1000); err != nil {
			t.Fatal(err)
		}
		Next(s, testStart)
	})
}

func TestUnknownFactsAreCounted(t *testing.T) {
	facts, err := Decode([]byte(`[{"time":"2026-03-04T05:06:07Z","from_the_future":{"a":1}}]`))
	if err != nil {
		t.Fatal(err)
	}
	w := newSim(t, testPlan(testStage("work", Any, testAgent("a"))))
	if err := w.s.Apply(facts, 2); err != nil || w.s.Unknown() != 1 {
		t.Errorf("Apply = %v with %d unknown facts, want nil and 1", err, w.s.Unknown())
	}
	if err := w.s.Apply(facts, 2); err == nil {
		t.Error("Apply of the same sequence = nil, want an error")
	}
	if err := (&Session{}).Apply(facts, 1); err == nil {
		t.Error("Apply without a submission = nil, want an error")
	}
	for _, bad := range []string{"", "[]", "{}", "null", "[1]"} {
		if _, err := Decode([]byte(bad)); err == nil {
			t.Errorf("Decode(%q) = nil, want an error", bad)
		}
	}
}
