package fold_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func circuit(name, state string) fold.Message {
	return events(telemetry.Event{Kind: telemetry.KindCircuit, App: "web", Circuit: &telemetry.Circuit{Name: name, State: state}})
}

// thrown returns an error in a function.
func thrown(message, function string) telemetry.Event {
	e := logged(telemetry.LevelError, message)
	e.Log.Stack = "Error: " + message + "\n    at " + function + " (http://localhost:3000/src/cart.js:10:5)"
	return e
}

// upgraded returns a script that continues from a snapshot of version 4, which was written
// 133 s after the start, after the 55th message. It has the app web with:
//   - a noise rule for /legacy requests, added by hand, and one for "tick" with a number,
//     found by auto-detection
//   - the errors boom and burst, and open spikes in logs and requests
//   - 5 loads of /cart with an LCP of 1000 ms, and one of 2000 ms, which regressed
//   - memory at 95%, the circuit db open, and the circuit mail half open
//   - 12 requests of GET /down with 503 within 12 ms, two of them suppressed
//   - two clicks on #pay
//
// It also has a failed job build on main, commit a, a successful job lint, and an external
// alert that fires.
func upgraded(t *testing.T) *script {
	t.Helper()
	state, err := os.ReadFile("testdata/version4.snapshot")
	if err != nil {
		t.Fatal(err)
	}
	s := newScript()
	s.seq = 55
	if err := s.fold.Restore(state); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestUpgrade checks that the state of version 4 is used, and that only alerts that readers
// have are resolved.
func TestUpgrade(t *testing.T) {
	const begin = 134 * time.Second
	failed, fired := "4oh5cwnwewsdvwgomqzpqzgbkn", "g4lmvk5wp3gouol6emkxm26vb4"
	for _, tt := range []struct {
		name     string
		messages []fold.Message // a second apart
		want     []string
	}{
		{"hidden events", []fold.Message{events(requested("GET", "/legacy/x", 500)), events(logged(telemetry.LevelInfo, "tick 7"))}, nil},
		{"a known error", []fold.Message{events(logged(telemetry.LevelError, "boom"), logged(telemetry.LevelError, "burst"))}, nil},
		{"a known error, distinguished by its stack now", []fold.Message{events(thrown("boom", "pay")), events(thrown("boom", "pay")), events(thrown("other", "pay"))}, []string{"New error: other"}},
		{"a baseline", []fold.Message{events(loaded("/cart", 1000)), events(loaded("/cart", 2000)), events(loaded("/cart", 1000))}, []string{
			"LCP regressed 100% on /cart", "Resolved: LCP regressed on /cart <- LCP regressed 100% on /cart",
		}},
		{"memory", []fold.Message{memory(95), memory(10), memory(10)}, []string{"Memory is back to normal"}},
		{"circuits", []fold.Message{circuit("db", "open"), circuit("mail", "half_open"), circuit("db", "closed"), circuit("mail", "closed")}, []string{
			"Circuit db is closed again", "Circuit mail is closed again",
		}},
		{"CI, reported again", []fold.Message{built("failure", "a")}, []string{"CI failure: build on main -> " + failed}},
		{"CI, fixed", []fold.Message{built("success", "a")}, []string{"CI success: build on main"}},
		{"an external alert, reported again", []fold.Message{raised("firing", "1")}, []string{"Alert firing: Down on shop -> " + fired}},
		{"suppressed alerts", []fold.Message{{}, {}, {}, {}, {}, {}, {}, {}, {}, events(requested("GET", "/down", 503))}, []string{"Server error: GET /down → 503 *3"}},
		{"the spikes", []fold.Message{errorsLogged(5), {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}}, nil},
	} {
		for _, restarts := range []bool{false, true} {
			s := upgraded(t)
			for i, m := range tt.messages {
				if restarts {
					s.restart(t, fold.Config{})
				}
				s.at(begin+time.Duration(i)*time.Second, m)
			}
			got := s.ends()
			for i, a := range s.alerts {
				if a.Revises != "" {
					got[i] += " -> " + a.Revises
				}
				if a.Count > 1 {
					got[i] += fmt.Sprintf(" *%d", a.Count)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s, restarts %v:\n%s\nwant\n%s", tt.name, restarts, strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		}
	}
}

func TestUpgradeKeepsRulesAndBaselines(t *testing.T) {
	s := upgraded(t)
	rules := s.fold.NoiseRules("web")
	if len(rules) != 2 || rules[0].Pattern != "/legacy" || rules[1].Pattern != "tick <n>" {
		t.Errorf("noise rules = %+v, want /legacy and tick <n>", rules)
	}
	if b := s.fold.Baselines("web"); len(b) != 1 || b[0].Page != "/cart" || b[0].Median != 1000 || b[0].Loads != 6 {
		t.Errorf("baselines = %+v, want 1000 ms for /cart after 6 loads", b)
	}
	if out := s.at(200*time.Second, fold.Message{Noise: &query.NoiseRequest{Action: query.NoiseRemove, RuleID: rules[1].ID}}); out.Noise.Err != nil {
		t.Errorf("remove: %v, want no error", out.Noise.Err)
	}
	if a := s.at(201*time.Second, raised("resolved", "1")).Alerts; len(a) != 1 || a[0].Resolves == "" || a[0].Severity != alert.Info {
		t.Errorf("the end of the external alert: %+v, want one that resolves the first alert", a)
	}
}

// TestUpgradeFrom6 continues from a snapshot of version 6, which continued from that of
// version 4: "later boom" was logged, /cart took 3000 ms and GET /later failed, the
// circuit cache opened, and a spike of boom began at 400 s, with the 59th message.
func TestUpgradeFrom6(t *testing.T) {
	state, err := os.ReadFile("testdata/version6.snapshot")
	if err != nil {
		t.Fatal(err)
	}
	const regressed, opened, spiked = "5u2y5wmtlg3fbfamm7yqrg7dfu", "q7h5w5hzeubuvk3rxf7n3gyhk3", "okmgk5fgyyumz3blssn2ekhw2m"
	for _, restarts := range []bool{false, true} {
		s := newScript()
		s.seq = 59
		if err := s.fold.Restore(state); err != nil {
			t.Fatal(err)
		}
		at := 401 * time.Second
		for _, m := range []fold.Message{
			events(logged(telemetry.LevelError, "later boom")), events(thrown("later boom", "pay"), thrown("boom", "pay")), events(loaded("/cart", 1000)), circuit("cache", "closed"),
		} {
			if restarts {
				s.restart(t, fold.Config{})
			}
			s.at(at, m)
			at += time.Second
		}
		s.at(531*time.Second, fold.Message{}) // 120 s after the spike calmed, at 412 s, it ends
		if n := len(s.alerts); n != 2 {
			t.Errorf("restarts %v: %d ends by 531 s, want 2", restarts, n)
		}
		s.at(532*time.Second, fold.Message{})
		var got []string
		for _, a := range s.alerts {
			got = append(got, a.Title+" <- "+a.Resolves)
		}
		want := []string{
			"Resolved: LCP regressed on /cart <- " + regressed, "Circuit cache is closed again <- " + opened, "Resolved: Error spike in logs <- " + spiked,
		}
		if !slices.Equal(got, want) {
			t.Errorf("restarts %v:\n%s\nwant\n%s", restarts, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}
