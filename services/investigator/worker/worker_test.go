package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
)

func TestSessionCompletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		m.submit(testID, testPlan())
		_, stop := w.worker(m, "a")
		synctest.Wait()
		stop()
		s := m.fold(t, testID)
		if s.Status() != session.StatusCompleted {
			t.Fatalf("status %s, want completed: %+v", s.Status(), session.Summary(s))
		}
		once(t, m.facts(testID))
		if got, want := w.requests(), 4; got != want {
			t.Errorf("%d requests to models, want %d", got, want)
		}
		if diff := cmp.Diff(map[string]int{"list": 1, `{"page":1}`: 1, `{"page":2}`: 1}, w.called); diff != "" {
			t.Errorf("calls of tools (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{testID + " in_progress"}, w.started); diff != "" {
			t.Errorf("hook started (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{testID + " completed"}, w.ended); diff != "" {
			t.Errorf("hook ended (-want +got):\n%s", diff)
		}
		if len(m.claims) > 0 || len(m.queue) > 0 {
			t.Errorf("the queue has %d claims and %d sessions, want none", len(m.claims), len(m.queue))
		}
		if w.open != 0 || w.opened != 1 {
			t.Errorf("%d sets of tools opened, %d of them still open; want 1 and 0", w.opened, w.open)
		}
		// Submitted, claimed, stage, then one append for each outcome: what is known, tools, three
		// answers, two results, the summary.
		if got, want := m.appends, 10; got > want {
			t.Errorf("%d appends, want at most %d: an outcome is stored together with what follows", got, want)
		}
		for _, f := range m.facts(testID) {
			if f.Gathered != nil && f.Gathered.Known[0].Text != "password [MASKED]" {
				t.Errorf("known text %q, want it masked", f.Gathered.Known[0].Text)
			}
		}
	})
}

// hangs has the n-th effect of a kind wait for its context.
func hangs(w *world, where string) {
	wait := func(ctx context.Context) { <-ctx.Done() }
	switch where {
	case "gather":
		w.gather = wait
	case "list":
		w.list = wait
	case "tool":
		w.tool = func(ctx context.Context, _ string) ToolResult { wait(ctx); return ToolResult{IsError: true} }
	case "model", "summary":
		w.answer = func(ctx context.Context, r model.Request, turn int, onChunk func(int, model.Chunk)) (model.Answer, error) {
			if (len(r.Tools) == 0) == (where == "summary") {
				wait(ctx)
				return model.Answer{}, context.Cause(ctx)
			}
			return script(ctx, r, turn, onChunk)
		}
	}
}

func TestCancelInEachState(t *testing.T) {
	for _, where := range []string{"list", "model", "tool", "summary"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, w := newMemory(), newWorld()
				hangs(w, where)
				m.submit(testID, testPlan())
				_, stop := w.worker(m, "a")
				synctest.Wait()
				m.foreign(testID, session.Fact{CancelRequested: &session.CancelRequested{By: "me", Reason: "enough"}})
				synctest.Wait()
				if s := m.fold(t, testID); s.Status() != session.StatusCancelled {
					t.Errorf("status %s at once after the request, want cancelled", s.Status())
				}
				if len(m.claims) != 0 || w.open != 0 {
					t.Errorf("%d claims and %d open sets, want none", len(m.claims), w.open)
				}
				stop()
				if diff := cmp.Diff([]string{testID + " cancelled"}, w.ended); diff != "" {
					t.Errorf("hook ended (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// Without a notification a request is seen by the poll.
func TestCancelWithoutNotification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		hangs(w, "model")
		m.submit(testID, testPlan())
		_, stop := w.worker(m, "a")
		defer stop()
		synctest.Wait()
		m.mu.Lock()
		m.workers = nil
		m.mu.Unlock()
		m.foreign(testID, session.Fact{CancelRequested: &session.CancelRequested{By: "me"}})
		time.Sleep(pollInterval + time.Millisecond)
		synctest.Wait()
		if s := m.fold(t, testID); s.Status() != session.StatusCancelled {
			t.Errorf("status %s after the poll, want cancelled", s.Status())
		}
	})
}

func TestNotesConflictWithEachAppend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		m.submit(testID, testPlan())
		n := 0
		m.before = func(id string) {
			if n++; n%2 == 1 {
				m.foreign(id, session.Fact{Noted: &session.Noted{Text: fmt.Sprint("note ", n)}})
			}
		}
		_, stop := w.worker(m, "a")
		synctest.Wait()
		stop()
		if s := m.fold(t, testID); s.Status() != session.StatusCompleted {
			t.Fatalf("status %s, want completed", s.Status())
		}
		once(t, m.facts(testID))
		if got, want := w.requests(), 4; got != want {
			t.Errorf("%d requests to models, want %d", got, want)
		}
		if w.observed["conflict"] < 5 {
			t.Errorf("%d conflicts, want 5 or more", w.observed["conflict"])
		}
	})
}

