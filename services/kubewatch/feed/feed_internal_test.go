package feed

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/redact"
)

// TestExplanationsAreNotMasked checks that masking leaves the explanations as they are. It
// masks what follows "credentials:", for example.
func TestExplanationsAreNotMasked(t *testing.T) {
	for _, e := range explanations {
		text := "list events: it was refused: " + e.text
		if got := redact.New().String(text); got != text {
			t.Errorf("masked explanation = %q, want %q", got, text)
		}
	}
}

// TestNoPauseAfterAnAnswer checks that a request does not wait after an answered one. A start
// sends three requests in a row, and each would wait up to 30 s for the last error.
func TestNoPauseAfterAnAnswer(t *testing.T) {
	f := New(Config{Health: make(chan Health, 1), Logger: slog.New(slog.DiscardHandler)})
	requests := 0
	err := f.Retry(t.Context(), nil, func(context.Context) error {
		if requests++; requests == 1 {
			return errors.New("not now")
		}
		return nil
	})
	if err != nil || requests != 2 {
		t.Errorf("Retry sent %d requests, error %v; want 2 requests, no error", requests, err)
	}
	if f.conn.pause != 0 {
		t.Errorf("pause after an answer = %s, want 0", f.conn.pause)
	}
}
