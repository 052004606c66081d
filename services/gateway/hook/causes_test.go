package hook_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestHookTellsTheCauseFirst: what a hook tells is a digest as observe has it.
func TestHookTellsTheCauseFirst(t *testing.T) {
	r := testrig.New(t)
	r.Hook(t, "agent", testrig.Call("UserPromptSubmit"))
	failed, slow := r.Alert(alert.Error), r.Alert(alert.Error)
	failed.Category, slow.Category = alert.NetworkErrors, alert.Regression
	failed.Context = map[string]any{alert.PageKey: "/cart", alert.EndpointKey: "POST /api/cart"}
	slow.Context = map[string]any{alert.PageKey: "/cart"}
	r.Publish(t, failed)
	r.Publish(t, slow)
	text := r.Hook(t, "agent", testrig.Call("PostToolUse"))
	got := shown(t, text)
	if len(got) != 2 || got[0].ID != failed.ID || got[0].Symptoms != 1 || !strings.HasSuffix(got[0].Reason, "name /cart; the failed request came first") || got[1].InhibitedBy != failed.ID {
		t.Errorf("%s", text)
	}

	later, apart := r.Alert(alert.Error), r.Alert(alert.Error)
	later.Category, later.Context = alert.Errors, map[string]any{alert.PageKey: "/cart"}
	apart.Category, apart.Context = alert.Errors, map[string]any{alert.PageKey: "/pay"}
	r.Publish(t, later)
	r.Publish(t, apart)
	text = r.Hook(t, "agent", testrig.Call("PostToolUse"))
	if got := shown(t, text); len(got) != 2 || got[0].InhibitedBy != "" || got[1].InhibitedBy != failed.ID {
		t.Errorf("what comes after its cause was told by another process: %s", text)
	}
}

func shown(t *testing.T, text string) (alerts []alert.Alert) {
	t.Helper()
	lines := strings.Split(text, "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &alerts); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return alerts
}

// TestEachClientRemembersItsOwn: what one client was told another is told itself.
func TestEachClientRemembersItsOwn(t *testing.T) {
	r := testrig.New(t)
	failed, slow := r.Alert(alert.Error), r.Alert(alert.Error)
	failed.Category, failed.Context = alert.NetworkErrors, map[string]any{alert.PageKey: "/cart"}
	slow.Category, slow.Context = alert.Regression, map[string]any{alert.PageKey: "/cart"}
	r.Publish(t, failed)
	if got := shown(t, r.Hook(t, "one", testrig.Call("PostToolUse"))); len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	r.Publish(t, slow)
	if got := shown(t, r.Hook(t, "one", testrig.Call("PostToolUse"))); len(got) != 1 || got[0].InhibitedBy != failed.ID {
		t.Errorf("%+v", got)
	}
	if got := shown(t, r.Hook(t, "other", testrig.Call("PostToolUse"))); len(got) != 2 || got[1].InhibitedBy != failed.ID {
		t.Errorf("%+v", got)
	}
}
