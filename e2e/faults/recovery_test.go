package faults

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
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

// freshPorts has arguments of tocsin up that let tests run side by side.
var freshPorts = []string{"up", "--nats-addr=127.0.0.1:0", "--nats-ws-addr=127.0.0.1:0", "--ingest-addr=127.0.0.1:0", "--dashboard-addr=127.0.0.1:0"}

// TestDamagedStore checks that tocsin up reports soon what is damaged and what to do,
// and changes nothing.
func TestDamagedStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b, err := harness.Up(t.Context(), e2etest.Binary(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "jetstream", "jetstream", "$G", "streams", "ALERTS", "meta.inf")
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	code, stdout, stderr := e2etest.Tocsin(t, dir, append(freshPorts, "--log-level=error")...)
	if took := time.Since(started); code != 1 || took > 10*time.Second {
		t.Errorf("exit %d after %s, want 1 within 10 s", code, took)
	}
	if stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, file) || !strings.Contains(stderr, "move it away") {
		t.Errorf("got %s%s, want nothing, one line, %q in it and \"move it away\" in it", stdout, stderr, file)
	}
}

// TestSignalDuringTheStart checks that a signal ends the process cleanly at any moment.
func TestSignalDuringTheStart(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"Starting nats-server", "Server is ready", "role=provisioner", "ingest listens"} {
		t.Run(at, func(t *testing.T) {
			dir := t.TempDir()
			p := e2etest.RunUntilKilled(t, dir, append(freshPorts, "--log-level=debug")...)
			seen := func() bool { return strings.Contains(p.Log.String(), at) }
			if !harness.Poll(t.Context(), 30*time.Second, seen) {
				t.Fatalf("got a log without %q, want it in\n%s", at, p.Log)
			}
			if err := p.Stop(); err != nil {
				t.Errorf("exit %d: %v, want 0\n%s", p.ExitCode(), err, p.Log)
			}
			if _, err := os.Stat(filepath.Join(dir, "runtime.json")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("runtime.json stays: %v, want an error fs.ErrNotExist", err)
			}
		})
	}
}

// TestUpWaitsForAnExternalBus checks that the URLs are announced once they work.
func TestUpWaitsForAnExternalBus(t *testing.T) {
	t.Parallel()
	dir, port := t.TempDir(), e2etest.FreePort(t)
	nats := fmt.Sprintf("nats://127.0.0.1:%d", port)
	p := e2etest.RunUntilKilled(t, dir, "up", "--nats-url="+nats, "--ingest-addr=127.0.0.1:0")
	if !harness.Poll(t.Context(), 20*time.Second, func() bool { return strings.Contains(p.Log.String(), `msg="waiting for the bus" nats=`+nats) }) {
		t.Fatalf("got a log without \"waiting for the bus\", want it in\n%s", p.Log)
	}
	if r, err := statedir.At(dir).Running(); err != nil || r.NATSURL != nats || r.PID != p.PID() {
		t.Errorf("runtime.json: %+v, %v, want NATSURL %v and PID %v", r, err, nats, p.PID())
	}
	if out := p.Stdout.String(); out != "" {
		t.Errorf("too early: %s, want nothing", out)
	}
	server, err := harness.Start(e2etest.NATSServer(t), dir, nil, "-js", "-sd", filepath.Join(dir, "nats"), "-a", "127.0.0.1", "-p", fmt.Sprint(port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Kill(); err != nil {
			t.Error(err)
		}
	})
	if !harness.Poll(t.Context(), 20*time.Second, func() bool { return strings.HasPrefix(p.Stdout.String(), "tocsin is up") }) {
		t.Fatalf("got output %q, want \"tocsin is up\" after the bus started\n%s", p.Stdout, p.Log)
	}
	if err := p.Stop(); err != nil {
		t.Errorf("stop tocsin up: %v\n%s", err, p.Log)
	}
}

// TestSignalWhileWaiting checks that a process that waits for the bus ends at once.
func TestSignalWhileWaiting(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"up", "tail", "detector", "ingest", "dashboard"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			address, connected := "127.0.0.1:1", &atomic.Bool{}
			if command == "tail" { // it logs nothing while it waits: a server that is silent sees it
				l, err := net.Listen("tcp", "127.0.0.1:0")
				e2etest.NoError(t, err)
				t.Cleanup(func() { _ = l.Close() })
				go func() {
					if c, err := l.Accept(); err == nil {
						connected.Store(true)
						_, _ = io.Copy(io.Discard, c) // until the client ends
					}
				}()
				address = l.Addr().String()
			}
			args := []string{command, "--nats-url=nats://" + address, "--log-level=debug"}
			if command == "up" || command == "ingest" {
				args = append(args, "--ingest-addr=127.0.0.1:0")
			}
			p := e2etest.RunUntilKilled(t, t.TempDir(), args...)
			ended := func() bool {
				select {
				case <-p.Done():
					return true
				default:
					return false
				}
			}
			harness.Poll(t.Context(), 20*time.Second, func() bool { return ended() || connected.Load() || p.Log.String() != "" })
			if ended() {
				t.Fatalf("it ended with exit status %d, want it to wait\n%s", p.ExitCode(), p.Log)
			}
			if err := p.Stop(); err != nil {
				t.Errorf("after SIGTERM: got %v, want exit status 0\n%s", err, p.Log)
			}
		})
	}
}

func TestDoctorOnAnotherVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "VERSION"), []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ := e2etest.Tocsin(t, dir, "doctor")
	if code != 1 || !strings.Contains(stdout, "fix: use the version of tocsin that created it") || strings.Contains(stdout, "start it") || strings.Contains(stdout, "make this user its owner") {
		t.Errorf("exit %d, want 1, \"fix: use the version of tocsin that created it\" in stdout, no \"start it\" in stdout and no \"make this user its owner\" in stdout\n%s", code, stdout)
	}
}

func TestDoctorMakesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "none")
	code, stdout, _ := e2etest.Tocsin(t, dir, "doctor")
	if code != 1 || !strings.Contains(stdout, "fix: start it: tocsin up") {
		t.Errorf("exit %d, want 1 and \"fix: start it: tocsin up\" in stdout\n%s", code, stdout)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it made the state directory: %v, want an error fs.ErrNotExist", err)
	}
}

// TestRemovedKey checks that readers name the missing key and create none. A restart of
// tocsin up creates it.
func TestRemovedKey(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	file := statedir.At(b.StateDir).Credential("gateway")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := e2etest.Tocsin(t, b.StateDir, "tail")
	if code != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, file) || !strings.Contains(stderr, "restart tocsin up") {
		t.Errorf("tail: exit %d, want 1, one line, %q in stderr and \"restart tocsin up\" in stderr\n%s%s", code, file, stdout, stderr)
	}
	code, stdout, _ = e2etest.Tocsin(t, b.StateDir, "doctor")
	if code != 1 || !strings.Contains(stdout, file) || !strings.Contains(stdout, "fix: restart tocsin up") || strings.Contains(stdout, "nothing else listens on its port") {
		t.Errorf("doctor: exit %d, want 1, %q in stdout, \"fix: restart tocsin up\" in stdout and no \"nothing else listens on its port\" in stdout\n%s", code, file, stdout)
	}
	agent, err := harness.StartAgent(t.Context(), e2etest.Binary(t), b.StateDir, "late")
	if err != nil {
		t.Fatal(err)
	}
	if !harness.Poll(t.Context(), 20*time.Second, func() bool { return strings.Contains(agent.Log.String(), file) }) {
		t.Errorf("got a log of the gateway without the reason, want %q in\n%s", file, agent.Log)
	}
	if n := strings.Count(agent.Log.String(), file); n > 3 {
		t.Errorf("the reason is logged %d times, want at most 3", n)
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s exists: %v, want an error fs.ErrNotExist", file, err)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	again, err := harness.Up(t.Context(), e2etest.Binary(t), b.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	sys := &e2etest.System{Bus: again, Agent: agent}
	sys.WaitReady(t)
	sys.PostCI(t, map[string]any{"status": "failure", "commit": "one"})
	sys.TakeAlerts(t, 1)
	if err := errors.Join(agent.Close(), again.Stop()); err != nil {
		t.Error(err)
	}
}

// TestExposedKey checks that a key that others could read is reported and replaced.
func TestExposedKey(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	file := statedir.At(b.StateDir).Credential("gateway")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ := e2etest.Tocsin(t, b.StateDir, "doctor")
	if code != 1 || !strings.Contains(stdout, "other users can read "+file) {
		t.Errorf("exit %d, want 1 and %q in stdout\n%s", code, "other users can read "+file, stdout)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want Perm 0o600", info, err)
	}
}

// TestLostRuntimeJSON removes runtime.json while tocsin up runs: no command reports
// that nothing runs, or contradicts another, and tocsin up writes the file again.
func TestLostRuntimeJSON(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	file := filepath.Join(b.StateDir, "runtime.json")
	pid := fmt.Sprintf("pid %d", b.Runtime.PID)
	for name, harm := range map[string]func() error{
		"removed": func() error { return os.Remove(file) },
		"garbled": func() error { return os.WriteFile(file, []byte("garbage"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			// It is paused, so that the other commands see the directory before it is
			// repaired.
			if err := syscall.Kill(b.Runtime.PID, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			err := harm()
			for _, args := range [][]string{{"up"}, {"tail"}, {"doctor"}} {
				code, stdout, stderr := e2etest.Tocsin(t, b.StateDir, args...)
				output := stdout + stderr
				if code != 1 || !strings.Contains(output, pid) || strings.Contains(output, "no bus is running") || strings.Contains(output, "start it") {
					t.Errorf("%v: exit %d, want 1 with %s, and no advice to start another:\n%s", args, code, pid, output)
				}
			}
			if err := errors.Join(err, syscall.Kill(b.Runtime.PID, syscall.SIGCONT)); err != nil {
				t.Fatal(err)
			}
			var got statedir.Runtime
			if !harness.Poll(t.Context(), 20*time.Second, func() bool {
				got, err = statedir.At(b.StateDir).Running()
				return err == nil && got == b.Runtime
			}) {
				t.Fatalf("running: got %+v, %v, want %+v", got, err, b.Runtime)
			}
			if _, stdout, _ := e2etest.Tocsin(t, b.StateDir, "doctor"); !strings.Contains(stdout, "ok   tocsin up") || !strings.Contains(stdout, "ok   bus") {
				t.Errorf("doctor, after runtime.json was written again: got\n%s\nwant \"ok   tocsin up\" and \"ok   bus\" in it", stdout)
			}
			sys := &e2etest.System{Bus: b, Agent: e2etest.Join(t, b, "after "+name)}
			sys.PostCI(t, map[string]any{"status": "failure", "commit": name})
			sys.TakeAlerts(t, 1)
		})
	}
}
