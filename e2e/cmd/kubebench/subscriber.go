package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// maxLine bounds a line that a subscriber reads, in bytes.
const maxLine = 4 << 20

// subscriber is an agent's client over a real gateway process, line by line: the SDK's
// client takes longer for a notification than the gateway, and would be measured too.
type subscriber struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan answer
	done    chan struct{} // closed at the end of stdout
	log     *harness.Log
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
func (s *stage) subscribe(ctx context.Context, arguments map[string]any) (*subscriber, error) {
	c := &subscriber{
		cmd:     exec.Command(s.bin, "gateway", "--autostart=false"), //nolint:noctx // ended by close
		answers: make(chan answer, 16), done: make(chan struct{}), log: &harness.Log{},
	}
	c.cmd.Env, c.cmd.Dir, c.cmd.Stderr = harness.Env(s.bus.StateDir), s.bus.StateDir, c.log
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	go c.read(out)
	if err := c.begin(ctx, arguments); err != nil {
		return nil, errors.Join(fmt.Errorf("%w\n%s", err, c.log), c.close())
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
	if _, err := io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
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
	if _, err := c.in.Write(append(line, '\n')); err != nil {
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
		case <-c.done:
			return a, fmt.Errorf("ask %s: the gateway has ended", method)
		case <-ctx.Done():
			return a, fmt.Errorf("ask %s: %w", method, ctx.Err())
		}
	}
}

func (c *subscriber) read(out io.Reader) {
	defer close(c.done)
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		at := time.Now()
		if bytes.Contains(lines.Bytes(), []byte(`"method":"notifications/message"`)) {
			if received := c.received.Load(); received != nil {
				(*received)(at, lines.Bytes())
			}
			continue
		}
		var a answer
		if json.Unmarshal(lines.Bytes(), &a) == nil && a.ID != 0 {
			c.answers <- a
		}
	}
}

func (c *subscriber) listen(received func(at time.Time, line []byte)) { c.received.Store(&received) }

// close closes the gateway's stdin and waits for its end.
func (c *subscriber) close() error {
	err := c.in.Close()
	<-c.done
	return errors.Join(err, c.cmd.Wait())
}
