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

// thrown is an error in a function, as V8 writes it.
func thrown(kind, message, function string) telemetry.Log {
	return telemetry.Log{
		Message: "Uncaught " + kind + ": " + message,
		Stack:   kind + ": " + message + "\n    at " + function + " (https://shop.example/assets/cart-8f3c2a1b.js:10:15)",
	}
}

func saying(l telemetry.Log, parts ...string) telemetry.Log {
	l.Fingerprint = parts
	return l
}

// see gives an error to the rule at a time after the start.
func see(e *errortrack.Errors, l telemetry.Log, after time.Duration) (alert.Alert, bool) {
	l.Level = telemetry.LevelError
	return e.Log("web", &telemetry.Event{Log: &l}, false, template.Append(nil, l.Message), start.Add(after))
}

// TestErrorIdentity: which of two errors, one after the other, is news.
func TestErrorIdentity(t *testing.T) {
	message := func(text string) telemetry.Log { return telemetry.Log{Message: text} }
	python := func(item string) telemetry.Log {
		return message("cart of " + item + " failed\nTraceback (most recent call last):\n  File \"/srv/app/cart.py\", line 12, in total\n    x\nKeyError: '" + item + "'")
	}
	for _, tt := range []struct {
		name string
		a, b telemetry.Log
		one  bool
		by   string // of the first
	}{
		{"no stack: the words", message("Order 17 not found"), message("Order 18 not found"), true, "message"},
		{"no stack: other words", message("Order 17 not found"), message("no such cart"), false, "message"},
		{"a stack that says nothing: the words", telemetry.Log{Message: "a", Stack: "at node:internal:1:2"}, telemetry.Log{Message: "b", Stack: "at node:internal:1:2"}, false, "message"},
		{"the same words in two functions", thrown("TypeError", "x is undefined", "renderCart"), thrown("TypeError", "x is undefined", "renderMenu"), false, "stack"},
		{"a type of the app's with other words", thrown("CartError", "of ann", "renderCart"), thrown("CartError", "of bob", "renderCart"), true, "stack"},
		{"a common type with other words", thrown("TypeError", "x is undefined", "renderCart"), thrown("TypeError", "y is undefined", "renderCart"), false, "stack"},
		{"uncaught, and caught and logged", thrown("TypeError", "x is undefined", "renderCart"), telemetry.Log{Message: "no cart: TypeError: x is undefined", Stack: thrown("TypeError", "x is undefined", "renderCart").Stack}, true, "stack"},
		{"logged with words that don't say it", telemetry.Log{Message: "no cart", Stack: thrown("TypeError", "x", "renderCart").Stack}, telemetry.Log{Message: "no menu", Stack: thrown("TypeError", "x", "renderCart").Stack}, false, "stack"},
		{"two that are logged with the same words", telemetry.Log{Message: "no cart", Stack: thrown("TypeError", "x", "renderCart").Stack}, telemetry.Log{Message: "no cart", Stack: thrown("TypeError", "y", "renderCart").Stack}, false, "stack"},
		{"a stack in the message", python("apple"), python("pear"), true, "stack"},
		{"lines that read like frames: the words", message("Backup failed\nat 2026-01-28 14:30:00 on host 7"), message("Backup failed\nat 2026-01-29 15:31:22 on host 8"), true, "message"},
		{"lines with a parenthesis that do", message("Import failed\n  at row 12 (of 40)"), message("Import failed\n  at row 17 (of 41)"), true, "message"},
		{"words behind such a line", message("Check failed\nat checkout\nno price"), message("Check failed\nat checkout\nno owner"), false, "message"},
		{"words behind a path", message("Import failed\nat /data/in\nno such file"), message("Import failed\nat /data/in\nno space left"), false, "message"},
		{"explicit, whatever the words and the stack", saying(thrown("TypeError", "x", "renderCart"), "cart"), saying(message("y"), "cart"), true, "fingerprint"},
		{"explicit, two", saying(message("x"), "cart"), saying(message("x"), "menu"), false, "fingerprint"},
		{"explicit, in another order", saying(message("x"), "a", "b"), saying(message("x"), "b", "a"), false, "fingerprint"},
		{"explicit, other texts that read alike", saying(message("x"), "a", "b"), saying(message("x"), "ab"), false, "fingerprint"},
		{"explicit, one part more", saying(message("x"), "a", ""), saying(message("x"), "a"), false, "fingerprint"},
		{"explicit, and none", saying(message("x"), "x"), message("x"), false, "fingerprint"},
		{"a default and more", saying(message("x"), "{{ default }}", "eu"), saying(message("x"), "{{ default }}", "us"), false, "fingerprint"},
		{"a default and more, of two errors", saying(message("x"), "{{ default }}", "eu"), saying(message("y"), "{{ default }}", "eu"), false, "fingerprint"},
		{"a default and more, of one", saying(message("order 17"), "{{ default }}", "eu"), saying(message("order 18"), "{{default}}", "eu"), true, "fingerprint"},
		{"a default alone", saying(message("x"), "{{ default }}"), message("x"), true, "message"},
		{"a variable that isn't known", saying(message("x"), "{{ type }}"), saying(message("y"), "{{ type }}"), false, "message"},
		{"parts that say nothing", saying(message("x"), ""), message("x"), true, "message"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := errortrack.New()
			first, news := see(e, tt.a, 0)
			if !news || first.Context["grouped_by"] != tt.by {
				t.Errorf("the first is news: %v, by %v", news, first.Context["grouped_by"])
			}
			if _, news := see(e, tt.b, time.Second); news == tt.one {
				t.Errorf("the second is news: %v", news)
			}
		})
	}
}

