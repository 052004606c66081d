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
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/e2e/harness/model"
)

// clientTimeout bounds one run of a coding agent. The longest takes about 5 s.
const clientTimeout = 3 * time.Minute

// codingAgent is a coding agent from npm, configured to use a scripted model.
type codingAgent struct {
	name string
	// folder is the folder below e2e/node that has its packages.
	folder string
	// inbox is the name of its inbox, without the directory.
	inbox string
	// installs is its name in `tocsin install`. If it is empty, command configures the
	// gateway.
	installs string
	// installed changes what tocsin install wrote. It may be nil.
	installed func(t *testing.T, d *account)
	// shell is a turn of the model that runs a command with the agent's own tool.
	shell model.Turn
	// command writes the agent's own settings into the account and returns the command
	// line that runs a prompt.
	command func(t *testing.T, packages string, d *account) []string
}

var codingAgents = []codingAgent{geminiCLI, codexCLI, openCode}

// prompt is the question for each agent.
const prompt = "What happened to the kettle?"

// account is where an agent works: a home and a project of its own, and a scripted
// model.
type account struct {
	home, project string
	state         string
	races         string
	model         *model.Server
	// env is more environment for the agent.
	env []string
}

// newAccount prepares an account whose model plays turns.
func newAccount(t *testing.T, sys *e2etest.System, turns ...model.Turn) *account {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	e2etest.NoError(t, err)
	d := &account{home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project"), races: filepath.Join(dir, "races"), state: sys.Bus.StateDir, model: model.Serve(turns...)}
	t.Cleanup(d.model.Close)
	for _, folder := range []string{d.home, d.project, d.races} {
		e2etest.NoError(t, os.Mkdir(folder, 0o700))
	}
	t.Cleanup(func() { checkRaceReports(t, d.races) })
	return d
}

// write writes a file in the home.
func (d *account) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(d.home, name)
	e2etest.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	e2etest.NoError(t, os.WriteFile(path, []byte(text), 0o600))
}

// install configures the agent with tocsin install.
func (d *account) install(t *testing.T, agent codingAgent, args ...string) {
	t.Helper()
	if agent.installs == "" {
		return
	}
	cmd := exec.CommandContext(t.Context(), e2etest.Binary(t), append([]string{"install", agent.installs}, args...)...)
	cmd.Dir, cmd.Env = d.project, d.environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tocsin install %s: %v\n%s", agent.installs, err, out)
	}
	if agent.installed != nil {
		agent.installed(t, d)
	}
}

// environ returns the environment of the agent. It has nothing of the developer's own
// keys, proxies and settings.
func (d *account) environ() []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + d.home, "LANG=C.UTF-8", "TERM=dumb", "NO_COLOR=1", "CI=true",
		"TOCSIN_STATE_DIR=" + d.state, "GORACE=" + d.gorace(),
	}, d.env...)
}

// gorace has a gateway that the agent starts write data races to a file, because the
// agent keeps its stderr.
func (d *account) gorace() string {
	return "atexit_sleep_ms=0 log_path=" + filepath.Join(d.races, "race")
}

// checkRaceReports fails the test for each data race that was written to a folder.
func checkRaceReports(t *testing.T, folder string) {
	t.Helper()
	reports, err := filepath.Glob(filepath.Join(folder, "*"))
	e2etest.NoError(t, err)
	for _, name := range reports {
		text, err := os.ReadFile(name)
		e2etest.NoError(t, err)
		t.Errorf("%s", text)
	}
}

// oneAgent lets one coding agent run at a time: each keeps a processor busy, and waits
// for its MCP servers for a limited time.
var oneAgent sync.Mutex

// run runs the agent to its end, and kills what it started.
func (d *account) run(t *testing.T, args []string) string {
	t.Helper()
	oneAgent.Lock()
	defer oneAgent.Unlock()
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
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the processes that it left
	}
	if err != nil {
		t.Fatalf("run %v: %v\n%s\nrequests to the model: %s", args, err, &out, summary(d.model.Requests()))
	}
	return out.String()
}

// summary formats the requests to the model for a failed test, without the tools, which
// are most of their text.
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

// postFailure posts a CI failure and waits until the bus has its alert. It may be
// called from another goroutine: an error does not end the test.
func postFailure(t *testing.T, sys *e2etest.System, name string) {
	t.Helper()
	a, err := sys.Bus.Post(t.Context(), "/ci-result", map[string]any{"status": "failure", "name": name, "commit": "c0ffee"})
	if err == nil && a.Status == http.StatusOK {
		_, err = sys.Agent.Wait(t.Context(), 1, 20*time.Second)
	}
	if err != nil || a.Status != http.StatusOK {
		t.Errorf("%s: got %v: %d %s, want Status 200", name, err, a.Status, a.Body)
	}
}

// TestAgentsCallObserve checks that a coding agent whose model calls observe sends the
// alert to its model in the next request, as the tool's result, and only once.
func TestAgentsCallObserve(t *testing.T) {
	t.Parallel()
	for _, agent := range codingAgents {
		t.Run(agent.name, func(t *testing.T) {
			packages := e2etest.NodeModules(t, agent.folder)
			sys := e2etest.Start(t)
			d := newAccount(t, sys, model.Call("observe"), model.Call("observe"), model.Say("goodbye"))
			postFailure(t, sys, "kettle-tests")
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
				t.Errorf("delivered %d times: %s, want 1", n, summary(asked[2:])) // opencode cancels calls that were answered
			}
		})
	}
}
