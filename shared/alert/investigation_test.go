package alert_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// concluded returns a completed investigation.
func concluded() alert.Investigation {
	return alert.Investigation{
		SessionID: "01JABCDEFGHJKMNPQRSTVWXYZ0", Status: alert.InvestigationCompleted,
		Summary: "The cart query lost its index in 9f3c2ab.", Confidence: alert.Proven,
		SuggestedChange: &alert.SuggestedChange{File: "db/cart.sql", Description: "Create the index again."},
		URL:             "http://127.0.0.1:7480/investigations/01JABCDEFGHJKMNPQRSTVWXYZ0",
	}
}

func TestInvestigationWireForm(t *testing.T) {
	skipped := alert.Investigation{Status: alert.InvestigationSkipped, Reason: "60 sessions were started within the last hour"}
	started := alert.Investigation{SessionID: "s1", Status: alert.InvestigationInProgress}
	for name, inv := range map[string]alert.Investigation{"investigation.json": concluded(), "investigation_skipped.json": skipped, "investigation_started.json": started} {
		a := alert.RevisionFor(full(), inv)
		wire, err := a.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, string(wire))
		var back alert.Alert
		if err := json.Unmarshal(wire, &back); err != nil {
			t.Fatal(err)
		}
		want := a
		want.Timestamp = a.Timestamp.UTC().Truncate(time.Millisecond)
		if diff := cmp.Diff(want, back); diff != "" {
			t.Errorf("%s: read back (-want +got):\n%s", name, diff)
		}
	}
}

func TestInvestigationRefuses(t *testing.T) {
	for input, want := range map[string]string{
		`"x"`:                                "investigation",
		`{}`:                                 `status "" is none of`,
		`{"session_id":"s","status":"done"}`: `status "done" is none of`,
		`{"status":"completed"}`:             "session_id is missing",
		`{"status":"skipped"}`:               "reason of the skipped investigation is missing",
		`{"session_id":"` + strings.Repeat("s", 65) + `","status":"failed"}`:                                                                      "session_id has 65 bytes",
		`{"session_id":"s","status":"completed","confidence":"sure"}`:                                                                             `confidence "sure" is none of`,
		`{"session_id":"s","status":"completed","url":"javascript:alert(1)"}`:                                                                     "url is not an http or https URL",
		`{"session_id":"s","status":"completed","url":"https://u:p@host/"}`:                                                                       "url is not an http or https URL",
		`{"session_id":"s","status":"completed","url":"/sessions/s"}`:                                                                             "url is not an http or https URL",
		`{"session_id":"s","status":"completed","summary":"` + strings.Repeat("é", 601) + `"}`:                                                    "601 characters, at most 600",
		`{"session_id":"s","status":"failed","reason":"` + strings.Repeat("x", 301) + `"}`:                                                        "301 characters, at most 300",
		`{"session_id":"s","status":"completed","summary":"x","from":"person"}`:                                                                   `from "person"`,
		`{"session_id":"s","status":"completed","suggested_change":{"file":"a"}}`:                                                                 `suggested_change is from ""`,
		`{"session_id":"s","status":"completed","suggested_change":{"file":"a","from":"person"}}`:                                                 `suggested_change is from "person"`,
		`{"session_id":"s","status":"completed","suggested_change":{"file":"` + strings.Repeat("a", 201) + `","from":"model"}}`:                   "201 characters",
		`{"session_id":"s","status":"completed","suggested_change":{"file":"a","description":"` + strings.Repeat("a", 501) + `","from":"model"}}`: "501 characters",
	} {
		var a alert.Alert
		err := json.Unmarshal([]byte(`{"timestamp":"`+at(0)+`","severity":"info","investigation":`+input+`}`), &a)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one about %s", input, err, want)
		}
	}
	var a alert.Alert
	if err := json.Unmarshal([]byte(`{"timestamp":"`+at(0)+`","severity":"info","investigation":null}`), &a); err != nil || a.Investigation != nil {
		t.Errorf("null: read %+v and the error %v, want no investigation", a.Investigation, err)
	}
}

