package gateway

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
)

func TestReadLook(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want look
	}{
		{``, look{what: "status", since: 10 * time.Minute, limit: 50}},
		{`null`, look{what: "status", since: 10 * time.Minute, limit: 50}},
		{`{"what":"","app":""}`, look{what: "status", since: 10 * time.Minute, limit: 50}},
		{`{"what":"errors","app":"web","url":"/cart","since_seconds":60,"limit":5,"wait_seconds":50}`,
			look{what: "errors", app: "web", url: "/cart", minRank: 3, since: time.Minute, limit: 5, wait: 50 * time.Second}},
		{`{"what":"logs","severity_min":"warning","limit":200.0}`, look{what: "logs", minRank: 2, since: 10 * time.Minute, limit: 200}},
	} {
		if got, err := readLook(json.RawMessage(tt.in)); err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v", tt.in, got, err)
		}
	}
}

// TestBadArguments: each refusal names the argument and what is allowed.
func TestBadArguments(t *testing.T) {
	look := func(data json.RawMessage) error { _, err := readLook(data); return err }
	streaming := func(data json.RawMessage) error {
		a := readArguments(data)
		readStream(a)
		return a.done()
	}
	for _, tt := range []struct {
		name     string
		read     func(json.RawMessage) error
		in, want string
	}{
		{"no object", look, `[1]`, "the arguments must be a JSON object"},
		{"what", look, `{"what":"everything"}`, "what must be one of alerts, errors, logs, network, vitals, actions, ci, kubernetes, noise, security, status"},
		{"what is a number", look, `{"what":1}`, "what must be one of"},
		{"app", look, `{"app":5}`, "app must be a text of at most 2048 bytes"},
		{"severity", look, `{"severity_min":"fatal"}`, "severity_min must be one of info, warning, error"},
		{"since", look, `{"since_seconds":0}`, "since_seconds must be between 1 and 604800"},
		{"limit", look, `{"limit":201}`, "limit must be between 1 and 200"},
		{"limit is text", look, `{"limit":"5"}`, "limit must be between 1 and 200"},
		{"limit is a fraction", look, `{"limit":1.5}`, "limit must be between 1 and 200, in whole numbers"},
		{"wait", look, `{"wait_seconds":51}`, "wait_seconds must be between 0 and 50"},
		{"unknown", look, `{"severity":"error","what":"logs"}`, "severity is no argument: allowed are what, app, url, severity_min, since_seconds, limit, wait_seconds"},
		{"unknown with controls", look, `{"a\u001b[31m":1}`, "a␛[31m is no argument"},
		{"throttle 0", streaming, `{"throttle_seconds":0}`, "throttle_seconds must be between 1 and 60"},
		{"throttle 61", streaming, `{"throttle_seconds":61}`, "throttle_seconds must be between 1 and 60"},
		{"throttle huge", streaming, `{"throttle_seconds":1e300}`, "throttle_seconds must be between 1 and 60"},
		{"events", streaming, `{"events":["all","x"]}`, "events must be a list with at least one of " + strings.Join(notifier.Filters(), ", ")},
		{"events is empty", streaming, `{"events":[]}`, "events must be a list with at least one of"},
		{"events is a word", streaming, `{"events":"all"}`, "events must be a list"},
		{"severity_min", streaming, `{"severity_min":"high"}`, "severity_min must be one of info, warning, error"},
		{"url_filter", streaming, `{"url_filter":["a"]}`, "url_filter must be a text"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.read(json.RawMessage(tt.in)); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func FuzzReadLook(f *testing.F) {
	f.Add(`{"what":"logs","limit":5}`)
	f.Add(`{"limit":1e400}`)
	f.Fuzz(func(t *testing.T, in string) {
		l, err := readLook(json.RawMessage(in))
		if err == nil && (l.limit < 1 || l.limit > 200 || l.wait < 0 || l.wait > 50*time.Second || l.since < time.Second || l.what == "") {
			t.Errorf("%s gives %+v", in, l)
		}
	})
}

func TestShortfall(t *testing.T) {
	for _, tt := range []struct {
		err   error
		read  int
		notes string
		none  error
	}{
		{nil, 0, "", nil},
		{nil, 7, "", nil},
		{errSilent, 0, "", errSilent},
		{errAway, 0, "", errAway},
		{errSilent, 500, "only the newest 500 messages could be looked at within 3s: ask for less with since_seconds", nil},
		{errors.New("no\x1b"), 500, "only the newest 500 messages could be looked at: no␛", nil},
	} {
		notes, none := shortfall(tt.err, tt.read)
		if strings.Join(notes, "; ") != tt.notes || !errors.Is(none, tt.none) {
			t.Errorf("%v after %d: %v, %v", tt.err, tt.read, notes, none)
		}
	}
}

func TestToolsAreSmall(t *testing.T) {
	if n := len(instructions); n > 1024 {
		t.Errorf("instructions of %d bytes", n)
	}
	g := &gateway{}
	size := 0
	for _, d := range g.definitions() {
		var schema struct {
			Type       string
			Properties map[string]any
		}
		if err := json.Unmarshal([]byte(d.schema), &schema); err != nil || schema.Type != "object" || len(schema.Properties) == 0 {
			t.Errorf("%s: %v %+v", d.name, err, schema)
		}
		size += len(d.name) + len(d.description) + len(d.schema)
	}
	if size > 8<<10 {
		t.Errorf("tools of %d bytes", size)
	}
}

// FuzzArguments: whatever a client sends is read within the bounds or refused,
// and a refusal is one line of text that can be shown.
func FuzzArguments(f *testing.F) {
	f.Add([]byte(`{"what":"logs","limit":5,"wait_seconds":1}`))
	f.Add([]byte(`{"events":["ci"],"throttle_seconds":60,"url_filter":"/api"}`))
	f.Add([]byte(`{"\u001b":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := readLook(data)
		if err == nil && (l.limit < 1 || l.limit > 200 || l.wait < 0 || l.wait > 50*time.Second || l.since < time.Second) {
			t.Errorf("%+v", l)
		}
		a := readArguments(data)
		config := readStream(a)
		if streamErr := a.done(); streamErr == nil && (config.ThrottleSeconds < 1 || config.ThrottleSeconds > 60 || len(config.Events) == 0) {
			t.Errorf("%+v", config)
		}
		if err != nil && strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%q", err)
		}
	})
}