func TestLostAcknowledgements(t *testing.T) {
	for _, note := range []bool{false, true} {
		t.Run(fmt.Sprint("note=", note), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, w := newMemory(), newWorld()
				m.submit(testID, testPlan())
				m.answer = func(uint64) error { return errAway }
				if note { // by another writer, after the message whose acknowledgement is lost
					m.answer = func(seq uint64) error {
						if seq%2 == 0 {
							go m.foreign(testID, session.Fact{Noted: &session.Noted{Text: "note"}})
						}
						return errAway
					}
				}
				_, stop := w.worker(m, "a")
				time.Sleep(time.Minute)
				stop()
				if s := m.fold(t, testID); s.Status() != session.StatusCompleted {
					t.Fatalf("status %s, want completed", s.Status())
				}
				once(t, m.facts(testID))
				if got, want := w.requests(), 4; got != want {
					t.Errorf("%d requests to models, want %d", got, want)
				}
			})
		})
	}
}

func TestOutageKeepsOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		release := make(chan struct{})
		w.answer = func(ctx context.Context, r model.Request, turn int, onChunk func(int, model.Chunk)) (model.Answer, error) {
			if turn == 0 && len(r.Tools) > 0 {
				<-release
			}
			return script(ctx, r, turn, onChunk)
		}
		m.submit(testID, testPlan())
		_, stop := w.worker(m, "a")
		synctest.Wait()
		m.setAway(true)
		m.lose()
		time.Sleep(5 * time.Second)
		close(release) // the answer comes while the bus is away
		time.Sleep(20 * time.Second)
		m.setAway(false)
		time.Sleep(10 * time.Second)
		stop()
		if s := m.fold(t, testID); s.Status() != session.StatusCompleted {
			t.Fatalf("status %s, want completed", s.Status())
		}
		once(t, m.facts(testID))
		if got, want := w.requests(), 4; got != want {
			t.Errorf("%d requests to models, want %d: the outcome is kept", got, want)
		}
		if w.observed["takeover"] != 0 {
			t.Errorf("%d takeovers, want none: the same process goes on", w.observed["takeover"])
		}
	})
}

func TestLateWorkerStoresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		release := make(chan struct{})
		w.answer = func(ctx context.Context, r model.Request, turn int, onChunk func(int, model.Chunk)) (model.Answer, error) {
			if turn == 0 && len(r.Tools) > 0 {
				<-release // it does not heed its context, like a process that is stopped
			}
			return script(ctx, r, turn, onChunk)
		}
		m.submit(testID, testPlan())
		late, stopLate := w.worker(m, "late")
		late.SetLimits(Limits{Workers: 1, Sessions: 5})
		synctest.Wait()
		m.mu.Lock()
		m.workers = nil // it hears of nothing
		m.mu.Unlock()
		late.SetLimits(Limits{Workers: 0, Sessions: 5})
		m.lose()
		other := newWorld()
		_, stop := other.worker(m, "other")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := m.fold(t, testID); s.Status() != session.StatusCompleted {
			t.Fatalf("status %s, want completed by the other worker", s.Status())
		}
		before := len(m.facts(testID))
		close(release)
		time.Sleep(10 * time.Second)
		stopLate()
		stop()
		if after := len(m.facts(testID)); after != before {
			t.Errorf("%d facts after the late worker returned, want %d as before", after, before)
		}
		once(t, m.facts(testID))
		if other.observed["takeover"] != 1 {
			t.Errorf("%d takeovers, want 1", other.observed["takeover"])
		}
		if w.open != 0 || other.open != 0 || w.opened != 1 || other.opened != 1 {
			t.Errorf("sets of tools: %d and %d opened, %d and %d still open; want 1 and 1, 0 and 0", w.opened, other.opened, w.open, other.open)
		}
	})
}

func TestNoEffectStartsWithoutClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		release := make(chan struct{})
		w.list = func(context.Context) { <-release }
		m.submit(testID, testPlan())
		worker, stop := w.worker(m, "a")
		synctest.Wait()
		worker.SetLimits(Limits{Workers: 0, Sessions: 5}) // the session does not come back
		synctest.Wait()
		m.lose()
		close(release)
		time.Sleep(10 * time.Second)
		if got := w.requests(); got != 0 {
			t.Errorf("%d requests to models without a valid claim, want none", got)
		}
		worker.SetLimits(Limits{Workers: 1, Sessions: 5})
		time.Sleep(time.Second)
		stop()
		if s := m.fold(t, testID); s.Status() != session.StatusCompleted {
			t.Errorf("status %s with a new claim, want completed", s.Status())
		}
		once(t, m.facts(testID))
	})
}

func TestDrainGivesBack(t *testing.T) {
	for _, where := range []string{"gather", "list", "model", "tool", "summary"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, w := newMemory(), newWorld()
				hangs(w, where)
				m.submit(testID, testPlan())
				_, stop := w.worker(m, "a")
				synctest.Wait()
				begin := time.Now()
				stop()
				if d := time.Since(begin); d > 5*time.Second {
					t.Errorf("the shutdown took %s, want at most 5 s", d)
				}
				facts := m.facts(testID)
				if last := facts[len(facts)-1]; last.Released == nil || last.Released.Epoch != 1 {
					t.Errorf("last fact %+v, want released with epoch 1", last)
				}
				if len(m.queue) != 1 || len(m.claims) != 0 || w.open != 0 {
					t.Errorf("queue %d, claims %d, open sets %d; want 1, 0, 0", len(m.queue), len(m.claims), w.open)
				}
				next := newWorld()
				_, stop = next.worker(m, "b")
				synctest.Wait()
				stop()
				if s := m.fold(t, testID); s.Status() != session.StatusCompleted {
					t.Errorf("status %s with another worker, want completed", s.Status())
				}
				if want := []string{testID + " in_progress"}; !slices.Equal(next.started, want) {
					t.Errorf("hook started %v of the other worker, want %v", next.started, want)
				}
				if next.observed["takeover"] != 0 {
					t.Errorf("%d takeovers, want none: the session was given back", next.observed["takeover"])
				}
			})
		})
	}
}

// A worker that ends at any append costs no finished call.
func TestCrashBetweenAnyTwoAppends(t *testing.T) {
	for crash := 1; ; crash++ {
		over := false
		synctest.Test(t, func(t *testing.T) {
			m, first, second := newMemory(), newWorld(), newWorld()
			m.submit(testID, testPlan())
			broken := &crashing{memory: m, after: crash}
			a := New(first.config("a", broken, m, m))
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() { defer close(done); _ = a.Run(ctx) }()
			synctest.Wait()
			over = broken.appends < crash
			cancel()
			m.lose()
			<-done // it can't give anything back
			_, stop := second.worker(m, "b")
			time.Sleep(4 * time.Second)
			stop()
			if s := m.fold(t, testID); s.Status() != session.StatusCompleted {
				t.Fatalf("crash at append %d: status %s, want completed", crash, s.Status())
			}
			once(t, m.facts(testID))
			if n := first.requests() + second.requests(); n > 5 {
				t.Errorf("crash at append %d: %d requests to models, want 4 and at most one again", crash, n)
			}
			if len(second.ended)+len(first.ended) == 0 {
				t.Errorf("crash at append %d: the hook of the end was not called", crash)
			}
		})
		if over {
			break
		}
	}
}

// crashing stores nothing from an append on.
type crashing struct {
	*memory
	after, appends int
}

func (c *crashing) Append(ctx context.Context, id string, last uint64, data []byte) (uint64, error) {
	if c.appends++; c.appends >= c.after {
		return 0, errAway
	}
	return c.memory.Append(ctx, id, last, data)
}

