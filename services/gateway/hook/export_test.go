package hook

import (
	"context"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// Waiter is who waits to wake a session, or empty.
func Waiter(ctx context.Context, c *bus.Conn, client, session string) string {
	m, _, err := loadMemory(ctx, c, client, session)
	if err != nil {
		return ""
	}
	return m.Waiter
}

// HoldAndWait changes what a session remembers in two ways at once: while one
// change is being made, the other is written. It says what is remembered then.
func HoldAndWait(ctx context.Context, c *bus.Conn, client, session, waiter string) (held bool, waits string, err error) {
	between := false
	err = changeMemory(ctx, c, client, session, func(m *memory) {
		if !between {
			between = true
			err = changeMemory(ctx, c, client, session, func(m *memory) { m.Waiter = waiter })
		}
		m.Held = true
	})
	if err != nil {
		return false, "", err
	}
	m, _, err := loadMemory(ctx, c, client, session)
	return m.Held, m.Waiter, err
}
