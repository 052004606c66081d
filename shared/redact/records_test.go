package redact_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const mask = redact.Mask

func TestEvents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		ev, clean telemetry.Event
	}{
		{
			"of every kind",
			telemetry.Event{App: "a " + github, Session: github, URL: "http://u:p@h/?token=abc"},
			telemetry.Event{App: "a [REDACTED:github]", Session: "[REDACTED:github]", URL: "http://[REDACTED:url_credentials]@h/?token=" + mask},
		},
		{
			"log",
			telemetry.Event{Kind: telemetry.KindLog, Log: &telemetry.Log{
				Level: telemetry.LevelError, Message: "password=hunter2", Stack: "at f(" + github + ")", Source: "http://h/a.js?token=abc:1:2",
				Fingerprint: telemetry.Fingerprint{"cart", github, "token:", "abc"},
				Args: []any{
					"plain", github, 1.5, true, nil, "token:", "abc", "my password =", 7.0, 4111111111111111.0, "tokenCount:", 5.0, "tokenCount:", "abc",
					map[string]any{"password": "hunter2", "n": 1.0, "gone": nil, "tokens": 12.0, "tokenCount": 5.0, "token_count": "abc", "to\u200dken": "abc", "deep": []any{map[string]any{"apiKey": map[string]any{"a": 1.0}}}, github: "x"},
				},
			}},
			telemetry.Event{Kind: telemetry.KindLog, Log: &telemetry.Log{
				Level: telemetry.LevelError, Message: "password=" + mask, Stack: "at f([REDACTED:github])", Source: "http://h/a.js?token=" + mask,
				Fingerprint: telemetry.Fingerprint{"cart", "[REDACTED:github]", "token:", mask},
				Args: []any{
					"plain", "[REDACTED:github]", 1.5, true, nil, "token:", mask, "my password =", mask, "[REDACTED:card]", "tokenCount:", 5.0, "tokenCount:", mask,
					map[string]any{"password": mask, "n": 1.0, "gone": nil, "tokens": 12.0, "tokenCount": 5.0, "token_count": mask, "to\u200dken": mask, "deep": []any{map[string]any{"apiKey": mask}}, "[REDACTED:github]": "x"},
				},
			}},
		},
		{
			"network",
			telemetry.Event{Kind: telemetry.KindNetwork, Network: &telemetry.Network{
				Method: "POST", URL: "/login?api_key=abc", Status: 500, Error: "token=abc",
				RequestHeaders:  map[string]string{"Authorization": "Bearer x", "Accept": "*/*", "Referer": "/?token=abc"},
				ResponseHeaders: map[string]string{"set-cookie": "a=b", "x-note": github},
				RequestBody:     "user=ada&password=a b", ResponseBody: `{"token":"abc"}`,
			}},
			telemetry.Event{Kind: telemetry.KindNetwork, Network: &telemetry.Network{
				Method: "POST", URL: "/login?api_key=" + mask, Status: 500, Error: "token=" + mask,
				RequestHeaders:  map[string]string{"Authorization": mask, "Accept": "*/*", "Referer": "/?token=" + mask},
				ResponseHeaders: map[string]string{"set-cookie": mask, "x-note": "[REDACTED:github]"},
				RequestBody:     "user=ada&password=" + mask + " b", ResponseBody: `{"token":"` + mask + `"}`,
			}},
		},
		{
			"action",
			telemetry.Event{Kind: telemetry.KindAction, Action: &telemetry.Action{Type: telemetry.ActionClick, Target: "a[href='/?token=abc']"}},
			telemetry.Event{Kind: telemetry.KindAction, Action: &telemetry.Action{Type: telemetry.ActionClick, Target: "a[href='/?token=" + mask + "']"}},
		},
		{
			"circuit",
			telemetry.Event{Kind: telemetry.KindCircuit, Circuit: &telemetry.Circuit{Name: "db", State: telemetry.CircuitOpen, Reason: "postgres://u:p@h/ refused"}},
			telemetry.Event{Kind: telemetry.KindCircuit, Circuit: &telemetry.Circuit{Name: "db", State: telemetry.CircuitOpen, Reason: "postgres://[REDACTED:url_credentials]@h/ refused"}},
		},
		{
			"security",
			telemetry.Event{Kind: telemetry.KindSecurity, Security: &telemetry.Security{Type: "csp", Message: "blocked " + github, BlockedURL: "https://h/x?sig=abc"}},
			telemetry.Event{Kind: telemetry.KindSecurity, Security: &telemetry.Security{Type: "csp", Message: "blocked [REDACTED:github]", BlockedURL: "https://h/x?sig=" + mask}},
		},
		{
			"memory",
			telemetry.Event{Kind: telemetry.KindMemory, Memory: &telemetry.Memory{UsedBytes: 4111111111111111, LimitBytes: 2}},
			telemetry.Event{Kind: telemetry.KindMemory, Memory: &telemetry.Memory{UsedBytes: 4111111111111111, LimitBytes: 2}},
		},
		{
			"vitals",
			telemetry.Event{Kind: telemetry.KindVitals, Vitals: &telemetry.Vitals{}},
			telemetry.Event{Kind: telemetry.KindVitals, Vitals: &telemetry.Vitals{}},
		},
	} {
		e := redact.New()
		for range 2 { // masking what is masked changes nothing
			e.Event(&c.ev)
			same(t, c.name, c.ev, c.clean)
		}
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	r := ci.Result{
		Status: ci.StatusFailure, Source: ci.SourceGitHub, Ref: "main", Commit: "1f0b2d84bf92f3577b34da6a3ce929d0e0e47367", Name: "test " + github,
		Summary: "npm token: abc", URL: "https://ci/run/1?token=abc",
		Failures: []ci.Failure{{Name: "login", Message: `want "a", got password=hunter2`}, {Name: github}},
	}
	redact.New().Result(&r)
	same(t, "result", r, ci.Result{
		Status: ci.StatusFailure, Source: ci.SourceGitHub, Ref: "main", Commit: "1f0b2d84bf92f3577b34da6a3ce929d0e0e47367", Name: "test [REDACTED:github]",
		Summary: "npm token: " + mask, URL: "https://ci/run/1?token=" + mask,
		Failures: []ci.Failure{{Name: "login", Message: `want "a", got password=` + mask}, {Name: "[REDACTED:github]"}},
	})
}

