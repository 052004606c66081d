package agents

import (
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/e2e/harness/model"
)

// TestClientsMessages: coding agents take notifications/message and show their
// models none of them, which is why there are other ways. So an alert that went
// out as one still waits in the inbox. Should an agent of a newer version show
// them, this says so.
func TestClientsMessages(t *testing.T) {
	t.Parallel()
	for _, agent := range codingAgents {
		t.Run(agent.name, func(t *testing.T) {
			packages := e2etest.NodeModules(t, agent.folder)
			sys := e2etest.Start(t)
			enable := model.Turn{Tool: "configure_streaming", Args: map[string]any{"action": "enable", "events": []string{"ci"}}}
			works := agent.shell
			works.Before = func() { breaks(t, sys, "kettle-tests") }
			d := sit(t, sys, enable, works, agent.shell, model.Call("observe"), model.Say("goodbye"))
			args := agent.command(t, packages, d)
			d.install(t, agent, "--scope=user", "--no-hooks")
			out := d.run(t, args)
			asked := d.model.Asked()
			if len(asked) != 5 {
				t.Fatalf("%d questions, want 5 entries in asked\n%s\n%s", len(asked), out, summary(d.model.Requests()))
			}
			for i, want := range []int{0, 0, 0, 0, 1} {
				if n := strings.Count(asked[i].Body, "CI failure: kettle-tests"); n != want {
					t.Errorf("question %d has the alert %d times: %s", i, n, summary(asked[i:i+1]))
				}
			}
		})
	}
}