func TestPanics(t *testing.T) {
	tests := []struct {
		name string
		set  func(w *world, m *memory)
		want session.Status
		text string
	}{
		{"model", func(w *world, _ *memory) {
			w.answer = func(context.Context, model.Request, int, func(int, model.Chunk)) (model.Answer, error) {
				panic("no model")
			}
		}, session.StatusFailed, "internal error: no model"},
		{"tool", func(w *world, _ *memory) {
			w.tool = func(context.Context, string) ToolResult { panic("no tool") }
		}, session.StatusCompleted, ""},
		{"list", func(w *world, _ *memory) { w.list = func(context.Context) { panic("no list") } }, session.StatusCompleted, ""},
		{"gather", func(w *world, _ *memory) { w.gather = func(context.Context) { panic("nothing") } }, session.StatusCompleted, ""},
		{"mask", func(w *world, _ *memory) { w.mask = func(string) string { panic("no mask") } }, session.StatusCompleted, ""},
		{"fold", func(_ *world, m *memory) {
			n := 0
			m.before = func(id string) {
				if n++; n == 4 { // a message that is no list of facts
					m.mu.Lock()
					m.seq++
					m.logs[id] = append(m.logs[id], m.logs[id][0])
					log := m.logs[id]
					log[len(log)-1].Seq, log[len(log)-1].Data = m.seq, []byte("{")
					m.mu.Unlock()
				}
			}
		}, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, w := newMemory(), newWorld()
				test.set(w, m)
				m.submit(testID, testPlan())
				_, stop := w.worker(m, "a")
				time.Sleep(time.Minute)
				stop()
				if len(m.claims)+len(m.queue) != 0 {
					t.Errorf("%d claims, %d queued; want none: the session is over", len(m.claims), len(m.queue))
				}
				if test.want == "" { // no worker can fold it
					log := m.logs[testID]
					if last := string(log[len(log)-1].Data); !strings.Contains(last, `"ended":{"status":"failed"`) {
						t.Errorf("last message %s, want the end", last)
					}
					return
				}
				s := m.fold(t, testID)
				if s.Status() != test.want {
					t.Errorf("status %s, want %s", s.Status(), test.want)
				}
				if got, _ := json.Marshal(session.Summary(s)); !strings.Contains(string(got), test.text) {
					t.Errorf("summary %s, want %q in it", got, test.text)
				}
				once(t, m.facts(testID))
			})
		})
	}
}

// A session that no worker can fold does not end the others.
func TestPanicEndsOneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		hangs(w, "model")
		other := session.DeriveID(testID, "other")
		m.submit(testID, testPlan())
		m.submit(other, testPlan())
		worker, stop := w.worker(m, "a")
		synctest.Wait()
		m.mu.Lock()
		m.seq++
		m.logs[other] = append(m.logs[other], journal.Message{Session: other, Data: []byte("{"), Seq: m.seq})
		seq := m.seq
		m.mu.Unlock()
		worker.Appended(other, seq)
		synctest.Wait()
		if got := worker.Active(); got != 1 {
			t.Errorf("%d sessions run, want 1", got)
		}
		if s := m.fold(t, testID); s.Status() != session.StatusInProgress {
			t.Errorf("status %s of the session beside, want in_progress", s.Status())
		}
		if log := m.logs[other]; !strings.Contains(string(log[len(log)-1].Data), `"ended":{"status":"failed"`) {
			t.Errorf("last message %s, want the end", log[len(log)-1].Data)
		}
		m.foreign(testID, session.Fact{CancelRequested: &session.CancelRequested{By: "me"}})
		synctest.Wait()
		if s := m.fold(t, testID); s.Status() != session.StatusCancelled {
			t.Errorf("status %s after a request to cancel, want cancelled: its work goes on", s.Status())
		}
		stop()
	})
}

// Nothing that a model, the gatherer or an error says is stored, or sent to a model, as it was.
func TestEverythingIsMasked(t *testing.T) {
	const secret = "hunter2"
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		long := strings.Repeat("the password hunter2 is long\n", 10_000)
		first := true
		w.tool = func(context.Context, string) ToolResult { panic("no tool for " + secret) }
		w.answer = func(ctx context.Context, r model.Request, turn int, onChunk func(int, model.Chunk)) (model.Answer, error) {
			sent, err := json.Marshal(r)
			if err != nil || strings.Contains(string(sent), secret) {
				t.Errorf("a request has what has to be masked (%v): %.300s", err, sent)
			}
			if first {
				first = false
				return model.Answer{}, &model.Error{Kind: model.Unavailable, Message: "no route to " + secret}
			}
			a, err := script(ctx, r, turn, onChunk)
			a.Text, a.Thinking, a.State = a.Text+long, "I think of "+secret+long, []byte(`{"thinking":"hunter2"}`)
			for i := range a.Calls {
				a.Calls[i].Arguments = `{"password":"hunter2"}`
			}
			return a, err
		}
		m.submit(testID, testPlan())
		_, stop := w.worker(m, "a")
		time.Sleep(10 * time.Minute)
		stop()
		if s := m.fold(t, testID); !s.Ended() {
			t.Errorf("status %s, want an end", s.Status())
		}
		for _, msg := range m.logs[testID] {
			if i := strings.Index(string(msg.Data), secret); i >= 0 {
				t.Errorf("message %d has what has to be masked: %.300s", msg.Seq, msg.Data[max(0, i-150):])
			}
		}
		for digest, text := range m.texts {
			if strings.Contains(string(text), secret) {
				t.Errorf("text %s has what has to be masked", digest)
			}
		}
		if len(m.texts) == 0 {
			t.Error("no long text is stored, want the answers")
		}
	})
}

