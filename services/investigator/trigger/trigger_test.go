package trigger_test

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/investigator/trigger"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

var start = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)

// pod returns an alert that is raised at a time.
func pod(id string, at time.Duration, change ...func(*alert.Alert)) alert.Alert {
	a := alert.Alert{
		ID: id, Severity: alert.Error, Category: alert.Kubernetes, Title: "shop/cart: crash loop", Timestamp: start.Add(at), Source: "kubewatch", App: "shop",
		DedupKey: "crash:cart", Context: map[string]any{"cluster": "prod", "namespace": "shop"},
	}
	for _, f := range change {
		f(&a)
	}
	return a
}

func revises(id string) func(*alert.Alert) { return func(a *alert.Alert) { a.Revises = id } }

func severity(s alert.Severity) func(*alert.Alert) { return func(a *alert.Alert) { a.Severity = s } }

func key(k string) func(*alert.Alert) { return func(a *alert.Alert) { a.DedupKey = k } }

func build(status string) func(*alert.Alert) {
	return func(a *alert.Alert) { a.Category, a.Context = alert.CI, map[string]any{"status": status} }
}

func newTriggers(t testing.TB, rules ...trigger.Rule) *trigger.Triggers {
	t.Helper()
	triggers, err := trigger.New(rules...)
	if err != nil {
		t.Fatalf("New failed: %v, want triggers", err)
	}
	return triggers
}

func TestMatches(t *testing.T) {
	t.Parallel()
	type list = []string
	bare := func(a *alert.Alert) { a.Context, a.App, a.Source = nil, "", "" }
	for name, c := range map[string]struct {
		match trigger.Match
		alert alert.Alert
		want  bool
	}{
		"nothing asked":           {trigger.Match{}, pod("a", 0), true},
		"an alternative":          {trigger.Match{Category: list{"ci", "kubernetes"}}, pod("a", 0), true},
		"no alternative":          {trigger.Match{Category: list{"ci", "anomaly"}}, pod("a", 0), false},
		"category by pattern":     {trigger.Match{Category: list{"kube*"}}, pod("a", 0), true},
		"severity reached":        {trigger.Match{SeverityMin: alert.Error}, pod("a", 0), true},
		"severity not reached":    {trigger.Match{SeverityMin: alert.Error}, pod("a", 0, severity(alert.Warning)), false},
		"all keys":                {trigger.Match{App: list{"shop*"}, Cluster: list{"prod"}, Namespace: list{"sh*p"}, Source: list{"*"}, Title: list{"*crash*"}}, pod("a", 0), true},
		"one key fails":           {trigger.Match{App: list{"shop*"}, Cluster: list{"test"}}, pod("a", 0), false},
		"a star takes a slash":    {trigger.Match{Title: list{"shop*loop"}}, pod("a", 0), true},
		"case counts":             {trigger.Match{App: list{"Shop"}}, pod("a", 0), false},
		"no key, star":            {trigger.Match{App: list{"*"}, Cluster: list{"*"}, Namespace: list{"*"}, Source: list{"*"}}, pod("a", 0, bare), true},
		"no key, pattern":         {trigger.Match{Cluster: list{"prod*"}}, pod("a", 0, bare), false},
		"no key, two stars":       {trigger.Match{Cluster: list{"**"}}, pod("a", 0, bare), false},
		"a key that is no text":   {trigger.Match{Cluster: list{"1"}}, pod("a", 0, func(a *alert.Alert) { a.Context["cluster"] = 1 }), false},
		"stars don't overlap":     {trigger.Match{App: list{"shop*op"}}, pod("a", 0), false},
		"one * between the parts": {trigger.Match{App: list{"s*h*o*p"}}, pod("a", 0), true},
	} {
		if got := c.match.Matches(c.alert); got != c.want {
			t.Errorf("%s: Matches = %t, want %t", name, got, c.want)
		}
	}
}

// A pattern of letters and stars means the same as in package path, where no slash occurs.
func TestPatternsAreThoseOfPath(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pattern, value := rapid.StringMatching(`[ab*]{0,8}`).Draw(t, "pattern"), rapid.StringMatching(`[ab]{1,8}`).Draw(t, "value")
		want, err := path.Match(pattern, value)
		if err != nil {
			t.Fatal(err)
		}
		if got := (trigger.Match{Title: []string{pattern}}).Matches(alert.Alert{Title: value}); got != want {
			t.Fatalf("%q matches %q: %t, want %t", pattern, value, got, want)
		}
	})
}

