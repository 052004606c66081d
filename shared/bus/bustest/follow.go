package bustest

import (
	"context"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// Follow is [bus.Session.Follow] for tests that end it by their context: it returns nil when ctx
// ends.
func Follow(ctx context.Context, s *bus.Session, cfg bus.FollowConfig, handle func(bus.Message) error) error {
	err := s.Follow(ctx, cfg, handle)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the test ended it
	}
	return err
}
