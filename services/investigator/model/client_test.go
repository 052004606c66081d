package model_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// step is what a scripted model does next: it waits, then yields a chunk or an error.
type step struct {
	wait  time.Duration
	chunk model.Chunk
	err   error
}

// scripted gives one script for each request.
type scripted struct {
	scripts [][]step
	asked   []time.Time
}

func (s *scripted) Generate(ctx context.Context, _ model.Request) iter.Seq2[model.Chunk, error] {
	script := s.scripts[min(len(s.asked), len(s.scripts)-1)]
	s.asked = append(s.asked, time.Now())
	return func(yield func(model.Chunk, error) bool) {
		for _, next := range script {
			select {
			case <-ctx.Done():
				yield(model.Chunk{}, &model.Error{Kind: model.Unavailable, Cause: ctx.Err()})
				return
			case <-time.After(next.wait):
			}
			if !yield(next.chunk, next.err) || next.err != nil {
				return
			}
		}
	}
}

func text(s string) step { return step{chunk: model.Chunk{Text: s}} }

func done() step { return step{chunk: model.Chunk{Done: &model.Done{Stop: model.StopEnd}}} }

func fails(kind model.Kind, after time.Duration) []step {
	return []step{{err: &model.Error{Kind: kind, RetryAfter: after}}}
}

func TestTimeouts(t *testing.T) {
	timeouts := model.Timeouts{FirstChunk: 2 * time.Second, BetweenChunks: time.Second, Call: 10 * time.Second}
	slow := step{wait: 900 * time.Millisecond, chunk: model.Chunk{}}
	tests := []struct {
		name   string
		script []step
		want   model.Kind
		after  time.Duration
	}{
		{"in time", []step{{wait: 1900 * time.Millisecond, chunk: model.Chunk{Text: "a"}}, slow, done()}, "", 2800 * time.Millisecond},
		{"first chunk late", []step{{wait: 3 * time.Second}}, model.Silent, 2 * time.Second},
		{"next chunk late", []step{text("a"), {wait: 2 * time.Second}}, model.Silent, time.Second},
		{"call late", append(slices.Repeat([]step{slow}, 20), done()), model.Silent, 10 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				got := collect(t, model.WithTimeouts(&scripted{scripts: [][]step{test.script}}, timeouts), model.Request{})
				kind := model.Kind("")
				if got.err != nil {
					kind = got.err.Kind
				}
				if after := time.Since(start); kind != test.want || after != test.after {
					t.Errorf("got kind %q after %s, want %q after %s", kind, after, test.want, test.after)
				}
			})
		})
	}
}

func TestRetryNext(t *testing.T) {
	policy := model.DefaultRetry()
	tests := []struct {
		attempt int
		kind    model.Kind
		after   time.Duration
		random  float64
		wait    time.Duration
		verdict model.Verdict
	}{
		{0, model.Unavailable, 0, 0.5, time.Second, model.Again},
		{0, model.Unavailable, 0, 0, 800 * time.Millisecond, model.Again},
		{1, model.Silent, 0, 0.5, 2 * time.Second, model.Again},
		{2, model.Cut, 0, 0.5, 0, model.GiveUp},
		{0, model.Refused, time.Second, 0.5, 0, model.GiveUp},
		{0, model.Limited, 30 * time.Second, 0.5, 30 * time.Second, model.Again},
		{0, model.Limited, 31 * time.Second, 0.5, 31 * time.Second, model.Later},
		{2, model.Limited, 31 * time.Second, 0.5, 31 * time.Second, model.Later},
		{2, model.Limited, 30 * time.Second, 0.5, 0, model.GiveUp},
	}
	for _, test := range tests {
		wait, verdict := policy.Next(test.attempt, &model.Error{Kind: test.kind, RetryAfter: test.after}, test.random)
		if wait != test.wait || verdict != test.verdict {
			t.Errorf("Next(%d, %s after %s, %v) = %s, %s, want %s, %s", test.attempt, test.kind, test.after, test.random, wait, verdict, test.wait, test.verdict)
		}
	}
}

