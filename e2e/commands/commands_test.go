package commands

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// TestUsageErrors checks for exit status 2 and one line with the remedy.
func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"dance"}, "dance"},
		{[]string{"up", "--no-such-flag"}, "--no-such-flag"},
		{[]string{"up", "--idle-exit=-1s"}, "--idle-exit must not be negative"},
		{[]string{"up", "--idle-exit=1h", "--nats-url=nats://127.0.0.1:1"}, "--idle-exit works only with the embedded bus"},
		{[]string{"up", "--log-level=loud"}, "--log-level"},
		{[]string{"up", "--partitions=4"}, "--partitions works with an external bus only"},
		{[]string{"up", "--nats-url=tls://127.0.0.1:1", "--nats-cert=x"}, "--nats-cert needs --nats-key"},
		{[]string{"provision"}, "--nats-url is required"},
		{[]string{"keys"}, "<dir>"},
		{[]string{"tail", "--severity=fatal"}, "--severity must be one of info, warning, error"},
		{[]string{"tail", "--category=x"}, "--category must be one of"},
		{[]string{"wait", "--severity=fatal"}, "--severity must be one of info, warning, error"},
		{[]string{"wait", "--timeout=-1s"}, "--timeout must not be negative"},
		{[]string{"ci"}, "--status"},
		{[]string{"ci", "--status=meh"}, "success, failure, error"},
		{[]string{"ingest", "--ingest-addr=0.0.0.0:0"}, "TOCSIN_TOKEN"},
		{[]string{"up", "--ingest-addr=0.0.0.0:0"}, "TOCSIN_TOKEN"},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			code, stdout, stderr := e2etest.Tocsin(t, t.TempDir(), tt.args...)
			if code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit %d, want 2, no stdout, one line and %q in stderr\nstdout: %s\nstderr: %s", code, tt.want, stdout, stderr)
			}
		})
	}
}

// TestWait checks the exit status of tocsin wait: 0 with the alerts, 3 on a timeout and
// 1 without a bus. The gateway of the same client does not deliver those alerts again.
func TestWait(t *testing.T) {
	t.Parallel()
	if code, stdout, stderr := e2etest.Tocsin(t, t.TempDir(), "wait"); code != 1 || stdout != "" || !strings.Contains(stderr, "tocsin up") {
		t.Errorf("wait without a bus = exit %d: %s%s, want exit 1 and a hint at tocsin up", code, stdout, stderr)
	}
	b := e2etest.Up(t)
	sys := &e2etest.System{Bus: b, Agent: e2etest.Join(t, b, "e2e", "--client=shell")}
	code, stdout, stderr := e2etest.Tocsin(t, b.StateDir, "wait", "--client=shell", "--timeout=100ms")
	if code != 3 || stdout != "" || stderr != "tocsin: the time is up: no alert came\n" {
		t.Errorf("exit %d: %s%s, want code 3, no stdout and stderr \"tocsin: the time is up: no alert came\\n\"", code, stdout, stderr)
	}
	ended, err := harness.Start(e2etest.Binary(t), b.StateDir, nil, "wait", "--client=shell", "--severity=error")
	if err != nil {
		t.Fatal(err)
	}
	e2etest.WaitConnected(t, ended)
	if err := syscall.Kill(ended.PID(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := ended.ExitCode(); code != 1 || !strings.HasPrefix(ended.Log.String(), "tocsin: interrupted before an alert came") {
		t.Errorf("wait ended by a signal = exit %d: %s, want exit 1 with the reason", code, ended.Log)
	}
	p, err := harness.Start(e2etest.Binary(t), b.StateDir, nil, "wait", "--client=shell", "--severity=error", "--timeout=30s")
	if err != nil {
		t.Fatal(err)
	}
	sys.PostCI(t, map[string]any{"status": "success", "commit": "a"})
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "b", "name": "test", "ref": "main"})
	if code := p.ExitCode(); code != 0 || !strings.HasPrefix(p.Stdout.String(), "--- ALERTS (2) ---\n[{") || !strings.Contains(p.Stdout.String(), "CI failure: test on main") {
		t.Errorf("exit %d: %s%s, want code 0, output that begins with \"--- ALERTS (2) ---\\n[{\" and \"CI failure: test on main\" in the output", code, p.Stdout, p.Log)
	}
	sys.WaitReceived(t, 2)
	if o := sys.Observe(t, nil); len(o.Alerts) != 0 {
		t.Errorf("observe after wait = %+v, want no alerts", o.Alerts)
	}
}

func TestUpTwice(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	code, _, stderr := e2etest.Tocsin(t, b.StateDir, "up")
	if code != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "pid "+e2etest.JSON(t, b.Runtime.PID)) {
		t.Fatalf("exit %d: %s, want 1, one line and %q in it", code, stderr, "pid "+e2etest.JSON(t, b.Runtime.PID))
	}
}

