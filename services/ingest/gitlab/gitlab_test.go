package gitlab_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
	"github.com/tocsin-bus/tocsin/services/ingest/gitlab"
	"github.com/tocsin-bus/tocsin/shared/ci"
)

const (
	pipeline = `{"object_kind":"pipeline","object_attributes":{"id":31,"name":%q,"ref":"main","sha":"abc123","source":"merge_request_event","status":%q,"duration":63,"url":"https://gitlab.example/g/p/-/pipelines/31"},
		"project":{"web_url":"https://gitlab.example/g/p"},"commit":{"message":"Fix the cart\n\nIt was broken."},
		"builds":[{"stage":"test","name":"unit","status":"failed","failure_reason":"script_failure"},{"stage":"test","name":"fuzz","status":"failed","allow_failure":true},
		{"stage":"build","name":"image","status":"success"},{"stage":"deploy","name":"prod","status":"failed","failure_reason":"runner_system_failure"}]}`
	job = `{"object_kind":"build","ref":"main","sha":"abc123","build_id":380,"build_name":"unit","build_stage":"test","build_status":%q,"build_duration":49.5,
		"build_allow_failure":%t,"build_failure_reason":%q,"project":{"web_url":"https://gitlab.example/g/p"}}`
)

func TestDecode(t *testing.T) {
	base := ci.Result{Source: ci.SourceGitLab, Ref: "main", Commit: "abc123"}
	with := func(change func(*ci.Result)) ci.Result { r := base; change(&r); return r }
	for name, c := range map[string]struct {
		event, payload string
		want           ci.Result
	}{
		"a pipeline that failed": {"Pipeline Hook", fmt.Sprintf(pipeline, "", "failed"), with(func(r *ci.Result) {
			r.Status, r.Name, r.URL, r.DurationMS = "failure", "pipeline", "https://gitlab.example/g/p/-/pipelines/31", 63_000
			r.Summary = "pipeline #31 failed on merge request, 2 of 4 jobs failed: Fix the cart"
			r.Failures = []ci.Failure{{Name: "test / unit", Message: "script_failure"}, {Name: "deploy / prod", Message: "runner_system_failure"}}
		})},
		"a named one that passed": {"Pipeline Hook", fmt.Sprintf(pipeline, "nightly", "success"), with(func(r *ci.Result) {
			r.Status, r.Name, r.URL, r.DurationMS = "success", "nightly", "https://gitlab.example/g/p/-/pipelines/31", 63_000
			r.Summary = "pipeline #31 passed on merge request: Fix the cart"
		})},
		"a job that failed": {"Job Hook", fmt.Sprintf(job, "failed", false, "script_failure"), with(func(r *ci.Result) {
			r.Status, r.Name, r.URL, r.DurationMS = "failure", "test / unit", "https://gitlab.example/g/p/-/jobs/380", 49_500
			r.Summary = "test / unit failed: script failure"
		})},
		"a job whose runner failed": {"Job Hook", fmt.Sprintf(job, "failed", false, "runner_system_failure"), with(func(r *ci.Result) {
			r.Status, r.Name, r.URL, r.DurationMS = "error", "test / unit", "https://gitlab.example/g/p/-/jobs/380", 49_500
			r.Summary = "test / unit failed: runner system failure"
		})},
		// GitLab sends unknown_failure beside success.
		"a job that passed": {"Job Hook", fmt.Sprintf(job, "success", false, "unknown_failure"), with(func(r *ci.Result) {
			r.Status, r.Name, r.URL, r.DurationMS = "success", "test / unit", "https://gitlab.example/g/p/-/jobs/380", 49_500
			r.Summary = "test / unit passed"
		})},
	} {
		t.Run(name, func(t *testing.T) {
			got, ignored, err := gitlab.Decode(c.event, []byte(c.payload))
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

func TestStatuses(t *testing.T) {
	for status, want := range map[string]string{"success": "success", "failed": "failure", "canceled": "", "canceling": "", "skipped": "", "manual": "",
		"running": "", "pending": "", "created": "", "scheduled": "", "preparing": "", "waiting_for_resource": "", "something_new": ""} {
		for event, payload := range map[string]string{"Pipeline Hook": fmt.Sprintf(pipeline, "", status), "Job Hook": fmt.Sprintf(job, status, false, "")} {
			got, ignored, err := gitlab.Decode(event, []byte(payload))
			if err != nil || got.Status != want || (ignored == "") != (want != "") {
				t.Errorf("%s %s: status %q, ignored %q, error %v, want status %q", event, status, got.Status, ignored, err, want)
			}
		}
	}
	for reason, want := range map[string]string{"": "failure", "script_failure": "failure", "unknown_failure": "failure", "stuck_or_timeout_failure": "error",
		"job_execution_timeout": "error", "runner_system_failure": "error", "something_new": "error"} {
		if got, _, err := gitlab.Decode("Job Hook", []byte(fmt.Sprintf(job, "failed", false, reason))); err != nil || got.Status != want {
			t.Errorf("failure reason %s: status %q, error %v, want %q", reason, got.Status, err, want)
		}
	}
}

func TestIgnoredAndRefused(t *testing.T) {
	for name, c := range map[string]struct{ event, payload, ignored, refused string }{
		"another event":          {"Push Hook", `{`, "event Push Hook: results are Pipeline Hook and Job Hook", ""},
		"allowed to fail":        {"Job Hook", fmt.Sprintf(job, "failed", true, ""), "allowed to fail", ""},
		"no event":               {"", `{}`, "", "X-Gitlab-Event is missing"},
		"no pipeline":            {"Pipeline Hook", `{}`, "", "object_attributes.status is missing"},
		"no job":                 {"Job Hook", `{}`, "", "build_status is missing"},
		"a status of its own":    {"Job Hook", `{"build_status":7}`, "", "build_status must not be a JSON number"},
		"a list":                 {"Job Hook", `[]`, "", "must be a JSON object"},
		"half of it":             {"Pipeline Hook", `{"object_attributes":`, "", "malformed JSON"},
		"nested too deep":        {"Pipeline Hook", strings.Repeat(`[`, 100), "", "deeper than 64"},
		"more parts than a real": {"Pipeline Hook", `{"builds":[` + strings.Repeat(`{},`, 60_000) + `{}]}`, "", "more than 20000 objects"},
	} {
		t.Run(name, func(t *testing.T) {
			_, ignored, err := gitlab.Decode(c.event, []byte(c.payload))
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

// TestDocumented decodes the payloads of GitLab's documentation, which are in the module of
// the library.
func TestDocumented(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "gitlab.com/gitlab-org/api/client-go/v2").Output()
	if err != nil {
		t.Skipf("the library's module is not here: %v", err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "testdata", "webhooks")
	for name, c := range map[string]struct{ event, want, summary, url, ignored string }{
		"pipeline.json": {"Pipeline Hook", "success", "pipeline #31 passed on merge request: test", "http://192.168.64.1:3005/gitlab-org/gitlab-test/-/pipelines/31", ""},
		"job.json":      {"Job Hook", "success", "coordinated:tag / auto_deploy:start passed", "http://192.168.64.1:3005/gitlab-org/gitlab-test/-/jobs/3580121225", ""},
		"build.json":    {"Job Hook", "", "", "", "job created"},
		"push.json":     {"Push Hook", "", "", "", "event Push Hook"},
	} {
		payload, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got, ignored, err := gitlab.Decode(c.event, payload)
		if err != nil || got.Status != c.want || got.Summary != c.summary || got.URL != c.url || !strings.HasPrefix(ignored, c.ignored) {
			t.Errorf("%s: got %+v, ignored %q, error %v, want status %q, summary %q, URL %q, ignored %q", name, got, ignored, err, c.want, c.summary, c.url, c.ignored)
		}
	}
}

func FuzzGitLab(f *testing.F) {
	f.Add("Pipeline Hook", fmt.Sprintf(pipeline, "", "failed"))
	f.Add("Job Hook", fmt.Sprintf(job, "failed", false, "script_failure"))
	f.Fuzz(func(t *testing.T, event, payload string) {
		got, ignored, err := gitlab.Decode(event, []byte(payload))
		switch {
		case err != nil || ignored != "":
			if got.Status != "" || err != nil && ignored != "" {
				t.Fatalf("result %+v, ignored %q, error %v, want only one of them", got, ignored, err)
			}
		case got.Source != ci.SourceGitLab || got.Validate() != nil:
			t.Fatalf("got %+v, want a valid result of GitLab: %v", got, got.Validate())
		}
	})
}
