package deploy

import (
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/containers"
)

// healthyWithin bounds how long a container may take to be healthy. Its check runs
// every 10 s.
const healthyWithin = 60 * time.Second

// buildImages builds the images once for all tests.
var buildImages = sync.OnceValues(func() (containers.Images, error) { return containers.Build(context.Background()) })

// images returns the images of this checkout. It skips the test without Docker.
func images(t *testing.T) containers.Images {
	t.Helper()
	testcontainers.SkipIfProviderIsNotHealthy(t)
	built, err := buildImages()
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// containerNet returns a network that is removed after the test.
func containerNet(t *testing.T) *containers.Net {
	t.Helper()
	n, err := containers.NewNet(t.Context())
	if errors.Is(err, containers.ErrNoReaper) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return n
}

// runIn starts a container.
func runIn(t *testing.T, n *containers.Net, s containers.Spec) *containers.Container {
	t.Helper()
	c, err := n.Run(t.Context(), s)
	if errors.Is(err, containers.ErrNoReaper) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func healthy(t *testing.T, c *containers.Container) {
	t.Helper()
	if err := c.AwaitHealth(t.Context(), "healthy", healthyWithin); err != nil {
		t.Fatal(err)
	}
}

// endsWell stops a container and expects exit code 0.
func endsWell(t *testing.T, c *containers.Container) {
	t.Helper()
	code, err := c.Stop(t.Context())
	if err != nil || code != 0 {
		t.Errorf("exit code of %s = %d, error %v; want 0\n%s", c.Name, code, err, c.Logs(t.Context()))
	}
}

// TestImagesAreMinimal checks that the images are FROM scratch, run as a user without a
// name, have a health check and labels with their origin.
func TestImagesAreMinimal(t *testing.T) {
	built := images(t)
	docker, err := testcontainers.NewDockerClientWithOpts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = docker.Close() }()
	for name, image := range map[string]string{
		"tocsin-ingest": built.Ingest, "tocsin-detector": built.Detector, "tocsin-gateway": built.Gateway,
		"tocsin-dashboard": built.Dashboard, "tocsin-kubewatch": built.Kubewatch, "tocsin-investigator": built.Investigator, "tocsin": built.Tocsin,
	} {
		got, err := docker.ImageInspect(t.Context(), image)
		if err != nil {
			t.Fatal(err)
		}
		entrypoint, healthcheck := "/usr/bin/tocsin", "CMD /usr/bin/tocsin healthcheck"
		if service, ok := strings.CutPrefix(name, "tocsin-"); ok {
			entrypoint += " " + service
			healthcheck += " " + service
		}
		c := got.Config
		switch {
		case c.User != "65532:65532":
			t.Errorf("%s: user = %q, want 65532:65532", name, c.User)
		case c.Healthcheck == nil || strings.Join(c.Healthcheck.Test, " ") != healthcheck:
			t.Errorf("%s: health check = %+v, want %q", name, c.Healthcheck, healthcheck)
		case strings.Join(c.Entrypoint, " ") != entrypoint:
			t.Errorf("%s: entry point = %v, want %q", name, c.Entrypoint, entrypoint)
		case len(got.RootFS.Layers) != 3: // license, state, program
			t.Errorf("%s: %d layers, want 3", name, len(got.RootFS.Layers))
		}
		for _, label := range []string{"title", "description", "source", "licenses", "version", "revision", "created"} {
			if c.Labels["org.opencontainers.image."+label] == "" {
				t.Errorf("%s has no label %s, want one", name, label)
			}
		}
		if name == "tocsin" && len(c.Volumes) != 1 {
			t.Errorf("volumes = %v, want one", c.Volumes)
		}
	}
}

// TestImageOfTheWhole checks that tocsin up in a container keeps what it accepted in
// its volume, with a read-only root file system.
func TestImageOfTheWhole(t *testing.T) {
	built, n := images(t), containerNet(t)
	c := runIn(t, n, containers.Spec{
		Name: "tocsin", Image: built.Tocsin, Env: map[string]string{"TOCSIN_TOKEN": "secret"},
		Ports: []int{7400, 7480}, Volumes: []string{"/var/lib/tocsin"},
	})
	healthy(t, c)
	post := func(commit string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.URL(7400)+"/ci-result", strings.NewReader(`{"status":"failure","commit":"`+commit+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer secret")
		req.Header.Set("Content-Type", "application/json")
		if a, err := harness.Do(req); err != nil || a.Status != 200 {
			t.Fatalf("got %v %d %s, want Status 200", err, a.Status, a.Body)
		}
	}
	post("before")
	if code, output, err := c.Exec(t.Context(), "/usr/bin/tocsin", "healthcheck", "--live"); err != nil || code != 0 || output != "tocsin up is alive\n" {
		t.Errorf("got %d %q %v, want 0 and \"tocsin up is alive\\n\"", code, output, err)
	}
	if code, output, err := c.Exec(t.Context(), "/bin/sh", "-c", "true"); err == nil && code == 0 {
		t.Errorf("/bin/sh in the image succeeds, want no shell: %s", output)
	}
	endsWell(t, c)
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	healthy(t, c)
	post("after")
	delivered := ""
	if !harness.Poll(t.Context(), 20*time.Second, func() bool {
		_, output, err := c.Exec(t.Context(), "/usr/bin/tocsin", "wait", "--timeout", "5s", "--severity", "info")
		if err == nil {
			delivered += output
		}
		return strings.Contains(delivered, "before") && strings.Contains(delivered, "after")
	}) {
		t.Errorf("delivered = %q, want the alerts before and after", delivered)
	}
	endsWell(t, c)
}

// TestImagesOfServices runs each service alone, as an orchestrator does, on a NATS
// server of its own.
func TestImagesOfServices(t *testing.T) {
	built, n := images(t), containerNet(t)
	runIn(t, n, containers.Spec{Name: "nats", Image: built.NATS, Args: []string{"-js", "-sd", "/data"}, Volumes: []string{"/data"}})
	env := map[string]string{"TOCSIN_NATS_URL": "nats://nats:4222", "TOCSIN_TOKEN": "secret"}
	var all []*containers.Container
	for name, image := range map[string]string{
		"ingest": built.Ingest, "detector": built.Detector, "gateway": built.Gateway, "dashboard": built.Dashboard,
	} {
		all = append(all, runIn(t, n, containers.Spec{Name: name, Image: image, Env: env, Ports: []int{7400}}))
	}
	for _, c := range all {
		healthy(t, c)
	}
	for _, c := range all {
		endsWell(t, c)
	}
	// A public listener needs a token; the log names the setting.
	bare := runIn(t, n, containers.Spec{Name: "bare", Image: built.Ingest, Env: map[string]string{"TOCSIN_NATS_URL": "nats://nats:4222"}})
	output := ""
	if !harness.Poll(t.Context(), 20*time.Second, func() bool {
		output = bare.Logs(t.Context())
		return strings.Contains(output, "TOCSIN_TOKEN")
	}) {
		t.Errorf("log without a token = %s, want TOCSIN_TOKEN in it", output)
	}
}

// TestBinariesOfImagesAreReproducible checks that a build in another directory with
// another cache gives the same bytes. That cache is kept: only what has changed since
// the last run of this test is compiled, by each of the two builds.
func TestBinariesOfImagesAreReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a service with a cache of its own")
	}
	root, err := containers.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	platform := "linux/" + runtime.GOARCH
	build := func(from string, more ...string) (file string) {
		t.Helper()
		context := t.TempDir()
		cmd := exec.CommandContext(t.Context(), filepath.Join(from, "deploy/images/build.sh"))
		cmd.Env = append(os.Environ(), append([]string{
			"CONTEXT=" + context, "BINARIES=yes", "IMAGES=tocsin-detector", "PLATFORMS=" + platform,
			"VERSION=v1.2.3", "COMMIT=abc", "SOURCE_DATE_EPOCH=1000000000",
		}, more...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return filepath.Join(context, platform, "tocsin")
	}
	elsewhere := t.TempDir()
	// The page and the script are built before, where there is Node, and embedded.
	copyFiles := exec.CommandContext(t.Context(), "sh", "-c", `{ git ls-files -z --cached --others --exclude-standard
		find services/dashboard/web/dist services/ingest/script/dist -type f -print0
	} | sort -zu | tar --null -T - -cf - | tar -xf - -C "$0"`, elsewhere)
	copyFiles.Dir = root
	if out, err := copyFiles.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	caches, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	first, second := build(root), build(elsewhere, "GOCACHE="+filepath.Join(caches, "tocsin", "reproducible"), "GOWORK=")
	if a, b := sum(t, first), sum(t, second); a != b {
		t.Errorf("checksum in another directory = %s, want %s", b, a)
	}
	static(t, first, platform)
}

// TestImagesAreReproducible checks that BuildKit makes the same image of the same
// sources every time, for two architectures. It needs a builder of its own: the one
// within Docker adds a timestamp to what it loads.
func TestImagesAreReproducible(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "docker", "buildx", "inspect").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Driver:") || strings.Contains(strings.ReplaceAll(string(out), " ", ""), "Driver:docker\n") {
		t.Skip("docker buildx with a builder of its own is not here")
	}
	root, err := containers.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	build := func() string {
		t.Helper()
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), filepath.Join(root, "deploy/images/build.sh"))
		cmd.Env = append(os.Environ(), "OCI="+dir, "IMAGES=tocsin-detector", "PLATFORMS=linux/amd64,linux/arm64", "NO_CACHE=yes",
			"VERSION=v1.2.3", "COMMIT=abc", "SOURCE_DATE_EPOCH=1000000000")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return sum(t, filepath.Join(dir, "tocsin-detector.tar"))
	}
	if a, b := build(), build(); a != b {
		t.Errorf("checksum of the second build = %s, want %s", b, a)
	}
}

func sum(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))
}

// static checks that a program needs no other file, and has root certificates.
func static(t *testing.T, file, platform string) {
	t.Helper()
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	want := map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}[platform]
	if f.Machine != want {
		t.Errorf("machine of the program = %v, want %v", f.Machine, want)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the program has a segment %v, want it linked statically", p.Type)
		}
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	roots := false
	for _, dep := range info.Deps {
		roots = roots || dep.Path == "golang.org/x/crypto/x509roots/fallback"
	}
	if !roots {
		t.Error("the program lacks golang.org/x/crypto/x509roots/fallback, want it to trust public certificates without files")
	}
}
