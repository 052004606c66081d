package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// subscriber is an agent's client over a real gateway process, line by line: the SDK's
// client takes longer for a notification than the gateway, and would be measured too.
type subscriber struct {
	lines   *harness.Lines
	answers chan answer
	asked   int
	// received is called with each notification, and the time of its line. It must not
	// keep the line.
	received atomic.Pointer[func(at time.Time, line []byte)]
}

type answer struct {
	ID     int `json:"id"`
	Result struct {
		IsError bool `json:"isError"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
	} `json:"result"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// subscribe starts a gateway, and subscribes with the arguments.
func (s *testbed) subscribe(ctx context.Context, arguments map[string]any) (*subscriber, error) {
	c := &subscriber{answers: make(chan answer, 16)}
	var err error
	if c.lines, err = harness.StartLines(s.bin, s.bus.StateDir, c.line); err != nil {
		return nil, err
	}
	if err := c.begin(ctx, arguments); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, c.lines.Log), c.close())
	}
	return c, nil
}

func (c *subscriber) begin(ctx context.Context, arguments map[string]any) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := c.ask(ctx, "initialize", map[string]any{
		"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "kubebench", "version": "1"},
	}); err != nil {
		return err
	}
	if err := c.lines.Send([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
		return err
	}
	if _, err := c.ask(ctx, "logging/setLevel", map[string]any{"level": "info"}); err != nil {
		return err
	}
	return c.subscribe(ctx, arguments)
}

// subscribe adds a subscription.
func (c *subscriber) subscribe(ctx context.Context, arguments map[string]any) error {
	a, err := c.ask(ctx, "tools/call", map[string]any{"name": "events_subscribe", "arguments": arguments})
	if err == nil && a.Result.IsError {
		err = fmt.Errorf("subscribe: %v", a.Result.Content)
	}
	return err
}

// ask sends a request and waits for its answer.
func (c *subscriber) ask(ctx context.Context, method string, params any) (a answer, err error) {
	c.asked++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.asked, "method": method, "params": params})
	if err != nil {
		return a, err
	}
	if err := c.lines.Send(line); err != nil {
		return a, fmt.Errorf("ask %s: %w", method, err)
	}
	for {
		select {
		case a = <-c.answers:
			if a.ID != c.asked {
				continue
			}
			if a.Error != nil {
				err = fmt.Errorf("ask %s: %s", method, a.Error.Message)
			}
			return a, err
		case <-c.lines.Done():
			return a, fmt.Errorf("ask %s: the gateway has ended", method)
		case <-ctx.Done():
			return a, fmt.Errorf("ask %s: %w", method, ctx.Err())
		}
	}
}

// line handles a line of the gateway.
func (c *subscriber) line(at time.Time, line []byte) {
	if bytes.Contains(line, []byte(`"method":"notifications/message"`)) {
		if received := c.received.Load(); received != nil {
			(*received)(at, line)
		}
		return
	}
	var a answer
	if json.Unmarshal(line, &a) == nil && a.ID != 0 {
		c.answers <- a
	}
}

func (c *subscriber) listen(received func(at time.Time, line []byte)) { c.received.Store(&received) }

// close closes the gateway's stdin and waits for its end.
func (c *subscriber) close() error { return c.lines.Close() }
