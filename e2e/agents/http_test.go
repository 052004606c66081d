package agents

import (
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// dial connects an agent over HTTP.
func dial(t *testing.T, url, name string) *harness.Agent {
	t.Helper()
	a, err := harness.DialAgent(t.Context(), url, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("end the session: %v", err)
		}
	})
	return a
}

// TestAgentsOverHTTP checks that several agents at once have each their own inbox,
// notifier and filters, even if they have the same name.
func TestAgentsOverHTTP(t *testing.T) {
	t.Parallel()
	sys := &e2etest.System{Bus: e2etest.Up(t)}
	for _, protocol := range []string{"compatible", "latest"} {
		t.Run(protocol, func(t *testing.T) {
			url := overHTTP(t, sys.Bus, e2etest.Binary(t), "gateway", "--http=127.0.0.1:0", "--autostart=false", "--protocol="+protocol)
			query := func(name string) string { // in the newest protocol, which has no sessions, the URL names the client
				if protocol == "latest" {
					return "?client=" + name
				}
				return ""
			}
			errors, all, silent := dial(t, url+query("errors"), "twin"), dial(t, url+query("all"), "twin"), dial(t, url+query("silent"), "twin")
			agents := []*harness.Agent{errors, all, silent}
			for _, a := range agents {
				if _, err := a.Observe(t.Context(), nil); err != nil { // alerts of other tests
					t.Fatal(err)
				}
			}
			if protocol == "compatible" {
				for a, severity := range map[*harness.Agent]string{errors: "error", all: "info"} {
					if _, err := a.Call(t.Context(), "configure_streaming", map[string]any{"action": "enable", "severity_min": severity}); err != nil {
						t.Fatal(err)
					}
				}
			}
			sys.PostCI(t, map[string]any{"status": "success", "name": "unit-" + protocol, "commit": "a1"})
			for _, a := range agents {
				got, err := a.Wait(t.Context(), 1, 10*time.Second)
				if err != nil || len(got) != 1 || !strings.Contains(got[0].Title, "unit-"+protocol) {
					t.Errorf("got %v, %v, want 1 of them and %q in Title", got, err, "unit-"+protocol)
				}
				if again, err := a.Observe(t.Context(), nil); err != nil || again.Block != "" {
					t.Errorf("the next observe = %s, %v, want no alerts", again.Block, err)
				}
			}
			if protocol == "latest" {
				return
			}
			if n, err := all.Next(t.Context(), 10*time.Second); err != nil || n.Level != "info" {
				t.Errorf("got %+v, %v, want Level \"info\"", n, err)
			}
			if len(errors.Notes)+len(silent.Notes) > 0 {
				t.Error("those who did not want it were delivered too")
			}
		})
	}
}
