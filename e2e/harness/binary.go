// Package harness runs the real binary for tests, benchmarks and the demo: a
// bus on free ports and a state directory of its own, posts over real HTTP,
// and an agent that is go-sdk's client over a real gateway process.
//
// It asserts nothing: it returns what happened. Package e2etest has the helpers
// that end a test.
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

	"github.com/gofrs/flock"
)

// Program is a Go program of this repository or of a module that it requires.
type Program struct {
	// Name is the file's name, Package what is built.
	Name, Package string
	// Dir is the folder of the module, from the root of the checkout.
	Dir string
	// Race builds it with the race detector.
	Race bool
	// Env is more environment of the build.
	Env []string
}

// Tocsin is the program under test.
var Tocsin = Program{Name: "tocsin", Package: "github.com/tocsin-bus/tocsin/services/tocsin", Race: true}

// Launcher is the small program that release archives and make build name tocsin.
var Launcher = Program{Name: "tocsin-launcher", Package: "github.com/tocsin-bus/tocsin/services/tocsin/launcher", Race: true}

// Build builds a program into bin/test of the checkout, or bin/race with the race
// detector, and returns its path. The go command leaves a binary that is up to
// date as it is, so that all packages of a test run share one build.
func Build(ctx context.Context, p Program) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir, args := filepath.Join(root, "bin", "test"), []string{"build"}
	if p.Race {
		dir, args = filepath.Join(root, "bin", "race"), []string{"build", "-race"}
	}
	bin := filepath.Join(dir, p.Name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("build %s: %w", p.Name, err)
	}
	lock := flock.New(bin + ".lock")
	if err := lock.Lock(); err != nil {
		return "", fmt.Errorf("build %s: %w", p.Name, err)
	}
	defer func() { _ = lock.Close() }() // nothing was written to it
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", bin, p.Package)...)
	cmd.Dir = filepath.Join(root, p.Dir)
	cmd.Env = append(cmd.Environ(), p.Env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", p.Name, err, out)
	}
	return bin, nil
}

// Root returns the root of the checkout: the nearest folder above the working
// directory that has a go.work.
func Root() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("there is no go.work above %s", wd)
		}
	}
}

// Env returns the environment of a process on a state directory: this process's
// own without its Tocsin settings, free ports, and more.
func Env(stateDir string, more ...string) []string {
	env := make([]string, 0, len(os.Environ())+5+len(more))
	for _, kv := range os.Environ() {
		if len(kv) < 7 || kv[:7] != "TOCSIN_" {
			env = append(env, kv)
		}
	}
	// The default ports of OTLP and of the dashboard are the same for all: tests that
	// run side by side would take them from each other. A binary with the race
	// detector sleeps for a second before it ends, unless it is asked not to.
	return append(append(env, "TOCSIN_STATE_DIR="+stateDir, "XDG_CONFIG_HOME="+filepath.Join(stateDir, "config"), "TOCSIN_OTLP_ADDR=127.0.0.1:0", "TOCSIN_DASHBOARD_ADDR=127.0.0.1:0", "GORACE=atexit_sleep_ms=0"), more...)
}

// Log keeps what a process writes to stderr, for the message of a failed test. It
// keeps the first 1 MiB.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const maxLog = 1 << 20

// Write keeps p, as far as there is room.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := maxLog - l.buf.Len(); room > 0 {
		l.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// String returns what was written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Poll calls ok every 5 ms until it returns true or the time is up, and reports
// whether it did.
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
