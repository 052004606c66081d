package github_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/services/ingest/github"
	"github.com/tocsin-bus/tocsin/shared/ci"
)

// The payloads here have only the used fields. The end-to-end tests send those that GitHub
// documents.
const (
	run = `{"action":"completed","workflow":{"name":"CI"},"workflow_run":{"id":1,"name":"CI","run_number":42,"run_attempt":%d,"event":"push",
		"conclusion":%q,"display_title":"Fix the cart","head_branch":"main","head_sha":"abc123","html_url":"https://github.com/o/r/actions/runs/1",
		"run_started_at":"2026-01-28T14:30:00Z","updated_at":"2026-01-28T14:30:45Z"}}`
	job = `{"action":"completed","workflow_job":{"name":"test","workflow_name":"CI","run_attempt":1,"conclusion":%q,"head_branch":"main","head_sha":"abc123",
		"html_url":"https://github.com/o/r/actions/runs/1/job/2","started_at":"2026-01-28T14:30:00Z","completed_at":"2026-01-28T14:31:00Z",
		"steps":[{"name":"Set up job","number":1,"conclusion":"success"},null,{"name":"Run tests","number":3,"conclusion":"failure"},{"number":4,"conclusion":"timed_out"},{"name":"Post","number":9,"conclusion":"skipped"}]}}`
	check = `{"action":"completed","check_run":{"name":"lint","conclusion":%q,"head_sha":"abc123","html_url":"https://github.com/o/r/runs/3","details_url":"https://lint.example/3",
		"output":{"title":"2 findings","summary":"cart.ts: unused variable"},"check_suite":{"head_branch":"main"}}}`
	suite = `{"action":"completed","check_suite":{"conclusion":%q,"head_branch":"main","head_sha":"abc123","url":"https://api.github.com/x","latest_check_runs_count":2,
		"app":{"name":"Octo Lint","slug":"octo-lint"},"created_at":"2026-01-28T14:30:00Z","updated_at":"2026-01-28T14:29:00Z"},"repository":{"html_url":"https://github.com/o/r"}}`
)

