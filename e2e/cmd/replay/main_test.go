package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var start = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

// line is an input line with an event.
func line(after time.Duration, event string) string {
	return fmt.Sprintf(`{"time":%q,"event":%s}`, start.Add(after).Format(time.RFC3339Nano), event) + "\n"
}

func failing(message string) string {
	return fmt.Sprintf(`{"kind":"log","app":"web","log":{"level":"error","message":%q}}`, message)
}

func loading(lcp int) string {
	return fmt.Sprintf(`{"kind":"vitals","app":"web","url":"http://localhost:3000/cart","vitals":{"lcp_ms":%d}}`, lcp)
}

// spike is 10 min without errors, 30 errors in 3 s, and nothing after them.
func spike() string {
	var b strings.Builder
	for i := range 600 {
		b.WriteString(line(time.Duration(i)*time.Second, `{"kind":"log","app":"web","log":{"level":"info","message":"fine"}}`))
	}
	for i := range 30 {
		b.WriteString(line(10*time.Minute+time.Duration(i)*100*time.Millisecond, failing("boom")))
	}
	return b.String()
}

// regression is 30 loads of a page. The last 6 are slow.
func regression() string {
	var b strings.Builder
	for i := range 30 {
		lcp := 1000 + i%3
		if i >= 24 {
			lcp = 3000
		}
		b.WriteString(line(time.Duration(i)*time.Minute, loading(lcp)))
	}
	return b.String()
}

type published struct {
	ID, Category, Severity, Title, App, Timestamp, Resolves string
}

func alertsOf(t *testing.T, input string, args ...string) (alerts []published) {
	t.Helper()
	var out, stderr bytes.Buffer
	if err := replay(args, strings.NewReader(input), &out, &stderr); err != nil {
		t.Fatalf("replay %q: %v", args, err)
	}
	for text := range strings.Lines(out.String()) {
		var a published
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatalf("output line %q: %v", text, err)
		}
		alerts = append(alerts, a)
	}
	return alerts
}

// titles are the titles of the alerts of some categories, with the minutes and seconds
// of their times.
func titles(alerts []published, categories ...string) (all []string) {
	for _, a := range alerts {
		for _, c := range categories {
			if a.Category == c {
				all = append(all, a.Timestamp[14:19]+" "+a.Title)
			}
		}
	}
	return all
}

