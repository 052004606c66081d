package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// natsCommand builds the nats command, which is a module of its own.
func natsCommand(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "nats")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/nats-io/natscli/nats")
	build.Dir = "natscli"
	build.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("the nats command can't be built: %v\n%s", err, out)
	}
	return bin
}

// reads runs a reader of live alerts and posts until it has shown one: nobody
// tells from outside when it listens.
func reads(t *testing.T, w *world, cmd *exec.Cmd) {
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
		w.ci(t, map[string]any{"status": "failure", "commit": time.Now().String(), "name": "the readers' job"})
		return harness.Poll(t.Context(), 500*time.Millisecond, func() bool { return shown() || over() })
	})
	if !shown() {
		t.Fatalf("it shows nothing: %s", out.String())
	}
}

// here puts the addresses and the directory of a test into what the README has.
func here(w *world, text string) string {
	return strings.NewReplacer(
		"127.0.0.1:7422", strings.TrimPrefix(w.bus.NATSURL, "nats://"),
		"~/.local/state/tocsin", w.bus.StateDir,
	).Replace(text)
}

// TestReadmeGoReader runs the README's program that reads live alerts.
func TestReadmeGoReader(t *testing.T) {
	w := start(t)
	file := filepath.Join(t.TempDir(), "main.go")
	source := here(w, readmeBlock(t, "go", "package main", w.bus.IngestURL))
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(t.TempDir(), "reader")
	// With the modules of these tests, among which is its client.
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	reads(t, w, exec.CommandContext(t.Context(), bin, filepath.Join(w.bus.StateDir, "credentials", "dashboard.nk")))
}

// TestReadmeNATSCommand runs the README's line for the nats command.
func TestReadmeNATSCommand(t *testing.T) {
	needs(t, "sh")
	bin := natsCommand(t)
	w := start(t)
	line := here(w, readmeBlock(t, "sh", "nats --server", w.bus.IngestURL))
	if !strings.Contains(line, w.bus.StateDir) {
		t.Fatalf("the README's line names no credential: %s", line)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec "+line)
	// Its own settings stay out of the way of whoever runs this.
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(bin)+":"+os.Getenv("PATH"), "XDG_CONFIG_HOME="+t.TempDir())
	reads(t, w, cmd)
}