func TestWhatNeverStarts(t *testing.T) {
	t.Parallel()
	for want, c := range map[trigger.Reason]struct {
		alert         alert.Alert
		circumstances trigger.Circumstances
		after         time.Duration
	}{
		trigger.ReasonOwnApp:       {alert: pod("a", 0, func(a *alert.Alert) { a.App = "tocsin" })},
		trigger.ReasonInvestigated: {alert: pod("a", 0, func(a *alert.Alert) { a.Investigation = &alert.Investigation{Status: alert.InvestigationSkipped} })},
		trigger.ReasonResolves:     {alert: pod("a", 0, func(a *alert.Alert) { a.Resolves = "b" })},
		trigger.ReasonClosed:       {alert: pod("a", 0), circumstances: trigger.Circumstances{Closed: true}},
		trigger.ReasonInhibited:    {alert: pod("a", 0, func(a *alert.Alert) { a.InhibitedBy = "b" })},
		trigger.ReasonSilenced:     {alert: pod("a", 0), circumstances: trigger.Circumstances{Silenced: true, SessionOpen: true}},
		trigger.ReasonAcknowledged: {alert: pod("a", 0), circumstances: trigger.Circumstances{Acknowledged: true}},
		trigger.ReasonUnknown:      {alert: pod("a", 0, revises("b"))},
		trigger.ReasonNoRule:       {alert: pod("a", 0, build("failure"))},
		trigger.ReasonTooOld:       {alert: pod("a", 0), after: trigger.MaxAge + time.Millisecond},
	} {
		d := newTriggers(t, trigger.Rule{Match: trigger.Match{Category: []string{"kubernetes"}}, Chain: "k"}).Decide(c.alert, c.circumstances, start.Add(c.after))
		if d.Action != trigger.Skip || d.Reason != want {
			t.Errorf("Decide = %+v, want it skipped as %s", d, want)
		}
		if !slices.Contains(trigger.Reasons(), want) {
			t.Errorf("Reasons lacks %s", want)
		}
	}
}

// step is an alert at a time, or the end of a session.
type step struct {
	at    time.Duration
	alert alert.Alert
	circ  trigger.Circumstances
	ended string
	known bool // it was raised before the start
	want  string
}

