package e2etest

import (
	"os/exec"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// commandTimeout bounds a command that is expected to end.
const commandTimeout = 30 * time.Second

// NeedCommands skips the test unless all programs are on the PATH.
func NeedCommands(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed", program)
		}
	}
}

// Tocsin runs a tocsin command to its end.
func Tocsin(t *testing.T, stateDir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return TocsinEnv(t, stateDir, nil, args...)
}

// TocsinEnv is Tocsin with more environment.
func TocsinEnv(t *testing.T, stateDir string, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p, err := harness.Start(Binary(t), stateDir, env, args...)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Done():
	case <-time.After(commandTimeout):
		t.Errorf("tocsin %v: still running after %s, want its end", args, commandTimeout)
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	}
	return p.ExitCode(), p.Stdout.String(), p.Log.String()
}

// Run starts a tocsin command that runs until the end of the test, which stops it
// with SIGTERM and expects it to succeed.
func Run(t *testing.T, stateDir string, args ...string) *harness.Process {
	t.Helper()
	p, err := harness.Start(Binary(t), stateDir, nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stop tocsin %v: %v\n%s", args, err, p.Log)
		}
		CheckLog(t, p.Log)
	})
	return p
}

// RunUntilKilled starts a tocsin command and kills it at the end of the test, if it
// still runs.
func RunUntilKilled(t *testing.T, stateDir string, args ...string) *harness.Process {
	t.Helper()
	p, err := harness.Start(Binary(t), stateDir, nil, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
		CheckLog(t, p.Log)
	})
	return p
}

// WaitConnected waits until a running process has a connection to the bus. On a system that
// does not show sockets it waits for a second.
func WaitConnected(t *testing.T, p *harness.Process) {
	t.Helper()
	ended := false
	harness.Poll(t.Context(), commandTimeout, func() bool {
		select {
		case <-p.Done():
			ended = true
			return true
		default:
		}
		has, err := p.HasSocket()
		if err != nil {
			<-time.After(time.Second)
		}
		return has || err != nil
	})
	if ended {
		t.Fatalf("the process ended with exit status %d, want it to connect to the bus\n%s", p.ExitCode(), p.Log)
	}
}
