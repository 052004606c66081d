package mcpserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
)

// ServeStdio serves one client on stdin and stdout until stdin or ctx ends, and returns
// nil within a second then.
func ServeStdio(ctx context.Context, cfg Config) error {
	stdout := &lineWriter{w: cfg.Stdout}
	s := newServer(busclient.NewLifetime(ctx), cfg, transport{output: stdout})
	s.start()
	err := s.serveStdio(ctx, stdout)
	return errors.Join(err, s.unlessLate(within(endTimeout, s.end)))
}

// serveStdio serves MCP until stdin or ctx ends. Then it stops accepting, gives the calls
// under way answerTimeout, aborts, and waits at most endTimeout for the SDK.
func (s *server) serveStdio(ctx context.Context, stdout *lineWriter) error {
	defer s.life.Abort()
	calls := newCalls()
	session, err := s.mcp.Connect(context.WithoutCancel(ctx), &stdioTransport{
		in: closer(s.cfg.Stdin), out: stdout, batches: s.batches, ended: s.life.StopAccepting, calls: calls,
	}, nil)
	if err != nil {
		return fmt.Errorf("serve MCP: %w", err)
	}
	done := make(chan error, 1)
	go func() {
		err := session.Wait()
		done <- cmp.Or(calls.failure(), err)
	}()
	select {
	case err := <-done:
		return unlessClosed(err)
	case <-s.life.Stopping(): // the connection itself waits for the answers
		select {
		case err := <-done:
			return unlessClosed(err)
		case <-time.After(answerTimeout + endTimeout):
		}
	case <-ctx.Done():
		s.life.StopAccepting()
		calls.finish(answerTimeout)
	}
	s.life.Abort()
	return s.unlessLate(within(endTimeout, func() error {
		_ = session.Close() // Wait has the reason
		return unlessClosed(<-done)
	}))
}

// unlessLate returns err, or nil if err is [errTimeout]: the end of the process ends what
// did not end in time.
func (s *server) unlessLate(err error) error {
	if errors.Is(err, errTimeout) {
		s.log.Debug("the client does not read: its session did not end in time", "error", err)
		return nil
	}
	return err
}

// errServerClosing is the SDK's error, by its code, for an end while a call was under way.
// The SDK does not export it.
var errServerClosing = &jsonrpc.Error{Code: -32004}

// unlessClosed returns err, or nil if its only reason is that the client has disconnected.
func unlessClosed(err error) error {
	if err == nil || errors.Is(err, errServerClosing) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve MCP: %w", err)
}