func TestTimelines(t *testing.T) {
	t.Parallel()
	const m = time.Minute
	first, second := trigger.Rule{Match: trigger.Match{Title: []string{"*crash*"}}, Chain: "crash", Cooldown: 30 * m}, trigger.Rule{Chain: "rest"}
	for name, steps := range map[string][]step{
		"the first rule wins": {
			{alert: pod("a", 0), want: "start crash"},
			{alert: pod("b", 0, func(a *alert.Alert) { a.Title = "slow" }), want: "start rest"},
		},
		"an alert again": {
			{alert: pod("a", 0), want: "start crash"},
			{at: 20 * m, alert: pod("a", 0), circ: trigger.Circumstances{Silenced: true}, want: "start crash"},
		},
		"only a worse revision": {
			{alert: pod("a", 0, severity(alert.Info)), want: "start crash"},
			{at: m, alert: pod("b", m, revises("a"), severity(alert.Info)), want: "skip not_worse"},
			{at: 2 * m, alert: pod("c", 2*m, revises("a"), severity(alert.Warning)), want: "start crash"},
			{at: 3 * m, alert: pod("d", 3*m, revises("a"), severity(alert.Warning)), want: "skip not_worse"},
			{at: 4 * m, alert: pod("e", 4*m, revises("a"), severity(alert.Info)), want: "skip not_worse"},
			{at: 5 * m, alert: pod("f", 5*m, revises("a"), severity(alert.Error)), want: "start crash"},
		},
		"a revision with an investigation is no step": {
			{alert: pod("a", 0, severity(alert.Warning)), want: "start crash"},
			{at: m, alert: pod("b", 0, revises("a"), severity(alert.Error), func(a *alert.Alert) { a.Investigation = &alert.Investigation{Status: alert.InvestigationInProgress} }), want: "skip investigated"},
			{at: 2 * m, alert: pod("c", 0, revises("a"), severity(alert.Error)), want: "start crash"},
		},
		"an older revision, read again": {
			{alert: pod("a", 0, severity(alert.Warning), func(a *alert.Alert) { a.Seq = 1 }), want: "start crash"},
			{alert: pod("b", 0, severity(alert.Info), revises("a"), func(a *alert.Alert) { a.Seq = 3 }), want: "skip not_worse"},
			{alert: pod("c", 0, severity(alert.Error), revises("a"), func(a *alert.Alert) { a.Seq = 2 }), want: "skip not_worse"},
		},
		"CI: the status counts": {
			{alert: pod("a", 0, build("failure")), want: "start crash"},
			{at: m, alert: pod("b", m, build("failure"), revises("a")), want: "skip not_worse"},
			{at: 2 * m, alert: pod("c", 2*m, build("error"), revises("a"), severity(alert.Warning)), want: "start crash"},
		},
		"a revision of what was raised before the start": {
			{alert: pod("a", 0, severity(alert.Warning)), known: true},
			{at: m, alert: pod("b", m, revises("a"), severity(alert.Warning)), want: "skip not_worse"},
			{at: 2 * m, alert: pod("c", 2*m, revises("a")), want: "start crash"},
		},
		"a silenced alert gets worse": {
			{alert: pod("a", 0, severity(alert.Warning)), circ: trigger.Circumstances{Silenced: true}, want: "skip silenced"},
			{at: m, alert: pod("b", m, revises("a"), severity(alert.Warning)), want: "skip not_worse"},
			{at: 2 * m, alert: pod("c", 2*m, revises("a")), want: "start crash"},
		},
		"cooldown from the end of the last session": {
			{alert: pod("a", 0), want: "start crash"},
			{at: 5 * m, ended: "crash:cart"},
			{at: 2 * m, ended: "crash:cart"}, // comes late
			{at: 35*m - 1, alert: pod("b", 35*m), want: "skip cooldown"},
			{at: 35*m - 1, alert: pod("c", 35*m, key("other")), want: "start crash"},
			{at: 35 * m, alert: pod("d", 35*m), want: "start crash"},
		},
		"no dedup key": {
			{at: 0, ended: "a"},
			{at: m, alert: pod("a", m, key("")), want: "skip cooldown"},
			{at: m, alert: pod("b", m, key("")), want: "start crash"},
		},
		"an open session is joined": {
			{ended: "crash:cart"},
			{at: m, alert: pod("a", m), circ: trigger.Circumstances{SessionOpen: true}, want: "start crash"},
		},
		"a revision has the time at which it was stored": {
			{alert: pod("a", 0, severity(alert.Warning)), want: "start crash"},
			{at: 20 * m, alert: pod("b", 0, revises("a")), circ: trigger.Circumstances{Stored: start.Add(20 * m)}, want: "start crash"},
		},
		"as old as it may be": {{at: 10 * m, alert: pod("a", 0), want: "start crash"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			triggers := newTriggers(t, first, second)
			for i, s := range steps {
				now := start.Add(s.at)
				switch {
				case s.ended != "":
					triggers.Ended(s.ended, now)
				case s.known:
					triggers.Remember(s.alert)
				default:
					if got := describe(triggers.Decide(s.alert, s.circ, now)); got != s.want {
						t.Errorf("step %d: %s is %q, want %q", i+1, s.alert.ID, got, s.want)
					}
				}
			}
		})
	}
}

func describe(d trigger.Decision) string {
	switch d.Action {
	case trigger.Start:
		return "start " + d.Chain
	default:
		return "skip " + string(d.Reason)
	}
}

