package hook_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// related is an alert as far as its relation to others goes.
type related struct {
	ID, InhibitedBy string
	Symptoms        int
}

// relations decodes the alerts of a hook's text.
func relations(t *testing.T, text string) (all []related, reasons []string) {
	t.Helper()
	lines := strings.Split(text, "\n")
	var alerts []alert.Alert
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &alerts); err != nil {
		t.Fatalf("decode the alerts of %q: %v", text, err)
	}
	for _, a := range alerts {
		all, reasons = append(all, related{a.ID, a.InhibitedBy, a.Symptoms}), append(reasons, a.Reason)
	}
	return all, reasons
}

// TestHookPutsTheCauseFirst: a hook's text is a digest as observe has it, also if the
// cause was delivered by another process.
func TestHookPutsTheCauseFirst(t *testing.T) {
	r := testrig.New(t)
	r.Hook(t, "agent", testrig.Call("UserPromptSubmit"))
	failed, slow := r.Alert(alert.Error), r.Alert(alert.Error)
	failed.Category, slow.Category = alert.NetworkErrors, alert.Regression
	failed.Context = map[string]any{alert.PageKey: "/cart", alert.EndpointKey: "POST /api/cart"}
	slow.Context = map[string]any{alert.PageKey: "/cart"}
	r.Publish(t, failed)
	r.Publish(t, slow)
	got, reasons := relations(t, r.Hook(t, "agent", testrig.Call("PostToolUse")))
	if diff := cmp.Diff([]related{{failed.ID, "", 1}, {slow.ID, failed.ID, 0}}, got); diff != "" {
		t.Errorf("cause and symptom (-want +got):\n%s", diff)
	}
	if want := "name /cart; the failed request came first"; !strings.HasSuffix(reasons[0], want) {
		t.Errorf("reason = %q, want suffix %q", reasons[0], want)
	}

	later, apart := r.Alert(alert.Error), r.Alert(alert.Error)
	later.Category, later.Context = alert.Errors, map[string]any{alert.PageKey: "/cart"}
	apart.Category, apart.Context = alert.Errors, map[string]any{alert.PageKey: "/pay"}
	r.Publish(t, later)
	r.Publish(t, apart)
	got, _ = relations(t, r.Hook(t, "agent", testrig.Call("PostToolUse")))
	if diff := cmp.Diff([]related{{apart.ID, "", 0}, {later.ID, failed.ID, 0}}, got); diff != "" {
		t.Errorf("alerts after a cause that another process delivered (-want +got):\n%s", diff)
	}
}

// TestEachClientHasItsOwnPosition: an alert delivered to one client is delivered to
// another one, too.
func TestEachClientHasItsOwnPosition(t *testing.T) {
	r := testrig.New(t)
	failed, slow := r.Alert(alert.Error), r.Alert(alert.Error)
	failed.Category, failed.Context = alert.NetworkErrors, map[string]any{alert.PageKey: "/cart"}
	slow.Category, slow.Context = alert.Regression, map[string]any{alert.PageKey: "/cart"}
	check := func(client string, want ...related) {
		t.Helper()
		got, _ := relations(t, r.Hook(t, client, testrig.Call("PostToolUse")))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("client %s (-want +got):\n%s", client, diff)
		}
	}
	r.Publish(t, failed)
	check("one", related{failed.ID, "", 0})
	r.Publish(t, slow)
	check("one", related{slow.ID, failed.ID, 0})
	check("other", related{failed.ID, "", 1}, related{slow.ID, failed.ID, 0})
}
