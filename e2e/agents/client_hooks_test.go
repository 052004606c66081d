package agents

import (
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/e2e/harness/model"
)

// TestAgentsSendAlertsByHooks checks what a coding agent that `tocsin install` set up
// sends to its model unasked: with the prompt the alerts that were pending, with a
// tool's result those that arrived while the model was working, and before it stops the
// last ones. A call of observe then finds none, because the gateway and the hooks share
// one inbox.
func TestAgentsSendAlertsByHooks(t *testing.T) {
	t.Parallel()
	for _, agent := range codingAgents {
		if agent.installs == "" {
			continue // a plain MCP client
		}
		t.Run(agent.name, func(t *testing.T) {
			packages := e2etest.NodeModules(t, agent.folder)
			sys := e2etest.Start(t)
			works, stops := agent.shell, model.Say("that was all")
			works.Before = func() { postFailure(t, sys, "second") }
			stops.Before = func() { postFailure(t, sys, "third") }
			d := newAccount(t, sys, works, stops, model.Call("observe"), model.Say("goodbye"))
			args := agent.command(t, packages, d)
			d.install(t, agent, "--scope=project")
			postFailure(t, sys, "first")

			out := d.run(t, args)
			asked := d.model.Asked()
			if len(asked) != 4 || !strings.Contains(out, "goodbye") {
				t.Fatalf("%d questions, want 4 entries in asked and \"goodbye\" in out\n%s\n%s", len(asked), out, summary(d.model.Requests()))
			}
			for i, known := range []int{1, 2, 3, 3} {
				for j, name := range []string{"first", "second", "third"} {
					want := 0
					if j < known {
						want = 1
					}
					if n := strings.Count(asked[i].Body, "CI failure: "+name); n != want {
						t.Errorf("request %d has the alert of the failure %s %d times, want %d: %s", i, name, n, want, summary(asked[i:i+1]))
					}
				}
			}
			if last := asked[3].Body; !strings.Contains(last, agent.inbox+" in "+d.project) {
				t.Errorf("request = %s, want the inbox %s in %s", summary(asked[3:]), agent.inbox, d.project)
			}
		})
	}
}
