package commands

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
)

// TestInvestigate submits alerts to the investigator of tocsin up by the command line: it is found
// without a setting, stdout is the id alone, and Ctrl-C leaves the session running.
func TestInvestigate(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	models := modeltest.Serve(
		modeltest.Rule{Match: func(q modeltest.Request) bool { return strings.Contains(q.Body, "the slow one") }, Answers: []modeltest.Answer{
			{Before: func(modeltest.Request) { <-release }, Text: "late"},
		}},
		modeltest.Rule{Match: func(q modeltest.Request) bool { return len(q.Tools) == 0 }, Answers: []modeltest.Answer{modeltest.Say("In short: the disk is full.")}},
		modeltest.Rule{Answers: []modeltest.Answer{modeltest.Use("c1", "conclude", `{"cause":"the disk is full","confidence":"likely"}`)}},
	)
	t.Cleanup(models.Close)
	t.Cleanup(end)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := file("investigator.yaml", "llm_providers:\n  local: { type: openai, model: m, base_url: '"+models.URL+"/v1', api_key_env: '' }\ndefaults: { llm_provider: local }\n")

	code, stdout, stderr := e2etest.Tocsin(t, t.TempDir(), "investigator", "check", config, "--probe")
	if code != 0 || !strings.Contains(stdout, "  local: openai (chat)") || !strings.HasSuffix(stdout, config+" is valid\n") || stderr != "" {
		t.Errorf("investigator check = exit %d, want 0 and the provider\n%s%s", code, stdout, stderr)
	}
	broken := file("broken.yaml", "colour: red\nqueue: { worker_count: 0 }\n")
	if code, stdout, stderr := e2etest.Tocsin(t, t.TempDir(), "investigator", "check", broken); code != 1 || strings.Count(stdout, "error    "+broken) < 2 || strings.Count(stderr, "\n") != 1 {
		t.Errorf("investigator check = exit %d, want 1, two errors and one line in stderr\n%s%s", code, stdout, stderr)
	}
	if code, _, stderr := e2etest.TocsinEnv(t, t.TempDir(), []string{"TOCSIN_INVESTIGATOR_ADDR=127.0.0.1:1"}, "investigate", "--data", config); code != 1 || !strings.Contains(stderr, `start one with "tocsin up --investigator FILE"`) {
		t.Errorf("investigate without an investigator = exit %d: %s, want 1 and how to start one", code, stderr)
	}
	for _, args := range [][]string{{"investigate"}, {"investigate", "--data", filepath.Join(dir, "none")}, {"investigator", "check"}} {
		if code, stdout, stderr := e2etest.Tocsin(t, t.TempDir(), args...); code != 2 || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%v = exit %d, want 2 and one line in stderr\n%s%s", args, code, stdout, stderr)
		}
	}

	b := e2etest.Up(t, "--investigator="+config, "--investigator-addr=127.0.0.1:0")
	ready := harness.Poll(t.Context(), time.Minute, func() bool {
		code, stdout, _ = e2etest.Tocsin(t, b.StateDir, "doctor")
		return strings.Contains(stdout, "ok   investigator     http://127.0.0.1:")
	})
	if !ready {
		t.Fatalf("doctor = exit %d, want that the investigator is ready\n%s%s", code, stdout, b.Log)
	}
	code, stdout, stderr = e2etest.Tocsin(t, b.StateDir, "investigate", "--data", file("alert.txt", "pod web-1 crashes"), "--follow", "--timeout=1m")
	id := strings.TrimSuffix(stdout, "\n")
	if code != 0 || len(id) != 26 {
		t.Fatalf("investigate = exit %d, want 0 and an id\n%s%s", code, stdout, stderr)
	}
	for _, want := range []string{"queued for investigation\n", "analysis  GeneralAgent: ", "\nconfidence: likely\n", "the session " + id + " is completed\n"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr lacks %q:\n%s", want, stderr)
		}
	}
	if code, stdout, stderr := e2etest.Tocsin(t, b.StateDir, "investigate", "--data", config, "--chain=nope"); code != 2 || stdout != "" || !strings.Contains(stderr, "nope") {
		t.Errorf("investigate with an unknown chain = exit %d, want 2\n%s%s", code, stdout, stderr)
	}

	p, err := harness.Start(e2etest.Binary(t), b.StateDir, nil, "investigate", "--data", file("slow.txt", "the slow one"), "--follow")
	if err != nil {
		t.Fatal(err)
	}
	if !harness.Poll(t.Context(), time.Minute, func() bool { return strings.Contains(p.Log.String(), "queued for investigation\n") }) {
		t.Fatalf("timed out: no session\n%s", p.Log)
	}
	if err := syscall.Kill(p.PID(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	code = p.ExitCode() // first: until then its output may be on the way
	id = strings.TrimSuffix(p.Stdout.String(), "\n")
	if code != 3 || len(id) != 26 || !strings.Contains(p.Log.String(), "stopped following; the session goes on: "+id+"\n") {
		t.Errorf("investigate ended by Ctrl-C = exit %d, want 3 and the id %s\n%s", code, id, p.Log)
	}
	end()
}