func TestClientRetries(t *testing.T) {
	good := []step{text("good"), done()}
	cut := []step{text("half"), {err: &model.Error{Kind: model.Cut}}}
	tests := []struct {
		name     string
		scripts  [][]step
		patient  bool
		deadline time.Duration
		asked    int
		text     string
		atLeast  time.Duration
		kind     model.Kind
	}{
		{"at once", [][]step{good}, false, 0, 1, "good", 0, ""},
		{"cut, then good", [][]step{cut, good}, false, 0, 2, "good", 800 * time.Millisecond, ""},
		{"three failures", [][]step{fails(model.Unavailable, 0)}, false, 0, 3, "", 2400 * time.Millisecond, model.Unavailable},
		{"refused", [][]step{fails(model.Refused, 0), good}, false, 0, 1, "", 0, model.Refused},
		{"limited for 20 s", [][]step{fails(model.Limited, 20*time.Second), good}, false, 0, 2, "good", 20 * time.Second, ""},
		{"limited for 60 s, with a next provider", [][]step{fails(model.Limited, time.Minute), good}, false, 0, 1, "", 0, model.Limited},
		{"limited for 60 s, without", [][]step{fails(model.Limited, time.Minute), good}, true, 0, 1, "", 0, model.Limited},
		{"limited beyond the deadline", [][]step{fails(model.Limited, 20*time.Second), good}, true, 10 * time.Second, 1, "", 0, model.Limited},
		{"a stream without an end", [][]step{{text("half")}, good}, false, 0, 2, "good", 800 * time.Millisecond, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, test.deadline)
					defer cancel()
				}
				m := &scripted{scripts: test.scripts}
				client := model.NewClient(m, model.DefaultRetry(), &model.Breaker{})
				if test.patient {
					client = client.WithLongWaits()
				}
				start, seen := time.Now(), map[int]string{}
				got, err := client.Ask(ctx, question("why?"), func(attempt int, c model.Chunk) { seen[attempt] += c.Text })
				var failure *model.Error
				if errors.As(err, &failure) != (test.kind != "") || (failure != nil && failure.Kind != test.kind) {
					t.Fatalf("error %v, want kind %q", err, test.kind)
				}
				if failure != nil && failure.Later != (failure.RetryAfter > 0) {
					t.Errorf("later = %t for a wait of %s, want it for each that was not begun", failure.Later, failure.RetryAfter)
				}
				took := time.Since(start)
				if len(m.asked) != test.asked || got.Text != test.text || took < test.atLeast || took > 2*test.atLeast {
					t.Errorf("asked %d times, text %q after %s, want %d, %q after %s", len(m.asked), got.Text, took, test.asked, test.text, test.atLeast)
				}
				if err == nil && (got.Attempts != test.asked || seen[test.asked-1] != test.text) {
					t.Errorf("%d attempts with the chunks %v, want %d and %q in the last", got.Attempts, seen, test.asked, test.text)
				}
			})
		})
	}
}

// What the provider counted for tries that failed is reported with the outcome, apart from what the
// answer itself had.
func TestClientCountsFailedTries(t *testing.T) {
	cut := []step{text("half"), {err: &model.Error{Kind: model.Cut, Usage: model.Usage{Input: 100, Output: 7}}}}
	good := []step{text("good"), {chunk: model.Chunk{Done: &model.Done{Stop: model.StopEnd, Usage: model.Usage{Input: 100, Output: 20}}}}}
	uncounted := fails(model.Unavailable, 0)
	tests := []struct {
		name           string
		scripts        [][]step
		answer, failed model.Usage
	}{
		{"cut twice, then good", [][]step{cut, cut, good}, model.Usage{Input: 100, Output: 20}, model.Usage{Input: 200, Output: 14}},
		{"cut three times", [][]step{cut}, model.Usage{}, model.Usage{Input: 300, Output: 21}},
		{"cut, then without a count", [][]step{cut, uncounted}, model.Usage{}, model.Usage{Input: 100, Output: 7}},
		{"refused after a cut", [][]step{cut, fails(model.Refused, 0)}, model.Usage{}, model.Usage{Input: 100, Output: 7}},
		{"without a count", [][]step{uncounted, good}, model.Usage{Input: 100, Output: 20}, model.Usage{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := model.NewClient(&scripted{scripts: test.scripts}, model.DefaultRetry(), &model.Breaker{})
				got, err := client.Ask(t.Context(), question("why?"), func(int, model.Chunk) {})
				failed := got.FailedUsage
				var failure *model.Error
				if errors.As(err, &failure) {
					failed = failure.Usage
				}
				if got.Usage != test.answer || failed != test.failed {
					t.Errorf("answer %+v, failed tries %+v; want %+v, %+v", got.Usage, failed, test.answer, test.failed)
				}
			})
		})
	}
}

