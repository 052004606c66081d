package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
)

// TestNullIsRefused calls every tool with a null in place of every argument: each
// is refused by name, and changes nothing.
func TestNullIsRefused(t *testing.T) {
	r := newRig(t)
	r.startKubewatch(t, "c1")
	c := r.open(t, "nulls")
	enabled := c.call(t, "configure_streaming", `{"action":"enable","throttle_seconds":30,"events":["ci"],"severity_min":"error","url_filter":"/cart"}`)
	if enabled.isError {
		t.Fatalf("got %v, want no error", enabled.blocks)
	}
	var tools []struct {
		Name        string
		InputSchema struct {
			Properties map[string]json.RawMessage
			Required   []string
		}
	}
	ok := testrig.Poll(func() bool {
		var listed struct{ Tools json.RawMessage }
		if err := json.Unmarshal(c.ask(t, "tools/list", `{}`).Result, &listed); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(listed.Tools, &tools); err != nil {
			t.Fatal(err)
		}
		return len(tools) == 7
	})
	if !ok {
		t.Fatalf("%d tools are listed, want 7", len(tools))
	}
	required := map[string]string{"configure": `"action":"streaming","streaming_action":"enable"`, "configure_streaming": `"action":"enable"`, "notify": `"message":"m"`, "events_unsubscribe": `"subscriptionId":"x"`}
	for _, tool := range tools {
		for name := range tool.InputSchema.Properties {
			// The last of two arguments with one name counts.
			args := strings.Trim(required[tool.Name]+fmt.Sprintf(`,%q:null`, name), ",")
			got := c.call(t, tool.Name, "{"+args+"}")
			if !got.isError || !strings.HasPrefix(got.blocks[0], name+" must ") {
				t.Errorf("%s with %s null: got %v (error %t), want a refusal that begins with %q", tool.Name, name, got.blocks, got.isError, name+" must ")
			}
		}
	}
	const want = `"config":{"enabled":true,"events":["ci"],"throttle_seconds":30,"severity_min":"error","url":"/cart"}`
	if got := c.call(t, "configure_streaming", `{"action":"status"}`); !strings.Contains(got.blocks[0], want) {
		t.Errorf("after it: got %s, want %s", got.blocks[0], want)
	}
}
