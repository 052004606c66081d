package hook

import (
	"context"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// Waiter returns the id of the wait that may wake a session, or "".
func Waiter(ctx context.Context, s *bus.Session, client, session string) string {
	state, _, err := loadState(ctx, s, client, session)
	if err != nil {
		return ""
	}
	return state.Waiter
}

// UpdateTwice changes a session's state twice at the same time: the second change is
// written while the first is being made. It returns the state afterwards.
func UpdateTwice(ctx context.Context, s *bus.Session, client, session, waiter string) (blocked bool, stored string, err error) {
	between := false
	err = updateState(ctx, s, client, session, func(state *sessionState) {
		if !between {
			between = true
			err = updateState(ctx, s, client, session, func(state *sessionState) { state.Waiter = waiter })
		}
		state.StopBlocked = true
	})
	if err != nil {
		return false, "", err
	}
	state, _, err := loadState(ctx, s, client, session)
	return state.StopBlocked, state.Waiter, err
}