func TestDecode(t *testing.T) {
	base := ci.Result{Source: ci.SourceGitHub, Ref: "main", Commit: "abc123"}
	with := func(change func(*ci.Result)) ci.Result { r := base; change(&r); return r }
	for name, c := range map[string]struct {
		event, payload string
		want           ci.Result
	}{
		"a run that failed": {"workflow_run", fmt.Sprintf(run, 1, "failure"), with(func(r *ci.Result) {
			r.Status, r.Name, r.URL, r.DurationMS = "failure", "CI", "https://github.com/o/r/actions/runs/1", 45_000
			r.Summary = "CI #42 failed on push: Fix the cart"
		})},
		"a second attempt": {"workflow_run", fmt.Sprintf(run, 2, "success"), with(func(r *ci.Result) {
			r.Status, r.Name, r.URL, r.DurationMS = "success", "CI", "https://github.com/o/r/actions/runs/1", 45_000
			r.Summary = "CI #42 passed on push, attempt 2: Fix the cart"
		})},
		"a job that failed": {"workflow_job", fmt.Sprintf(job, "failure"), with(func(r *ci.Result) {
			r.Status, r.Name, r.URL, r.DurationMS = "failure", "CI / test", "https://github.com/o/r/actions/runs/1/job/2", 60_000
			r.Summary = "CI / test failed, at step Run tests"
			r.Failures = []ci.Failure{{Name: "Run tests", Message: "step 3 failed"}, {Name: "step 4", Message: "step 4 timed out"}}
		})},
		"a check that failed": {"check_run", fmt.Sprintf(check, "failure"), with(func(r *ci.Result) {
			r.Status, r.Name, r.URL, r.Summary = "failure", "lint", "https://github.com/o/r/runs/3", "lint failed: 2 findings"
			r.Failures = []ci.Failure{{Name: "2 findings", Message: "cart.ts: unused variable"}}
		})},
		"a check that passed": {"check_run", fmt.Sprintf(check, "neutral"), with(func(r *ci.Result) {
			r.Status, r.Name, r.URL, r.Summary = "success", "lint", "https://github.com/o/r/runs/3", "lint ended neutral: 2 findings"
		})},
		"a suite, with a clock that went back": {"check_suite", fmt.Sprintf(suite, "timed_out"), with(func(r *ci.Result) {
			r.Status, r.Name, r.URL, r.Summary = "error", "Octo Lint", "https://github.com/o/r/commit/abc123/checks", "Octo Lint timed out, 2 check runs"
		})},
	} {
		t.Run(name, func(t *testing.T) {
			got, ignored, err := github.Decode(c.event, []byte(c.payload))
			if err != nil || ignored != "" {
				t.Fatalf("ignored %q, error %v, want a result", ignored, err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
			if err := got.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestConclusions(t *testing.T) {
	for conclusion, status := range map[string]string{
		"success": "success", "neutral": "success", "failure": "failure", "timed_out": "error", "startup_failure": "error",
		"cancelled": "", "skipped": "", "stale": "", "action_required": "", "something_new": "",
	} {
		for event, payload := range map[string]string{"workflow_run": fmt.Sprintf(run, 1, conclusion), "workflow_job": fmt.Sprintf(job, conclusion),
			"check_run": fmt.Sprintf(check, conclusion), "check_suite": fmt.Sprintf(suite, conclusion)} {
			got, ignored, err := github.Decode(event, []byte(payload))
			if err != nil || got.Status != status || (ignored == "") != (status != "") {
				t.Errorf("%s %s: status %q, ignored %q, error %v, want status %q", event, conclusion, got.Status, ignored, err, status)
			}
		}
	}
}

func TestIgnoredAndRefused(t *testing.T) {
	for name, c := range map[string]struct{ event, payload, ignored, refused string }{
		"a ping":                 {"ping", `{"zen":"x"}`, "ping", ""},
		"another event":          {"push", `{`, "event push: results are workflow_run, workflow_job", ""},
		"not completed":          {"workflow_run", `{"action":"requested","workflow_run":{}}`, "workflow_run requested: only completed", ""},
		"without a conclusion":   {"check_run", `{"action":"completed","check_run":{"conclusion":null}}`, "without a conclusion", ""},
		"a time of another form": {"check_run", `{"action":"rerequested","check_run":{"started_at":"2018-04-25 20:42:10"}}`, "check_run rerequested", ""},
		"no event":               {"", `{}`, "", "X-GitHub-Event is missing"},
		"no action":              {"workflow_job", `{"workflow_job":{}}`, "", "action is missing"},
		"no run":                 {"workflow_run", `{"action":"completed"}`, "", "workflow_run is missing"},
		"a run that is a list":   {"workflow_run", `{"action":"completed","workflow_run":[]}`, "", "workflow_run must not be a JSON array"},
		"a number for the name":  {"check_run", `{"action":"completed","check_run":{"name":7}}`, "", "check_run.name must not be a JSON number"},
		"a list":                 {"check_suite", `[]`, "", "must be a JSON object"},
		"half of it":             {"check_suite", `{"action":`, "", "malformed JSON"},
		"a time in other words":  {"check_run", `{"action":"completed","check_run":{"started_at":"today"}}`, "", "today"},
		"nested too deep":        {"check_run", strings.Repeat(`{"check_run":`, 100), "", "deeper than 64"},
		"more parts than a real": {"workflow_job", `{"workflow_job":{"steps":[` + strings.Repeat(`{},`, 30_000) + `{}]}}`, "", "more than 20000 objects"},
	} {
		t.Run(name, func(t *testing.T) {
			_, ignored, err := github.Decode(c.event, []byte(c.payload))
			if !strings.Contains(ignored, c.ignored) || (ignored != "") != (c.ignored != "") {
				t.Errorf("ignored %q, want %q in it", ignored, c.ignored)
			}
			if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("error %v, want %q in it", err, c.refused)
			}
			if many := strings.Contains(c.refused, "deeper") || strings.Contains(c.refused, "more than"); errors.Is(err, decoding.ErrTooMany) != many {
				t.Errorf("error %v wraps ErrTooMany: got %t, want %t", err, !many, many)
			}
		})
	}
}

func FuzzGitHub(f *testing.F) {
	f.Add("workflow_run", fmt.Sprintf(run, 1, "failure"))
	f.Add("workflow_job", fmt.Sprintf(job, "failure"))
	f.Add("check_run", fmt.Sprintf(check, "failure"))
	f.Add("check_suite", fmt.Sprintf(suite, "success"))
	f.Fuzz(func(t *testing.T, event, payload string) {
		got, ignored, err := github.Decode(event, []byte(payload))
		switch {
		case err != nil || ignored != "":
			if got.Status != "" || err != nil && ignored != "" {
				t.Fatalf("result %+v, ignored %q, error %v, want only one of them", got, ignored, err)
			}
		case got.Source != ci.SourceGitHub || got.Validate() != nil:
			t.Fatalf("got %+v, want a valid result of GitHub: %v", got, got.Validate())
		}
	})
}
