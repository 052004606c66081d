package e2e

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// conformanceTimeout bounds the suite for one server and one version; it takes
// some 5 s.
const conformanceTimeout = time.Minute

// revisions are the versions of the protocol that the suite knows the
// requirements of.
var revisions = []string{"2025-11-25", "2026-07-28"}

// TestClientsConformanceOfGateway is the official suite for servers against the
// gateway over HTTP. What it wants and the gateway doesn't have is listed, with
// reasons, in node/conformance/expected-failures.yml.
func TestClientsConformanceOfGateway(t *testing.T) {
	node, dir := node22(t), nodeModules(t, "conformance")
	b := up(t)
	url := overHTTP(t, b, "--protocol=latest")
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			conform(t, node, dir, url, revision, "--expected-failures", filepath.Join(dir, "expected-failures.yml"))
		})
	}
}

// TestClientsConformanceOfFixture is the same against a server that has the
// tools, resources and prompts that the suite asks for: all of it passes.
func TestClientsConformanceOfFixture(t *testing.T) {
	node, dir := node22(t), nodeModules(t, "conformance")
	url := fixture(t)
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) { conform(t, node, dir, url, revision) })
	}
}

// conform runs what a revision of the protocol requires of servers.
func conform(t *testing.T, node, dir, url, revision string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), conformanceTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, node, append([]string{
		filepath.Join(dir, "node_modules", ".bin", "conformance"), "server", "--url", url, "--requirements", revision, "--output-dir", t.TempDir(),
	}, args...)...)
	cmd.Env = append(cmd.Environ(), "NO_COLOR=1")
	out, err := cmd.CombinedOutput()
	_, verdict, _ := strings.Cut(string(out), "=== SUMMARY ===")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	total := regexp.MustCompile(`Total: [1-9]\d* passed, \d+ failed`).FindString(verdict)
	if total == "" {
		t.Fatalf("nothing was checked: %s", out)
	}
	t.Log(total)
}

// overHTTP runs a gateway on HTTP and gives its URL.
func overHTTP(t *testing.T, b *harness.Bus, args ...string) string {
	t.Helper()
	p, err := harness.Start(binary, b.StateDir, nil, append([]string{"gateway", "--http=127.0.0.1:0", "--autostart=false"}, args...)...)
	must(t, err)
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("tocsin gateway: %v\n%s", err, p.Log)
		}
		noRace(t, p.Log)
	})
	var url string
	ready := harness.Poll(t.Context(), 30*time.Second, func() bool {
		url = regexp.MustCompile(`http://127\.0\.0\.1:\d+/mcp`).FindString(p.Stdout.String() + p.Log.String())
		return url != ""
	})
	if !ready {
		t.Fatalf("the gateway told no URL\n%s", p.Log)
	}
	return url
}

// fixture builds and runs e2e/cmd/fixture and gives its URL.
func fixture(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "fixture")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-race", "-o", bin, "./cmd/fixture").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(bin) //nolint:noctx // ends with its stdin
	cmd.Env = append(cmd.Environ(), "GORACE=atexit_sleep_ms=0")
	stderr := &harness.Log{}
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	t.Cleanup(func() {
		_ = stdin.Close()
		_, _ = io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the fixture: %v", err)
		}
		noRace(t, stderr)
	})
	if err != nil {
		t.Fatalf("the fixture told no URL: %v\n%s", err, stderr)
	}
	return strings.TrimSpace(line)
}
