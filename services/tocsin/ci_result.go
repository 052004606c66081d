package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/tocsin-bus/tocsin/services/ingest/testrun"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/untrusted"
)

// describe takes what the flags say, and from the environment of the CI system
// what they leave open. Its errors say how the command is used.
func (c *ciCommand) describe(getenv func(string) string) (ci.Result, error) {
	switch {
	case len(c.JUnit) > 0 && c.GoTest:
		return ci.Result{}, service.Usagef("--junit and --gotest are two ways to tell one result: give one of them")
	case len(c.Files) > 0 && len(c.JUnit) == 0:
		return ci.Result{}, service.Usagef("unexpected argument %s: files are given with --junit", c.Files[0])
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
	known.Status = firstOf(r.Status, ci.StatusSuccess)
	if err := known.Validate(); err != nil { // before a run of tests is waited for
		return ci.Result{}, service.Usagef("%s", err)
	}
	return r, nil
}

// githubJob names a job of GitHub Actions: two jobs of one workflow have results
// of their own. GitHub's webhooks say it with a slash, and know less of it: what
// they tell must not take this result's place.
func githubJob(getenv func(string) string) string {
	workflow, job := getenv("GITHUB_WORKFLOW"), getenv("GITHUB_JOB")
	if workflow == "" || job == "" {
		return workflow + job
	}
	return workflow + ": " + job
}

func (c *ciCommand) result(getenv func(string) string) ci.Result {
	r := ci.Result{
		Status: c.Status, Source: c.Source, Name: c.Name, Ref: c.Ref, Commit: c.Commit,
		Summary: c.Summary, URL: c.URL, DurationMS: float64(c.Duration.Milliseconds()),
	}
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		r.Source = firstOf(r.Source, ci.SourceGitHub)
		r.Name = firstOf(r.Name, githubJob(getenv))
		r.Ref = firstOf(r.Ref, getenv("GITHUB_REF_NAME"))
		r.Commit = firstOf(r.Commit, getenv("GITHUB_SHA"))
		if server, repo, run := getenv("GITHUB_SERVER_URL"), getenv("GITHUB_REPOSITORY"), getenv("GITHUB_RUN_ID"); server != "" && repo != "" && run != "" {
			r.URL = firstOf(r.URL, server+"/"+repo+"/actions/runs/"+run)
		}
	case getenv("GITLAB_CI") == "true":
		r.Source = firstOf(r.Source, ci.SourceGitLab)
		r.Name = firstOf(r.Name, getenv("CI_JOB_NAME"))
		r.Ref = firstOf(r.Ref, getenv("CI_COMMIT_REF_NAME"))
		r.Commit = firstOf(r.Commit, getenv("CI_COMMIT_SHA"))
		r.URL = firstOf(r.URL, getenv("CI_JOB_URL"))
	}
	r.Source = firstOf(r.Source, ci.SourceCustom)
	for _, f := range c.Failure {
		name, message, _ := strings.Cut(f, "=")
		r.Failures = append(r.Failures, ci.Failure{Name: name, Message: message})
	}
	return r
}

// combine adds what the tests came to, where there were any: what the flags say
// wins, and their failures come first.
func (c *ciCommand) combine(r ci.Result, run *testrun.Outcome) ci.Result {
	if run == nil {
		return r
	}
	told := run.Result()
	r.Status = firstOf(r.Status, told.Status)
	r.Summary = firstOf(r.Summary, told.Summary)
	r.Failures = append(r.Failures, told.Failures...)
	if c.Duration == 0 {
		r.DurationMS = told.DurationMS
	}
	return r
}

// maxBody is the largest body that is posted, in bytes: what the intake stores
// of a result as it is.
const maxBody = 900 << 10

// fit encodes a result that the intake takes. Of one that is too large the
// failures first lose text, then the last of them go, which the summary says.
// Since it may be cut it is masked here already: half a secret is not known for
// one.
func fit(r ci.Result) ([]byte, ci.Result, error) {
	redact.New().Result(&r)
	summary, all := r.Summary, len(r.Failures)
	shorter := []int{2000, 500, 80} // characters of a name and of a message
	for {
		body, err := json.Marshal(r)
		if err != nil {
			return nil, r, fmt.Errorf("encode the result: %w", err)
		}
		switch {
		case len(body) <= maxBody:
			return body, r, nil
		case len(shorter) > 0:
			for i := range r.Failures {
				f := &r.Failures[i]
				f.Name, f.Message = untrusted.Cut(f.Name, shorter[0]), untrusted.Cut(f.Message, shorter[0])
			}
			shorter = shorter[1:]
		case len(r.Failures) > 0:
			r.Failures = r.Failures[:len(r.Failures)*3/4]
			r.Summary = strings.TrimPrefix(fmt.Sprintf("%s; %d of %d failures are left out", summary, all-len(r.Failures), all), "; ")
		default:
			return nil, r, service.Usagef("the result is over %d bytes even without its failures: shorten the summary", maxBody)
		}
	}
}

// maxReason is the longest reason that is told, in characters.
const maxReason = 200

// reason is what kept tests from running, on one line, or empty: unlike what a
// failed test says, it need not stand in the tests' own output.
func reason(r ci.Result) string {
	if r.Status != ci.StatusError || len(r.Failures) == 0 {
		return ""
	}
	why := r.Failures[0].Name
	if line, _, _ := strings.Cut(strings.TrimSpace(r.Failures[0].Message), "\n"); line != "" {
		why += ": " + line
	}
	return untrusted.Cut(untrusted.Visible(why), maxReason)
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
