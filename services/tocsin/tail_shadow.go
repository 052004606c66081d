package main

import (
	"context"
	"fmt"
	"io"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// shadowWaiting is how many alerts may wait to be printed. What comes beyond that is
// left out, and the bus's client says so in the log.
const shadowWaiting = 1024

// shadow prints what rules in the shadow would have raised, until ctx ends.
func (s tailShow) shadow(ctx context.Context, conn *bus.Conn, w io.Writer) error {
	waiting, cancel := context.WithTimeout(ctx, tailWait)
	defer cancel()
	if err := awaitBus(waiting, conn); err != nil {
		if ctx.Err() != nil {
			return nil // asked to end while it waited
		}
		return err
	}
	raised := make(chan *nats.Msg, shadowWaiting)
	subscription, err := conn.NC.ChanSubscribe(bus.AllShadowAlerts, raised)
	if err != nil {
		return fmt.Errorf("listen to %s: %w", bus.AllShadowAlerts, err)
	}
	defer func() { _ = subscription.Unsubscribe() }() // the connection ends next
	for {
		select {
		case <-ctx.Done():
			return nil
		case m := <-raised:
			text, err := s.alert(bus.Message{Subject: m.Subject, Data: m.Data})
			if err != nil {
				return err
			}
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
		}
	}
}
