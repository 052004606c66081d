package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// ciTimeout bounds the whole call: a pipeline must not hang on its report.
const ciTimeout = 15 * time.Second

type ciCommand struct {
	Status   string        `help:"success, failure or error." required:"" placeholder:"S"`
	Name     string        `help:"The pipeline or job." placeholder:"NAME"`
	Source   string        `help:"github-actions, gitlab-ci or custom. Default: told by the pipeline's environment." placeholder:"SOURCE"`
	Ref      string        `help:"Branch or tag. Default: told by the pipeline's environment." placeholder:"REF"`
	Commit   string        `help:"Commit. Default: told by the pipeline's environment." placeholder:"SHA"`
	Summary  string        `help:"One line, such as: 12 tests passed, 2 failed." placeholder:"TEXT"`
	Failure  []string      `help:"A failed test as NAME or NAME=MESSAGE; may be repeated." sep:"none" placeholder:"NAME=MESSAGE"`
	URL      string        `name:"url" help:"Where to read more. Default: told by the pipeline's environment." placeholder:"URL"`
	Duration time.Duration `help:"How long it took, such as 45s." placeholder:"D"`

	IngestURL string `name:"ingest-url" help:"Where to post to. Default: the intake that runs on the state directory, else http://127.0.0.1:7400." env:"TOCSIN_INGEST_URL" placeholder:"URL"`
	Token     string `help:"Token of the intake." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`
}

// Run posts the result and says so, or why the intake would not have it.
func (c *ciCommand) Run(ctx context.Context, env service.Env) error {
	result := c.result(os.Getenv)
	if err := result.Validate(); err != nil {
		return service.Usagef("%s", err)
	}
	body, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("encode the result: %w", err)
	}
	base := c.IngestURL
	if base == "" {
		base = "http://127.0.0.1:7400"
		if r, err := statedir.At(env.StateDir).Running(); err == nil && r.IngestURL != "" {
			base = r.IngestURL
		}
	}
	if err := c.post(ctx, strings.TrimSuffix(base, "/")+"/ci-result", body); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.Stdout, "posted %s of %s to %s\n", result.Status, firstOf(result.Name, result.Commit, result.Ref, "this run"), base)
	return err
}

func (c *ciCommand) post(ctx context.Context, url string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, ciTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return service.Usagef("--ingest-url: %s", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token := strings.TrimSpace(c.Token); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("post the result: %w: start the intake with tocsin up, or name it with --ingest-url", err)
	}
	answer, readErr := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err := errors.Join(readErr, resp.Body.Close()); err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	var refusal struct {
		Error string `json:"error"`
	}
	if err := json.Unmarshal(answer, &refusal); err != nil || refusal.Error == "" {
		refusal.Error = strings.TrimSpace(string(answer))
	}
	return fmt.Errorf("post the result: the intake answered %s: %s", resp.Status, refusal.Error)
}

// result takes what the flags say, and from the environment of the CI system
// what they leave open.
func (c *ciCommand) result(getenv func(string) string) ci.Result {
	r := ci.Result{
		Status: c.Status, Source: c.Source, Name: c.Name, Ref: c.Ref, Commit: c.Commit,
		Summary: c.Summary, URL: c.URL, DurationMS: float64(c.Duration.Milliseconds()),
	}
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		r.Source = firstOf(r.Source, ci.SourceGitHub)
		r.Name = firstOf(r.Name, getenv("GITHUB_WORKFLOW"))
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

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}
