package feed

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/redact"
)

// TestExplained: what is said to do comes through masking as it is: what stands behind
// "credentials:" does not.
func TestExplained(t *testing.T) {
	for _, e := range explained {
		if text := "list events: it was refused: " + e.words; redact.New().String(text) != text {
			t.Errorf("%q", redact.New().String(text))
		}
	}
}

// TestNoPauseAfterAnAnswer: only who was not answered waits before the next question. At
// a start three come one after the other, and each waited as long as the last error had
// it, up to 30 s.
func TestNoPauseAfterAnAnswer(t *testing.T) {
	f := New(nil, make(chan Sign, 1), nil, slog.New(slog.DiscardHandler))
	asked := 0
	err := f.Try(t.Context(), nil, func(context.Context) error {
		if asked++; asked == 1 {
			return errors.New("not now")
		}
		return nil
	})
	if err != nil || asked != 2 || f.wait != 0 {
		t.Errorf("asked %d times, %v; the next question waits %s", asked, err, f.wait)
	}
}
