package session

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// limited is the failure of a call whose provider asks to wait.
func limited(w *sim, a *Ask, wait time.Duration) Fact {
	f := failed(a, "429: too many requests")
	f.ModelFailed.RetryAt = w.now.Add(wait)
	return f
}

// Without a next provider the session waits as long as the provider asks, over the end of the
// iteration, and a worker that takes it over waits too.
func TestWaitForAProvider(t *testing.T) {
	for _, crash := range []bool{false, true} {
		a := testAgent("a", "kubernetes")
		a.Fallbacks = nil
		p := testPlan(testStage("work", Any, a))
		p.Fallbacks, p.Timeout = nil, 2*time.Hour
		w := newSim(t, p)
		refused := map[Purpose]int{}
		w.answer = func(w *sim, a *Ask) Fact {
			if refused[a.Purpose]++; refused[a.Purpose] <= 2 {
				return limited(w, a, 10*time.Minute)
			}
			return text(a, "fine")
		}
		waiting := 0
		w.between = func(w *sim) {
			e := w.s.running()
			if len(e) == 0 || !w.now.Before(e[0].resume) {
				return
			}
			d := Next(w.s, w.now)
			if len(d.Effects) > 0 || !d.Wake.Equal(e[0].resume) {
				t.Fatalf("at %s due is %+v, want nothing but a wake at %s", w.now, d, e[0].resume)
			}
			if waiting++; crash && waiting == 1 {
				w.crash()
			}
		}
		s := w.run()
		want := []string{
			"iteration claude", "iteration claude", "iteration claude",
			"executive_summary gemini", "executive_summary gemini", "executive_summary gemini",
		}
		if diff := cmp.Diff(want, w.asked); diff != "" {
			t.Errorf("crash=%t: model calls (-want +got):\n%s", crash, diff)
		}
		if got := Summary(s); s.Status() != StatusCompleted || got.ExecutiveSummary == nil || waiting == 0 {
			t.Errorf("crash=%t: status %s (%s), summary %v, seen waiting %d times; want completed after waits", crash, s.Status(), s.err, got.ExecutiveSummary, waiting)
		}
		if got := w.now.Sub(testStart).Round(time.Minute); got != 40*time.Minute {
			t.Errorf("crash=%t: it took %s, want 40m: four waits", crash, got)
		}
		notes := 0
		for _, e := range Timeline(s, 0, 1000).Events {
			if e.EventType == EventNote && strings.Contains(e.Content, "asks to wait") {
				notes++
			}
		}
		if notes != 4 {
			t.Errorf("crash=%t: %d notes of a wait, want 4", crash, notes)
		}
	}
}

// With a next provider no session waits, nor where it would end before.
func TestNoWaitForAProvider(t *testing.T) {
	for name, c := range map[string]struct {
		fallbacks []Provider
		wait      time.Duration
		status    Status
		asked     []string
	}{
		"a next provider": {[]Provider{testProvider("gemini")}, time.Minute, StatusCompleted, []string{"iteration claude", "iteration gemini", "executive_summary gemini"}},
		"too long":        {nil, time.Hour, StatusFailed, []string{"iteration claude"}},
	} {
		a := testAgent("a")
		a.Fallbacks = c.fallbacks
		w := newSim(t, testPlan(testStage("work", Any, a)))
		w.answer = func(w *sim, a *Ask) Fact {
			if a.Purpose == PurposeIteration && a.Provider.Name == "claude" {
				return limited(w, a, c.wait)
			}
			return text(a, "fine")
		}
		s := w.run()
		if diff := cmp.Diff(c.asked, w.asked); diff != "" || s.Status() != c.status || w.now.Sub(testStart) > time.Minute {
			t.Errorf("%s: status %s (%s) after %s, want %s at once; model calls (-want +got):\n%s", name, s.Status(), s.err, w.now.Sub(testStart), c.status, diff)
		}
	}
}

// A session that waits can be cancelled.
func TestCancelWhileWaiting(t *testing.T) {
	a := testAgent("a")
	a.Fallbacks = nil
	w := newSim(t, testPlan(testStage("work", Any, a)))
	w.answer = func(w *sim, a *Ask) Fact { return limited(w, a, 10*time.Minute) }
	w.between = func(w *sim) {
		if e := w.s.running(); len(e) > 0 && w.now.Before(e[0].resume) && w.s.cancel == nil {
			facts, err := Cancel(w.s, "me", "enough")
			if err != nil {
				t.Fatal(err)
			}
			w.store(facts...)
		}
	}
	if s := w.run(); s.Status() != StatusCancelled || w.now.Sub(testStart) > time.Minute {
		t.Errorf("status %s after %s, want cancelled at once", s.Status(), w.now.Sub(testStart))
	}
}