func TestAlertsOfOthers(t *testing.T) {
	t.Parallel()
	a := external.Alert{
		Source: alert.SourceAlertmanager, Key: "a1b2", Episode: "2026-01-28T14:30:00Z", Level: github, App: github, Name: github, Place: github,
		Summary: "password=hunter2", Detail: "by " + github, URL: "/graph?token=abc", Dashboard: "http://u:p@h/", Runbook: "/?api_key=abc",
		Labels:  map[string]string{"alertname": "Up", "token": "abc", "team": github, github: "x", "empty": ""},
		GroupBy: []string{"alertname", github}, Receiver: github,
	}
	redact.New().External(&a)
	const masked = "[REDACTED:github]"
	same(t, "alert of another", a, external.Alert{
		Source: alert.SourceAlertmanager, Key: "a1b2", Episode: "2026-01-28T14:30:00Z", Level: masked, App: masked, Name: masked, Place: masked,
		Summary: "password=" + mask, Detail: "by " + masked, URL: "/graph?token=" + mask, Dashboard: "http://[REDACTED:url_credentials]@h/", Runbook: "/?api_key=" + mask,
		Labels:  map[string]string{"alertname": "Up", "token": mask, "team": masked, masked: "x", "empty": ""},
		GroupBy: []string{"alertname", masked}, Receiver: masked,
	})
	a = external.Alert{Fault: &external.Fault{
		Cluster: github, Namespace: github, Kind: github, Name: "web-" + github, Container: github, Fault: "crash", ID: "a1b2",
	}}
	redact.New().External(&a)
	same(t, "fault", a, external.Alert{Fault: &external.Fault{
		Cluster: masked, Namespace: masked, Kind: masked, Name: "web-" + masked, Container: masked, Fault: "crash", ID: "a1b2",
	}})
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)
	a := alert.Alert{
		ID: "id", Severity: alert.Error, Category: alert.NetworkErrors, Title: "Server error: GET /x?token=abc → 500", Detail: "with " + github,
		Timestamp: now, Source: alert.SourceNetwork, App: "shop", URL: "/x?token=abc", DedupKey: "GET /x?token=abc", CorrelationID: "id",
		Context: map[string]any{
			"method": "GET", "status": 500, "url": "/x?token=abc", "password": "x", "cookie": []any{"a"},
			"typed": []string{"a", github}, "plain": []string{"a"}, "raw": json.RawMessage(`{"token":"abc"}`), "bad": func() {},
		},
	}
	e := redact.New()
	e.Alert(&a)
	if _, ok := a.Context["bad"].(string); !ok {
		t.Errorf("value that has no JSON = %T, want a text", a.Context["bad"])
	}
	same(t, "alert", a, alert.Alert{
		ID: "id", Severity: alert.Error, Category: alert.NetworkErrors, Title: "Server error: GET /x?token=" + mask + " → 500", Detail: "with [REDACTED:github]",
		Timestamp: now, Source: alert.SourceNetwork, App: "shop", URL: "/x?token=" + mask, DedupKey: "GET /x?token=" + mask, CorrelationID: "id",
		Context: map[string]any{
			"method": "GET", "status": 500, "url": "/x?token=" + mask, "password": mask, "cookie": mask,
			"typed": []any{"a", "[REDACTED:github]"}, "plain": []string{"a"}, "raw": map[string]any{"token": mask}, "bad": mask,
		},
	})
	e.Alert(&alert.Alert{}) // no Context
	for _, key := range []string{"ci:custom:abc:refresh-token:failure:1", "threshold:web:circuit:token:open", "POST:/api/password:500"} {
		a := alert.Alert{DedupKey: key}
		if e.Alert(&a); a.DedupKey != key {
			t.Errorf("DedupKey %s became %s, want it unchanged", key, a.DedupKey)
		}
	}
}

