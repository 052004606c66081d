package hook

import (
	"context"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// Waiter returns the id of the wait that may wake a session, or "".
func Waiter(ctx context.Context, c *bus.Conn, client, session string) string {
	s, _, err := loadState(ctx, c, client, session)
	if err != nil {
		return ""
	}
	return s.Waiter
}

// UpdateTwice changes a session's state twice at the same time: the second change is
// written while the first is being made. It returns the state afterwards.
func UpdateTwice(ctx context.Context, c *bus.Conn, client, session, waiter string) (blocked bool, stored string, err error) {
	between := false
	err = updateState(ctx, c, client, session, func(s *sessionState) {
		if !between {
			between = true
			err = updateState(ctx, c, client, session, func(s *sessionState) { s.Waiter = waiter })
		}
		s.StopBlocked = true
	})
	if err != nil {
		return false, "", err
	}
	s, _, err := loadState(ctx, c, client, session)
	return s.StopBlocked, s.Waiter, err
}
