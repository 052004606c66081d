package glance_test

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
	failed, slow := r.Alert(alert.Warning), r.Alert(alert.Error)
	failed.Category, slow.Category = alert.NetworkErrors, alert.Regression
	failed.Context = map[string]any{alert.PageKey: "/cart", alert.EndpointKey: "POST /api/cart"}
	slow.Context = map[string]any{alert.PageKey: "/cart"}
	r.Publish(t, failed)
	r.Publish(t, slow)
	text := r.Hook(t, "agent", testrig.Call("PostToolUse"))
	lines := strings.Split(text, "\n")
	var got []alert.Alert
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil || len(got) != 2 {
		t.Fatalf("%v: %s", err, text)
	}
	if got[0].ID != failed.ID || got[0].Symptoms != 1 || !strings.HasSuffix(got[0].Reason, "name /cart; the failed request came first") || got[1].InhibitedBy != failed.ID {
		t.Errorf("%s", text)
	}
}