// The identifiers of an alert come from the bus as well.
func TestIdentifiersOfAlerts(t *testing.T) {
	t.Parallel()
	const id = "mfrggzdfmztwq2lknnwg23tpob"
	e := redact.New()
	for _, a := range []alert.Alert{
		{ID: id, CorrelationID: id, Revises: id, Resolves: id, AlsoResolves: []string{id, id}, Source: "ci_webhook", Category: alert.CI},
		{ID: "27" + id[2:], CorrelationID: "4111111111111111" + id[16:], Source: alert.SourcePerformance, Category: alert.UserFrustration},
	} {
		clean := a
		e.Alert(&clean)
		same(t, "ordinary", clean, a)
	}
	a := alert.Alert{ID: github, CorrelationID: "a-" + github, Revises: github, Resolves: github, AlsoResolves: []string{id, github}, Source: "ci " + jwt, Category: alert.Category(github)}
	e.Alert(&a)
	const hidden = "[REDACTED:github]"
	want := alert.Alert{ID: hidden, CorrelationID: "a-" + hidden, Revises: hidden, Resolves: hidden, AlsoResolves: []string{id, hidden}, Source: "ci [REDACTED:jwt]", Category: hidden}
	if a.Revises != want.Revises || a.Resolves != want.Resolves {
		t.Errorf("revises %q, resolves %q, want %q", a.Revises, a.Resolves, hidden)
	}
	same(t, "with tokens", a, want)
}

// JSON deeper than the walk goes is masked, not passed on and not followed.
func TestDeepArgs(t *testing.T) {
	t.Parallel()
	var deep any = "plain"
	for range 10_000 {
		deep = []any{deep}
	}
	ev := telemetry.Event{Log: &telemetry.Log{Args: []any{deep}}}
	redact.New().Event(&ev)
	levels := 0
	for {
		list, ok := ev.Log.Args[0].([]any)
		if !ok {
			break
		}
		ev.Log.Args = list
		levels++
	}
	if ev.Log.Args[0] != any(mask) || levels > 64 {
		t.Errorf("%d levels stayed, then %v, want at most 64, then %s", levels, ev.Log.Args[0], mask)
	}
}

func TestBodiesAreCutAfterMasking(t *testing.T) {
	t.Parallel()
	const end = " ... [cut]"
	e := redact.New()
	if s := strings.Repeat("x", redact.MaxBody); e.Body(s) != s {
		t.Error("Body of exactly MaxBody bytes changed it, want it unchanged")
	}
	secret := `{"password":"` + strings.Repeat("p", 2*redact.MaxBody) + `","a":1}`
	if got, want := e.Body(secret), `{"password":"[REDACTED]","a":1}`; got != want {
		t.Errorf("Body of a long secret = %q, want %q", got, want)
	}
	// The cut falls on every byte of a rune, and of a mask.
	for shift := range 64 {
		for _, around := range []string{"€", "𝄞", "ab " + github + " ", "token=abc ", pem, "?password=x&y=" + visa + "&"} {
			s := strings.Repeat(" ", shift) + strings.Repeat(around, 12*redact.MaxBody/len(around))
			got := e.Body(s)
			kept, wasCut := strings.CutSuffix(got, end)
			if !wasCut || len(got) > redact.MaxBody || len(got) < redact.MaxBody-64 || !utf8.ValidString(got) {
				t.Fatalf("%q shifted by %d: %d bytes, valid %v, ends in %q; want just under MaxBody, valid, with %q at the end", around, shift, len(got), utf8.ValidString(got), got[len(got)-40:], end)
			}
			if strings.Count(kept, "[REDACTED") != strings.Count(kept, "]") {
				t.Fatalf("%q shifted by %d: ends in %q, want whole masks", around, shift, got[len(got)-40:])
			}
			if again := e.Body(got); again != got {
				t.Fatalf("%q shifted by %d: masked again it ends in %q, want no change", around, shift, again[len(again)-40:])
			}
		}
	}
	if got := e.Body(strings.Repeat("\x80", 2*redact.MaxBody)); len(got) > redact.MaxBody {
		t.Errorf("invalid UTF-8: %d bytes stayed, want at most %d", len(got), redact.MaxBody)
	}
}

// same compares by JSON, which shows both and knows no pointers.
func same(t *testing.T, name string, got, want any) {
	t.Helper()
	g, errGot := json.MarshalIndent(got, "", " ")
	w, errWant := json.MarshalIndent(want, "", " ")
	if errGot != nil || errWant != nil {
		t.Fatal(errGot, errWant)
	}
	if string(g) != string(w) {
		t.Errorf("%s:\n got %s\nwant %s", name, g, w)
	}
}
