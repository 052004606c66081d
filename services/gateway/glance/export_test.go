package glance

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
