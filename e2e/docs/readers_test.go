package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// reads runs a reader of live alerts and posts until it prints one: whether it is connected
// cannot be seen from outside.
func reads(t *testing.T, sys *e2etest.System, cmd *exec.Cmd) {
	t.Helper()
	var out harness.Log
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it is killed in the end
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-ended
	})
	over := func() bool {
		select {
		case <-ended:
			return true
		default:
			return false
		}
	}
	shown := func() bool { return strings.Contains(out.String(), "CI failure: the readers' job") }
	harness.Poll(t.Context(), time.Minute, func() bool {
		sys.PostCI(t, map[string]any{"status": "failure", "commit": time.Now().String(), "name": "the readers' job"})
		return harness.Poll(t.Context(), 500*time.Millisecond, func() bool { return shown() || over() })
	})
	if !shown() {
		t.Fatalf("got output %q, want the CI failure in it", out.String())
	}
}

// TestGoReader runs the Go program of docs/build-a-dashboard.md that reads live alerts.
func TestGoReader(t *testing.T) {
	t.Parallel()
	sys := e2etest.Start(t)
	file := filepath.Join(t.TempDir(), "main.go")
	source := e2etest.OnBus(sys.Bus, e2etest.Block(t, "docs/build-a-dashboard.md", "go", "package main"))
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "reader")
	// The modules of these tests have its client.
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, file).CombinedOutput(); err != nil {
		t.Fatalf("build the program of the page: %v\n%s", err, out)
	}
	reads(t, sys, exec.CommandContext(t.Context(), bin, filepath.Join(sys.Bus.StateDir, "credentials", "dashboard.nk")))
}

// TestNATSCommand runs the nats command of docs/build-a-dashboard.md.
func TestNATSCommand(t *testing.T) {
	t.Parallel()
	e2etest.NeedCommands(t, "sh")
	bin := e2etest.NATSCommand(t)
	sys := e2etest.Start(t)
	line := e2etest.OnBus(sys.Bus, e2etest.Block(t, "docs/build-a-dashboard.md", "sh", "nats --server"))
	if !strings.Contains(line, sys.Bus.StateDir) {
		t.Fatalf("the nats command is %q, want the state directory of the credential in it", line)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec "+line)
	// It must not read the settings of the person who runs the test.
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"), "XDG_CONFIG_HOME="+t.TempDir())
	reads(t, sys, cmd)
}
