// Package harness runs the real binary for tests, benchmarks and the demo: a bus on free
// ports with a state directory of its own, posts over HTTP, and an agent, which is
// go-sdk's client connected to a real gateway process.
//
// It fails no test: it returns results and errors. Package e2etest has the helpers that end
// a test.
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
	// Name is the name of the binary, Package the import path of its source.
	Name, Package string
	// Dir is the folder of the module, relative to the root of the checkout.
	Dir string
	// Race enables the race detector.
	Race bool
	// Env is additional environment of the build.
	Env []string
}

// Tocsin is the program under test.
var Tocsin = Program{Name: "tocsin", Package: "github.com/tocsin-bus/tocsin/services/tocsin", Race: true}

// Launcher is the small program that release archives and make build name tocsin.
var Launcher = Program{Name: "tocsin-launcher", Package: "github.com/tocsin-bus/tocsin/services/tocsin/launcher", Race: true}

// Build builds a program into bin/test of the checkout, or bin/race with the race detector,
// and returns its path. The go command keeps a binary that is up to date, so all packages
// of a test run share one build.
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
			return "", fmt.Errorf("find the root of the checkout: no go.work above %s", wd)
		}
	}
}

// Env returns the environment of a process on a state directory: that of this process
// without Tocsin's settings, with free ports and with additional variables.
func Env(stateDir string, more ...string) []string {
	env := make([]string, 0, len(os.Environ())+5+len(more))
	for _, kv := range os.Environ() {
		if len(kv) < 7 || kv[:7] != "TOCSIN_" {
			env = append(env, kv)
		}
	}
	// Tests run side by side, so none may use the default ports of OTLP and the dashboard.
	// GORACE: a binary with the race detector otherwise sleeps for a second before it ends.
	return append(append(env, "TOCSIN_STATE_DIR="+stateDir, "XDG_CONFIG_HOME="+filepath.Join(stateDir, "config"), "TOCSIN_OTLP_ADDR=127.0.0.1:0", "TOCSIN_DASHBOARD_ADDR=127.0.0.1:0", "GORACE=atexit_sleep_ms=0"), more...)
}

// Log keeps the first 1 MiB of what a process writes, for the messages of failed tests.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const maxLog = 1 << 20

// Write keeps p as long as there is room.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if room := maxLog - l.buf.Len(); room > 0 {
		l.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// String returns the text so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// Poll calls ok every 5 ms until it returns true or the time is up, and reports whether it
// returned true.
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