func TestReplay(t *testing.T) {
	for _, tt := range []struct {
		name, input string
		args        []string
		categories  []string
		want        []string
	}{
		{"default rules, end of a spike after the last line", spike(), nil, []string{"errors", "anomaly"}, []string{
			"40:00 New error: boom", "40:00 Error spike in logs: far more than expected", "42:13 Resolved: Error spike in logs",
		}},
		{"ratio3x", spike(), []string{"--anomaly", "ratio3x"}, []string{"anomaly"}, []string{
			"40:00 Error spike in logs: more than 3x the rolling average", "42:13 Resolved: Error spike in logs",
		}},
		{"rule of one app", spike(), []string{"--anomaly", "rate-tail", "--anomaly", "web=ratio3x"}, []string{"anomaly"}, []string{
			"40:00 Error spike in logs: more than 3x the rolling average", "42:13 Resolved: Error spike in logs",
		}},
		{"no time after the last line", spike(), []string{"--anomaly", "ratio3x", "--after", "1m"}, []string{"anomaly"}, []string{
			"40:00 Error spike in logs: more than 3x the rolling average",
		}},
		{"regression, confirmed by later loads", regression(), []string{"--regression", "confirmed"}, []string{"regression"}, []string{
			"54:00 LCP regressed 199% on /cart (one load)", "56:00 LCP regressed 199% on /cart", "57:00 LCP regressed 199% on /cart",
		}},
		{"regression, each load", regression(), []string{"--regression", "spec"}, []string{"regression"}, []string{
			"54:00 LCP regressed 199% on /cart", "55:00 LCP regressed 199% on /cart", "56:00 LCP regressed 199% on /cart",
			"57:00 LCP regressed 199% on /cart", "58:00 LCP regressed 199% on /cart", "59:00 LCP regressed 199% on /cart",
		}},
		{"empty input", "", nil, nil, nil},
		{"array of events, empty lines and milliseconds", "\n" + fmt.Sprintf(`{"time":%d,"event":[%s,%s]}`, start.UnixMilli(), failing("one"), failing("two")) + "\n\n", nil, []string{"errors"}, []string{
			"30:00 New error: one", "30:00 New error: two",
		}},
		{"secrets are masked", line(0, failing("key ghp_0123456789abcdefghijklmnopqrstuvwxyz")), nil, []string{"errors"}, []string{
			"30:00 New error: key [REDACTED:github]",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, titles(alertsOf(t, tt.input, tt.args...), tt.categories...)); diff != "" {
				t.Errorf("alerts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplayIsDeterministic(t *testing.T) {
	first, second := alertsOf(t, spike()), alertsOf(t, spike())
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("alerts of the same input (-first +second):\n%s", diff)
	}
}

// TestReplayErrors checks that bad input ends the replay with a message that names the
// line and the reason.
func TestReplayErrors(t *testing.T) {
	for _, tt := range []struct {
		name, input string
		args        []string
		want        string
	}{
		{"not JSON", line(0, failing("boom")) + "boom\n", nil, `line 2: malformed JSON, want {"time":"2026-01-28T14:30:00.000Z","event":{...}}: `},
		{"half a line", line(0, failing("boom")) + `{"time":"2026-01-28T14:30`, nil, `line 2: malformed JSON, want {"time":"2026-01-28T14:30:00.000Z","event":{...}}: `},
		{"two objects on a line", `{"time":1,"event":{}} {}`, nil, "line 1: malformed JSON, want "},
		{"no time", `{"event":{}}`, nil, "line 1: time is missing, want "},
		{"wrong time", "\n" + `{"time":"yesterday","event":{}}`, nil, `line 2: time must be RFC 3339, such as "2026-01-28T14:30:00.000Z", or milliseconds since 1970; got "yesterday"`},
		{"negative time of a line", `{"time":-1,"event":{}}`, nil, "line 1: time must be RFC 3339"},
		{"no event", `{"time":"2026-01-28T14:30:00Z"}`, nil, "line 1: event is missing, want "},
		{"event without a kind", line(0, `{}`), nil, "line 1: event: kind must be one of log, network, "},
		{"field missing", line(0, `{"kind":"network","network":{"method":"GET"}}`), nil, "line 1: event: network.url is required"},
		{"invalid event", line(0, `{"kind":"log","log":{"level":"loud","message":"x"}}`), nil, "line 1: event: log.level must be one of debug, info, warn, error"},
		{"invalid event in an array", line(0, "["+failing("x")+`,{"kind":"log","log":{"level":"loud","message":"x"}}]`), nil, "line 1: event 1: log.level must be one of "},
		{"reserved app", line(0, `{"kind":"log","app":"Tocsin","log":{"level":"info","message":"x"}}`), nil, `line 1: event: app must not be "tocsin"`},
		{"line too long", line(0, failing("boom")) + strings.Repeat("x", maxLine+1), nil, "line 2 is longer than 2097152 bytes"},
		{"unknown rule", "", []string{"--anomaly", "magic"}, `--anomaly: "magic" is not one of auto, ratio3x, rate-tail`},
		{"rule of another flag", "", []string{"--regression", "rate-tail"}, `--regression: "rate-tail" is not one of auto, spec, confirmed`},
		{"unknown flag", "", []string{"--magic"}, "flag provided but not defined: -magic"},
		{"file as an argument", "", []string{"events.ndjson"}, `unexpected argument "events.ndjson": the events are read from the standard input; write replay FLAGS < events.ndjson`},
		{"negative time", "", []string{"--after", "-1s"}, "--after: -1s is negative"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, stderr bytes.Buffer
			err := replay(tt.args, strings.NewReader(tt.input), &out, &stderr)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q...", err, tt.want)
			}
			if got, want := errors.As(err, new(usageError)), tt.args != nil; got != want {
				t.Errorf("error in the arguments = %v, want %v", got, want)
			}
		})
	}
}

// TestReplayWarnings checks what is reported on stderr and does not end the replay.
func TestReplayWarnings(t *testing.T) {
	for _, tt := range []struct {
		name, input string
		want        string
		alerts      int
	}{
		{"in order", line(0, failing("one")) + line(0, failing("two")), "", 2},
		{"empty input", "", "replay: warning: the standard input has no events\n", 0},
		{"empty array only", `{"time":0,"event":[]}` + "\n", "replay: warning: the standard input has no events\n", 0},
		{"empty lines only", "\n \n", "replay: warning: the standard input has no events\n", 0},
		{
			"back in time", line(time.Hour, failing("one")) + line(0, failing("two")),
			"replay: warning: line 2: its time 2026-01-28T14:30:00Z is before 2026-01-28T15:30:00Z, that of the previous line; sort the lines. " +
				"The detector treats a time up to 1m0s earlier as the latest one, and starts over after a larger step back\n", 2,
		},
		{
			"back in time twice", line(2*time.Second, failing("one")) + line(time.Second, failing("two")) + line(0, failing("three")),
			"replay: warning: line 2: its time 2026-01-28T14:30:01Z is before 2026-01-28T14:30:02Z, that of the previous line; sort the lines. " +
				"The detector treats a time up to 1m0s earlier as the latest one, and starts over after a larger step back\n" +
				"replay: warning: 2 lines have an earlier time than the line before them\n", 3,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, stderr bytes.Buffer
			if err := replay(nil, strings.NewReader(tt.input), &out, &stderr); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, stderr.String()); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
			if got := strings.Count(out.String(), "\n"); got != tt.alerts {
				t.Errorf("got %d alerts, want %d:\n%s", got, tt.alerts, out.String())
			}
		})
	}
}

// TestExitStatus checks the program itself: its messages on stderr and its exit status.
func TestExitStatus(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "replay")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("build replay: %v\n%s", err, out)
	}
	for _, tt := range []struct {
		name, input string
		args        []string
		wantCode    int
		want        string
	}{
		{"no error", line(0, failing("boom")), nil, 0, ""},
		{"help", "", []string{"--help"}, 0, "Usage of replay:"},
		{"broken line", "boom\n", nil, 1, "replay: line 1: malformed JSON"},
		{"unknown rule", "", []string{"--anomaly", "magic"}, 2, `replay: --anomaly: "magic" is not one of`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), bin, tt.args...)
			var stderr bytes.Buffer
			cmd.Stdin, cmd.Stderr = strings.NewReader(tt.input), &stderr
			_ = cmd.Run() // its exit status is compared
			if got := cmd.ProcessState.ExitCode(); got != tt.wantCode {
				t.Errorf("exit status = %d, want %d", got, tt.wantCode)
			}
			if got := stderr.String(); !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("stderr = %q, want %q...", got, tt.want)
			}
		})
	}
}
