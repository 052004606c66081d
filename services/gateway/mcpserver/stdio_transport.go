package mcpserver

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/mcpevents"
)

// maxCalls is how many calls of a client may be under way, in addition to its open streams.
// Beyond it a call is refused: a client that calls and never reads would fill the memory.
const maxCalls = 64

// codeBusy is JSON-RPC's first code for errors of a server.
const codeBusy = -32000

// stdioTransport is the SDK's transport on stdin and stdout, with another end: calls made
// before stdin ended are still answered, for at most answerTimeout. The SDK alone would drop
// them, and a client that pipes requests in would get no answer.
type stdioTransport struct {
	in  io.ReadCloser
	out io.WriteCloser
	// batches reports whether the negotiated protocol has batches.
	batches func() bool
	// ended is called when stdin has ended, before the wait.
	ended func()
	calls *calls
}

// Connect implements [mcp.Transport].
func (t *stdioTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	in := struct {
		io.Reader
		io.Closer
	}{newLineReader(t.in, t.out, t.batches), t.in}
	sdk := &mcp.IOTransport{Reader: in, Writer: t.out, MaxLineLength: -1} // newLineReader bounds lines
	c, err := sdk.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &stdioConnection{Connection: c, ended: t.ended, calls: t.calls}, nil
}

// stdioConnection counts the calls that wait for their answers.
type stdioConnection struct {
	mcp.Connection
	ended func()
	calls *calls
}

// Read implements [mcp.Connection].
func (c *stdioConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		m, err := c.Connection.Read(ctx)
		if err != nil {
			c.ended()
			c.calls.finish(answerTimeout)
			return nil, err
		}
		r, ok := m.(*jsonrpc.Request)
		if !ok || !r.IsCall() || c.calls.begin(r.ID, mcpevents.IsStream(r)) {
			mcpevents.SetSubscriptionID(r)
			return m, nil
		}
		refusal := &jsonrpc.Response{ID: r.ID, Error: &jsonrpc.Error{Code: codeBusy, Message: "too many calls are under way: wait for their answers"}}
		if err := c.Connection.Write(ctx, refusal); err != nil {
			return nil, err
		}
	}
}

// Write implements [mcp.Connection].
func (c *stdioConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if r, ok := m.(*jsonrpc.Response); ok {
		c.calls.end(r.ID, err)
	}
	return err
}

// calls holds the calls that wait for their answers: at most maxCalls, and in addition twice
// mcpevents.MaxStreams open streams. That leaves room to answer a stream that is refused.
type calls struct {
	mu sync.Mutex
	// waiting maps each call to whether it is an open stream; held counts those.
	waiting map[jsonrpc.ID]bool
	held    int
	// unwritten is why the first answer was not written that was not, or nil. The SDK then
	// closes stdin, and may report that its read failed.
	unwritten error
	// answered is signalled when a call got its answer.
	answered chan struct{}
}

func newCalls() *calls {
	return &calls{waiting: map[jsonrpc.ID]bool{}, answered: make(chan struct{}, 1)}
}

// begin adds a call, and reports whether there is room for it.
func (c *calls) begin(id jsonrpc.ID, held bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if held && c.held == 2*mcpevents.MaxStreams || !held && len(c.waiting)-c.held >= maxCalls {
		return false
	}
	if held && !c.waiting[id] {
		c.held++
	}
	if !held && c.waiting[id] { // an id that is used twice
		c.held--
	}
	c.waiting[id] = held
	return true
}

// end removes a call whose answer was written, or was not because of err.
func (c *calls) end(id jsonrpc.ID, err error) {
	c.mu.Lock()
	if c.unwritten == nil {
		c.unwritten = err
	}
	if c.waiting[id] {
		c.held--
	}
	delete(c.waiting, id)
	c.mu.Unlock()
	select {
	case c.answered <- struct{}{}:
	default:
	}
}

// failure returns why an answer was not written, or nil.
func (c *calls) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unwritten
}

func (c *calls) none() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.waiting) == 0
}

// finish waits until every call has its answer, or limit has passed.
func (c *calls) finish(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for !c.none() {
		select {
		case <-c.answered:
		case <-timer.C:
			return
		}
	}
}

// closer returns stdin with a Close method, which the SDK needs.
func closer(r io.Reader) io.ReadCloser {
	if c, ok := r.(io.ReadCloser); ok {
		return c
	}
	return io.NopCloser(r)
}