// TestAddressInUse checks that the error has the reason, and that nothing is left
// behind.
func TestAddressInUse(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	dir := t.TempDir()
	code, _, stderr := e2etest.Tocsin(t, dir, "up", "--nats-addr=127.0.0.1:0", "--nats-ws-addr=127.0.0.1:0", "--ingest-addr="+strings.TrimPrefix(b.IngestURL, "http://"))
	if code != 1 || !strings.Contains(stderr, "address already in use") {
		t.Fatalf("exit %d: %s, want 1 and \"address already in use\" in it", code, stderr)
	}
	if r, err := statedir.At(dir).Running(); !errors.Is(err, statedir.ErrNotRunning) {
		t.Fatalf("got %+v, %v, want an error statedir.ErrNotRunning", r, err)
	}
}

// TestRuntimeJSON checks that runtime.json is readable by its owner only, and has the
// addresses of the bus.
func TestRuntimeJSON(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	info, err := os.Stat(b.StateDir + "/runtime.json")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("got %v, %v, want Perm 0o600", info.Mode(), err)
	}
	if a := e2etest.Get(t, b.IngestURL+"/readyz"); a.Status != 200 {
		t.Errorf("readyz: %d %s, want Status 200", a.Status, a.Body)
	}
	if !strings.Contains(b.Stdout.String(), b.IngestURL) {
		t.Errorf("stdout: %s, want %q in the output", b.Stdout, b.IngestURL)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	code, stdout, _ := e2etest.Tocsin(t, t.TempDir(), "version")
	if code != 0 || !strings.HasPrefix(stdout, "tocsin ") || !strings.Contains(stdout, " commit ") || !strings.Contains(stdout, " go1.") {
		t.Fatalf("exit %d: %s, want 0, it to begin with \"tocsin \", \" commit \" in it and \" go1.\" in it", code, stdout)
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	code, stdout, stderr := e2etest.Tocsin(t, dir, "doctor")
	if code != 1 || !strings.Contains(stdout, "fix: start it: tocsin up") || strings.Count(stderr, "\n") != 1 {
		t.Errorf("doctor without a bus = exit %d\n%s%s\nwant exit 1, the fix, and one line on stderr", code, stdout, stderr)
	}
	b := e2etest.Up(t)
	code, stdout, stderr = e2etest.Tocsin(t, b.StateDir, "doctor")
	if code != 0 || strings.Contains(stdout, "FAIL") || !strings.Contains(stdout, b.IngestURL+" is ready") {
		t.Errorf("all runs: exit %d, want 0, no \"FAIL\" in stdout and %q in stdout\n%s%s", code, b.IngestURL+" is ready", stdout, stderr)
	}
	code, stdout, _ = e2etest.Tocsin(t, b.StateDir, "doctor", "--notify-slack=https://hooks.slack.com")
	if code != 1 || !strings.Contains(stdout, "FAIL notices          --notify-slack (TOCSIN_NOTIFY_SLACK) must be") {
		t.Errorf("exit %d, want 1 and \"FAIL notices          --notify-slack (TOCSIN_NOTIFY_SLACK) must be\" in stdout\n%s", code, stdout)
	}
	code, stdout, _ = e2etest.Tocsin(t, b.StateDir, "doctor", "--notify-level=warning", "--notify-webhook=https://example.com/x")
	if code != 0 || !strings.Contains(stdout, "ok   notices          sent to a webhook from level warn on\n") {
		t.Errorf("exit %d, want 0 and \"ok   notices          sent to a webhook from level warn on\\n\" in stdout\n%s", code, stdout)
	}
}

// TestCIAndTail posts from the command line and reads the alerts in the terminal.
func TestCIAndTail(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	post := func(args ...string) {
		t.Helper()
		if code, stdout, stderr := e2etest.Tocsin(t, b.StateDir, append([]string{"ci"}, args...)...); code != 0 || !strings.HasPrefix(stdout, "posted ") {
			t.Fatalf("exit %d: %s%s, want code 0 and stdout that begins with \"posted \"", code, stdout, stderr)
		}
	}
	post("--status=failure", "--name=build", "--ref=main", "--commit=abc", "--summary=1 failed", "--failure=test_login=Expected 200, got 401", "--duration=45s")
	post("--status=success", "--name=lint", "--commit=abc")
	tail := e2etest.Run(t, b.StateDir, "tail", "--json")
	errorsOnly := e2etest.Run(t, b.StateDir, "tail", "--severity=error", "--category=ci")
	waitFor := func(p *harness.Process, what string) {
		t.Helper()
		if !harness.Poll(t.Context(), 20*time.Second, func() bool { return strings.Contains(p.Stdout.String(), what) }) {
			t.Fatalf("timed out: output =\n%s%s\nwant %q in it", p.Stdout, p.Log, what)
		}
	}
	waitFor(tail, "lint")
	waitFor(errorsOnly, "test_login")
	post("--status=error", "--name=live \x1b[31m", "--commit=abc")
	waitFor(tail, "live")
	waitFor(errorsOnly, "live \u241b[31m")
	lines := strings.Split(strings.TrimSpace(tail.Stdout.String()), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines: %s, want 3 entries in lines", len(lines), tail.Stdout)
	}
	for _, line := range lines {
		var a alert.Alert
		if err := json.Unmarshal([]byte(line), &a); err != nil || a.Category != alert.CI {
			t.Errorf("%v: got %s, want Category %v", err, line, alert.CI)
		}
	}
	if out := errorsOnly.Stdout.String(); strings.Contains(out, "lint") {
		t.Errorf("tail of errors = %s, want no info alert", out)
	}
}

// TestCIWithoutIngest checks that a pipeline learns that its result was not posted.
func TestCIWithoutIngest(t *testing.T) {
	t.Parallel()
	code, _, stderr := e2etest.Tocsin(t, t.TempDir(), "ci", "--status=success", "--ingest-url=http://127.0.0.1:1")
	if code != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "tocsin up") {
		t.Fatalf("exit %d: %s, want 1, one line and \"tocsin up\" in it", code, stderr)
	}
}

