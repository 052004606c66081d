package chromium

import (
	"context"
	"errors"
	"testing"

	"github.com/chromedp/chromedp"
)

// Start runs a headless Chromium, in which every host name is this machine, until the
// end of the test. It skips the test where there is none.
func Start(t *testing.T, more ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	ctx, stop, err := Launch(t.Context(), t.TempDir(), more...)
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	t.Cleanup(stop)
	return ctx
}