// TestWhatIsTold of an error that is new, and of one that is back.
func TestAlertTexts(t *testing.T) {
	e := errortrack.New()
	boom := thrown("TypeError", "x is undefined", "renderCart")
	a, _ := see(e, boom, 0)
	name := a.Context["fingerprint"]
	if got, want := fmt.Sprint(a.Context), fmt.Sprintf("map[fingerprint:%s fingerprint_version:2 first_seen:2026-01-28T14:30:00.000Z grouped_by:stack seen:1 state:new top_frame:renderCart (assets/cart.js)]", name); got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if a.Title != "New error: Uncaught TypeError: x is undefined" || a.Detail != boom.Message || a.DedupKey != fmt.Sprint("errors:web:", name) {
		t.Errorf("%+v", a)
	}
	for i := range 311 {
		see(e, boom, time.Duration(i)*time.Second)
	}
	a, _ = see(e, boom, 310*time.Second+47*time.Minute+59*time.Second)
	if got, want := fmt.Sprint(a.Context), fmt.Sprintf("map[fingerprint:%s fingerprint_version:2 first_seen:2026-01-28T14:30:00.000Z grouped_by:stack seen:313 silent_s:2879 state:regressed top_frame:renderCart (assets/cart.js)]", name); got != want {
		t.Errorf("%s, not %s", got, want)
	}
	const tail = "(first seen 2026-01-28 14:30:00 UTC, seen 313 times, back after 47 min of silence)"
	if a.Title != "Error is back: Uncaught TypeError: x is undefined" || a.Detail != boom.Message+" "+tail {
		t.Errorf("%+v", a)
	}
	// A long message leaves room for what is known of it.
	boom.Message += strings.Repeat(" and so on", 1000)
	boom.Stack = strings.Replace(boom.Stack, "TypeError", "CartError", 1)
	see(e, boom, 0)
	a, _ = see(e, boom, 100*time.Hour)
	if len([]rune(a.Detail)) != alert.MaxDetail || !strings.HasSuffix(a.Detail, "back after 4 d 4 h of silence)") || !strings.HasPrefix(a.Detail, "Uncaught TypeError") {
		t.Errorf("%d characters: %s", len([]rune(a.Detail)), a.Detail)
	}
}
