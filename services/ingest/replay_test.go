package ingest

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

const (
	taken     = `{"ok":true}`
	duplicate = `{"ok":true,"duplicate":true}`
)

var signingKey = []byte("0123456789abcdef")

// hubDelivery and labDelivery are the headers of a signed delivery with that id.
func hubDelivery(id, body string) http.Header {
	return http.Header{
		"Content-Type": {"application/json"}, "X-Github-Event": {"workflow_run"}, "X-Github-Delivery": {id},
		"X-Hub-Signature-256": {hubSignature("s3cret", body)},
	}
}

func labDelivery(id, body string) http.Header {
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	m := hmac.New(sha256.New, signingKey)
	m.Write([]byte(id + "." + stamp + "." + body))
	return http.Header{
		"Content-Type": {"application/json"}, "X-Gitlab-Event": {"Job Hook"}, "Webhook-Id": {id}, "Webhook-Timestamp": {stamp},
		"Webhook-Signature": {"v1," + base64.StdEncoding.EncodeToString(m.Sum(nil))},
	}
}

func withSignatures(c *Config) {
	c.GitHubWebhookSecret, c.GitLabSigningToken = "s3cret", "whsec_"+base64.StdEncoding.EncodeToString(signingKey)
}

// TestReplay checks that a signed body that was stored is a duplicate with any id, and that
// a repeated delivery is a duplicate by its id and its body.
func TestReplay(t *testing.T) {
	for path, c := range map[string]struct {
		header         func(id, body string) http.Header
		failed, passed string
	}{
		pathGitHub: {hubDelivery, runFailed, strings.Replace(runFailed, "failure", "success", 1)},
		pathGitLab: {labDelivery, jobFailed, strings.Replace(jobFailed, "failed", "success", 1)},
	} {
		s := &fakeSink{}
		h := testHandler(s, withSignatures)
		for i, d := range []struct{ id, body, says string }{
			{"d1", c.failed, taken},
			{"d2", c.passed, taken},
			{"d1", c.failed, duplicate},
			{"d3", c.failed, duplicate},
			{"d4", c.passed, duplicate},
			{"", c.failed, duplicate},
			// The id of a replay is not remembered: it may be that of a delivery to come.
			{"d3", c.failed + "\n", taken},
			{"d5", c.failed + "\n", duplicate},
			{"d3", c.failed + "\n\n", duplicate},
		} {
			r := ask("POST", path, strings.NewReader(d.body))
			r.Header = c.header(d.id, d.body)
			if d.id == "" {
				if path == pathGitLab {
					continue // its id is signed
				}
				r.Header.Del("X-Github-Delivery")
			}
			if w := answerOf(h, r); w.Code != 200 || w.Body.String() != d.says {
				t.Errorf("%s %d: got %d %s, want %s", path, i, w.Code, w.Body, d.says)
			}
		}
		if got := resultsOn(t, s); len(got) != 3 {
			t.Errorf("%s: got %d results, want 3: %+v", path, len(got), got)
		}
	}
}

// TestReplayOfRefusedDelivery checks that a refused delivery can be repeated: a body is
// remembered only once it is stored.
func TestReplayOfRefusedDelivery(t *testing.T) {
	s := &fakeSink{showErr: errResultsBusy}
	h := testHandler(s, withSignatures)
	send := func(id string) (int, string) {
		r := ask("POST", pathGitHub, strings.NewReader(runFailed))
		r.Header = hubDelivery(id, runFailed)
		w := answerOf(h, r)
		return w.Code, w.Body.String()
	}
	if code, says := send("d1"); code != 503 {
		t.Fatalf("got %d %s, want 503", code, says)
	}
	s.showErr = nil
	for _, want := range []string{taken, duplicate} {
		if code, says := send("d2"); code != 200 || says != want {
			t.Errorf("got %d %s, want %s", code, says, want)
		}
	}
}

// TestUnsignedBodiesMayRepeat checks that, without a signature, the same body with another
// id is another delivery, as when a person tests a webhook.
func TestUnsignedBodiesMayRepeat(t *testing.T) {
	h := testHandler(&fakeSink{})
	for i, d := range []struct{ id, says string }{{"d1", taken}, {"d2", taken}, {"d1", duplicate}} {
		r := ask("POST", pathGitHub, strings.NewReader(runFailed), "Content-Type", "application/json", "X-GitHub-Event", "workflow_run", "X-GitHub-Delivery", d.id)
		if w := answerOf(h, r); w.Code != 200 || w.Body.String() != d.says {
			t.Errorf("%d: got %d %s, want %s", i, w.Code, w.Body, d.says)
		}
	}
}

// TestReplayOverRestartsAndIngestServices checks that an ingest service recognizes the
// deliveries that another has stored, also after a restart of everything.
func TestReplayOverRestartsAndIngestServices(t *testing.T) {
	b := bustest.Start(t)
	deliver := func(url, id string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+pathGitHub, strings.NewReader(runFailed))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = hubDelivery(id, runFailed)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		data, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(data)
	}
	for run, want := range []string{taken, duplicate} {
		var stops []func()
		for i, name := range []string{"a", "b"} {
			cfg := Config{Bus: bus.Config{Dir: b.Dir}, Instance: name}
			withSignatures(&cfg)
			url, stop := start(t, cfg)
			stops = append(stops, stop)
			bustest.Eventually(t, "readiness", func() bool { status, _, _ := send(t, "GET", url+"/readyz", ""); return status == 200 })
			if code, says := deliver(url, "d"+strconv.Itoa(2*run+i)); code != 200 || says != want {
				t.Errorf("start %d, ingest service %s: got %d %s, want %s", run, name, code, says, want)
			}
			want = duplicate
		}
		for _, stop := range stops {
			stop()
		}
		b.Restart()
	}
}

// TestDeliveriesAreKeptLongEnough checks that the stream keeps 10,000 deliveries, each by
// its id and its body, for 7 days.
func TestDeliveriesAreKeptLongEnough(t *testing.T) {
	dir := bustest.Start(t).Dir
	c, err := bus.Connect(t.Context(), bus.Config{Name: "test", Role: bus.RoleGateway, Dir: dir, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	bustest.Eventually(t, "connection", c.Connected)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	s, err := c.JS.Stream(ctx, bus.StreamDeliveries)
	if err != nil {
		t.Fatal(err)
	}
	if cfg := s.CachedInfo().Config; cfg.MaxAge != 7*24*time.Hour || cfg.MaxMsgs != 20_000 {
		t.Errorf("got %s and %d messages, want 168h and 20000", cfg.MaxAge, cfg.MaxMsgs)
	}
}
