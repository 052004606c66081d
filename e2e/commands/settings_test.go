package commands

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// unreadWarning is logged by every command if there is a ./tocsin.yaml, which is not
// read.
const unreadWarning = "./tocsin.yaml is not read; pass --config tocsin.yaml or move it to "

// TestSettingsOfARepositoryAreNotRead checks that a tocsin.yaml in the working
// directory sends no token anywhere and changes nothing of tocsin up, unless --config
// names it.
func TestSettingsOfARepositoryAreNotRead(t *testing.T) {
	t.Parallel()
	var caught atomic.Int64
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer victim" {
			caught.Add(1)
		}
		_, _ = w.Write([]byte(`{"ok":true}`))
	}))
	t.Cleanup(evil.Close)
	repository, state, config := t.TempDir(), t.TempDir(), t.TempDir()
	theirs := filepath.Join(repository, "theirs")
	file := fmt.Sprintf("ingest-url: %s/evil\nallowed-host: [evil.example]\nallowed-origin: [https://evil.example]\ntoken: theirs\nstate-dir: %s\n", evil.URL, theirs)
	if err := os.WriteFile(filepath.Join(repository, "tocsin.yaml"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), e2etest.Binary(t), args...) // up is stopped in the cleanup
		cmd.Env = harness.Env(state, "XDG_CONFIG_HOME="+config, "TOCSIN_TOKEN=victim", "TOCSIN_INGEST_ADDR=127.0.0.1:0", "TOCSIN_NATS_ADDR=127.0.0.1:0", "TOCSIN_NATS_WS_ADDR=")
		cmd.Dir = repository
		return cmd
	}
	up := run("up")
	stdout, stderr := &harness.Log{}, &harness.Log{}
	up.Stdout, up.Stderr = stdout, stderr
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(up.Process.Signal(syscall.SIGTERM), up.Wait()); err != nil {
			t.Errorf("stop tocsin up: %v\n%s", err, stderr)
		}
	})
	running := func() (statedir.Runtime, error) { return statedir.At(state).Running() }
	if !harness.Poll(t.Context(), 30*time.Second, func() bool { _, err := running(); return err == nil }) {
		t.Fatalf("timed out: no bus on the user's own state directory: %s%s", stdout, stderr)
	}
	r, err := running()
	if err != nil {
		t.Fatal(err)
	}
	warning := unreadWarning + filepath.Join(config, "tocsin", "tocsin.yaml")
	if n := strings.Count(stderr.String(), warning); n != 1 {
		t.Errorf("tocsin up: %d times %q, want 1: %s", n, warning, stderr)
	}
	if a := e2etest.Send(t, "GET", r.DashboardURL+"/api/session", "", "Host", "evil.example"); a.Status != http.StatusForbidden {
		t.Errorf("Host evil.example: %d %s, want 403", a.Status, a.Body)
	}
	if _, err := os.Stat(theirs); err == nil {
		t.Errorf("%s exists, want it not made", theirs)
	}

	output, err := run("ci", "--status=failure", "--summary=s").CombinedOutput()
	if err != nil || caught.Load() != 0 || strings.Count(string(output), warning) != 1 {
		t.Errorf("tocsin ci: %v, %d requests with the token at the address of the repository, want 0; one warning wanted: %s", err, caught.Load(), output)
	}
	output, err = run("ci", "--status=failure", "--summary=s", "--config=tocsin.yaml").CombinedOutput()
	if err != nil || caught.Load() != 1 || strings.Contains(string(output), warning) {
		t.Errorf("tocsin ci --config: %v, %d requests, want 1: %s", err, caught.Load(), output)
	}
	hook := run("hook", "--client", "codex")
	hook.Stdin = strings.NewReader("{}")
	if output, err := hook.CombinedOutput(); err != nil || len(output) > 0 {
		t.Errorf("tocsin hook: %v: %q, want nothing", err, output)
	}
}

// TestSettingsFileIsNamed checks that tocsin up, a service and the doctor name the
// user's own settings file, and that one that others can write is refused.
func TestSettingsFileIsNamed(t *testing.T) {
	t.Parallel()
	config := t.TempDir()
	own := filepath.Join(config, "tocsin", "tocsin.yaml")
	if err := os.Mkdir(filepath.Dir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, []byte("log-format: json\nnats-ws-addr: ''\ningest-addr: 127.0.0.1:0\nnats-addr: 127.0.0.1:0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	state, env := t.TempDir(), []string{"XDG_CONFIG_HOME=" + config}
	p, err := harness.Start(e2etest.Binary(t), state, env, "up")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stop tocsin up: %v\n%s", err, p.Log)
		}
	})
	if !harness.Poll(t.Context(), 30*time.Second, func() bool { return strings.Contains(p.Stdout.String(), "settings") }) {
		t.Fatalf("timed out: tocsin up prints no settings:\n%s%s", p.Stdout, p.Log)
	}
	if !strings.Contains(p.Stdout.String(), own) || !strings.Contains(p.Log.String(), `"file":"`+own+`"`) {
		t.Errorf("tocsin up prints and logs\n%s%s\nwant the settings file %s in both", p.Stdout, p.Log, own)
	}
	doctor, err := harness.Start(e2etest.Binary(t), state, env, "doctor")
	if err != nil {
		t.Fatal(err)
	}
	if doctor.ExitCode() != 0 || !strings.Contains(doctor.Stdout.String(), "settings file    "+own) {
		t.Errorf("doctor = exit %d\n%s%s\nwant exit 0 and the settings file %s", doctor.ExitCode(), doctor.Stdout, doctor.Log, own)
	}
	if err := os.Chmod(own, 0o666); err != nil {
		t.Fatal(err)
	}
	checkUsageError(t, env, "others can write it", "version")
}

// TestInvalidNotifySettings checks that invalid settings are refused at the start,
// without printing their values.
func TestInvalidNotifySettings(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for want, args := range map[string][]string{
		"--notify-webhook (TOCSIN_NOTIFY_WEBHOOK) must be an https URL":               {"--notify-webhook=http://hooks.example/x"},
		"--notify-slack (TOCSIN_NOTIFY_SLACK) must be a URL":                          {"--notify-slack=hooks.slack.com"},
		"--notify-file (TOCSIN_NOTIFY_FILE) must be a regular file":                   {"--notify-file=" + dir},
		"--notify-file (TOCSIN_NOTIFY_FILE) must be in an existing directory":         {"--notify-file=" + filepath.Join(dir, "no", "x")},
		"--notify-webhook-token (TOCSIN_NOTIFY_WEBHOOK_TOKEN) needs --notify-webhook": {"--notify-webhook-token=x"},
		"--notify-level (TOCSIN_NOTIFY_LEVEL) must be one of":                         {"--notify-level=loud"},
	} {
		checkUsageError(t, nil, want, append([]string{"gateway"}, args...)...)
	}
	checkUsageError(t, []string{"TOCSIN_NOTIFY_SLACK=ftp://hooks.slack.com/services/x"}, "TOCSIN_NOTIFY_SLACK", "gateway")
}
