package errortrack_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/errortrack"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// thrown returns an error that a function threw, as V8 writes it.
func thrown(errorType, message, function string) telemetry.Log {
	return telemetry.Log{
		Message: "Uncaught " + errorType + ": " + message,
		Stack:   errorType + ": " + message + "\n    at " + function + " (https://shop.example/assets/cart-8f3c2a1b.js:10:15)",
	}
}

// withFingerprint returns a log with a sender's fingerprint.
func withFingerprint(l telemetry.Log, parts ...string) telemetry.Log {
	l.Fingerprint = parts
	return l
}

// see gives an error to the rule at a time after the start.
func see(e *errortrack.Errors, l telemetry.Log, after time.Duration) (alert.Alert, bool) {
	l.Level = telemetry.LevelError
	return e.Log("web", &telemetry.Event{Log: &l}, false, template.Append(nil, l.Message), start.Add(after))
}

// TestErrorIdentity checks which logs are of one error.
func TestErrorIdentity(t *testing.T) {
	message := func(text string) telemetry.Log { return telemetry.Log{Message: text} }
	python := func(item string) telemetry.Log {
		return message("cart of " + item + " failed\nTraceback (most recent call last):\n  File \"/srv/app/cart.py\", line 12, in total\n    x\nKeyError: '" + item + "'")
	}
	for _, tt := range []struct {
		name string
		a, b telemetry.Log
		same bool
		// basis is what identifies the first one.
		basis string
	}{
		{"no stack: the message", message("Order 17 not found"), message("Order 18 not found"), true, "message"},
		{"no stack: another message", message("Order 17 not found"), message("no such cart"), false, "message"},
		{"a stack without frames of the app: the message", telemetry.Log{Message: "a", Stack: "at node:internal:1:2"}, telemetry.Log{Message: "b", Stack: "at node:internal:1:2"}, false, "message"},
		{"the same message in two functions", thrown("TypeError", "x is undefined", "renderCart"), thrown("TypeError", "x is undefined", "renderMenu"), false, "stack"},
		{"a type of the app's with another message", thrown("CartError", "of ann", "renderCart"), thrown("CartError", "of bob", "renderCart"), true, "stack"},
		{"a common type with another message", thrown("TypeError", "x is undefined", "renderCart"), thrown("TypeError", "y is undefined", "renderCart"), false, "stack"},
		{"uncaught, and caught and logged", thrown("TypeError", "x is undefined", "renderCart"), telemetry.Log{Message: "no cart: TypeError: x is undefined", Stack: thrown("TypeError", "x is undefined", "renderCart").Stack}, true, "stack"},
		{"logged with a message that does not contain it", telemetry.Log{Message: "no cart", Stack: thrown("TypeError", "x", "renderCart").Stack}, telemetry.Log{Message: "no menu", Stack: thrown("TypeError", "x", "renderCart").Stack}, false, "stack"},
		{"two that are logged with the same message", telemetry.Log{Message: "no cart", Stack: thrown("TypeError", "x", "renderCart").Stack}, telemetry.Log{Message: "no cart", Stack: thrown("TypeError", "y", "renderCart").Stack}, false, "stack"},
		{"a stack in the message", python("apple"), python("pear"), true, "stack"},
		{"lines that look like frames: the message", message("Backup failed\nat 2026-01-28 14:30:00 on host 7"), message("Backup failed\nat 2026-01-29 15:31:22 on host 8"), true, "message"},
		{"lines with a parenthesis that look like frames", message("Import failed\n  at row 12 (of 40)"), message("Import failed\n  at row 17 (of 41)"), true, "message"},
		{"text behind such a line", message("Check failed\nat checkout\nno price"), message("Check failed\nat checkout\nno owner"), false, "message"},
		{"text behind a path", message("Import failed\nat /data/in\nno such file"), message("Import failed\nat /data/in\nno space left"), false, "message"},
		{"sender's fingerprint: message and stack do not count", withFingerprint(thrown("TypeError", "x", "renderCart"), "cart"), withFingerprint(message("y"), "cart"), true, "fingerprint"},
		{"two senders' fingerprints", withFingerprint(message("x"), "cart"), withFingerprint(message("x"), "menu"), false, "fingerprint"},
		{"sender's fingerprint: its parts in another order", withFingerprint(message("x"), "a", "b"), withFingerprint(message("x"), "b", "a"), false, "fingerprint"},
		{"sender's fingerprint: other parts with the same text", withFingerprint(message("x"), "a", "b"), withFingerprint(message("x"), "ab"), false, "fingerprint"},
		{"sender's fingerprint: one part more", withFingerprint(message("x"), "a", ""), withFingerprint(message("x"), "a"), false, "fingerprint"},
		{"with and without a sender's fingerprint", withFingerprint(message("x"), "x"), message("x"), false, "fingerprint"},
		{"a default and more", withFingerprint(message("x"), "{{ default }}", "eu"), withFingerprint(message("x"), "{{ default }}", "us"), false, "fingerprint"},
		{"a default and more, of two errors", withFingerprint(message("x"), "{{ default }}", "eu"), withFingerprint(message("y"), "{{ default }}", "eu"), false, "fingerprint"},
		{"a default and more, of one", withFingerprint(message("order 17"), "{{ default }}", "eu"), withFingerprint(message("order 18"), "{{default}}", "eu"), true, "fingerprint"},
		{"a default alone", withFingerprint(message("x"), "{{ default }}"), message("x"), true, "message"},
		{"a variable that isn't known", withFingerprint(message("x"), "{{ type }}"), withFingerprint(message("y"), "{{ type }}"), false, "message"},
		{"empty parts", withFingerprint(message("x"), ""), message("x"), true, "message"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := errortrack.New()
			first, _ := see(e, tt.a, 0)
			if got := first.Context["grouped_by"]; got != tt.basis {
				t.Errorf("grouped_by = %v of the first, want %v", got, tt.basis)
			}
			if second, raised := see(e, tt.b, time.Second); raised == tt.same {
				t.Errorf("raised = %v (%q) for the second, want %v", raised, second.Title, !tt.same)
			}
		})
	}
}