// What the provider counted for failed calls and failed tries is stored.
func TestUsageOfFailuresIsStored(t *testing.T) {
	lost := model.Usage{Input: 1000, Output: 7}
	tests := map[string]func(a model.Answer) (model.Answer, error){
		"a failed call": func(model.Answer) (model.Answer, error) {
			return model.Answer{}, &model.Error{Kind: model.Cut, Message: "cut", Usage: lost}
		},
		"failed tries": func(a model.Answer) (model.Answer, error) {
			a.FailedUsage = lost
			return a, nil
		},
		"an answer that is too large": func(a model.Answer) (model.Answer, error) {
			a.Calls[0].Arguments = `"` + strings.Repeat("x", maxCalls) + `"`
			a.Usage = lost
			return a, nil
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, w := newMemory(), newWorld()
				first := true
				w.answer = func(ctx context.Context, r model.Request, turn int, onChunk func(int, model.Chunk)) (model.Answer, error) {
					a, err := script(ctx, r, turn, onChunk)
					if err == nil && first {
						first = false
						return change(a)
					}
					return a, err
				}
				m.submit(testID, testPlan())
				_, stop := w.worker(m, "a")
				synctest.Wait()
				stop()
				s := m.fold(t, testID)
				if got := session.DetailOf(s, nil).InputTokens; s.Status() != session.StatusCompleted || got <= lost.Input || got >= 2*lost.Input {
					t.Errorf("status %s with %d input tokens, want completed with those of the answers and %d more", s.Status(), got, lost.Input)
				}
			})
		})
	}
}

// silent is a model that counts its request and then never answers.
type silent struct{}

func (silent) Generate(ctx context.Context, _ model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		<-ctx.Done()
		yield(model.Chunk{}, &model.Error{Kind: model.Unavailable, Cause: ctx.Err(), Usage: model.Usage{Input: 50}})
	}
}

// brief is a model that answers each request after a second.
type brief struct{}

func (brief) Generate(context.Context, model.Request) iter.Seq2[model.Chunk, error] {
	return func(yield func(model.Chunk, error) bool) {
		time.Sleep(time.Second)
		if yield(model.Chunk{Text: "The pod runs out of memory."}, nil) {
			yield(model.Chunk{Done: &model.Done{Stop: model.StopEnd, Usage: model.Usage{Input: 100, Output: 10}}}, nil)
		}
	}
}

// limited is a model that asks to wait a number of times, and then answers.
type limited struct {
	times *atomic.Int64
	after time.Duration
}

func (l limited) Generate(ctx context.Context, r model.Request) iter.Seq2[model.Chunk, error] {
	if l.times.Add(-1) < 0 {
		return brief{}.Generate(ctx, r)
	}
	return func(yield func(model.Chunk, error) bool) {
		yield(model.Chunk{}, &model.Error{Kind: model.Limited, Status: 429, RetryAfter: l.after, Message: "too many requests"})
	}
}

