package agents

import (
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/e2e/harness/model"
)

// TestAgentsDropNotifications checks that coding agents accept notifications/message
// and do not show it to their models, so that an alert that was sent as one is still in
// the inbox. If a newer version of an agent shows them, this test fails and the pages
// about it have to change.
func TestAgentsDropNotifications(t *testing.T) {
	t.Parallel()
	for _, agent := range codingAgents {
		t.Run(agent.name, func(t *testing.T) {
			packages := e2etest.NodeModules(t, agent.folder)
			sys := e2etest.Start(t)
			enable := model.Turn{Tool: "configure_streaming", Args: map[string]any{"action": "enable", "events": []string{"ci"}}}
			works := agent.shell
			works.Before = func() { postFailure(t, sys, "kettle-tests") }
			d := newAccount(t, sys, enable, works, agent.shell, model.Call("observe"), model.Say("goodbye"))
			args := agent.command(t, packages, d)
			d.install(t, agent, "--scope=user", "--no-hooks")
			out := d.run(t, args)
			asked := d.model.Asked()
			if len(asked) != 5 {
				t.Fatalf("%d questions, want 5 entries in asked\n%s\n%s", len(asked), out, summary(d.model.Requests()))
			}
			for i, want := range []int{0, 0, 0, 0, 1} {
				if n := strings.Count(asked[i].Body, "CI failure: kettle-tests"); n != want {
					t.Errorf("request %d has the alert %d times, want %d: %s", i, n, want, summary(asked[i:i+1]))
				}
			}
		})
	}
}
