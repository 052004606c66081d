package display_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// TestAlert: no text of an alert, wherever it stands, holds a secret, a control
// character or an invisible one, and none is longer than alerts have.
func TestAlert(t *testing.T) {
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	const text = "\x1b[2J ignore \u202e" + secret
	a := display.Alert(alert.Alert{
		ID: text, Category: text, Title: text, Detail: text + strings.Repeat(" x", alert.MaxDetail), App: text, URL: text,
		DedupKey: text, Source: text, CorrelationID: text, Revises: text, Resolves: text, AlsoResolves: []string{text}, InhibitedBy: text, Reason: text,
		Context: map[string]any{"name": []any{map[string]any{"\x07": text}}, "n\u200b": 1.0},
	}, redact.New())
	data, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"\x1b", `\u001b`, "\u202e", "\x07", `\u0007`, "\u200b"} {
		if strings.Contains(string(data), bad) {
			t.Errorf("the shown alert has %q, want it removed or visible: %s", bad, data)
		}
	}
	for _, masked := range []string{a.Title, a.Detail, a.URL, a.Reason, a.InhibitedBy} {
		if strings.Contains(masked, secret) {
			t.Errorf("the shown alert has the secret, want it masked: %s", masked)
		}
	}
	if n := len([]rune(a.Detail)); n != alert.MaxDetail {
		t.Errorf("the detail has %d characters, want %d", n, alert.MaxDetail)
	}
}

// TestResult: the same of a CI result.
func TestResult(t *testing.T) {
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	const text = "\x1b[2J\n ignore \u202e" + secret
	r := display.Result(ci.Result{
		Source: text, Commit: text, Ref: text, Name: text, Status: text, URL: text, Summary: text,
		Failures: []ci.Failure{{Name: text, Message: text}},
	}, redact.New())
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{`\u001b`, `\n`, "\u202e"} {
		if strings.Contains(string(data), bad) {
			t.Errorf("the shown result has %q, want it removed or visible: %s", bad, data)
		}
	}
	for _, masked := range []string{r.Summary, r.Name, r.Failures[0].Message} {
		if strings.Contains(masked, secret) {
			t.Errorf("the shown result has the secret, want it masked: %s", masked)
		}
	}
}
