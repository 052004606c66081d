//go:build linux

package e2e

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// TestFullDisk fills the disk under the bus: writes are refused with the
// reason, nothing that was accepted is lost, and once there is room again the
// bus mends itself.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("a small disk can't be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	b, err := harness.Up(t.Context(), binary, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("%v\n%s", err, b.Log)
		}
		noRace(t, b.Log)
	})
	w := &world{bus: b}
	filler := map[string]any{"kind": "log", "log": map[string]any{"level": "info", "message": strings.Repeat("x", 10_000)}}
	batch := make([]map[string]any, 50)
	for i := range batch {
		batch[i] = filler
	}
	accepted, maybe := map[string]bool{}, map[string]bool{}
	full := harness.Answer{}
	for i := range 100 {
		path, body := crashPost(i)
		if a := w.post(t, path, body); a.Status == 200 {
			accepted[subject(i)] = true
		} else {
			maybe[subject(i)] = true
		}
		if a := w.post(t, "/v1/events", batch); a.Status != 200 {
			full = a
		}
		if strings.Contains(full.Body, "no space left on device") {
			break
		}
	}
	if full.Status != 503 || !strings.Contains(full.Body, "no space left on device") || full.Header.Get("Retry-After") == "" {
		t.Fatalf("%d %s", full.Status, full.Body)
	}
	if a := get(t, b.IngestURL+"/readyz"); a.Status != 503 || !strings.Contains(a.Body, "no space left on device") {
		t.Errorf("readyz: %d %s", a.Status, a.Body)
	}
	if code, stdout, _ := tocsin(t, dir, "doctor"); code != 1 || !strings.Contains(stdout, "free some space") {
		t.Errorf("doctor: exit %d\n%s", code, stdout)
	}

	before := b.IngestURL
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=256m"); err != nil {
		t.Fatal(err)
	}
	if !harness.Poll(t.Context(), 30*time.Second, func() bool {
		r, err := statedir.At(dir).Running()
		if err == nil {
			b.Runtime = r
		}
		return err == nil && r.IngestURL != before
	}) {
		t.Fatalf("the bus does not mend itself\n%s", b.Log)
	}
	w.ready(t)
	w.ci(t, map[string]any{"status": "failure", "commit": "mended"})
	accepted["mended"] = true
	toldOnce(t, join(t, b, "after"), accepted, maybe)
}

// TestStateDirectoryOfAnotherVersion: it is left alone, and said so.
func TestStateDirectoryOfAnotherVersion(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/VERSION", []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := tocsin(t, dir, "up")
	if code != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, "version") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

// TestStateDirectoryThatCantBeWritten: a clear line, whoever runs this.
func TestStateDirectoryThatCantBeWritten(t *testing.T) {
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"up"}, {"doctor"}} {
		code, _, stderr := tocsin(t, t.TempDir(), append(args, "--state-dir="+file+"/below")...)
		if code != 1 || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v: exit %d: %s", args, code, stderr)
		}
	}
}
