package leader

import (
	"errors"
	"fmt"
	"testing"
)

// TestBecause: why a lock was lost is said once, and what else went wrong beside it.
func TestBecause(t *testing.T) {
	lost := fmt.Errorf("%w: %w", ErrLapsed, ErrTaken)
	for _, tt := range []struct {
		ended error
		want  string
	}{
		{nil, lost.Error()},
		{fmt.Errorf("read: %w", ErrLapsed), lost.Error()},
		{errors.New("no room"), lost.Error() + "\nno room"},
	} {
		if got := because(lost, tt.ended); got.Error() != tt.want || !errors.Is(got, ErrTaken) {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
