package worker

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
)

// watcher joins chunks as those who watch do.
type watcher struct {
	t        *testing.T
	texts    map[string]string
	attempts map[string]int
}

func (v *watcher) take(data []byte) {
	v.t.Helper()
	var chunks []Chunk
	if err := json.Unmarshal(data, &chunks); err != nil {
		v.t.Fatal(err)
	}
	for _, c := range chunks {
		switch old := v.attempts[c.Event]; {
		case c.Attempt < old:
			v.t.Errorf("attempt %d after %d, want none that falls", c.Attempt, old)
		case c.Attempt > old:
			v.attempts[c.Event], v.texts[c.Event] = c.Attempt, ""
		}
		if got := utf8.RuneCountInString(v.texts[c.Event]); got != c.Offset {
			v.t.Errorf("offset %d after %d characters", c.Offset, got)
		}
		v.texts[c.Event] += c.Delta
		if strings.Contains(v.texts[c.Event], "hunter2") {
			v.t.Errorf("a chunk has what has to be masked: %q", v.texts[c.Event])
		}
	}
}

func TestStreamIsMaskedInLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		w.answer = func(ctx context.Context, r model.Request, turn int, onChunk func(int, model.Chunk)) (model.Answer, error) {
			if turn > 0 || len(r.Tools) == 0 {
				return script(ctx, r, 2, onChunk)
			}
			for attempt, text := range []string{"Für a cut stream\nit ", "Für the password hunter2\nof the pod\nit has 3 restarts"} {
				for _, c := range text { // character by character
					onChunk(attempt, model.Chunk{Thinking: string(c)})
					onChunk(attempt, model.Chunk{Text: string(c)})
					time.Sleep(7 * time.Millisecond)
				}
			}
			return script(ctx, r, turn, onChunk)
		}
		m.submit(testID, testPlan())
		_, stop := w.worker(m, "a")
		time.Sleep(10 * time.Second)
		stop()
		v := &watcher{t, map[string]string{}, map[string]int{}}
		for i, data := range m.chunks {
			v.take(data)
			if i > 0 && m.chunked[i].Sub(m.chunked[i-1]) < batchInterval {
				t.Errorf("chunks %s after others, want at least %s", m.chunked[i].Sub(m.chunked[i-1]), batchInterval)
			}
		}
		if len(v.texts) != 2 {
			t.Fatalf("chunks of %d events, want 2: thinking and text", len(v.texts))
		}
		for event, got := range v.texts {
			if want := "Für the password [MASKED]\nof the pod\n"; got != want {
				t.Errorf("event %s: live text %q, want the whole lines %q", event, got, want)
			}
		}
		streaming := map[bool]int{}
		for _, f := range m.facts(testID) {
			if f.Streaming != nil {
				streaming[f.Streaming.Thinking]++
			}
		}
		if streaming[true] != 1 || streaming[false] != 1 {
			t.Errorf("streaming facts %v, want one of each: none for the answers that came at once", streaming)
		}
		once(t, m.facts(testID))
	})
}

func TestLiveText(t *testing.T) {
	mask := func(s string) string { return strings.ReplaceAll(s, "BEGIN\nkey\nEND\n", "[KEY]\n") }
	long := strings.Repeat("word ", 200)
	tests := []struct {
		name   string
		writes []string
		want   string
		starts int
	}{
		{"an open line waits", []string{"abc"}, "", 0},
		{"a long line goes by words", []string{long}, strings.Repeat("word ", 147) + "word", 0},
		{"the mask changes what was published", []string{"a\nBEGIN\n", "key\n", "END\n", "b\n"}, "a\n[KEY]\nb\n", 1},
		{"nothing after the bound", []string{"a\n", strings.Repeat("x\n", maxLive), "b\n"}, "a\n", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var text liveText
			for _, part := range test.writes {
				text.write(part)
				text.next(mask)
			}
			if text.sent != test.want || text.starts != test.starts {
				t.Errorf("published %q with %d starts over, want %q with %d", text.sent, text.starts, test.want, test.starts)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	metrics := NewMetrics(registry)
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		w.known = func(provider string) bool { return provider == "gemini" }
		w.tool = func(context.Context, string) ToolResult {
			time.Sleep(time.Second)
			return ToolResult{Text: "no", IsError: true}
		}
		m.submit(testID, testPlan())
		cfg := w.config("a", m, m, m)
		cfg.Observer = metrics
		worker := New(cfg)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = worker.Run(ctx) }()
		time.Sleep(time.Minute)
		cancel()
		<-done
		if s := m.fold(t, testID); s.Status() != session.StatusCompleted {
			t.Errorf("status %s, want completed", s.Status())
		}
	})
	want := `
# HELP tocsin_investigator_fallbacks_total Changes of the provider after a failure.
# TYPE tocsin_investigator_fallbacks_total counter
tocsin_investigator_fallbacks_total{from="claude",to="gemini"} 1
# HELP tocsin_investigator_sessions_active Investigation sessions that this process works on.
# TYPE tocsin_investigator_sessions_active gauge
tocsin_investigator_sessions_active 0
# HELP tocsin_investigator_tokens_total Tokens, by provider and kind. Input includes cached, output includes thinking.
# TYPE tocsin_investigator_tokens_total counter
tocsin_investigator_tokens_total{kind="input",provider="gemini"} 400
tocsin_investigator_tokens_total{kind="output",provider="gemini"} 40
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"tocsin_investigator_fallbacks_total", "tocsin_investigator_sessions_active", "tocsin_investigator_tokens_total"); err != nil {
		t.Error(err)
	}
	for name, n := range map[string]int{"tocsin_investigator_session_seconds": 1, "tocsin_investigator_stage_seconds": 1, "tocsin_investigator_tool_seconds": 1} {
		if got, err := testutil.GatherAndCount(registry, name); err != nil || got != n {
			t.Errorf("%s has %d series (%v), want %d", name, got, err, n)
		}
	}
}