// So is what they had counted when the caller gave up.
func TestClientCountsTriesOfACallerThatGaveUp(t *testing.T) {
	cut := []step{text("half"), {err: &model.Error{Kind: model.Cut, Usage: model.Usage{Input: 100, Output: 7}}}}
	synctest.Test(t, func(t *testing.T) {
		for name, scripts := range map[string][][]step{"in a try": {cut, {{wait: time.Hour}}}, "between tries": {cut}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if name == "between tries" {
				time.AfterFunc(500*time.Millisecond, cancel)
			}
			client := model.NewClient(&scripted{scripts: scripts}, model.DefaultRetry(), &model.Breaker{})
			got, err := client.Ask(ctx, question("why?"), func(int, model.Chunk) {})
			if want := (model.Usage{Input: 100, Output: 7}); ctx.Err() == nil || !errors.Is(err, ctx.Err()) || got.FailedUsage != want {
				t.Errorf("%s: error %v, failed tries %+v; want the end of the context and %+v", name, err, got.FailedUsage, want)
			}
			cancel()
		}
	})
}

// TestClientOpensTheBreaker: failed requests count, refused ones and those of a caller that gave
// up do not.
func TestClientOpensTheBreaker(t *testing.T) {
	tests := []struct {
		name   string
		script []step
		asks   int
		open   bool
	}{
		{"six failed requests", fails(model.Unavailable, 0), 2, true},
		{"three failed requests", fails(model.Unavailable, 0), 1, false},
		{"cut streams", []step{text("half")}, 2, true},
		{"refused requests", fails(model.Refused, 0), 9, false},
		{"callers that gave up", []step{{wait: time.Hour}}, 9, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &model.Breaker{}
				client := model.NewClient(&scripted{scripts: [][]step{test.script}}, model.DefaultRetry(), b)
				for range test.asks {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					if _, err := client.Ask(ctx, question("why?"), func(int, model.Chunk) {}); err == nil {
						t.Error("got an answer, want an error")
					}
					cancel()
				}
				if b.Open() != test.open {
					t.Errorf("open %t, want %t", b.Open(), test.open)
				}
			})
		})
	}
}

