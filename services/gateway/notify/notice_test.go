package notify

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/shared/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// sample returns a notice with the special characters of all sinks.
func sample() delivery {
	return delivery{Suppressed: 3, Notice: Notice{
		Message: "<!channel> see <https://evil.example|the report> & `$(calc)` *now* ]]> \u241b[31m \"quoted\"",
		Level:   Error, Context: "deploy <1>", Client: "claude-code in /work/app", Timestamp: "2026-01-28T14:30:00.000Z",
	}}
}

func TestClean(t *testing.T) {
	secret := "ghp_" + strings.Repeat("a1B2c3", 6)
	n := Notice{
		Message: "one\nlevel=ERROR two\x1b[2J \u202egnp.exe\u2069 \u0085" + secret + " " + strings.Repeat("x", 3000),
		Level:   "loud", Context: "a\r\nb", Client: "c\x00" + secret, Timestamp: "now\n",
	}.Clean(redact.New())
	for _, text := range []string{n.Message, n.Context, n.Client, n.Timestamp} {
		if strings.ContainsFunc(text, unicode.IsControl) || strings.Contains(text, "\u202e") || strings.Contains(text, secret) {
			t.Errorf("text = %q, want no secret, control or bidi character", text)
		}
	}
	if n.Level != Info {
		t.Errorf("unknown level = %q, want %q", n.Level, Info)
	}
	if got, want := n.Context, "a␍␊b"; got != want {
		t.Errorf("context = %q, want %q", got, want)
	}
	if got := utf8.RuneCountInString(n.Message); got != MaxMessage {
		t.Errorf("message has %d characters, want %d", got, MaxMessage)
	}
	if got := (Notice{}).Clean(redact.New()).Context; got != DefaultContext {
		t.Errorf("missing context = %q, want %q", got, DefaultContext)
	}
}

func TestLevels(t *testing.T) {
	for name, want := range map[string]string{"": "info", "info": "info", "warn": "warning", "error": "error", "ERROR": "info", "warning": "info"} {
		if got := LevelOf(name).Severity(); string(got) != want {
			t.Errorf("severity of level %q = %s, want %s", name, got, want)
		}
	}
}

// TestNoticeJSON checks the names that dashboards read.
func TestNoticeJSON(t *testing.T) {
	data, err := json.Marshal(sample().Notice)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]string
	if err := json.Unmarshal(data, &members); err != nil || len(members) != 5 {
		t.Fatalf("JSON = %s (%v), want an object of 5 strings", data, err)
	}
	for _, name := range []string{"message", "level", "context", "client", "timestamp"} {
		if members[name] == "" {
			t.Errorf("JSON = %s, want a %s", data, name)
		}
	}
}

func TestSuppressedText(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "1 more not shown", 3: "3 more not shown"} {
		if got := (delivery{Suppressed: n}).suppressedText(); got != want {
			t.Errorf("suppressedText of %d = %q, want %q", n, got, want)
		}
	}
}