// TestRevisionFor: all else is as last stored, and the id depends on session and status alone.
func TestRevisionFor(t *testing.T) {
	first := full()
	first.Revises, first.CorrelationID = "", first.ID
	revised := first
	revised.ID, revised.Revises, revised.CorrelationID, revised.Count = "a2", first.ID, "a2", 9
	shown := revised
	shown.Seq, shown.Symptoms, shown.Reason, shown.InhibitedBy, shown.Resolved = 7, 2, "r", "c", true
	inv := concluded()
	want := alert.RevisionFor(revised, inv)
	if got := alert.RevisionFor(shown, inv); !cmp.Equal(got, want) {
		t.Errorf("got %+v, want nothing that only a reader knows: %+v", got, want)
	}
	if want.Revises != first.ID || want.CorrelationID != first.ID || want.Count != 9 || !alert.IsInvestigationID(want.ID) {
		t.Errorf("got %+v, want the first id in Revises and CorrelationID, the last count, and an investigator's id", want)
	}
	if again := alert.RevisionFor(alert.RevisionFor(first, alert.Investigation{SessionID: inv.SessionID, Status: alert.InvestigationInProgress}), inv); again.ID != want.ID || again.Revises != first.ID {
		t.Errorf("after the start: got id %s and Revises %s, want %s and %s", again.ID, again.Revises, want.ID, first.ID)
	}
	other := inv
	other.Status = alert.InvestigationFailed
	if alert.RevisionFor(first, other).ID == want.ID {
		t.Error("another status has the same id, want another one")
	}
	for attempt, same := range map[int]bool{0: true, 1: true, 2: false} {
		again := inv
		again.Attempt = attempt
		if got := alert.RevisionFor(first, again).ID; (got == want.ID) != same {
			t.Errorf("attempt %d has the id %s, want that of the first one: %t", attempt, got, same)
		}
	}
	if alert.IsInvestigationID(first.ID) {
		t.Errorf("%q counts as an id of the investigator, want not", first.ID)
	}
	inv.SuggestedChange.File = "changed"
	if want.Investigation.SuggestedChange.File == "changed" {
		t.Error("the revision shares the suggested change with its argument, want a copy")
	}
}

// TestRevisionForCleans: texts lose links and images and fit their bounds.
func TestRevisionForCleans(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"plain text, 3/4 of it: a://b", "plain text, 3/4 of it: a://b"},
		{"see [the run](https://evil.example/x?y=(1)).", "see the run."},
		{"![pixel](http://evil.example/p.png)done", "pixeldone"},
		{"go to https://evil.example/a, then", "go to [link removed] then"},
		{`<a href="https://e.example">click</a> <img src=x>`, "click "},
		{"javascript:alert", "[link removed]"},
		{"data: 5 rows in file:main.go", "data: 5 rows in file:main.go"},
		{strings.Repeat("é", 700), strings.Repeat("é", 599) + "…"},
	} {
		a := alert.RevisionFor(full(), alert.Investigation{SessionID: "s", Status: alert.InvestigationCompleted, Summary: tt.in, URL: "ftp://x"})
		if a.Investigation.Summary != tt.want || a.Investigation.URL != "" {
			t.Errorf("summary %q became %q with the URL %q, want %q and no URL", tt.in, a.Investigation.Summary, a.Investigation.URL, tt.want)
		}
	}
}

// TestRevisionForIsReadable: readers accept what was written, for any texts.
func TestRevisionForIsReadable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 900, -1)
		inv := alert.Investigation{
			SessionID: "s", Status: rapid.SampledFrom([]alert.InvestigationStatus{alert.InvestigationCompleted, alert.InvestigationFailed}).Draw(t, "status"),
			Summary: text.Draw(t, "summary"), Reason: text.Draw(t, "reason"), URL: rapid.OneOf(text, rapid.Just("https://a.example/")).Draw(t, "url"),
			SuggestedChange: &alert.SuggestedChange{File: text.Draw(t, "file"), Description: text.Draw(t, "description")},
		}
		wire, err := alert.RevisionFor(full(), inv).MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var back alert.Alert
		if err := json.Unmarshal(wire, &back); err != nil {
			t.Fatalf("cannot read %s: %v", wire, err)
		}
	})
}

// TestMergeKeepsInvestigation: the later arrival's, or else the earlier one's.
func TestMergeKeepsInvestigation(t *testing.T) {
	with := func(session string, after time.Duration) alert.Alert {
		a := alert.Alert{ID: "a", Severity: alert.Error, Timestamp: start.Add(after)}
		if session != "" {
			a.Investigation = &alert.Investigation{SessionID: session, Status: alert.InvestigationCompleted}
		}
		return a
	}
	for _, tt := range []struct{ earlier, later, want string }{{"", "", ""}, {"s1", "", "s1"}, {"", "s2", "s2"}, {"s1", "s2", "s2"}} {
		for _, apart := range []time.Duration{-time.Second, time.Second} {
			got := ""
			if i := alert.Merge(with(tt.earlier, 0), with(tt.later, apart)).Investigation; i != nil {
				got = i.SessionID
			}
			if got != tt.want {
				t.Errorf("Merge of %q and %q: session %q, want %q", tt.earlier, tt.later, got, tt.want)
			}
		}
	}
}

// TestInvestigationEndIsNoFinding: the line about an end is neither correlated nor a cause.
func TestInvestigationEndIsNoFinding(t *testing.T) {
	regression := full()
	regression.Revises = ""
	line := alert.RevisionFor(regression, concluded()).InvestigationEnd()
	if want := "Investigation completed: " + regression.Title; line.Title != want || line.ID != regression.ID || line.Context != nil || line.Detail != "" || line.Occurrences() != 1 {
		t.Errorf("got %+v, want the title %q, the id %s and no detail, context or count", line, want, regression.ID)
	}
	anomaly := alert.Alert{ID: "n", Severity: alert.Error, Category: alert.Anomaly, App: line.App, Timestamp: line.Timestamp}
	if got := alert.Digest([]alert.Alert{line, anomaly}); len(got) != 2 {
		t.Errorf("the digest has %d alerts, want 2: %+v", len(got), got)
	}
}
