package gateway

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// transport is the SDK's on stdin and stdout, with a better end: what was asked
// before stdin ended is still answered, for at most answerWithin. Without it
// the SDK drops what is under way, and whoever pipes requests in gets nothing.
type transport struct {
	mcp.IOTransport
	// ending is called once stdin has ended, before the wait.
	ending func()
}

// Connect implements mcp.Transport.
func (t *transport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.IOTransport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &connection{Connection: c, ending: t.ending, idle: make(chan struct{}, 1)}, nil
}

// connection counts the calls that wait for their answers.
type connection struct {
	mcp.Connection
	ending func()

	mu      sync.Mutex
	waiting map[jsonrpc.ID]struct{}
	// idle is signalled when no call waits any more.
	idle chan struct{}
}

// Read implements mcp.Connection.
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if err != nil {
		c.ending()
		c.finish()
		return nil, err
	}
	if r, ok := m.(*jsonrpc.Request); ok && r.IsCall() {
		c.mu.Lock()
		if c.waiting == nil {
			c.waiting = map[jsonrpc.ID]struct{}{}
		}
		c.waiting[r.ID] = struct{}{}
		c.mu.Unlock()
	}
	return m, nil
}

// Write implements mcp.Connection.
func (c *connection) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Response); ok {
		c.mu.Lock()
		delete(c.waiting, r.ID)
		c.mu.Unlock()
		select {
		case c.idle <- struct{}{}:
		default:
		}
	}
	return err
}

// finish waits until every call has its answer, or answerWithin is over.
func (c *connection) finish() {
	timer := time.NewTimer(answerWithin)
	defer timer.Stop()
	for {
		c.mu.Lock()
		n := len(c.waiting)
		c.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-c.idle:
		case <-timer.C:
			return
		}
	}
}

// closer is stdin as the SDK wants it.
func closer(r io.Reader) io.ReadCloser {
	if c, ok := r.(io.ReadCloser); ok {
		return c
	}
	return io.NopCloser(r)
}
