package noise_test

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// checks sends health checks to an app, of which each is hidden or not.
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

// health is an app with so many checks of a severity, 1 s apart, of which a rule was
// made at the end of the first minute.
func health(t *testing.T, n int, severity alert.Severity) *checks {
	t.Helper()
	c := &checks{t: t, a: noise.New("web", ruleset.NoiseSpec)}
	for i := range n {
		c.want(false, severity, time.Duration(i)*time.Second)
	}
	if found := c.a.Detect(at(50 * time.Second)); len(found.Applied) != 1 {
		t.Fatalf("found %+v, want one rule that applies", found)
	}
	return c
}

// TestFailingCheck: a rule that was applied by itself shows one failure of a check that
// succeeded, until 120 s have passed without any.
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

// TestCheckThatNeverSucceeded stays hidden, as the socket of a development server that
// is not there, but for warnings beside an open error.
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

// TestCheckThatFailedBefore: a failure before the rule was made was shown.
func TestCheckThatFailedBefore(t *testing.T) {
	c := &checks{t: t, a: noise.New("web", ruleset.NoiseSpec)}
	for i := range 30 {
		c.want(false, "", time.Duration(i)*time.Second)
	}
	c.want(false, alert.Error, 30*time.Second)
	c.want(true, alert.Error, 61*time.Second) // by the rule that is made now
	c.want(false, alert.Error, 181*time.Second)
}

// TestFirstFailureMakesTheRule: auto-detection that runs with the first failure shows it.
func TestFirstFailureMakesTheRule(t *testing.T) {
	c := &checks{t: t, a: noise.New("web", ruleset.NoiseSpec)}
	for i := range 30 {
		c.want(false, "", time.Duration(i)*time.Second)
	}
	c.want(false, alert.Error, 61*time.Second)
	c.want(true, alert.Error, 61*time.Second)
}

// TestAcceptedRule: a rule that a person wants hides all that it is about.
func TestAcceptedRule(t *testing.T) {
	c := health(t, 40, "")
	if !c.a.Accept(c.a.Rules(at(0))[0].ID, at(55*time.Second)) {
		t.Fatal("there is no rule")
	}
	c.want(true, alert.Error, 61*time.Second)
	c.want(true, alert.Error, 361*time.Second)
	id := c.a.Rules(at(0))[0].ID
	if !c.a.Remove(id) || !c.a.Accept(id, at(400*time.Second)) {
		t.Fatal("the rule does not come back")
	}
	c.want(true, "", 400*time.Second)
	c.want(true, alert.Error, 600*time.Second)
}

// TestWarningsBesideAnOpenError are not hidden by a rule that was applied by itself, and
// a new rule about them is proposed until the error is closed.
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
				t.Errorf("beside an open error %d warnings are hidden", got)
			}
			a.Detect(at(4 * time.Second))
			if applied, proposed := states(); applied > 0 || proposed != want {
				t.Errorf("beside an open error %d rules apply, and %d are proposed, want %d", applied, proposed, want)
			}
			say(75, 9*time.Minute)
			a.Detect(at(10 * time.Minute))
			if applied, _ := states(); applied == 0 {
				t.Error("no rule applies after the error was closed")
			}
			if got := say(6, 11*time.Minute); got != 6 {
				t.Errorf("%d of 6 warnings are hidden after the error was closed", got)
			}
			a.Failed(at(12 * time.Minute))
			if got := say(6, 12*time.Minute); got > 0 {
				t.Errorf("beside another open error %d warnings are hidden", got)
			}
			a = restoredBy(t, a, by)
			if got := say(6, 21*time.Minute); got > 0 {
				t.Errorf("9 minutes later %d warnings are hidden", got)
			}
			if hidden, _ := log(a, &telemetry.Log{Level: telemetry.LevelInfo, Message: lines[0]}, 21*time.Minute); !hidden {
				t.Error("a line below warning is not hidden beside an open error")
			}
			if got := say(6, 22*time.Minute); got != 6 {
				t.Errorf("%d of 6 warnings are hidden after the error was closed", got)
			}
		})
	}
}