// TestAlertTexts checks the alerts about an error that is new, and about one that is back.
func TestAlertTexts(t *testing.T) {
	e := errortrack.New()
	boom := thrown("TypeError", "x is undefined", "renderCart")
	a, _ := see(e, boom, 0)
	name := a.Context["fingerprint"]
	if got, want := fmt.Sprint(a.Context), fmt.Sprintf("map[fingerprint:%s fingerprint_version:2 first_seen:2026-01-28T14:30:00.000Z grouped_by:stack seen:1 state:new top_frame:renderCart (assets/cart.js)]", name); got != want {
		t.Errorf("context = %s, want %s", got, want)
	}
	if got, want := [...]string{a.Title, a.Detail, a.DedupKey}, [...]string{"New error: Uncaught TypeError: x is undefined", boom.Message, fmt.Sprint("errors:web:", name)}; got != want {
		t.Errorf("title, detail, dedup key = %q, want %q", got, want)
	}
	for i := range 311 {
		see(e, boom, time.Duration(i)*time.Second)
	}
	a, _ = see(e, boom, 310*time.Second+47*time.Minute+59*time.Second)
	if got, want := fmt.Sprint(a.Context), fmt.Sprintf("map[fingerprint:%s fingerprint_version:2 first_seen:2026-01-28T14:30:00.000Z grouped_by:stack seen:313 silent_s:2879 state:regressed top_frame:renderCart (assets/cart.js)]", name); got != want {
		t.Errorf("context = %s, want %s", got, want)
	}
	const tail = "(first seen 2026-01-28 14:30:00 UTC, seen 313 times, back after 47 min of silence)"
	if got, want := [...]string{a.Title, a.Detail}, [...]string{"Error is back: Uncaught TypeError: x is undefined", boom.Message + " " + tail}; got != want {
		t.Errorf("title, detail = %q, want %q", got, want)
	}
	// A long message leaves room for the error's history.
	boom.Message += strings.Repeat(" and so on", 1000)
	boom.Stack = strings.Replace(boom.Stack, "TypeError", "CartError", 1)
	see(e, boom, 0)
	a, _ = see(e, boom, 100*time.Hour)
	if got := len([]rune(a.Detail)); got != alert.MaxDetail {
		t.Errorf("detail of a long message has %d characters, want %d", got, alert.MaxDetail)
	}
	const begin, end = "Uncaught TypeError", "back after 4 d 4 h of silence)"
	if !strings.HasPrefix(a.Detail, begin) || !strings.HasSuffix(a.Detail, end) {
		t.Errorf("detail = %s, want %q at its begin and %q at its end", a.Detail, begin, end)
	}
}