// TestClientWithOpenBreaker: a provider that fails is not asked until the trial, and a wait for
// the trial is no attempt.
func TestClientWithOpenBreaker(t *testing.T) {
	good := [][]step{{text("good"), done()}}
	tests := []struct {
		name     string
		scripts  [][]step
		patient  bool
		deadline time.Duration
		asked    int
		attempts int
		after    time.Duration
		kind     model.Kind
		open     bool
	}{
		{"with a next provider", good, false, time.Hour, 0, 0, 0, model.Unavailable, true},
		{"without one", good, true, time.Hour, 1, 1, model.BreakerPause, "", false},
		{"the trial fails, then the next one", [][]step{fails(model.Unavailable, 0), good[0]}, true, time.Hour, 2, 2, 2 * model.BreakerPause, "", false},
		{"every trial fails", [][]step{fails(model.Unavailable, 0)}, true, time.Hour, 3, 0, 3 * model.BreakerPause, model.Unavailable, true},
		{"the deadline is before the trial", good, true, 29 * time.Second, 0, 0, 0, model.Unavailable, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.deadline)
				defer cancel()
				b, start := &model.Breaker{}, time.Now()
				for range model.BreakerFailures {
					done, _ := b.Allow(start)
					done(start, &model.Error{Kind: model.Unavailable})
				}
				m := &scripted{scripts: test.scripts}
				client := model.NewClient(m, model.DefaultRetry(), b)
				if test.patient {
					client = client.WithLongWaits()
				}
				last := -1
				got, err := client.Ask(ctx, question("why?"), func(attempt int, _ model.Chunk) { last = attempt })
				var failure *model.Error
				if errors.As(err, &failure) != (test.kind != "") || (failure != nil && failure.Kind != test.kind) {
					t.Fatalf("error %v, want kind %q", err, test.kind)
				}
				if took := time.Since(start); len(m.asked) != test.asked || took != test.after || b.Open() != test.open {
					t.Errorf("asked %d times in %s, open %t, want %d in %s, open %t", len(m.asked), took, b.Open(), test.asked, test.after, test.open)
				}
				if got.Attempts != test.attempts || (err == nil && last != test.attempts-1) {
					t.Errorf("%d attempts, chunks of attempt %d, want %d and the last one", got.Attempts, last, test.attempts)
				}
			})
		})
	}
}

func TestClientEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		b := &model.Breaker{}
		client := model.NewClient(&scripted{scripts: [][]step{{{wait: time.Hour}}}}, model.DefaultRetry(), b)
		if _, err := client.Ask(ctx, model.Request{}, func(int, model.Chunk) {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
	})
}

// An answer with as many calls as it may have is whole: it has its end, its usage and its state.
func TestClientTakesTheMostCalls(t *testing.T) {
	call := step{chunk: model.Chunk{Call: &model.Call{ID: "same", Name: "get"}}}
	end := step{chunk: model.Chunk{Done: &model.Done{Stop: model.StopEnd, Usage: model.Usage{Input: 10, Output: 5}}}}
	for _, n := range []int{32, 33, model.MaxCalls} {
		client := model.NewClient(&scripted{scripts: [][]step{append(slices.Repeat([]step{call}, n), end)}}, model.DefaultRetry(), &model.Breaker{})
		got, err := client.Ask(t.Context(), question("why?"), func(int, model.Chunk) {})
		if err != nil || got.Cut || len(got.Calls) != n || got.Stop != model.StopEnd || got.Usage.Input != 10 {
			t.Errorf("%d calls: got %d, cut %t (%s), stop %s, usage %+v, error %v; want the whole answer", n, len(got.Calls), got.Cut, got.CutReason, got.Stop, got.Usage, err)
		}
	}
}

func TestClientBounds(t *testing.T) {
	call := step{chunk: model.Chunk{Call: &model.Call{ID: "same", Name: "get"}}}
	var long []step
	for i := range 5 {
		var part strings.Builder
		for n := 0; part.Len() < 1<<20; n++ {
			fmt.Fprintf(&part, "line %d.%d\n", i, n)
		}
		long = append(long, text(part.String()))
	}
	tests := []struct {
		name   string
		script []step
		reason string
	}{
		{"text", long, "the text is over 4 MiB"},
		{"calls", slices.Repeat([]step{call}, model.MaxCalls+2), "the answer has over 128 tool calls"},
		{"repetition", slices.Repeat([]step{text("And then I look at the pod again, and it is down. ")}, 6), "the text repeats itself"},
		{"thinking", slices.Repeat([]step{{chunk: model.Chunk{Thinking: "I look at the pod again, and it is down. "}}}, 6), "the thinking repeats itself"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			client := model.NewClient(&scripted{scripts: [][]step{test.script}}, model.DefaultRetry(), &model.Breaker{})
			got, err := client.Ask(t.Context(), question("why?"), func(int, model.Chunk) {})
			if err != nil || !got.Cut || got.CutReason != test.reason || len(got.Text) > model.MaxAnswerBytes || !got.Estimated || got.Usage.Input == 0 {
				t.Errorf("got cut %t (%s), %d bytes, usage %+v, error %v, want %s and an estimate", got.Cut, got.CutReason, len(got.Text), got.Usage, err, test.reason)
			}
			ids := map[string]bool{}
			for _, c := range got.Calls {
				ids[c.ID] = true
			}
			if len(ids) != len(got.Calls) || len(ids) > model.MaxCalls {
				t.Errorf("%d ids of %d calls, want as many, at most %d", len(ids), len(got.Calls), model.MaxCalls)
			}
		})
	}
}

