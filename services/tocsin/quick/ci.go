package quick

import (
	"bytes"
	"cmp"
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

// ciTimeout bounds the request: a report must not hang a pipeline.
const ciTimeout = 15 * time.Second

// CI is the command `tocsin ci`, which posts the result of a pipeline.
type CI struct {
	Status   string        `help:"Status: success, failure or error. Required without --junit and --gotest, and wins over them." placeholder:"S"`
	JUnit    []string      `name:"junit" help:"JUnit XML file to read the result from. Several files, or a pattern such as 'reports/*.xml', make one result." sep:"none" placeholder:"FILE"`
	GoTest   bool          `name:"gotest" help:"Read the result from stdin: go test -json ./... | tocsin ci --gotest. The text of the tests is printed to stdout."`
	ExitCode bool          `name:"exit-code" help:"Exit with 1 if the posted result is not success."`
	Name     string        `help:"Name of the pipeline or job. Default: from the environment of GitHub Actions or GitLab CI." placeholder:"NAME"`
	Source   string        `help:"Source: github-actions, gitlab-ci or custom. Default: from the environment." placeholder:"SOURCE"`
	Ref      string        `help:"Branch or tag. Default: from the environment." placeholder:"REF"`
	Commit   string        `help:"Commit hash. Default: from the environment." placeholder:"SHA"`
	Summary  string        `help:"Summary in one line, such as: 12 tests passed, 2 failed." placeholder:"TEXT"`
	Failure  []string      `help:"Failed test as NAME or NAME=MESSAGE; may be repeated." sep:"none" placeholder:"NAME=MESSAGE"`
	URL      string        `name:"url" help:"URL of the run. Default: from the environment." placeholder:"URL"`
	Duration time.Duration `help:"Duration of the run, such as 45s." placeholder:"D"`

	IngestURL string `name:"ingest-url" help:"URL of the ingest service. Default: the one that runs on the state directory, else http://127.0.0.1:7400." env:"TOCSIN_INGEST_URL" placeholder:"URL"`
	Token     string `help:"Token of the ingest service." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`

	Files []string `arg:"" optional:"" name:"file" help:"More files for --junit, as a shell expands --junit reports/*.xml."`
}

// Run posts the result, and prints what was posted.
func (c *CI) Run(ctx context.Context, env service.Env) error {
	result, err := c.describe(os.Getenv)
	if err != nil {
		return err
	}
	run, err := c.tests(ctx, env)
	if err != nil {
		return err
	}
	body, result, err := fit(c.combine(result, run))
	if err != nil {
		return err
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
	text := fmt.Sprintf("posted %s of %s to %s", result.Status, cmp.Or(result.Name, result.Commit, result.Ref, "this run"), base)
	if why := reason(result); why != "" {
		text += ": " + why
	}
	if _, err = fmt.Fprintln(env.Stdout, text); err != nil {
		return err
	}
	if c.ExitCode && result.Status != ci.StatusSuccess {
		return fmt.Errorf("the result is %s: %s", result.Status, cmp.Or(result.Summary, "see above"))
	}
	return nil
}

func (c *CI) post(ctx context.Context, url string, body []byte) error {
	ctx, cancel := context.WithTimeout(ctx, ciTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("post the result: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token := strings.TrimSpace(c.Token); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("post the result: %w: start tocsin up, or set --ingest-url", err)
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
	return fmt.Errorf("post the result: the ingest service answered %s: %s", resp.Status, refusal.Error)
}
