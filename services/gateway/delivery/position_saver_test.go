package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// TestPositionSaverLogsOnce checks that a position that cannot be stored for a while is
// retried, and that each reason in a row is logged once: the log is the agent's stderr.
func TestPositionSaverLogsOnce(t *testing.T) {
	refused := func(why string) error { return fmt.Errorf("store the position: %w", errors.New(why)) }
	for name, c := range map[string]struct {
		errs []error // of the attempts, one each 200 ms
		want []string
	}{
		"unreachable":  {[]error{busclient.ErrUnreachable, busclient.ErrUnreachable, busclient.ErrUnreachable}, nil},
		"one reason":   {[]error{refused("full"), refused("full"), refused("full")}, []string{"full"}},
		"two reasons":  {[]error{refused("full"), refused("full"), refused("broken"), refused("full")}, []string{"full", "broken", "full"}},
		"none is left": {[]error{nil}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				attempts := 0
				s := newPositionSaver(func(context.Context, bus.Position) (bus.Position, error) {
					attempts++
					if attempts > len(c.errs) {
						return bus.Position{}, nil
					}
					return bus.Position{}, c.errs[attempts-1]
				}, slog.New(slog.NewTextHandler(&log, nil)))
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- s.run(ctx) }()
				if _, err := s.save(ctx, bus.Position{Seq: 1}); !errors.Is(err, c.errs[0]) {
					t.Errorf("save = error %v, want %v", err, c.errs[0])
				}
				time.Sleep(5 * time.Second)
				cancel()
				if err := <-done; err != nil {
					t.Errorf("run = %v, want nil", err)
				}
				wantAttempts := len(c.errs) + 1 // the last one stores it
				if c.errs[0] == nil {
					wantAttempts = 1
				}
				if attempts != wantAttempts {
					t.Errorf("%d attempts, want %d", attempts, wantAttempts)
				}
				var reasons []string
				for line := range strings.Lines(log.String()) {
					_, reason, _ := strings.Cut(strings.TrimSuffix(strings.TrimSpace(line), `"`), "store the position: ")
					reasons = append(reasons, reason)
				}
				if diff := cmp.Diff(c.want, reasons); diff != "" {
					t.Errorf("logged reasons (-want +got):\n%s\n%s", diff, &log)
				}
			})
		})
	}
}