// TestIdleExit checks that a bus that no one uses ends by itself, and not while it is
// used.
func TestIdleExit(t *testing.T) {
	t.Parallel()
	b, err := harness.Up(t.Context(), e2etest.Binary(t), t.TempDir(), "--idle-exit=5s")
	if err != nil {
		t.Fatal(err)
	}
	agent, err := harness.StartAgent(t.Context(), e2etest.Binary(t), b.StateDir, "idle")
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-b.Done():
		t.Fatalf("the bus ended while a gateway was connected\n%s", b.Log)
	case <-time.After(7 * time.Second): // longer than the idle time
	}
	if err := agent.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-b.Done():
		if b.ExitCode() != 0 {
			t.Fatalf("exit %d, want 0\n%s", b.ExitCode(), b.Log)
		}
	case <-time.After(20 * time.Second):
		t.Error("it does not end")
		if err := b.Kill(); err != nil {
			t.Error(err)
		}
	}
}

// TestAutostart checks that a gateway starts the bus in the background when none runs,
// and again after that was killed. When the gateway ends, the bus goes on.
func TestAutostart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	free := []string{"TOCSIN_NATS_ADDR=127.0.0.1:0", "TOCSIN_NATS_WS_ADDR=127.0.0.1:0", "TOCSIN_INGEST_ADDR=127.0.0.1:0"}
	agent, err := harness.StartAgentWith(t.Context(), e2etest.Binary(t), dir, "auto", free)
	if err != nil {
		t.Fatal(err)
	}
	background := func(not int) (r statedir.Runtime) {
		t.Helper()
		if !harness.Poll(t.Context(), 30*time.Second, func() bool {
			r, err = statedir.At(dir).Running()
			return err == nil && r.PID != not
		}) {
			log, _ := os.ReadFile(statedir.At(dir).Log()) // may be missing
			t.Fatalf("timed out: no bus runs: %v\n%s\n%s", err, agent.Log, log)
		}
		return r
	}
	r := background(0)
	sys := &e2etest.System{Bus: &harness.Bus{StateDir: dir, Runtime: r, Process: &harness.Process{Log: agent.Log}}, Agent: agent}
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "one"})
	sys.TakeAlerts(t, 1)
	if err := syscall.Kill(r.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r = background(r.PID)
	defer func() {
		if err := syscall.Kill(r.PID, syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if !harness.Poll(t.Context(), 20*time.Second, func() bool { _, err := statedir.At(dir).Running(); return err != nil }) {
			t.Error("the bus does not end")
		}
	}()
	sys.Bus.Runtime = r
	sys.WaitReady(t)
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "two"})
	if got := sys.TakeAlerts(t, 1); len(got) != 1 || got[0].Context["commit"] != "two" {
		t.Fatalf("got %+v, want 1 of them and Context[\"commit\"] \"two\"", got)
	}
	started := time.Now()
	if err := agent.Close(); err != nil || agent.ExitCode() != 0 {
		t.Fatalf("exit %d, %v, want 0", agent.ExitCode(), err)
	}
	if took := time.Since(started); took > time.Second {
		t.Errorf("the gateway took %s to end, want at most 1 s", took)
	}
	if _, err := statedir.At(dir).Running(); err != nil {
		t.Errorf("the bus after the gateway's end: %v, want it running", err)
	}
}

// TestPipedRequests checks that requests from a file are answered after its end, and
// that stdout has JSON-RPC only.
func TestPipedRequests(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	cmd := exec.CommandContext(t.Context(), e2etest.Binary(t), "gateway", "--autostart=false", "--log-level=debug")
	cmd.Env = harness.Env(b.StateDir)
	cmd.Stdin = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"pipe","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"observe","arguments":{}}}
`)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("got %s, want 2 entries in lines", out)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, `{"jsonrpc":"2.0","id":`) || !json.Valid([]byte(line)) {
			t.Errorf("got %s, want it to begin with \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":\" and valid JSON", line)
		}
	}
}
