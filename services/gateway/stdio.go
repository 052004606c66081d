package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Run serves one client on stdin and stdout until stdin or ctx ends, and returns
// nil within a second then.
func Run(ctx context.Context, cfg Config) error {
	stdout := &lineWriter{w: cfg.Stdout}
	g := newGateway(ctx, cfg, stdout)
	g.present()
	g.link.kubewatch = g.attendKubewatch
	g.begin()
	err := g.serve(ctx, stdout)
	return errors.Join(err, within(endWithin, g.end))
}

// serve speaks MCP until stdin or ctx ends. Then it gives the calls under way
// some time, calls stop, and waits no longer than endWithin for the SDK.
func (g *gateway) serve(ctx context.Context, stdout *lineWriter) error {
	defer g.stop()
	s := g.server(mcp.ServerOptions{})
	under := newCalls()
	session, err := s.Connect(context.WithoutCancel(ctx), &transport{
		in: closer(g.cfg.Stdin), out: stdout, batches: g.batches, ending: g.close, calls: under,
	}, nil)
	if err != nil {
		return fmt.Errorf("serve MCP: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- session.Wait() }()
	select {
	case err := <-done:
		return unlessClosed(err)
	case <-g.closing: // the connection itself waits for the answers
		select {
		case err := <-done:
			return unlessClosed(err)
		case <-time.After(answerWithin + endWithin):
		}
	case <-ctx.Done():
		g.close()
		under.finish(answerWithin)
	}
	g.stop()
	return within(endWithin, func() error {
		_ = session.Close() // Wait has the reason
		return unlessClosed(<-done)
	})
}

// errServerClosing is what the SDK ends with, by its code, where a call was still under
// way: it does not export it.
var errServerClosing = &jsonrpc.Error{Code: -32004}

// unlessClosed is err, unless it only says that the client has gone.
func unlessClosed(err error) error {
	if err == nil || errors.Is(err, errServerClosing) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return fmt.Errorf("serve MCP: %w", err)
}
