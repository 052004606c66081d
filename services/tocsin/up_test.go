package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// TestIdleTimeBeginsAfterTheStart checks that even a bus with a very short idle time announces
// itself before it stops.
func TestIdleTimeBeginsAfterTheStart(t *testing.T) {
	line, err := parsed(t, "up", "--idle-exit=1ms", "--nats-addr=127.0.0.1:0", "--nats-ws-addr=127.0.0.1:0",
		"--ingest-addr=127.0.0.1:0", "--otlp-addr=127.0.0.1:0", "--dashboard-addr=127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	env := service.Env{StateDir: t.TempDir(), Stdout: &out, Logger: slog.New(slog.DiscardHandler)}
	if err := line.Up.Run(t.Context(), env); err != nil {
		t.Errorf("up = %v, want nil", err)
	}
	if got, want := out.String(), "tocsin is up"; !strings.HasPrefix(got, want) {
		t.Errorf("output = %q, want it to begin with %q", got, want)
	}
}

// TestUpWithInvestigator checks that tocsin up runs an investigator where it has a configuration,
// and does not start with one that has errors.
func TestUpWithInvestigator(t *testing.T) {
	for _, c := range []struct{ name, config, printed, says string }{
		{name: "a configuration", config: "llm_providers: { local: { type: openai, model: m, base_url: \"http://127.0.0.1:1/v1\", api_key_env: \"\" } }\ndefaults: { llm_provider: local }\n", printed: "\n  investigator http://127.0.0.1:"},
		{name: "an error in it", config: "nonsense: 1\n", says: "nonsense"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "investigator.yaml")
			if err := os.WriteFile(file, []byte(c.config), 0o600); err != nil {
				t.Fatal(err)
			}
			line, err := parsed(t, "up", "--idle-exit=1ms", "--nats-addr=127.0.0.1:0", "--nats-ws-addr=127.0.0.1:0", "--ingest-addr=127.0.0.1:0",
				"--otlp-addr=127.0.0.1:0", "--dashboard-addr=127.0.0.1:0", "--investigator="+file, "--investigator-addr=127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			env := service.Env{StateDir: t.TempDir(), Stdout: &out, Logger: slog.New(slog.DiscardHandler)}
			err = line.Up.Run(t.Context(), env)
			if got := fmt.Sprint(err); (err != nil) != (c.says != "") || !strings.Contains(got, c.says) {
				t.Errorf("up = %v, want an error with %q, or none", err, c.says)
			}
			if !strings.Contains(out.String(), c.printed) {
				t.Errorf("output = %q, want %q in it", out.String(), c.printed)
			}
		})
	}
}

// TestUpServesInvestigator checks that the dashboard of tocsin up serves the investigator's API,
// names the users of a trusted proxy as authors, and stands in links to sessions.
func TestUpServesInvestigator(t *testing.T) {
	file := filepath.Join(t.TempDir(), "investigator.yaml")
	const config = "llm_providers: { local: { type: openai, model: m, base_url: \"http://127.0.0.1:1/v1\", api_key_env: \"\" } }\ndefaults: { llm_provider: local }\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	line, err := parsed(t, "up", "--nats-addr=127.0.0.1:0", "--nats-ws-addr=127.0.0.1:0", "--ingest-addr=127.0.0.1:0", "--otlp-addr=127.0.0.1:0", "--dashboard-addr=127.0.0.1:0",
		"--investigator="+file, "--investigator-addr=127.0.0.1:0", "--trusted-proxy=127.0.0.1", "--proxy-secret=p", "--token=s3cret")
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- line.Up.Run(ctx, service.Env{StateDir: state, Stdout: io.Discard, Logger: slog.New(slog.DiscardHandler)})
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("up = %v, want nil", err)
		}
	}()
	var running statedir.Runtime
	await(t, "both to be ready", ended, func() bool {
		if running, err = statedir.At(state).Running(); err != nil {
			return false
		}
		status, _ := exchange(t, "GET", running.InvestigatorURL+"/readyz", "")
		return status == http.StatusOK
	})

	api := running.DashboardURL + "/api/v1"
	if status, body := exchange(t, "GET", api+"/system/config", ""); status != http.StatusOK || !strings.Contains(body, `"dashboard_url":"`+running.DashboardURL+`"`) {
		t.Errorf("the configuration is %d %s, want dashboard_url %s", status, body, running.DashboardURL)
	}
	want := map[string]bool{}
	for _, c := range []struct {
		author string
		status int
		header []string
	}{
		{"a stranger", http.StatusUnauthorized, nil},
		{"api-client", http.StatusAccepted, []string{"Authorization", "Bearer s3cret", "X-Forwarded-User", "eve"}},
		{"ann", http.StatusAccepted, []string{"X-Forwarded-User", "ann", "X-Tocsin-Proxy", "p"}},
	} {
		status, body := exchange(t, "POST", api+"/alerts", `{"data":"it broke"}`, c.header...)
		if status != c.status {
			t.Errorf("an alert of %s: %d %s, want %d", c.author, status, body, c.status)
		}
		if status == http.StatusAccepted {
			want[c.author] = true
		}
	}
	await(t, "the sessions", ended, func() bool {
		var list struct {
			Sessions []struct {
				Author string `json:"author"`
			} `json:"sessions"`
		}
		_, body := exchange(t, "GET", api+"/sessions", "")
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		got := map[string]bool{}
		for _, s := range list.Sessions {
			got[s.Author] = true
		}
		return maps.Equal(got, want)
	})
}

// exchange sends a request and returns the answer; without one the status is 0. The headers are
// names and values in turn.
func exchange(t *testing.T, method, url, body string, header ...string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// await waits until ok returns true. It fails if tocsin up ends before.
func await(t *testing.T, what string, ended chan error, ok func() bool) {
	t.Helper()
	deadline, tick := time.After(time.Minute), time.NewTicker(20*time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("up ended with %v, want it to wait for %s", err, what)
		case <-deadline:
			t.Fatalf("waited a minute for %s", what)
		case <-tick.C:
		}
	}
}