func TestConfigureKeepsWhatIsKnown(t *testing.T) {
	t.Parallel()
	triggers := newTriggers(t, trigger.Rule{Chain: "a"})
	triggers.Decide(pod("a", 0), trigger.Circumstances{}, start)
	if err := triggers.Configure(trigger.Rule{Chain: "b", Cooldown: time.Hour}); err != nil {
		t.Fatal(err)
	}
	triggers.Ended("crash:cart", start)
	for id, want := range map[string]trigger.Decision{
		"b": {Rule: 0, Chain: "b", Reason: trigger.ReasonCooldown}, "c": {Action: trigger.Start, Rule: 0, Chain: "b"},
	} {
		if diff := cmp.Diff(want, triggers.Decide(pod(id, 0, key(map[string]string{"b": "crash:cart"}[id])), trigger.Circumstances{}, start)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
	for _, r := range []trigger.Rule{{}, {Chain: "a", Cooldown: -1}, {Chain: "a", Match: trigger.Match{SeverityMin: "loud"}}} {
		if err := triggers.Configure(r); !errors.Is(err, trigger.ErrConfig) {
			t.Errorf("Configure(%+v) failed with %v, want %v", r, err, trigger.ErrConfig)
		}
	}
	if d := triggers.Decide(pod("d", 0, key("d")), trigger.Circumstances{}, start); d.Chain != "b" {
		t.Errorf("after bad rules the chain is %q, want b", d.Chain)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	triggers := newTriggers(t, trigger.Rule{Chain: "a", Cooldown: time.Hour})
	for i := range trigger.MaxKnown + 1 {
		triggers.Remember(pod(fmt.Sprint(i), 0, severity(alert.Info)))
	}
	for i := range trigger.MaxEnded + 1 {
		triggers.Ended(fmt.Sprint(i), start)
	}
	for want, a := range map[string]alert.Alert{
		"skip unknown_original": pod("x", 0, revises("0"), key("x")), "start a": pod("y", 0, revises("2"), key("0")), "skip cooldown": pod("z", 0, revises("3"), key("1")),
	} {
		if got := describe(triggers.Decide(a, trigger.Circumstances{}, start)); got != want {
			t.Errorf("%s is %q, want %q", a.ID, got, want)
		}
	}
}

// For any alerts in any order: a decision stays, and no alert starts that must not.
func TestDecisionsKeepTheRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const cooldown = 7 * time.Minute
		triggers, err := trigger.New(trigger.Rule{Match: trigger.Match{SeverityMin: alert.Warning}, Chain: "a", Cooldown: cooldown})
		if err != nil {
			t.Fatal(err)
		}
		now := start
		ends, last := map[string]time.Time{}, map[string]alert.Severity{}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 15).Draw(t, "minutes")) * time.Minute)
			k := rapid.SampledFrom([]string{"k", "l", "m"}).Draw(t, "key")
			if rapid.IntRange(0, 4).Draw(t, "ends") == 0 {
				triggers.Ended(k, now)
				ends[k] = now
				continue
			}
			a := alert.Alert{ID: fmt.Sprint("a", i), App: "shop", Category: alert.Errors, DedupKey: k, Timestamp: now.Add(-time.Duration(rapid.IntRange(0, 12).Draw(t, "age")) * time.Minute), Severity: rapid.SampledFrom(alert.Severities()).Draw(t, "severity")}
			if rapid.Bool().Draw(t, "revision") {
				a.Revises = fmt.Sprint("a", rapid.IntRange(0, i).Draw(t, "revises"))
			}
			c := trigger.Circumstances{Silenced: rapid.IntRange(0, 5).Draw(t, "silenced") == 0}
			original := a.AsOriginal().ID
			before, seen := last[original]
			d := triggers.Decide(a, c, now)
			if again := triggers.Decide(a, trigger.Circumstances{}, now.Add(time.Hour)); again != d {
				t.Fatalf("the same alert is %+v, then %+v, want one decision", d, again)
			}
			last[original] = a.Severity
			switch d.Action {
			case trigger.Start:
				if end, ok := ends[k]; ok && now.Sub(end) < cooldown {
					t.Fatalf("it started %v after the end of the last session, want at least %v", now.Sub(end), cooldown)
				}
				if c.Silenced || a.Severity == alert.Info || now.Sub(a.Timestamp) > trigger.MaxAge {
					t.Fatalf("%+v started in %+v, want it skipped", a, c)
				}
				if seen && a.Severity.Rank() <= before.Rank() || !seen && a.Revises != "" {
					t.Fatalf("%+v started after %q, want it skipped", a, before)
				}
			case trigger.Skip:
				if d.Reason == "" {
					t.Fatalf("%+v is skipped without a reason", a)
				}
			}
		}
	})
}
