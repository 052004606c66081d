// Package harness runs the real binary for tests, benchmarks and the demo: a
// bus on free ports and a state directory of its own, posts over real HTTP,
// and an agent that is go-sdk's client over a real gateway process.
//
// It asserts nothing: it returns what happened.
package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// Build builds the binary into dir. With race it has the race detector in it.
func Build(ctx context.Context, dir string, race bool) (string, error) {
	bin := filepath.Join(dir, "tocsin")
	args := []string{"build", "-o", bin}
	if race {
		args = append(args, "-race")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "github.com/tocsin-bus/tocsin/services/tocsin")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build tocsin: %w\n%s", err, out)
	}
	return bin, nil
}

// Env is the environment of a process on a state directory: this process's
// own, without the settings of Tocsin that it may hold.
func Env(stateDir string, more ...string) []string {
	env := make([]string, 0, len(os.Environ())+5+len(more))
	for _, kv := range os.Environ() {
		if len(kv) < 7 || kv[:7] != "TOCSIN_" {
			env = append(env, kv)
		}
	}
	// A binary with the race detector would sleep for a second before it ends.
	// The usual ports of OTLP and of the dashboard are one for all: tests that run
	// side by side would take them from each other.
	return append(append(env, "TOCSIN_STATE_DIR="+stateDir, "XDG_CONFIG_HOME="+filepath.Join(stateDir, "config"), "TOCSIN_OTLP_ADDR=127.0.0.1:0", "TOCSIN_DASHBOARD_ADDR=127.0.0.1:0", "GORACE=atexit_sleep_ms=0"), more...)
}

// Log keeps what a process writes to stderr, for whoever looks into a failure.
// Past 1 MiB it keeps only the beginning.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const maxKept = 1 << 20

// Write keeps p.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := maxKept - l.buf.Len(); room > 0 {
		l.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// String is what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Poll asks ok every 5 ms until it says yes or the deadline has passed.
func Poll(ctx context.Context, within time.Duration, ok func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return ok()
		case <-tick.C:
		}
	}
	return true
}
