package session

import (
	"strconv"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

// longSession runs one agent for a number of turns with two tool calls each, until its model is
// asked once more.
func longSession(tb testing.TB, turns int) *sim {
	tb.Helper()
	a := testAgent("a", "kubernetes")
	a.MaxIterations, a.Provider.ContextWindow = 10*turns, 1_000_000
	w := newSim(tb, testPlan(testStage("work", Any, a)))
	n := 0
	w.answer = func(_ *sim, a *Ask) Fact {
		if n++; n > turns {
			return Fact{}
		}
		f := calls(a,
			model.Call{Name: "kubernetes__pods_log", Arguments: `{"n":` + strconv.Itoa(2*n) + `}`},
			model.Call{Name: "kubernetes__pods_log", Arguments: `{"n":` + strconv.Itoa(2*n+1) + `}`})
		f.ModelAnswered.Text, f.ModelAnswered.Thinking = Text{Inline: "next"}, Text{Inline: strings.Repeat("I wonder. ", 50)}
		f.ModelAnswered.Usage.Input = RequestTokens(a.Request)
		return f
	}
	w.tool = func(c *CallTool) string { return strings.Repeat("line of "+c.CallID+"\n", 200) }
	w.claim()
	for len(w.asked) <= turns {
		if !w.step() {
			tb.Fatal("the session waits for nothing")
		}
	}
	return w
}

func (w *sim) facts() int {
	n := 0
	for _, m := range w.messages {
		n += len(m)
	}
	return n
}

// BenchmarkFold folds a session of 1,000 facts, as a worker does that takes it over.
func BenchmarkFold(b *testing.B) {
	w := longSession(b, 166)
	b.ReportMetric(float64(w.facts()), "facts")
	for b.Loop() {
		if _, err := Fold(w.messages); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDecodeAndFold is like BenchmarkFold, from the stored bytes.
func BenchmarkDecodeAndFold(b *testing.B) {
	w := longSession(b, 166)
	var stored [][]byte
	size := 0
	for _, m := range w.messages {
		encoded, err := Encode(m)
		if err != nil {
			b.Fatal(err)
		}
		stored = append(stored, encoded)
		size += len(encoded)
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		s := &Session{}
		for i, m := range stored {
			facts, err := Decode(m)
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Apply(facts, uint64(i)+1); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkNext decides on a conversation of 200 messages.
func BenchmarkNext(b *testing.B) {
	w := longSession(b, 66)
	b.ReportMetric(float64(len(w.requests[len(w.requests)-1].Messages)), "messages")
	for b.Loop() {
		if d := Next(w.s, w.now); len(d.Effects) != 1 {
			b.Fatalf("%d effects, want the question to the model", len(d.Effects))
		}
	}
}

// BenchmarkIteration is the engine's own time in one iteration after 1,000 facts: the answer of a
// model, its two calls, their results, and the next request.
func BenchmarkIteration(b *testing.B) {
	w := longSession(b, 166)
	before := w.messages[:len(w.messages)-1]
	last := 0 // the message with the last answer
	for i, m := range before {
		for _, f := range m {
			if f.ModelAnswered != nil {
				last = i
			}
		}
	}
	for b.Loop() {
		b.StopTimer()
		s, err := Fold(before[:last])
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		for i, m := range before[last:] {
			if err := s.Apply(m, uint64(last+i)+1); err != nil {
				b.Fatal(err)
			}
			Next(s, w.now)
		}
	}
}

// BenchmarkRecords writes the first message of a synthesis of three agents with 100 calls each.
func BenchmarkRecords(b *testing.B) {
	agent := testAgent("a", "kubernetes")
	agent.MaxIterations = 60
	w := newSim(b, testPlan(testStage("work", Any, agent, agent, agent)))
	turns := map[string]int{}
	w.answer = func(_ *sim, a *Ask) Fact {
		n := turns[a.Execution]
		if turns[a.Execution]++; n >= 50 || a.Purpose != PurposeIteration {
			return text(a, "fine")
		}
		return calls(a, model.Call{Name: "kubernetes__pods_log", Arguments: `{"n":` + strconv.Itoa(2*n) + `}`}, model.Call{Name: "kubernetes__pods_log", Arguments: `{"n":` + strconv.Itoa(2*n+1) + `}`})
	}
	w.tool = func(*CallTool) string { return strings.Repeat("a line of a log\n", 200) }
	s := w.run()
	synthesis := s.stages[1].execs[0]
	for b.Loop() {
		s.records(synthesis, share(synthesis.current(), recordsShare))
	}
}
