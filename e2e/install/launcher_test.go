package install

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// installed returns the path of the launcher in a directory as make build and the
// release archives fill it.
func installed(t *testing.T, withServices bool) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	e2etest.NoError(t, err)
	launcher := filepath.Join(dir, "tocsin")
	copyProgram(t, e2etest.Build(t, harness.Launcher), launcher)
	if withServices {
		copyProgram(t, e2etest.Binary(t), filepath.Join(dir, "tocsin-services"))
	}
	return launcher
}

func copyProgram(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	e2etest.NoError(t, err)
	defer func() { _ = in.Close() }() // it was only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	e2etest.NoError(t, err)
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	e2etest.NoError(t, out.Close())
}

// TestLauncher runs a bus, an agent and its hook by the launcher of a release archive.
func TestLauncher(t *testing.T) {
	t.Parallel()
	launcher, d := installed(t, true), newAccount(t)
	bus, err := harness.Up(t.Context(), launcher, d.state)
	e2etest.NoError(t, err)
	t.Cleanup(func() {
		if err := bus.Stop(); err != nil {
			t.Errorf("stop tocsin up: %v\n%s", err, bus.Log)
		}
	})
	_, launcherVersion, _ := d.run(t, launcher, "version")
	_, servicesVersion, _ := d.run(t, filepath.Join(filepath.Dir(launcher), "tocsin-services"), "version")
	if diff := cmp.Diff(servicesVersion, launcherVersion); diff != "" {
		t.Errorf("tocsin version differs between tocsin-services and the launcher (-want +got):\n%s", diff)
	}
	if code, stdout, stderr := d.run(t, launcher, "ci", "--status", "failure", "--name", "unit", "--ingest-url", bus.IngestURL); code != 0 || !strings.Contains(stdout, "failure of unit") {
		t.Errorf("tocsin ci = %d, %q, %q, want 0 and what was posted", code, stdout, stderr)
	}
	if code, stdout, stderr := d.run(t, launcher, "wait", "--timeout", "20s"); code != 0 || !strings.Contains(stdout, "unit") {
		t.Errorf("tocsin wait = %d, %q, %q, want 0 and the alert", code, stdout, stderr)
	}
	if code, stdout, stderr := d.run(t, launcher, "hook", "--client", "claude-code", "--no-such-flag"); code != 2 || stdout != "" {
		t.Errorf("tocsin hook with an unknown flag = %d, %q, %q, want 2", code, stdout, stderr)
	}

	// The files of clients name the launcher, not the program that it started.
	if code, stdout, stderr := d.run(t, launcher, "install", "claude-code"); code != 0 {
		t.Fatalf("tocsin install = %d, %q, %q, want 0", code, stdout, stderr)
	}
	for name, text := range d.files(t) {
		if strings.Contains(text, "tocsin-services") {
			t.Errorf("%s names tocsin-services, want no \"tocsin-services\" in text\n%s", name, text)
		}
	}
	if got := d.files(t)["my project/.mcp.json"]; !strings.Contains(got, launcher) {
		t.Errorf(".mcp.json = %s, want %s in it", got, launcher)
	}
}

// TestLauncherAlone expects a launcher without tocsin-services to name what is missing.
func TestLauncherAlone(t *testing.T) {
	t.Parallel()
	launcher, d := installed(t, false), newAccount(t)
	if code, stdout, _ := d.run(t, launcher, "version"); code != 0 || !strings.HasPrefix(stdout, "tocsin ") {
		t.Errorf("tocsin version = %d, %q, want 0 and the version", code, stdout)
	}
	code, stdout, stderr := d.run(t, launcher, "up")
	if code != 1 || stdout != "" || !strings.Contains(stderr, filepath.Join(filepath.Dir(launcher), "tocsin-services")+" is missing") {
		t.Errorf("tocsin up = %d, %q, %q, want 1 and which program is missing", code, stdout, stderr)
	}
}
