package noise_test

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// checks sends health checks to an app and checks which ones are hidden.
type checks struct {
	t *testing.T
	a *noise.App
	n int
}

func (c *checks) want(hidden bool, severity alert.Severity, d time.Duration) {
	c.t.Helper()
	c.n++
	got, _ := c.a.Request("http://localhost/health", []byte("/health"), severity, at(d))
	if got != hidden {
		c.t.Errorf("check %d, severity %q, at %s: hidden is %v, want %v", c.n, severity, d, got, hidden)
	}
	c.a = restored(c.t, c.a)
}

// health returns an app after n checks of a severity, 1 s apart, and a run of auto-detection
// after 50 s that made a rule for them.
func health(t *testing.T, n int, severity alert.Severity) *checks {
	t.Helper()
	c := &checks{t: t, a: noise.New("web", ruleset.NoiseSpec)}
	for i := range n {
		c.want(false, severity, time.Duration(i)*time.Second)
	}
	if found := c.a.Detect(at(50 * time.Second)); len(found.Applied) != 1 {
		t.Fatalf("found %+v, want one applied rule", found)
	}
	return c
}

// TestFailingCheck checks that a rule that was applied automatically shows the first failure
// of a check that succeeded, and the next one after 120 s without a failure.
func TestFailingCheck(t *testing.T) {
	c := health(t, 40, "")
	c.want(true, "", 60*time.Second)
	c.want(false, alert.Error, 61*time.Second)
	c.want(true, alert.Error, 62*time.Second)
	c.want(true, "", 63*time.Second)
	c.want(true, alert.Warning, 180*time.Second) // 118 s
	c.want(true, alert.Error, 299*time.Second)   // 119 s
	c.want(true, "", 400*time.Second)
	c.want(false, alert.Error, 419*time.Second) // 120 s
	c.want(true, alert.Error, 420*time.Second)
	c.want(false, alert.Warning, 540*time.Second)
	c.want(false, alert.Error, 100*time.Second) // the clock was set back
}

// TestCheckThatNeverSucceeded checks that such a check stays hidden, as the socket of a
// development server that does not run. Only warnings are shown while an error is open.
func TestCheckThatNeverSucceeded(t *testing.T) {
	c := health(t, 40, alert.Error)
	c.want(true, alert.Error, 300*time.Second)
	c.want(true, alert.Warning, 300*time.Second)
	c.a.Failed(at(300 * time.Second))
	c.want(true, alert.Error, 300*time.Second)
	c.want(false, alert.Warning, 300*time.Second)
	c.want(true, "", 301*time.Second)
	c.want(false, alert.Error, 500*time.Second)
}

// TestCheckThatFailedBefore checks that a failure that was shown before the rule was made
// counts as the first.
func TestCheckThatFailedBefore(t *testing.T) {
	c := &checks{t: t, a: noise.New("web", ruleset.NoiseSpec)}
	for i := range 30 {
		c.want(false, "", time.Duration(i)*time.Second)
	}
	c.want(false, alert.Error, 30*time.Second)
	c.want(true, alert.Error, 61*time.Second) // by the rule that is made now
	c.want(false, alert.Error, 181*time.Second)
}

// TestFirstFailureMakesTheRule checks that the first failure is shown also if auto-detection
// runs with it.
func TestFirstFailureMakesTheRule(t *testing.T) {
	c := &checks{t: t, a: noise.New("web", ruleset.NoiseSpec)}
	for i := range 30 {
		c.want(false, "", time.Duration(i)*time.Second)
	}
	c.want(false, alert.Error, 61*time.Second)
	c.want(true, alert.Error, 61*time.Second)
}

// TestAcceptedRule checks that a rule that a person accepted exempts nothing.
func TestAcceptedRule(t *testing.T) {
	c := health(t, 40, "")
	if !c.a.Accept(c.a.Rules(at(0))[0].ID, at(55*time.Second)) {
		t.Fatal("Accept = false, want true")
	}
	c.want(true, alert.Error, 61*time.Second)
	c.want(true, alert.Error, 361*time.Second)
	id := c.a.Rules(at(0))[0].ID
	if !c.a.Remove(id) || !c.a.Accept(id, at(400*time.Second)) {
		t.Fatal("Remove or Accept = false, want true")
	}
	c.want(true, "", 400*time.Second)
	c.want(true, alert.Error, 600*time.Second)
}

// TestWarningsBesideAnOpenError checks that a rule that was applied automatically does not
// hide warnings while an error is open, and that a new rule about them is only proposed.
func TestWarningsBesideAnOpenError(t *testing.T) {
	for _, by := range []ruleset.Noise{ruleset.NoiseSpec, ruleset.Mined} {
		t.Run(by.String(), func(t *testing.T) {
			a := noise.New("web", by)
			lines := []string{"retry of ada failed", "retry of bob failed", "retry of cy failed"}
			say := func(n int, d time.Duration) (hidden int) {
				for i := range n {
					if is, _ := log(a, warn(lines[i%len(lines)]), d); is {
						hidden++
					}
				}
				return hidden
			}
			states := func() (applied, proposed int) {
				a = restoredBy(t, a, by)
				for _, r := range a.Rules(at(0)) {
					if r.State == "applied" {
						applied++
					} else {
						proposed++
					}
				}
				return applied, proposed
			}
			a.Failed(at(0))
			say(75, time.Second)
			if found := a.Detect(at(2 * time.Second)); found.Len() == 0 || len(found.Applied) > 0 {
				t.Errorf("beside an open error: found %+v, want proposed rules only", found)
			}
			_, want := states()
			if got := say(6, 3*time.Second); got > 0 {
				t.Errorf("beside an open error %d warnings are hidden, want none", got)
			}
			a.Detect(at(4 * time.Second))
			if applied, proposed := states(); applied > 0 || proposed != want {
				t.Errorf("beside an open error %d rules are applied and %d proposed, want 0 and %d", applied, proposed, want)
			}
			say(75, 9*time.Minute)
			a.Detect(at(10 * time.Minute))
			if applied, _ := states(); applied == 0 {
				t.Error("no rule is applied after the error was closed, want at least one")
			}
			if got := say(6, 11*time.Minute); got != 6 {
				t.Errorf("%d warnings are hidden after the error was closed, want 6", got)
			}
			a.Failed(at(12 * time.Minute))
			if got := say(6, 12*time.Minute); got > 0 {
				t.Errorf("beside another open error %d warnings are hidden, want none", got)
			}
			a = restoredBy(t, a, by)
			if got := say(6, 21*time.Minute); got > 0 {
				t.Errorf("9 minutes later %d warnings are hidden, want none", got)
			}
			if hidden, _ := log(a, &telemetry.Log{Level: telemetry.LevelInfo, Message: lines[0]}, 21*time.Minute); !hidden {
				t.Error("a line below warning is shown beside an open error, want it hidden")
			}
			if got := say(6, 22*time.Minute); got != 6 {
				t.Errorf("%d warnings are hidden after the error was closed, want 6", got)
			}
		})
	}
}
