package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/e2e/harness/model"
)

// clientTimeout bounds one run of a coding agent; the longest takes some 5 s.
const clientTimeout = time.Minute

// codingAgent is a client as people have it, from npm, told by its own settings
// to ask a scripted model.
type codingAgent struct {
	name string
	// folder is below node and has its packages.
	folder string
	// inbox is how the gateway names a session of it, but for the directory.
	inbox string
	// installs is what tocsin install calls it; empty where that doesn't know it
	// and command has to set up the gateway.
	installs string
	// shell is the tool that runs a command, and its arguments.
	shell model.Turn
	// command writes the agent's own settings into the desk and gives the run for
	// a prompt.
	command func(t *testing.T, packages string, d *desk) []string
}

var codingAgents = []codingAgent{geminiCLI, codexCLI, openCode}

// prompt is what each agent is asked to do.
const prompt = "What happened to the kettle?"

// desk is where an agent works: a home and a project of its own, and a model.
type desk struct {
	home, project string
	state         string
	races         string
	model         *model.Server
	// env is more environment for the agent.
	env []string
}

// sit prepares a desk with a model that plays turns.
func sit(t *testing.T, sys *e2etest.System, turns ...model.Turn) *desk {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	e2etest.NoError(t, err)
	d := &desk{home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project"), races: filepath.Join(dir, "races"), state: sys.Bus.StateDir, model: model.Serve(turns...)}
	t.Cleanup(d.model.Close)
	for _, folder := range []string{d.home, d.project, d.races} {
		e2etest.NoError(t, os.Mkdir(folder, 0o700))
	}
	t.Cleanup(func() { noReports(t, d.races) })
	return d
}

// write puts a file into the desk's home.
func (d *desk) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(d.home, name)
	e2etest.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	e2etest.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// install sets the agent up with tocsin install, as people do.
func (d *desk) install(t *testing.T, agent codingAgent, args ...string) {
	t.Helper()
	if agent.installs == "" {
		return
	}
	cmd := exec.CommandContext(t.Context(), e2etest.Binary(t), append([]string{"install", agent.installs}, args...)...)
	cmd.Dir, cmd.Env = d.project, d.environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tocsin install %s: %v\n%s", agent.installs, err, out)
	}
}

// environ is all that an agent gets to know: nothing of the developer's own
// keys, proxies and settings.
func (d *desk) environ() []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + d.home, "LANG=C.UTF-8", "TERM=dumb", "NO_COLOR=1", "CI=true",
		"TOCSIN_STATE_DIR=" + d.state, "GORACE=" + d.gorace(),
	}, d.env...)
}

// gorace has a gateway that an agent starts leave what the race detector finds
// in a file: the agent keeps its stderr.
func (d *desk) gorace() string {
	return "atexit_sleep_ms=0 log_path=" + filepath.Join(d.races, "race")
}

// noReports fails the test for each file in a folder for what the race detector
// finds.
func noReports(t *testing.T, folder string) {
	t.Helper()
	reports, err := filepath.Glob(filepath.Join(folder, "*"))
	e2etest.NoError(t, err)
	for _, name := range reports {
		text, err := os.ReadFile(name)
		e2etest.NoError(t, err)
		t.Errorf("%s", text)
	}
}

// run runs the agent to its end, and whatever it has started.
func (d *desk) run(t *testing.T, args []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.Env = d.project, d.environ()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind
	}
	if err != nil {
		t.Fatalf("%v: %v\n%s\nasked: %s", args, err, &out, summary(d.model.Requests()))
	}
	return out.String()
}

// summary is what a failing test shows of the requests to the model: all but the
// tools, which are the most of it.
func summary(requests []model.Request) string {
	var b strings.Builder
	for _, r := range requests {
		body := r.Body
		var question map[string]any
		if json.Unmarshal([]byte(body), &question) == nil {
			delete(question, "tools")
			if short, err := json.Marshal(question); err == nil {
				body = string(short)
			}
		}
		fmt.Fprintf(&b, "\n%s turn %d of %d tools\n... %s", r.Path, r.Turn, len(r.Tools), body[max(0, len(body)-4000):])
	}
	return b.String()
}

// breaks posts a CI failure and waits until the bus has its alert. It may be
// called while a model answers: a failure does not end the test.
func breaks(t *testing.T, sys *e2etest.System, name string) {
	t.Helper()
	a, err := sys.Bus.Post(t.Context(), "/ci-result", map[string]any{"status": "failure", "name": name, "commit": "c0ffee"})
	if err == nil && a.Status == http.StatusOK {
		_, err = sys.Agent.Wait(t.Context(), 1, 20*time.Second)
	}
	if err != nil || a.Status != http.StatusOK {
		t.Errorf("%s: got %v: %d %s, want Status 200", name, err, a.Status, a.Body)
	}
}

// TestClientsObserve: a coding agent whose model calls observe sends the alert
// to its model in the next request, as the tool's result, and only that once.
func TestClientsObserve(t *testing.T) {
	t.Parallel()
	for _, agent := range codingAgents {
		t.Run(agent.name, func(t *testing.T) {
			packages := e2etest.NodeModules(t, agent.folder)
			sys := e2etest.Start(t)
			d := sit(t, sys, model.Call("observe"), model.Call("observe"), model.Say("goodbye"))
			breaks(t, sys, "kettle-tests")
			args := agent.command(t, packages, d)
			d.install(t, agent, "--scope=user", "--no-hooks")
			out := d.run(t, args)
			asked := d.model.Asked()
			if len(asked) != 3 || !strings.Contains(out, "goodbye") {
				t.Fatalf("%d questions, want 3 entries in asked and \"goodbye\" in out\n%s\n%s", len(asked), out, summary(d.model.Requests()))
			}
			if strings.Contains(asked[0].Body, "kettle-tests") {
				t.Errorf("the model knew it before: %s, want no \"kettle-tests\" in it", asked[0].Body)
			}
			for _, want := range []string{"--- ALERTS (1) ---", "CI failure: kettle-tests", agent.inbox + " in " + d.project} {
				if !strings.Contains(asked[1].Body, want) {
					t.Errorf("no %q in what the model was sent: %s", want, summary(asked[1:2]))
				}
			}
			if n := strings.Count(asked[2].Body, "CI failure: kettle-tests"); n != 1 {
				t.Errorf("told %d times: %s, want 1", n, summary(asked[2:])) // opencode cancels calls that were answered
			}
		})
	}
}