// Without a next provider a session waits as long as the provider asks, also where its iteration would
// end before.
func TestOnlyProviderIsWaitedFor(t *testing.T) {
	tests := map[string]struct {
		times     int64
		after     time.Duration
		iteration time.Duration
		took      time.Duration
		asked     int
	}{
		"within the call":                 {1, 20 * time.Second, 6 * time.Minute, 22 * time.Second, 2},
		"longer than a call waits":        {2, 10 * time.Minute, 6 * time.Minute, 20*time.Minute + 2*time.Second, 4},
		"longer than the iteration lasts": {1, 20 * time.Second, 15 * time.Second, 22 * time.Second, 3},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, w := newMemory(), newWorld()
				left := &atomic.Int64{}
				left.Store(test.times)
				clients := &Clients{}
				clients.Replace(map[string]*model.Client{"claude": model.NewClient(limited{left, test.after}, model.DefaultRetry(), &model.Breaker{})})
				plan := testPlan()
				plan.Stages[0].Agents[0].Fallbacks, plan.Fallbacks, plan.Summary = nil, nil, testProvider("claude")
				plan.IterationTimeout = test.iteration
				begin := time.Now()
				m.submit(testID, plan)
				cfg := w.config("a", m, m, m)
				cfg.Models = clients
				serveUntil(t, m, cfg, time.Hour)
				s := m.fold(t, testID)
				asked := 0
				for _, f := range m.facts(testID) {
					if f.ModelAsked != nil {
						asked++
					}
				}
				if took := s.EndedAt().Sub(begin).Round(time.Second); s.Status() != session.StatusCompleted || took != test.took || asked != test.asked {
					t.Errorf("status %s after %s with %d calls of the model, want completed after %s with %d", s.Status(), took, asked, test.took, test.asked)
				}
			})
		})
	}
}

// serveUntil runs a worker on a memory for a time.
func serveUntil(t *testing.T, m *memory, cfg Config, d time.Duration) {
	t.Helper()
	worker := New(cfg)
	m.mu.Lock()
	m.workers = append(m.workers, worker)
	m.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	time.Sleep(d)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Two providers that send nothing, each with its three tries and the usual time-outs, leave time for
// the third one. What they counted is stored, also of the tries that ended with the iteration.
func TestThirdProviderIsReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		m, w := newMemory(), newWorld()
		clients := &Clients{}
		stalls := model.WithTimeouts(silent{}, model.DefaultTimeouts())
		clients.Replace(map[string]*model.Client{
			"claude": model.NewClient(stalls, model.DefaultRetry(), &model.Breaker{}),
			"gemini": model.NewClient(stalls, model.DefaultRetry(), &model.Breaker{}),
			"third":  model.NewClient(brief{}, model.DefaultRetry(), &model.Breaker{}),
		})
		plan := testPlan()
		plan.Stages[0].Agents[0].Fallbacks = []session.Provider{testProvider("gemini"), testProvider("third")}
		plan.Summary = testProvider("third")
		m.submit(testID, plan)
		cfg := w.config("a", m, m, m)
		cfg.Models = clients
		serveUntil(t, m, cfg, time.Hour)
		s := m.fold(t, testID)
		var asked []string
		for _, f := range m.facts(testID) {
			if f.ModelAsked != nil {
				asked = append(asked, f.ModelAsked.Provider)
			}
		}
		took := s.EndedAt().Sub(begin)
		if got := strings.Join(asked, " "); s.Status() != session.StatusCompleted || got != "claude gemini third third" || took > 13*time.Minute {
			t.Errorf("status %s after %s, asked %s; want completed within 13m, and each provider asked", s.Status(), took, got)
		}
		if got := session.DetailOf(s, nil).InputTokens; got != 6*50+2*100 {
			t.Errorf("%d input tokens, want 50 of each of 6 tries and 100 of each of 2 answers", got)
		}
	})
}

func TestUnknownProviderFallsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		w.known = func(provider string) bool { return provider == "gemini" }
		m.submit(testID, testPlan())
		_, stop := w.worker(m, "a")
		synctest.Wait()
		stop()
		if s := m.fold(t, testID); s.Status() != session.StatusCompleted {
			t.Errorf("status %s, want completed", s.Status())
		}
		for _, f := range m.facts(testID) {
			if f.ModelFailed != nil && f.ModelFailed.Kind != model.Refused {
				t.Errorf("failure %s: %s, want refused: it is not tried again", f.ModelFailed.Kind, f.ModelFailed.Error)
			}
		}
		if w.observed["model refused"] != 1 {
			t.Errorf("observed %v, want one refusal", w.observed)
		}
		if w.observed["fallback claude gemini"] != 1 {
			t.Errorf("observed %v, want one fallback", w.observed)
		}
	})
}

func TestHookIsCalledUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		failures := 3
		w.hook = func(name string) error {
			if name == "ended" && failures > 0 {
				failures--
				return errors.New("not yet")
			}
			return nil
		}
		m.submit(testID, testPlan())
		_, stop := w.worker(m, "a")
		synctest.Wait()
		if got := m.inForce(); got != 1 {
			t.Errorf("%d claims before the hook succeeded, want 1", got)
		}
		time.Sleep(time.Minute)
		stop()
		if len(w.ended) != 1 || len(m.claims)+len(m.queue) != 0 {
			t.Errorf("hook ended %v, %d claims, %d queued; want one call and no claim", w.ended, len(m.claims), len(m.queue))
		}
	})
}

