package bustest

import (
	"testing"
	"time"
)

// pollInterval is the pause between two checks of a condition.
const pollInterval = 5 * time.Millisecond

// Eventually waits until ok returns true. It fails the test after 60 s, and names what
// it waited for.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			t.Fatalf("no %s within %s", what, patience)
		}
	}
}
