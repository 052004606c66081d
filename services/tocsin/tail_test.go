package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/notify"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

func TestTailShowsNotices(t *testing.T) {
	yes, no := true, false
	for name, c := range map[string]struct {
		tailCommand
		want bool
	}{
		"plain":                {want: true},
		"no":                   {tailCommand: tailCommand{Notices: &no}},
		"a category":           {tailCommand: tailCommand{Category: "ci"}},
		"a category, and them": {tailCommand: tailCommand{Category: "ci", Notices: &yes}, want: true},
		"JSON":                 {tailCommand: tailCommand{JSON: true}},
		"JSON, and them":       {tailCommand: tailCommand{JSON: true, Notices: &yes}, want: true},
	} {
		if got := c.notices(); got != c.want {
			t.Errorf("%s: notices() = %t, want %t", name, got, c.want)
		}
	}
}

// TestTailOfAlert expects a revision of an alert to be marked, and a repeat to be counted.
func TestTailOfAlert(t *testing.T) {
	for _, tt := range []struct {
		count   int
		revises string
		want    string
	}{
		{0, "", "Crash: shop/web-1"}, {2, "", "Crash: shop/web-1 (x2)"}, {0, "a", "Crash: shop/web-1 (revised)"}, {2, "a", "Crash: shop/web-1 (x2) (revised)"},
	} {
		at := time.Date(2026, 1, 28, 14, 30, 0, 0, time.Local)
		data, err := json.Marshal(alert.Alert{
			ID: "b", Severity: alert.Warning, Category: alert.Kubernetes, App: "web", Title: "Crash: shop/web-1", Timestamp: at, Count: tt.count, Revises: tt.revises,
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := tailFormatter{tailCommand: &tailCommand{}, mask: redact.New(), log: slog.New(slog.DiscardHandler)}.alert(bus.Message{Data: data, Time: at})
		if want := "2026-01-28 14:30:00  warning  kubernetes        web         " + tt.want + "\n"; err != nil || got != want {
			t.Errorf("line = %q, %v\nwant %q", got, err, want)
		}
	}
}

// TestTailOfInvestigation expects a line for each state of an investigation, with what it led to.
func TestTailOfInvestigation(t *testing.T) {
	at := time.Date(2026, 1, 28, 14, 30, 0, 0, time.Local)
	found := alert.Alert{
		ID: "b", Severity: alert.Error, Category: alert.Kubernetes, App: "web", Title: "Crash: shop/web-1", Detail: "exit code 1", Timestamp: at, Count: 3, DedupKey: "k",
	}
	for _, tt := range []struct {
		investigation alert.Investigation
		want          string
	}{
		{alert.Investigation{SessionID: "s", Status: alert.InvestigationInProgress}, "Investigation in progress: Crash: shop/web-1\n"},
		{alert.Investigation{SessionID: "s", Status: alert.InvestigationCompleted, Summary: "The pool\x1b is small.", Confidence: alert.Likely},
			"Investigation completed: Crash: shop/web-1\n          The pool␛ is small.\n"},
		{alert.Investigation{SessionID: "s", Status: alert.InvestigationFailed, Reason: "no model answers"}, "Investigation failed: Crash: shop/web-1\n          no model answers\n"},
		{alert.Investigation{Status: alert.InvestigationSkipped, Reason: "max_per_hour"}, "Investigation skipped: Crash: shop/web-1\n          max_per_hour\n"},
	} {
		data, err := json.Marshal(alert.RevisionFor(found, tt.investigation))
		if err != nil {
			t.Fatal(err)
		}
		got, err := tailFormatter{tailCommand: &tailCommand{}, mask: redact.New(), log: slog.New(slog.DiscardHandler)}.alert(bus.Message{Data: data, Time: at})
		if want := "2026-01-28 14:30:00  error    kubernetes        web         " + tt.want; err != nil || got != want {
			t.Errorf("%s: got %q, %v\nwant %q", tt.investigation.Status, got, err, want)
		}
	}
}

// TestTailOfNotice expects control characters of an agent's message to be made visible, so
// that it can neither imitate another line nor control the terminal.
func TestTailOfNotice(t *testing.T) {
	at := time.Date(2026, 1, 28, 14, 30, 0, 0, time.Local)
	secret := "ghp_" + strings.Repeat("a1B2c3", 6)
	data, err := json.Marshal(notify.Notice{
		Message: "done\n14:30:01  error    ci  fake\x1b[31m " + secret, Level: notify.Warn, Context: "de\u202eploy", Client: "claude-code in /work",
		Timestamp: at.Format(time.RFC3339),
	})
	if err != nil {
		t.Fatal(err)
	}
	show := func(c tailCommand, data string) string {
		t.Helper()
		text, err := tailFormatter{tailCommand: &c, mask: redact.New(), log: slog.New(slog.DiscardHandler)}.notice(bus.Message{Data: []byte(data), Time: at})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	want := "2026-01-28 14:30:00  warn     notice            deploy      done␊14:30:01  error    ci  fake␛[31m [REDACTED:github]\n          from claude-code in /work\n"
	if got := show(tailCommand{}, string(data)); got != want {
		t.Errorf("line = %q\nwant %q", got, want)
	}
	if got := show(tailCommand{Severity: "warning"}, string(data)); got != want {
		t.Errorf("line with --severity warning = %q\nwant %q", got, want)
	}
	if got := show(tailCommand{Severity: "error"}, string(data)); got != "" {
		t.Errorf("line with --severity error = %q, want none", got)
	}
	line := show(tailCommand{JSON: true}, string(data))
	var n struct {
		Notice bool
		Level  string
	}
	if err := json.Unmarshal([]byte(line), &n); err != nil || !n.Notice || n.Level != "warn" || strings.Count(line, "\n") != 1 || strings.Contains(line, secret) {
		t.Errorf("JSON = %q, %v, want one line with notice, level warn and a masked secret", line, err)
	}
	if got := show(tailCommand{}, `{"message":"x","timestamp":"soon"}`); got != "2026-01-28 14:30:00  info     notice            llm         x\n" {
		t.Errorf("line of a notice without a valid time = %q, want the time of the message", got)
	}
	if got := show(tailCommand{}, `[]`); got != "" {
		t.Errorf("line of what is not a notice = %q, want none", got)
	}
}

// TestTailPutsThePastInOrder expects the past of all streams in order of time, then new lines.
func TestTailPutsThePastInOrder(t *testing.T) {
	line := func(second int) tailLine { return tailLine{time.Unix(int64(second), 0), string(rune('a' + second))} }
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		past, live := make(chan []tailLine, 2), make(chan tailLine)
		var out bytes.Buffer
		done := make(chan error)
		go func() { done <- printLines(ctx, &out, 2, past, live) }()
		past <- []tailLine{line(1), line(3)}
		synctest.Wait()
		if out.Len() > 0 {
			t.Errorf("printed %q before all sources sent their past, want nothing", out.String())
		}
		past <- []tailLine{line(0), line(2), line(4)}
		live <- line(7)
		live <- line(6)
		synctest.Wait()
		if got := out.String(); got != "abcdehg" {
			t.Errorf("printed %q, want abcdehg", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestTailDoesNotWaitForEver expects a late past of one stream to delay the others by
// tailWait only.
func TestTailDoesNotWaitForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		past, live := make(chan []tailLine, 2), make(chan tailLine)
		var out bytes.Buffer
		done := make(chan error)
		go func() { done <- printLines(ctx, &out, 2, past, live) }()
		past <- []tailLine{{text: "a"}}
		started := time.Now()
		live <- tailLine{text: "b"}
		if took := time.Since(started); took != tailWait {
			t.Errorf("waited %s, want %s", took, tailWait)
		}
		past <- []tailLine{{text: "c"}}
		synctest.Wait()
		if got := out.String(); got != "abc" {
			t.Errorf("printed %q, want abc", got)
		}
		cancel()
		<-done
	})
}
