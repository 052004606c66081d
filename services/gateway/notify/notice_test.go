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

// sample is a notice with everything that a sink could take for its own.
func sample() delivery {
	return delivery{HeldBack: 3, Notice: Notice{
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
			t.Errorf("%q", text)
		}
	}
	if n.Level != Info || n.Context != "a␍␊b" || utf8.RuneCountInString(n.Message) != MaxMessage {
		t.Errorf("%+v", n)
	}
	if got := (Notice{}).Clean(redact.New()).Context; got != DefaultContext {
		t.Errorf("context %q", got)
	}
}

func TestLevels(t *testing.T) {
	for name, want := range map[string]string{"": "info", "info": "info", "warn": "warning", "error": "error", "ERROR": "info", "warning": "info"} {
		if got := LevelOf(name).Severity(); string(got) != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
}

// TestOnTheBus: the names are what dashboards read.
func TestOnTheBus(t *testing.T) {
	data, err := json.Marshal(sample().Notice)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]string
	if err := json.Unmarshal(data, &members); err != nil || len(members) != 5 {
		t.Fatalf("%v: %s", err, data)
	}
	for _, name := range []string{"message", "level", "context", "client", "timestamp"} {
		if members[name] == "" {
			t.Errorf("no %s in %s", name, data)
		}
	}
}

func TestMore(t *testing.T) {
	for held, want := range map[int]string{0: "", 1: "1 more was held back", 3: "3 more were held back"} {
		if got := (delivery{HeldBack: held}).more(); got != want {
			t.Errorf("%d: %q", held, got)
		}
	}
}
