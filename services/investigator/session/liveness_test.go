package session

import (
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// With any models, tools and limits, something is due or under way until the session has ended, or it
// waits for a provider: over crashes, releases, retries and the end of the alert. To wait for the
// session's time-out alone would be a deadlock.
func TestSomethingIsDueUntilTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := drawPlan(t)
		plan.IterationTimeout = rapid.SampledFrom([]time.Duration{0, time.Second, time.Minute, time.Hour}).Draw(t, "iteration timeout")
		plan.ToolTimeout = rapid.SampledFrom([]time.Duration{0, time.Second, time.Hour}).Draw(t, "tool timeout")
		plan.Timeout = rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Minute, 5 * time.Hour}).Draw(t, "timeout")
		plan.Limits.MaxTokens = rapid.SampledFrom([]int{0, 1, 500, 20_000}).Draw(t, "max tokens")
		plan.Limits.MaxToolCalls = rapid.SampledFrom([]int{0, 1, 5}).Draw(t, "max tool calls")
		for i := range plan.Stages {
			for j := range plan.Stages[i].Agents {
				a := &plan.Stages[i].Agents[j]
				for n := range rapid.IntRange(0, 2).Draw(t, "more fallbacks") {
					a.Fallbacks = append(a.Fallbacks, testProvider("other-"+strconv.Itoa(n)))
				}
			}
		}
		plan.Fallbacks = plan.Fallbacks[:rapid.IntRange(0, 1).Draw(t, "summary fallbacks")]
		seed := rapid.Uint64().Draw(t, "seed")
		silent := rapid.SampledFrom([]uint64{0, 2, 5}).Draw(t, "effects of 10 that never end")
		w := drawSim(t, plan, seed)
		w.block = func(e Effect) bool {
			return (e.Ask != nil || e.Call != nil) && random(seed, e.Key, "silent")%10 < silent
		}
		w.pick = func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "next") }
		retries, resolved := 0, false
		w.between = func(w *sim) {
			switch rapid.IntRange(0, 30).Draw(t, "what happens") {
			case 0, 1:
				w.crash()
			case 2:
				w.store(Fact{Released: &Released{Epoch: w.epoch}})
				w.crash()
			case 3:
				if facts := Resolve(w.s, "a", "over"); !resolved && len(facts) > 0 {
					resolved = true
					w.store(facts...)
				}
			}
			if d := Next(w.s, w.now); len(d.Facts) == 0 && len(d.Effects) == 0 && !waitsForProvider(w.s, w.now) {
				t.Fatalf("nothing is due or under way at %q", w.s.step())
			}
		}
		for {
			s := w.run()
			if s.status == StatusCompleted || retries == 2 {
				checkTimeline(t, s)
				checkViews(t, s)
				break
			}
			facts, err := Retry(s, "me", plan)
			if err != nil {
				t.Fatal(err)
			}
			retries++
			w.store(facts...)
			w.claim()
		}
		folded, err := Fold(w.messages)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fingerprint(folded), fingerprint(w.s); got != want {
			t.Fatalf("the stored log folds into:\n%s\nwant:\n%s", got, want)
		}
	})
}

// waitsForProvider reports whether a provider has asked to wait.
func waitsForProvider(s *Session, now time.Time) bool {
	for _, e := range s.running() {
		if now.Before(e.resume) {
			return true
		}
	}
	return now.Before(s.summary.resume)
}
