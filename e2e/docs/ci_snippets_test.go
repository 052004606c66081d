package docs

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// workflow is the part of a GitHub Actions workflow that the pages show.
type workflow struct {
	Jobs map[string]struct {
		Env   map[string]string
		Steps []struct{ Uses, Run, If string }
	}
}

// snippet decodes the YAML block of a page whose first line names a file.
func snippet(t *testing.T, page, file string, into any) {
	t.Helper()
	for _, block := range e2etest.Blocks(t, page, "yaml") {
		if first, _, _ := strings.Cut(block, "\n"); strings.Contains(first, file) {
			if err := yaml.Unmarshal([]byte(block), into); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("%s: got no YAML block of %s, want one", page, file)
}

// TestActionSnippet runs the steps of docs/senders/github-actions.md as a runner does,
// in a project whose tests fail.
func TestActionSnippet(t *testing.T) {
	t.Parallel()
	e2etest.NeedCommands(t, "bash", "curl", "go")
	e2etest.NeedJUnitReporter(t)
	var wf workflow
	snippet(t, "docs/senders/github-actions.md", ".github/workflows/", &wf)
	sys, dir := e2etest.Start(t), e2etest.NewProject(t)
	job := wf.Jobs["test"]
	env := []string{"GITHUB_ACTIONS=true", "GITHUB_WORKFLOW=CI", "GITHUB_JOB=test", "GITHUB_SHA=abc123", "GITHUB_REF_NAME=topic/a&b", "GITHUB_SERVER_URL=https://github.com",
		"GITHUB_REPOSITORY=o/r", "GITHUB_RUN_ID=7"}
	for name, value := range job.Env {
		env = append(env, name+"="+strings.NewReplacer("${{ vars.TOCSIN_INGEST_URL }}", sys.Bus.IngestURL, "${{ secrets.TOCSIN_TOKEN }}", "").Replace(value))
	}
	failed, ran := false, 0
	for _, step := range job.Steps {
		if step.Run == "" || failed && step.If != "always()" {
			continue
		}
		code, out := e2etest.Shell(t, sys.Bus, dir, step.Run, env...)
		t.Logf("%s: exit %d: %s", step.Run, code, out)
		failed = failed || code != 0
		if ran++; ran == 3 && code != 0 {
			t.Errorf("exit status of the step that posts the report = %d, want 0", code)
		}
	}
	if !failed || ran != 3 {
		t.Errorf("got %d steps, one of them failed: %v; want 3 and true", ran, failed)
	}
	got := sys.TakeAlertsByTitle(t, 2)
	if a := got["CI failure: CI: test on topic/a&b"]; !strings.Contains(a.Detail, "1 test passed, 2 failed, 1 error") || a.URL != "https://github.com/o/r/actions/runs/7" {
		t.Errorf("got %+v, want \"1 test passed, 2 failed, 1 error\" in Detail and URL \"https://github.com/o/r/actions/runs/7\"", got)
	}
	if a := got["CI failure: node on topic/a&b"]; !strings.Contains(a.Detail, "1 test passed, 2 failed") || a.URL != "https://github.com/o/r/actions/runs/7" || a.Context["commit"] != "abc123" {
		t.Errorf("got %+v, want \"1 test passed, 2 failed\" in Detail, URL \"https://github.com/o/r/actions/runs/7\" and Context[\"commit\"] \"abc123\"", got)
	}
}

// TestGitLabSnippet runs the jobs of docs/senders/gitlab-ci.md.
func TestGitLabSnippet(t *testing.T) {
	t.Parallel()
	e2etest.NeedCommands(t, "bash", "go")
	e2etest.NeedJUnitReporter(t)
	var jobs map[string]struct {
		Script      []string
		AfterScript []string `yaml:"after_script"`
	}
	snippet(t, "docs/senders/gitlab-ci.md", ".gitlab-ci.yml", &jobs)
	sys := e2etest.Start(t)
	for name, job := range jobs {
		dir := e2etest.NewProject(t)
		env := []string{"GITLAB_CI=true", "CI_JOB_NAME=" + name, "CI_COMMIT_SHA=abc123", "CI_COMMIT_REF_NAME=main", "CI_JOB_URL=https://gitlab.example/g/p/-/jobs/7"}
		code, out := e2etest.Shell(t, sys.Bus, dir, strings.Join(job.Script, "\n"), env...)
		if code == 0 {
			t.Errorf("%s: the job passed: %s, want a code", name, out)
		}
		if code, out := e2etest.Shell(t, sys.Bus, dir, strings.Join(job.AfterScript, "\n"), env...); code != 0 {
			t.Errorf("%s: got %s, want code 0", name, out)
		}
	}
	got := sys.TakeAlertsByTitle(t, 2)
	if !strings.Contains(got["CI failure: test on main"].Detail, "1 test passed, 2 failed, 1 error") || !strings.Contains(got["CI failure: unit on main"].Detail, "1 test passed, 2 failed") {
		t.Errorf("got %+v, want \"1 test passed, 2 failed, 1 error\" in Detail and \"1 test passed, 2 failed\" in Detail", got)
	}
}
