package senders

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
)

const webhookSecret = "It's a Secret to Everybody"

// deliver posts a webhook; header has names and values in turn.
func deliver(t *testing.T, b *harness.Bus, path string, body []byte, header ...string) harness.Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.IngestURL+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	a, err := harness.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// signedLikeGitHub returns the header that GitHub computes.
func signedLikeGitHub(body []byte) string {
	m := hmac.New(sha256.New, []byte(webhookSecret))
	m.Write(body)
	return "sha256=" + hex.EncodeToString(m.Sum(nil))
}

// documented returns the payloads that GitHub documents, by event.
func documented(t *testing.T) map[string][]json.RawMessage {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(e2etest.NodeModules(t, "webhooks"), "node_modules", "@octokit", "webhooks-examples", "api.github.com", "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Name     string
		Examples []json.RawMessage
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	events := make(map[string][]json.RawMessage, len(all))
	for _, e := range all {
		events[e.Name] = e.Examples
	}
	return events
}

// hasOutcome reports whether a payload is of a run that succeeded or failed.
func hasOutcome(t *testing.T, event string, payload []byte) bool {
	t.Helper()
	if !slices.Contains([]string{"workflow_run", "workflow_job", "check_run", "check_suite"}, event) {
		return false
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(payload, &parts); err != nil {
		t.Fatal(err)
	}
	var run struct{ Conclusion string }
	if err := json.Unmarshal(parts[event], &run); err != nil {
		t.Fatal(err)
	}
	return string(parts["action"]) == `"completed"` && (run.Conclusion == "success" || run.Conclusion == "failure")
}

// TestGitHubDocumented delivers every payload that GitHub documents, of every event, as
// JSON and as a form.
func TestGitHubDocumented(t *testing.T) {
	t.Parallel()
	events := documented(t)
	b := e2etest.UpIn(t, t.TempDir(), "--github-webhook-secret="+webhookSecret)
	sys := &e2etest.System{Bus: b, Agent: e2etest.Join(t, b, "e2e")}
	taken, ignored := 0, 0
	for event, examples := range events {
		for i, payload := range examples {
			want := http.StatusAccepted
			if hasOutcome(t, event, payload) {
				want = http.StatusOK
				taken++
			} else {
				ignored++
			}
			body, media := []byte(payload), "application/json"
			if i%2 == 1 {
				body, media = []byte(url.Values{"payload": {string(payload)}}.Encode()), "application/x-www-form-urlencoded"
			}
			a := deliver(t, b, "/webhooks/github", body, "X-GitHub-Event", event, "X-GitHub-Delivery", fmt.Sprintf("%s-%d", event, i),
				"X-Hub-Signature-256", signedLikeGitHub(body), "Content-Type", media)
			if a.Status != want {
				t.Errorf("%s %d: got %d %s, want Status %v", event, i, a.Status, a.Body, want)
			}
		}
	}
	if taken < 10 || ignored < 100 {
		t.Errorf("%d results and %d ignored, want at least 10 and 100", taken, ignored)
	}
	var kept struct{ CI []ci.Result }
	if err := json.Unmarshal([]byte(sys.Observe(t, map[string]any{"what": "ci"}).First), &kept); err != nil {
		t.Fatal(err)
	}
	names := map[string]ci.Result{}
	for _, r := range kept.CI {
		names[r.Name] = r
	}
	if job := names["CodeQL / linters"]; job.Commit == "" || job.Source != ci.SourceGitHub || names["Octocoders-linter"].URL == "" ||
		!strings.HasPrefix(names["test"].Summary, "test #163 passed on repository_dispatch: ci(action)") {
		t.Errorf("got %+v, want a Commit, Source %v, a URL and Summary that begins with \"test #163 passed on repository_dispatch: ci(action)\"", kept.CI, ci.SourceGitHub)
	}
}

// TestGitHubRedelivery delivers a failure and a success, restarts the bus, and delivers
// the failure again.
func TestGitHubRedelivery(t *testing.T) {
	t.Parallel()
	var failed []byte
	for _, payload := range documented(t)["workflow_job"] {
		var compact bytes.Buffer
		if err := json.Compact(&compact, payload); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(compact.Bytes(), []byte(`"completed","conclusion":"failure"`)) {
			failed = compact.Bytes()
		}
	}
	passed := bytes.ReplaceAll(failed, []byte(`"conclusion":"failure"`), []byte(`"conclusion":"success"`))
	dir := t.TempDir()
	send := func(b *harness.Bus, id string, body []byte, want string) {
		t.Helper()
		a := deliver(t, b, "/webhooks/github", body, "X-GitHub-Event", "workflow_job", "X-GitHub-Delivery", id, "X-Hub-Signature-256", signedLikeGitHub(body))
		if a.Status != 200 || a.Body != want {
			t.Fatalf("%s: got %d %s, want Status 200 and Body %v", id, a.Status, a.Body, want)
		}
	}
	b := e2etest.UpIn(t, dir, "--github-webhook-secret="+webhookSecret)
	send(b, "D1", failed, `{"ok":true}`)
	send(b, "D2", passed, `{"ok":true}`)
	send(b, "D1", failed, `{"ok":true,"duplicate":true}`)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b = e2etest.UpIn(t, dir, "--github-webhook-secret="+webhookSecret)
	send(b, "D1", failed, `{"ok":true,"duplicate":true}`)
	sys := &e2etest.System{Bus: b, Agent: e2etest.Join(t, b, "e2e")}
	got := sys.TakeAlerts(t, 2)
	send(b, "D2", passed, `{"ok":true,"duplicate":true}`)
	send(b, "D3", failed, `{"ok":true,"duplicate":true}`) // a replay with another id
	send(b, "D4", append(bytes.Clone(failed), '\n'), `{"ok":true}`)
	got = append(got, sys.TakeAlerts(t, 1)...) // by now a third alert for the redelivery would have arrived
	const title = "CI failure: CodeQL / linters on main"
	if len(got) != 3 || got[0].Title != "Resolved: "+title || got[1].Title != "CI success: CodeQL / linters on main" || got[2].Title != title {
		t.Errorf("got %+v, want 3 of them, Title %v, Title \"CI success: CodeQL / linters on main\" and Title %v", got, "Resolved: "+title, title)
	}
	if !strings.Contains(got[2].Detail, "at step Run yarn run format-check; Run yarn run format-check: step 8 failed") {
		t.Errorf("got %s, want \"at step Run yarn run format-check; Run yarn run format-check: step 8 failed\" in it", got[2].Detail)
	}
}

// TestGitLabDocumented delivers the payloads of GitLab's documentation, signed and with
// the secret token.
func TestGitLabDocumented(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "gitlab.com/gitlab-org/api/client-go/v2").Output()
	if err != nil {
		t.Skipf("the module with GitLab's payloads is not here: %v", err)
	}
	payload := func(name string) []byte {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "testdata", "webhooks", name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	key := bytes.Repeat([]byte("k"), 32)
	signed := func(id string, at time.Time, body []byte) []string {
		stamp := strconv.FormatInt(at.Unix(), 10)
		m := hmac.New(sha256.New, key)
		fmt.Fprintf(m, "%s.%s.%s", id, stamp, body)
		return []string{"webhook-id", id, "Idempotency-Key", id, "webhook-timestamp", stamp, "webhook-signature", "v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))}
	}
	pipeline, job := payload("pipeline.json"), payload("job.json")
	broken := bytes.Replace(bytes.Replace(pipeline, []byte(`"status": "success"`), []byte(`"status": "failed"`), 2), []byte(`"detailed_status": "passed"`), []byte(`"detailed_status": "failed"`), 1)

	t.Run("signed", func(t *testing.T) {
		b := e2etest.UpIn(t, t.TempDir(), "--gitlab-signing-token=whsec_"+base64.StdEncoding.EncodeToString(key))
		sys := &e2etest.System{Bus: b, Agent: e2etest.Join(t, b, "e2e")}
		now := time.Now()
		for i, c := range []struct {
			event  string
			body   []byte
			header []string
			status int
			says   string
		}{
			{"Pipeline Hook", broken, signed("1", now, broken), 200, `{"ok":true}`},
			{"Job Hook", job, signed("2", now, job), 200, `{"ok":true}`},
			{"Pipeline Hook", broken, signed("1", now, broken), 200, `{"ok":true,"duplicate":true}`},
			{"Push Hook", payload("push.json"), signed("3", now, payload("push.json")), 202, "ignored"},
			{"Pipeline Hook", pipeline, signed("4", now.Add(-time.Hour), pipeline), 401, "5 minutes"},
			{"Pipeline Hook", append([]byte(" "), pipeline...), signed("5", now, pipeline), 401, "does not fit"},
			{"Pipeline Hook", pipeline, []string{"X-Gitlab-Token", "x"}, 401, "TOCSIN_GITLAB_SIGNING_TOKEN"},
		} {
			if a := deliver(t, b, "/webhooks/gitlab", c.body, append(c.header, "X-Gitlab-Event", c.event)...); a.Status != c.status || !strings.Contains(a.Body, c.says) {
				t.Errorf("%d: got %d %s, want Status %v and %q in Body", i, a.Status, a.Body, c.status, c.says)
			}
		}
		titles := map[string]alert.Alert{}
		for _, a := range sys.TakeAlerts(t, 2) {
			titles[a.Title] = a
		}
		if a := titles["CI failure: pipeline on master"]; !strings.HasPrefix(a.Detail, "pipeline #31 failed on merge request") || a.URL != "http://192.168.64.1:3005/gitlab-org/gitlab-test/-/pipelines/31" {
			t.Errorf("got %+v, want Detail that begins with \"pipeline #31 failed on merge request\" and URL \"http://192.168.64.1:3005/gitlab-org/gitlab-test/-/pipelines/31\"", titles)
		}
		if _, ok := titles["CI success: coordinated:tag / auto_deploy:start on main"]; !ok {
			t.Errorf("titles = %+v, want also CI success: coordinated:tag / auto_deploy:start on main", titles)
		}
	})
	t.Run("with the token", func(t *testing.T) {
		b := e2etest.UpIn(t, t.TempDir(), "--gitlab-secret-token=t0ken", "--token=another")
		if a := deliver(t, b, "/webhooks/gitlab", job, "X-Gitlab-Event", "Job Hook", "X-Gitlab-Token", "t0ken"); a.Status != 200 {
			t.Errorf("got %d %s, want Status 200", a.Status, a.Body)
		}
		if a := deliver(t, b, "/webhooks/gitlab", job, "X-Gitlab-Event", "Job Hook", "X-Gitlab-Token", "another"); a.Status != 401 {
			t.Errorf("got %d %s, want Status 401", a.Status, a.Body)
		}
	})
}