func TestClientNamesCalls(t *testing.T) {
	var script []step
	for _, id := range []string{"", "old", "fine-1", "functions.get:0", "fine-1"} {
		script = append(script, step{chunk: model.Chunk{Call: &model.Call{ID: id, Name: "get"}}})
	}
	r := model.Request{Messages: []model.Message{{Role: model.RoleAssistant, Calls: []model.Call{{ID: "old"}, {ID: "call_3"}}}}}
	client := model.NewClient(&scripted{scripts: [][]step{append(script, done())}}, model.DefaultRetry(), &model.Breaker{})
	got, err := client.Ask(t.Context(), r, func(int, model.Chunk) {})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, c := range got.Calls {
		ids = append(ids, c.ID)
	}
	if diff := cmp.Diff([]string{"call_4", "call_5", "fine-1", "call_6", "call_7"}, ids); diff != "" {
		t.Error(diff)
	}
}

func TestBreaker(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	failed, refused := &model.Error{Kind: model.Unavailable}, &model.Error{Kind: model.Refused}
	type event struct {
		at      time.Duration
		outcome error
		allowed bool
	}
	five := slices.Repeat([]event{{0, failed, true}}, 5)
	tests := []struct {
		name   string
		events []event
		open   bool
	}{
		{"four failures", five[:4], false},
		{"five failures", five, true},
		{"a success between", slices.Concat(five[:4], []event{{0, nil, true}}, five[:4]), false},
		{"a refusal between", slices.Concat(five[:4], []event{{0, refused, true}}, five[:4]), false},
		{"a canceled one does not count", slices.Concat(five[:4], []event{{0, context.Canceled, true}, {0, failed, true}}), true},
		{"too early", slices.Concat(five, []event{{29 * time.Second, nil, false}}), true},
		{"a trial that succeeds", slices.Concat(five, []event{{30 * time.Second, nil, true}, {30 * time.Second, failed, true}}), false},
		{"a trial that fails", slices.Concat(five, []event{{30 * time.Second, failed, true}, {59 * time.Second, nil, false}, {60 * time.Second, nil, true}}), false},
		{"a canceled trial", slices.Concat(five, []event{{30 * time.Second, context.Canceled, true}, {30 * time.Second, nil, true}}), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var b model.Breaker
			for i, e := range test.events {
				done, wait := b.Allow(start.Add(e.at))
				if (done != nil) != e.allowed || (done == nil) != (wait > 0) {
					t.Fatalf("event %d: allowed %t, wait %s, want %t", i, done != nil, wait, e.allowed)
				}
				if done != nil {
					done(start.Add(e.at), e.outcome)
				}
			}
			if b.Open() != test.open {
				t.Errorf("open %t, want %t", b.Open(), test.open)
			}
		})
	}
}

func TestBreakerPermitsOneTrial(t *testing.T) {
	b, now := &model.Breaker{}, time.Now()
	for range model.BreakerFailures {
		done, _ := b.Allow(now)
		done(now, &model.Error{Kind: model.Silent})
	}
	now = now.Add(model.BreakerPause)
	if first, _ := b.Allow(now); first == nil {
		t.Fatal("the trial is not allowed")
	}
	if second, wait := b.Allow(now); second != nil || wait <= 0 {
		t.Errorf("a second trial beside the first is allowed %t, wait %s, want false and a wait", second != nil, wait)
	}
}

