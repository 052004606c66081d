package quick

import (
	"cmp"
	"errors"
	"net/url"
	"strings"

	"github.com/tocsin-bus/tocsin/services/ingest/testrun"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// describe returns the result that the flags describe, with the environment of the CI
// system for what they leave open. Its errors are usage errors.
func (c *CI) describe(getenv func(string) string) (ci.Result, error) {
	switch {
	case len(c.JUnit) > 0 && c.GoTest:
		return ci.Result{}, service.Usagef("--junit and --gotest can't be used together")
	case len(c.Files) > 0 && len(c.JUnit) == 0:
		return ci.Result{}, service.Usagef("unexpected argument %s: files need --junit", c.Files[0])
	case c.Status == "" && len(c.JUnit) == 0 && !c.GoTest:
		return ci.Result{}, service.Usagef("missing flags: give --status=S, --junit=FILE or --gotest")
	}
	if c.IngestURL != "" {
		if u, err := url.Parse(c.IngestURL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return ci.Result{}, service.Usagef("--ingest-url must be a URL such as http://127.0.0.1:7400")
		}
	}
	r := c.result(getenv)
	known := r
	known.Status = cmp.Or(r.Status, ci.StatusSuccess)
	if err := known.Validate(); err != nil { // before waiting for a run of tests
		return ci.Result{}, service.Usagef("%s", err)
	}
	return r, nil
}

// githubJob returns the name of a job of GitHub Actions, because two jobs of one workflow
// have separate results. GitHub's webhooks, which know less of a job, use a slash, so their
// results do not replace this one.
func githubJob(getenv func(string) string) string {
	workflow, job := getenv("GITHUB_WORKFLOW"), getenv("GITHUB_JOB")
	if workflow == "" || job == "" {
		return workflow + job
	}
	return workflow + ": " + job
}

func (c *CI) result(getenv func(string) string) ci.Result {
	r := ci.Result{
		Status: c.Status, Source: c.Source, Name: c.Name, Ref: c.Ref, Commit: c.Commit,
		Summary: c.Summary, URL: c.URL, DurationMS: float64(c.Duration.Milliseconds()),
	}
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		r.Source = cmp.Or(r.Source, ci.SourceGitHub)
		r.Name = cmp.Or(r.Name, githubJob(getenv))
		r.Ref = cmp.Or(r.Ref, getenv("GITHUB_REF_NAME"))
		r.Commit = cmp.Or(r.Commit, getenv("GITHUB_SHA"))
		if server, repo, run := getenv("GITHUB_SERVER_URL"), getenv("GITHUB_REPOSITORY"), getenv("GITHUB_RUN_ID"); server != "" && repo != "" && run != "" {
			r.URL = cmp.Or(r.URL, server+"/"+repo+"/actions/runs/"+run)
		}
	case getenv("GITLAB_CI") == "true":
		r.Source = cmp.Or(r.Source, ci.SourceGitLab)
		r.Name = cmp.Or(r.Name, getenv("CI_JOB_NAME"))
		r.Ref = cmp.Or(r.Ref, getenv("CI_COMMIT_REF_NAME"))
		r.Commit = cmp.Or(r.Commit, getenv("CI_COMMIT_SHA"))
		r.URL = cmp.Or(r.URL, getenv("CI_JOB_URL"))
	}
	r.Source = cmp.Or(r.Source, ci.SourceCustom)
	for _, f := range c.Failure {
		name, message, _ := strings.Cut(f, "=")
		r.Failures = append(r.Failures, ci.Failure{Name: name, Message: message})
	}
	return r
}

// combine adds the outcome of the tests, if there were any. Flags win over it, and their
// failures come first.
func (c *CI) combine(r ci.Result, run *testrun.Outcome) ci.Result {
	if run == nil {
		return r
	}
	tests := run.Result()
	r.Status = cmp.Or(r.Status, tests.Status)
	r.Summary = cmp.Or(r.Summary, tests.Summary)
	r.Failures = append(r.Failures, tests.Failures...)
	if c.Duration == 0 {
		r.DurationMS = tests.DurationMS
	}
	return r
}

// fit encodes a result, cut to the size that the ingest service accepts. Secrets are masked
// before, because a cut secret is no longer recognised.
func fit(r ci.Result) ([]byte, ci.Result, error) {
	redact.New().Result(&r)
	body, r, err := ci.Encode(r)
	if errors.Is(err, ci.ErrTooLarge) {
		return nil, r, service.Usagef("%s: shorten the summary", err)
	}
	return body, r, err
}

// maxReason is the longest reason that is printed, in characters.
const maxReason = 200

// reason returns why tests could not run, as one line, or nothing. The output of the tests
// need not contain it, as it does the message of a failed test.
func reason(r ci.Result) string {
	if r.Status != ci.StatusError || len(r.Failures) == 0 {
		return ""
	}
	why := r.Failures[0].Name
	if line, _, _ := strings.Cut(strings.TrimSpace(r.Failures[0].Message), "\n"); line != "" {
		why += ": " + line
	}
	return sanitize.Cut(sanitize.Visible(why), maxReason)
}
