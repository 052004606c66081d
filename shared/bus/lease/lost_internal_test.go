package lease

import (
	"errors"
	"fmt"
	"testing"
)

// TestBecause: the reason why a lease was lost appears once, and with it what else failed.
func TestBecause(t *testing.T) {
	lost := fmt.Errorf("%w: %w", ErrLost, ErrHeld)
	for _, tt := range []struct {
		ended error
		want  string
	}{
		{nil, lost.Error()},
		{fmt.Errorf("read: %w", ErrLost), lost.Error()},
		{errors.New("no room"), lost.Error() + "\nno room"},
	} {
		got := joinReasons(lost, tt.ended)
		if got.Error() != tt.want {
			t.Errorf("joinReasons(lost, %v) = %q, want %q", tt.ended, got, tt.want)
		}
		if !errors.Is(got, ErrHeld) {
			t.Errorf("joinReasons(lost, %v) = %q, want one that wraps ErrHeld", tt.ended, got)
		}
	}
}
