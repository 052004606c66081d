package ingest

import (
	"bytes"
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
)

const (
	runFailed = `{"action":"completed","workflow":{"name":"CI"},"workflow_run":{"run_number":7,"conclusion":"failure","head_branch":"main","head_sha":"abc123"}}`
	jobFailed = `{"object_kind":"build","ref":"main","sha":"abc123","build_name":"unit","build_stage":"test","build_status":"failed"}`
	report    = `<testsuite><testcase name="a" classname="S"/><testcase name="b" classname="S"><failure message="want 3"/></testcase></testsuite>`
)

func hubSignature(secret, body string) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(m.Sum(nil))
}

// resultsOn returns the results on the bus.
func resultsOn(t *testing.T, s *fakeSink) (all []ci.Result) {
	t.Helper()
	for _, m := range s.msgs {
		if m.Subject != bus.SubjectIntakeCI {
			continue
		}
		r, err := ci.Decode(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

func withSecret(c *Config) { c.GitHubWebhookSecret = "s3cret" }
func withBearer(c *Config) { c.Token = "bearer" }

func TestGitHub(t *testing.T) {
	const signature, event = "X-Hub-Signature-256", "X-GitHub-Event"
	right := hubSignature("s3cret", runFailed)
	form := url.Values{"payload": {runFailed}}.Encode()
	plain := func(*Config) {}
	for name, c := range map[string]struct {
		config func(*Config)
		body   string
		header []string
		status int
		says   string
	}{
		"open":                       {plain, runFailed, []string{event, "workflow_run"}, 200, `{"ok":true}`},
		"with the token":             {withBearer, runFailed, []string{event, "workflow_run", "Authorization", "Bearer bearer"}, 200, `{"ok":true}`},
		"without it":                 {withBearer, runFailed, []string{event, "workflow_run"}, 401, "or set TOCSIN_GITHUB_WEBHOOK_SECRET to the webhook's secret"},
		"signed, and no token":       {func(c *Config) { withSecret(c); withBearer(c) }, runFailed, []string{event, "workflow_run", signature, right}, 200, `{"ok":true}`},
		"a form":                     {withSecret, form, []string{event, "workflow_run", "Content-Type", "application/x-www-form-urlencoded", signature, hubSignature("s3cret", form)}, 200, `{"ok":true}`},
		"unsigned":                   {withSecret, runFailed, []string{event, "workflow_run"}, 401, "X-Hub-Signature-256 is missing"},
		"unsigned, with the token":   {func(c *Config) { withSecret(c); withBearer(c) }, runFailed, []string{event, "workflow_run", "Authorization", "Bearer bearer"}, 401, "X-Hub-Signature-256 is missing"},
		"signed by another":          {withSecret, runFailed, []string{event, "workflow_run", signature, hubSignature("x", runFailed)}, 401, "does not fit the body"},
		"another body":               {withSecret, runFailed + " ", []string{event, "workflow_run", signature, right}, 401, "does not fit the body"},
		"a ping of another":          {withSecret, `{}`, []string{event, "ping", signature, right}, 401, "does not fit the body"},
		"SHA-1 alone":                {withSecret, runFailed, []string{event, "workflow_run", "X-Hub-Signature", "sha1=00"}, 401, "X-Hub-Signature alone is not enough"},
		"signed without a secret":    {plain, runFailed, []string{event, "workflow_run", signature, right}, 401, "TOCSIN_GITHUB_WEBHOOK_SECRET is not set"},
		"so with the token":          {withBearer, runFailed, []string{event, "workflow_run", signature, right, "Authorization", "Bearer bearer"}, 401, "TOCSIN_GITHUB_WEBHOOK_SECRET is not set"},
		"a ping":                     {withSecret, `{}`, []string{event, "ping", signature, hubSignature("s3cret", `{}`)}, 202, `{"ok":true,"ignored":"ping: the webhook is set up"}`},
		"a push":                     {plain, `{}`, []string{event, "push"}, 202, `"ignored":"event push`},
		"another type":               {plain, runFailed, []string{event, "workflow_run", "Content-Type", "text/plain"}, 415, "must be one of application/json, application/x-www-form-urlencoded"},
		"compressed":                 {plain, runFailed, []string{event, "workflow_run", "Content-Encoding", "gzip"}, 415, "identity"},
		"garbage":                    {plain, "\x00\x01", []string{event, "workflow_run"}, 400, "malformed JSON"},
		"a form without a payload":   {plain, "a=b", []string{event, "workflow_run", "Content-Type", "application/x-www-form-urlencoded"}, 400, "no field payload"},
		"nested":                     {plain, strings.Repeat("[", 1000), []string{event, "check_run"}, 413, "deeper than 64"},
		"a page of another site":     {plain, runFailed, []string{event, "workflow_run", "Origin", "https://evil.example"}, 403, "origin"},
		"more than a megabyte":       {plain, runFailed + strings.Repeat(" ", maxBody), []string{event, "workflow_run"}, 413, "over 1048576 bytes"},
		"two contents in one header": {plain, runFailed, []string{event, "workflow_run", "Content-Type", "application/json", "Content-Type", "text/plain"}, 415, "must be one of"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeSink{}
			h := testHandler(s, c.config)
			r := ask("POST", "/webhooks/github", strings.NewReader(c.body), c.header...)
			if r.Header.Get("Content-Type") == "" {
				r.Header.Set("Content-Type", "application/json")
			}
			w := answerOf(h, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
				t.Fatalf("got %d %s, want %d with %q", w.Code, w.Body, c.status, c.says)
			}
			got := resultsOn(t, s)
			if (len(got) == 1) != (c.status == 200) {
				t.Fatalf("stored %+v, want a result: %t", got, c.status == 200)
			}
			if len(got) == 1 && (got[0].Status != "failure" || got[0].Name != "CI" || got[0].Source != "github-actions" || got[0].Commit != "abc123") {
				t.Errorf("stored %+v, want the failure of CI at abc123", got[0])
			}
		})
	}
}

// TestRedelivery delivers a failure, a success, and the failure again.
func TestRedelivery(t *testing.T) {
	for path, c := range map[string]struct{ event, name, key, failed, passed string }{
		"/webhooks/github": {"X-GitHub-Event", "workflow_run", "X-GitHub-Delivery", runFailed, strings.Replace(runFailed, "failure", "success", 1)},
		"/webhooks/gitlab": {"X-Gitlab-Event", "Job Hook", "Idempotency-Key", jobFailed, strings.Replace(jobFailed, "failed", "success", 1)},
	} {
		s := &fakeSink{}
		h := testHandler(s)
		for i, d := range []struct{ id, body, says string }{
			{"d1", c.failed, `{"ok":true}`}, {"d2", c.passed, `{"ok":true}`},
			{"d1", c.failed, `{"ok":true,"duplicate":true}`}, {"d2", c.passed, `{"ok":true,"duplicate":true}`},
		} {
			w := answerOf(h, ask("POST", path, strings.NewReader(d.body), "Content-Type", "application/json", c.event, c.name, c.key, d.id))
			if w.Code != 200 || w.Body.String() != d.says {
				t.Errorf("%s, delivery %d: got %d %s, want 200 %s", path, i, w.Code, w.Body, d.says)
			}
		}
		if got := resultsOn(t, s); len(got) != 2 || got[0].Status != "failure" || got[1].Status != "success" {
			t.Errorf("%s: stored %+v, want failure and success", path, got)
		}
	}
}

func TestGitLab(t *testing.T) {
	const event, token = "X-Gitlab-Event", "X-Gitlab-Token"
	key := []byte(strings.Repeat("k", 32))
	signed := func(body string, at time.Time) []string {
		stamp := strconv.FormatInt(at.Unix(), 10)
		m := hmac.New(sha256.New, key)
		m.Write([]byte("id1." + stamp + "." + body))
		return []string{"webhook-id", "id1", "webhook-timestamp", stamp, "webhook-signature", "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil)), event, "Job Hook"}
	}
	plain := func(*Config) {}
	withToken := func(c *Config) { c.GitLabSecretToken = "t0ken" }
	withSigning := func(c *Config) { c.GitLabSigningToken = "whsec_" + base64.StdEncoding.EncodeToString(key) }
	now := time.Now()
	for name, c := range map[string]struct {
		config func(*Config)
		body   string
		header []string
		status int
		says   string
	}{
		"open":                        {plain, jobFailed, []string{event, "Job Hook"}, 200, `{"ok":true}`},
		"without the bearer":          {withBearer, jobFailed, []string{event, "Job Hook"}, 401, "set TOCSIN_GITLAB_SIGNING_TOKEN or TOCSIN_GITLAB_SECRET_TOKEN"},
		"its token, and no bearer":    {func(c *Config) { withBearer(c); withToken(c) }, jobFailed, []string{event, "Job Hook", token, "t0ken"}, 200, `{"ok":true}`},
		"another token":               {withToken, jobFailed, []string{event, "Job Hook", token, "t0kem"}, 401, "TOCSIN_GITLAB_SECRET_TOKEN"},
		"a part of the token":         {withToken, jobFailed, []string{event, "Job Hook", token, "t0ke"}, 401, "TOCSIN_GITLAB_SECRET_TOKEN"},
		"an empty token":              {withToken, jobFailed, []string{event, "Job Hook", token, ""}, 401, "TOCSIN_GITLAB_SECRET_TOKEN"},
		"no token":                    {withToken, jobFailed, []string{event, "Job Hook"}, 401, "TOCSIN_GITLAB_SECRET_TOKEN"},
		"a token without a secret":    {plain, jobFailed, []string{event, "Job Hook", token, "x"}, 401, "neither TOCSIN_GITLAB_SIGNING_TOKEN nor"},
		"signed":                      {func(c *Config) { withBearer(c); withSigning(c) }, jobFailed, signed(jobFailed, now), 200, `{"ok":true}`},
		"signed without a secret":     {plain, jobFailed, signed(jobFailed, now), 401, "neither TOCSIN_GITLAB_SIGNING_TOKEN nor"},
		"signed long ago":             {withSigning, jobFailed, signed(jobFailed, now.Add(-time.Hour)), 401, "5 minutes"},
		"another body":                {withSigning, jobFailed, signed(jobFailed+" ", now), 401, "does not fit the body"},
		"the token in its place":      {func(c *Config) { withToken(c); withSigning(c) }, jobFailed, []string{event, "Job Hook", token, "t0ken"}, 401, "webhook-signature are needed"},
		"a signing token that's none": {func(c *Config) { c.GitLabSigningToken = "x" }, jobFailed, signed(jobFailed, now), 401, "whsec_"},
		"running":                     {plain, strings.Replace(jobFailed, "failed", "running", 1), []string{event, "Job Hook"}, 202, `"ignored":"job running`},
		"a push":                      {plain, `{}`, []string{event, "Push Hook"}, 202, `"ignored":"event Push Hook`},
		"another type":                {plain, jobFailed, []string{event, "Job Hook", "Content-Type", "application/x-www-form-urlencoded"}, 415, "must be one of application/json"},
		"garbage":                     {plain, "nonsense", []string{event, "Job Hook"}, 400, "malformed JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeSink{}
			h := testHandler(s, c.config)
			r := ask("POST", "/webhooks/gitlab", strings.NewReader(c.body), c.header...)
			if r.Header.Get("Content-Type") == "" {
				r.Header.Set("Content-Type", "application/json")
			}
			w := answerOf(h, r)
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
				t.Fatalf("got %d %s, want %d with %q", w.Code, w.Body, c.status, c.says)
			}
			got := resultsOn(t, s)
			if (len(got) == 1) != (c.status == 200) {
				t.Fatalf("stored %+v, want a result: %t", got, c.status == 200)
			}
			if len(got) == 1 && (got[0].Status != "failure" || got[0].Name != "test / unit" || got[0].Source != "gitlab-ci") {
				t.Errorf("stored %+v, want the failure of test / unit", got[0])
			}
		})
	}
	if _, err := (Config{Masker: fakeMasker{}, GitLabSigningToken: "secret"}).complete(); err == nil || !strings.Contains(err.Error(), "TOCSIN_GITLAB_SIGNING_TOKEN must be") {
		t.Errorf("error %v, want one that names TOCSIN_GITLAB_SIGNING_TOKEN", err)
	}
}

func TestJUnit(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(report)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	const counted = `{"ok":true,"status":"failure","tests":2,"passed":1,"failed":1,"errors":0,"skipped":0}`
	for name, c := range map[string]struct {
		query, body string
		header      []string
		status      int
		says        string
	}{
		"XML":                  {"?commit=abc123&ref=main&name=unit&url=https%3A%2F%2Fci.example%2F1&source=gitlab-ci&x=1", report, []string{"Content-Type", "application/xml"}, 200, counted},
		"text":                 {"", report, []string{"Content-Type", "text/xml; charset=utf-8"}, 200, counted},
		"bytes":                {"", report, []string{"Content-Type", "application/octet-stream"}, 200, counted},
		"nothing said":         {"", report, nil, 200, counted},
		"compressed":           {"", packed.String(), []string{"Content-Type", "application/xml", "Content-Encoding", "gzip"}, 200, counted},
		"what curl says":       {"", report, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "must be one of application/xml, text/xml"},
		"Latin-1":              {"", report, []string{"Content-Type", "text/xml; charset=iso-8859-1"}, 415, "utf-8"},
		"another source":       {"?source=jenkins", report, nil, 400, "source must be one of github-actions, gitlab-ci, custom"},
		"a broken query":       {"?commit=%zz", report, nil, 400, "the query is malformed"},
		"JSON":                 {"", `{"status":"success"}`, nil, 400, "testsuites or testsuite"},
		"a billion laughs":     {"", `<!DOCTYPE a [<!ENTITY b "c">]><testsuites>&b;</testsuites>`, nil, 400, "DOCTYPE"},
		"nothing":              {"", "", nil, 400, "the report is empty"},
		"as deep as one likes": {"", strings.Repeat("<testsuite>", 10_000), nil, 413, "deeper than 64"},
		"a page elsewhere":     {"", report, []string{"Origin", "https://evil.example"}, 403, "origin"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeSink{}
			w := answerOf(testHandler(s), ask("POST", "/v1/junit"+c.query, strings.NewReader(c.body), c.header...))
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
				t.Fatalf("got %d %s, want %d with %q", w.Code, w.Body, c.status, c.says)
			}
			got := resultsOn(t, s)
			if (len(got) == 1) != (c.status == 200) {
				t.Fatalf("stored %+v, want a result: %t", got, c.status == 200)
			}
			if len(got) == 0 {
				return
			}
			want := ci.Result{Status: "failure", Source: "custom", Summary: "1 test passed, 1 failed", Failures: []ci.Failure{{Name: "S.b", Message: "want 3"}}}
			if c.query != "" {
				want.Source, want.Commit, want.Ref, want.Name, want.URL = "gitlab-ci", "abc123", "main", "unit", "https://ci.example/1"
			}
			if g := got[0]; g.Summary != want.Summary || g.Source != want.Source || g.Key() != want.Key() || g.Ref != want.Ref || g.URL != want.URL || len(g.Failures) != 1 || g.Failures[0] != want.Failures[0] {
				t.Errorf("got  %+v\nwant %+v", g, want)
			}
		})
	}
	w := answerOf(testHandler(&fakeSink{}, withBearer), ask("POST", "/v1/junit", strings.NewReader(report)))
	if w.Code != 401 {
		t.Errorf("without the token: got %d %s, want 401", w.Code, w.Body)
	}
}