// repeats is the rule of model.Repetition, read literally.
func repeats(s []rune) bool {
	for end := 1; end <= len(s); end++ {
		for n := model.MinRepeated; n <= model.MaxRepeated && n*model.Repeats <= end; n++ {
			tail, same := s[end-n*model.Repeats:end], true
			for i := n; i < len(tail) && same; i++ {
				same = tail[i] == tail[i-n]
			}
			if same && strings.ContainsAny(string(tail[:n]), "abcxyz0123456789ä") {
				return true
			}
		}
	}
	return false
}

func TestRepetition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := rapid.StringOfN(rapid.RuneFrom([]rune("abä -|")), 1, 70, -1).Draw(t, "block")
		count := rapid.IntRange(1, 9).Draw(t, "count")
		prefix := rapid.StringOfN(rapid.RuneFrom([]rune("abc -")), 0, 90, -1).Draw(t, "prefix")
		suffix := rapid.StringOfN(rapid.RuneFrom([]rune("xyz")), 0, 9, -1).Draw(t, "suffix")
		all := prefix + strings.Repeat(block, count) + suffix
		var r model.Repetition
		got, runes := false, []rune(all)
		for len(runes) > 0 {
			n := rapid.IntRange(1, len(runes)).Draw(t, "delta")
			got = r.Add(string(runes[:n]))
			runes = runes[n:]
		}
		if want := repeats([]rune(all)); got != want {
			t.Fatalf("got %t, want %t for %q", got, want, all)
		}
	})
}

func TestRepetitionLeavesTablesAlone(t *testing.T) {
	var table, rulers strings.Builder
	for i := range 300 {
		fmt.Fprintf(&table, "| shop-%03d | Running | 0 restarts | 10m | node-1 |\n", i)
		rulers.WriteString("|----------|---------|------------|-----|--------|\n")
	}
	for name, text := range map[string]string{"rows": table.String(), "rulers": rulers.String(), "a line": strings.Repeat("-", 5000)} {
		var r model.Repetition
		if r.Add(text) {
			t.Errorf("%s: a table is taken for a repetition", name)
		}
	}
	signs := model.MaxSigns - 1
	for name, block := range map[string]string{"points": ".", "lines": "-----\n", "spaces": " \n", "several": "=-+*/\\|.:;#~ "} {
		var r model.Repetition
		endless := strings.Repeat(block, model.MaxSigns/len(block)+1)
		if r.Add("Done. " + block + "a"); r.Add(endless[:signs]) {
			t.Errorf("%s: %d signs are taken for an endless stream", name, signs)
		}
		if r.Add("a" + endless[:signs]) {
			t.Errorf("%s: %d signs after a letter are taken for an endless stream", name, signs)
		}
		if !r.Add(endless[signs : signs+1]) {
			t.Errorf("%s: %d signs in a row are no endless stream, want one", name, model.MaxSigns)
		}
	}
	for _, n := range []int{model.MinRepeated, 499, model.MaxRepeated} {
		var r model.Repetition
		block := fmt.Sprintf("%0*d", n, 7)
		if r.Add(strings.Repeat(block, 4)); !r.Add(block) {
			t.Errorf("a block of %d characters, 5 times, is not detected", n)
		}
	}
}

func TestEstimate(t *testing.T) {
	r := model.Request{System: "12345678", Messages: []model.Message{{Role: "user", Text: "1234567"}}}
	if got := model.Estimate(r); got != 5 {
		t.Errorf("Estimate = %d, want 5 (19 bytes by 4)", got)
	}
}

// BenchmarkRepetition adds 1 MiB in small parts. The time for each byte does not depend on the
// length of the text, but on how often its last 30 characters stood before.
func BenchmarkRepetition(b *testing.B) {
	var prose strings.Builder
	for n := 0; prose.Len() < 1<<20; n++ {
		fmt.Fprintf(&prose, "line %d of the log of pod shop-%d\n", n, n*7919%1000)
	}
	for name, text := range map[string]string{"prose": prose.String(), "rows": strings.Repeat("| a | b |\n----------\n", 1<<20/21), "a line": strings.Repeat("-", 1<<20)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				var r model.Repetition
				for part := range slices.Chunk([]byte(text), 16) {
					r.Add(string(part))
				}
			}
		})
	}
}
