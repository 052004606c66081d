package agents

import (
	"cmp"
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// conformanceTimeout bounds the suite for one server and one version. It takes about 5
// s.
const conformanceTimeout = time.Minute

// revisions has the versions of the protocol that the suite has requirements for.
var revisions = []string{"2025-11-25", "2026-07-28"}

// TestConformanceOfGateway runs the official conformance suite for servers against the
// gateway over HTTP. What the gateway does not have is listed with reasons in
// node/conformance/expected-failures.yml.
func TestConformanceOfGateway(t *testing.T) {
	t.Parallel()
	node, dir := node22(t), e2etest.NodeModules(t, "conformance")
	b := e2etest.Up(t)
	url := overHTTP(t, b, e2etest.Binary(t), "gateway", "--http=127.0.0.1:0", "--autostart=false", "--protocol=latest")
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) {
			conform(t, node, dir, url, revision, "--expected-failures", filepath.Join(dir, "expected-failures.yml"))
		})
	}
}

// TestConformanceOfFixture runs the suite against a gateway that has the tools,
// resources and prompts that the suite asks for. All of it passes.
func TestConformanceOfFixture(t *testing.T) {
	t.Parallel()
	node, dir := node22(t), e2etest.NodeModules(t, "conformance")
	url := overHTTP(t, e2etest.Up(t), fixture(t))
	for _, revision := range revisions {
		t.Run(revision, func(t *testing.T) { conform(t, node, dir, url, revision) })
	}
}

// conform runs the requirements of a revision of the protocol.
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
		t.Fatalf("run the conformance suite: %v\n%s", err, cmp.Or(verdict, string(out)))
	}
	total := regexp.MustCompile(`Total: [1-9]\d* passed, \d+ failed`).FindString(verdict)
	if total == "" {
		t.Fatalf("the conformance suite passed no check, want some: %s", out)
	}
	t.Log(total)
}

// overHTTP runs a server of MCP over HTTP and returns its URL.
func overHTTP(t *testing.T, b *harness.Bus, bin string, args ...string) string {
	t.Helper()
	p, err := harness.Start(bin, b.StateDir, nil, args...)
	e2etest.NoError(t, err)
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stop %s: %v\n%s", bin, err, p.Log)
		}
		e2etest.CheckLog(t, p.Log)
	})
	var url string
	ready := harness.Poll(t.Context(), 30*time.Second, func() bool {
		url = regexp.MustCompile(`http://127\.0\.0\.1:\d+/mcp`).FindString(p.Stdout.String())
		return url != ""
	})
	if !ready {
		t.Fatalf("timed out: the gateway prints no URL\n%s", p.Log)
	}
	return url
}

// fixture builds e2e/cmd/fixture.
func fixture(t *testing.T) string {
	t.Helper()
	return e2etest.Build(t, harness.Program{Name: "fixture", Package: "./cmd/fixture", Dir: "e2e", Race: true})
}