// A worker that ended between the end of the session and the hook: the next one calls it.
func TestEndedSessionIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		m.foreign(testID, submitted(testID, testPlan()), session.Fact{Claimed: &session.Claimed{Worker: "gone", Epoch: 1}}, session.Fact{Ended: &session.Ended{Status: session.StatusCompleted}})
		m.enqueue(testID, 1)
		_, stop := w.worker(m, "a")
		synctest.Wait()
		stop()
		if diff := cmp.Diff([]string{testID + " completed"}, w.ended); diff != "" {
			t.Errorf("hook ended (-want +got):\n%s", diff)
		}
		if len(m.claims)+len(m.queue) != 0 || m.appends != 0 {
			t.Errorf("%d claims, %d queued, %d appends; want none", len(m.claims), len(m.queue), m.appends)
		}
	})
}

func TestOldAttemptIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		m.foreign(testID, submitted(testID, testPlan()), session.Fact{Ended: &session.Ended{Status: session.StatusFailed}}, session.Fact{Retried: &session.Retried{By: "me", Plan: testPlan()}})
		m.enqueue(testID, 1)
		_, stop := w.worker(m, "a")
		synctest.Wait()
		if len(m.claims)+len(m.queue) != 0 || m.appends != 0 {
			t.Errorf("%d claims, %d queued, %d appends; want none for the old attempt", len(m.claims), len(m.queue), m.appends)
		}
		m.enqueue(testID, 2)
		synctest.Wait()
		stop()
		if s := m.fold(t, testID); s.Status() != session.StatusCompleted {
			t.Errorf("status %s after the second attempt, want completed", s.Status())
		}
	})
}

func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		w.tool = func(context.Context, string) ToolResult {
			time.Sleep(time.Second)
			return ToolResult{Text: "1"}
		}
		for i := range 40 {
			m.submit(session.DeriveID(testID, fmt.Sprint(i)), testPlan())
		}
		worker, stop := w.worker(m, "a")
		synctest.Wait()
		worker.SetLimits(Limits{Workers: 10, Sessions: 3})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		m.resetMost()
		time.Sleep(5 * time.Second)
		if got := m.resetMost(); got != 3 {
			t.Errorf("%d claims at once, want 3: the limit of all processes", got)
		}
		worker.SetLimits(Limits{Workers: 2, Sessions: 10})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		m.resetMost()
		time.Sleep(5 * time.Second)
		if got := m.resetMost(); got != 2 {
			t.Errorf("%d claims at once after the change, want 2: the limit of this process", got)
		}
		time.Sleep(time.Minute)
		stop()
		if len(w.ended) != 40 {
			t.Errorf("%d sessions ended, want 40", len(w.ended))
		}
	})
}

func TestLongTextsAreObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		long := strings.Repeat("pod web-1 restarts hunter2\n", 20_000)
		w.tool = func(context.Context, string) ToolResult { return ToolResult{Text: long} }
		m.submit(testID, testPlan())
		_, stop := w.worker(m, "a")
		synctest.Wait()
		stop()
		found := 0
		for _, f := range m.facts(testID) {
			if f.ToolAnswered != nil && f.ToolAnswered.Result.Object != "" {
				found++
				if got := string(m.texts[f.ToolAnswered.Result.Object]); got != long {
					t.Errorf("the object has %d bytes, want %d", len(got), len(long))
				}
			}
		}
		if found == 0 {
			t.Error("no result is an object, want that for 500 KB")
		}
	})
}

// TestTooManyTools: a model is offered no more tools than providers take, and the timeline names those that are
// left out.
func TestTooManyTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		w.moreTools = maxOffered + 39
		m.submit(testID, testPlan())
		_, stop := w.worker(m, "a")
		synctest.Wait()
		stop()
		if s := m.fold(t, testID); s.Status() != session.StatusCompleted {
			t.Errorf("status %s, want completed", s.Status())
		}
		offered, note := 0, ""
		for _, f := range m.facts(testID) {
			switch {
			case f.ToolsListed != nil:
				offered = len(f.ToolsListed.Servers[0].Tools)
			case f.Noted != nil:
				note = f.Noted.Text
			}
		}
		first, last := fmt.Sprintf("kubernetes.more_%d", maxOffered-1), fmt.Sprintf("kubernetes.more_%d, ...", maxOffered-2+maxNamed)
		if offered != maxOffered || !strings.HasPrefix(note, "40 tools are not offered") || !strings.Contains(note, first) || !strings.HasSuffix(note, last) {
			t.Errorf("%d tools are offered, and the note is %q, want %d and one of 40 tools from %s to %s", offered, note, maxOffered, first, last)
		}
	})
}

func TestIterationTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		hangs(w, "model")
		m.submit(testID, testPlan())
		_, stop := w.worker(m, "a")
		time.Sleep(13 * time.Minute)
		stop()
		if s := m.fold(t, testID); s.Status() != session.StatusFailed {
			t.Errorf("status %s after two iterations of 6 min, want failed", s.Status())
		}
		once(t, m.facts(testID))
		if got, want := w.requests(), 2; got != want {
			t.Errorf("%d requests to models, want %d", got, want)
		}
	})
}

func TestToolTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		hangs(w, "tool")
		m.submit(testID, testPlan())
		_, stop := w.worker(m, "a")
		time.Sleep(3 * time.Minute)
		stop()
		if s := m.fold(t, testID); s.Status() != session.StatusCompleted {
			t.Errorf("status %s with tools that time out, want completed", s.Status())
		}
		if w.observed["tool error=true"] != 2 {
			t.Errorf("observed %v, want 2 calls that timed out", w.observed)
		}
	})
}

func TestEndCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w := newMemory(), newWorld()
		m.foreign(testID, submitted(testID, testPlan()), session.Fact{Claimed: &session.Claimed{Worker: "gone", Epoch: 1}})
		worker := New(w.config("a", m, m, m))
		for _, want := range []session.Status{session.StatusInProgress, session.StatusCancelled, session.StatusCancelled} {
			if err := worker.EndCancelled(t.Context(), testID); err != nil {
				t.Fatal(err)
			}
			if s := m.fold(t, testID); s.Status() != want {
				t.Errorf("status %s, want %s", s.Status(), want)
			}
			if want == session.StatusInProgress {
				m.foreign(testID, session.Fact{CancelRequested: &session.CancelRequested{By: "me"}})
			}
		}
		if len(w.ended) != 1 {
			t.Errorf("hook ended %v, want one call", w.ended)
		}
	})
}

// The worker of a cancelled session can't reach the bus. What it does later is not stored.
func TestEndCancelledWithoutItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, w, other := newMemory(), newWorld(), newWorld()
		release := make(chan struct{})
		w.answer = func(ctx context.Context, r model.Request, turn int, onChunk func(int, model.Chunk)) (model.Answer, error) {
			<-release
			return script(ctx, r, turn, onChunk)
		}
		m.submit(testID, testPlan())
		apart := &partitioned{memory: m}
		first := New(w.config("a", apart, m, m))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = first.Run(ctx) }()
		synctest.Wait()
		apart.cut.Store(true)
		m.foreign(testID, session.Fact{CancelRequested: &session.CancelRequested{By: "me"}})
		if err := New(other.config("b", m, m, m)).EndCancelled(t.Context(), testID); err != nil {
			t.Fatal(err)
		}
		before := len(m.facts(testID))
		close(release)
		time.Sleep(10 * time.Second)
		apart.cut.Store(false)
		time.Sleep(10 * time.Second)
		cancel()
		<-done
		facts := m.facts(testID)
		once(t, facts)
		if s := m.fold(t, testID); s.Status() != session.StatusCancelled || len(facts) != before {
			t.Errorf("status %s with %d facts, want cancelled with %d as before the worker came back", s.Status(), len(facts), before)
		}
		if w.open != 0 || len(m.claims)+len(m.queue) != 0 {
			t.Errorf("%d open sets, %d claims, %d queued; want none", w.open, len(m.claims), len(m.queue))
		}
	})
}

// partitioned is a log that can't be reached while cut is true.
type partitioned struct {
	*memory
	cut atomic.Bool
}

func (p *partitioned) Append(ctx context.Context, id string, last uint64, data []byte) (uint64, error) {
	if p.cut.Load() {
		return 0, errAway
	}
	return p.memory.Append(ctx, id, last, data)
}

func (p *partitioned) Read(ctx context.Context, id string, after uint64) ([]journal.Message, error) {
	if p.cut.Load() {
		return nil, errAway
	}
	return p.memory.Read(ctx, id, after)
}
