package install

import (
	"archive/zip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// TestGoInstall installs tocsin as `go install .../services/tocsin@VERSION` does, from a
// module proxy in a directory that serves the files of this checkout.
func TestGoInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds tocsin from the module cache")
	}
	t.Parallel()
	const module, version = "github.com/tocsin-bus/tocsin", "v0.0.0-20261122120000-0123456789ab"
	root, err := harness.Root()
	e2etest.NoError(t, err)
	proxy := filepath.Join(t.TempDir(), "proxy")
	versions := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	e2etest.NoError(t, os.MkdirAll(versions, 0o755))
	goMod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	e2etest.NoError(t, err)
	for name, text := range map[string]string{
		"list": version + "\n", version + ".mod": string(goMod),
		version + ".info": `{"Version":"` + version + `","Time":"2026-11-22T12:00:00Z"}`,
	} {
		e2etest.NoError(t, os.WriteFile(filepath.Join(versions, name), []byte(text), 0o644))
	}
	writeModule(t, root, filepath.Join(versions, version+".zip"), module+"@"+version+"/")

	// The workspace may select newer versions of some modules than the product's go.mod does.
	// A machine that has built only in the workspace lacks the older ones in its module cache.
	download := exec.CommandContext(t.Context(), "go", "list", "-deps", "./services/tocsin")
	download.Dir = root
	download.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := download.CombinedOutput(); err != nil {
		t.Fatalf("download the modules that tocsin needs: %v\n%s", err, out)
	}
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	e2etest.NoError(t, err)
	bin, modules := t.TempDir(), t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "install", module+"/services/tocsin@"+version)
	cmd.Dir = bin
	// Without cgo, as in the images, whose builds fill the same cache.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOBIN="+bin, "GOWORK=off", "GOFLAGS=-modcacherw -trimpath", "GOSUMDB=off", "GOMODCACHE="+modules,
		"GOPROXY=file://"+proxy+",file://"+filepath.Join(strings.TrimSpace(string(cache)), "cache", "download"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go install: %v\n%s", err, out)
	}
	d := newAccount(t)
	code, stdout, stderr := d.run(t, filepath.Join(bin, "tocsin"), "version")
	if want := "tocsin " + version + " commit 0123456789ab "; code != 0 || !strings.HasPrefix(stdout, want) {
		t.Errorf("tocsin version = %d, %q, %q, want 0, %q", code, stdout, stderr, want)
	}
	bus, err := harness.Up(t.Context(), filepath.Join(bin, "tocsin"), d.state)
	e2etest.NoError(t, err)
	for path, want := range map[string]string{bus.DashboardURL + "/": "make build", bus.IngestURL + "/tocsin.js": "make build"} {
		if a := e2etest.Get(t, path); !strings.Contains(a.Body, want) {
			t.Errorf("%s = %d, %s, want how to get what the build lacks", path, a.Status, a.Body)
		}
	}
	if err := bus.Stop(); err != nil {
		t.Errorf("stop tocsin up: %v\n%s", err, bus.Log)
	}
}

// writeModule writes the files of the checkout that git has or would add, but those of
// other modules, as the zip file of a module.
func writeModule(t *testing.T, root, to, prefix string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ":!e2e")
	list.Dir = root
	names, err := list.Output()
	e2etest.NoError(t, err)
	out, err := os.Create(to)
	e2etest.NoError(t, err)
	archive := zip.NewWriter(out)
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		in, err := os.Open(filepath.Join(root, name))
		if os.IsNotExist(err) {
			continue // removed, and not yet committed
		}
		e2etest.NoError(t, err)
		file, err := archive.Create(prefix + name)
		e2etest.NoError(t, err)
		if _, err := io.Copy(file, in); err != nil {
			t.Fatal(err)
		}
		e2etest.NoError(t, in.Close())
	}
	e2etest.NoError(t, archive.Close())
	e2etest.NoError(t, out.Close())
}
