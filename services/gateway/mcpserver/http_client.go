package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
)

const (
	// HeaderClient names the client whose inbox this is, as --client does on stdio. The
	// query parameter client does the same.
	HeaderClient = "Tocsin-Client"

	// maxClients is how many clients are served at once. Beyond it, a new client replaces
	// the one that has been idle longest, if that is evictableAfter or more; otherwise it
	// is refused with 503.
	maxClients     = 64
	evictableAfter = time.Minute
	// sessionIdle is how long an MCP session may have neither a request nor an open stream
	// before it is ended: as long as a bus that was started in the background runs without
	// a gateway. sessionlessIdle is the same for a client without a session. The inbox
	// stays.
	sessionIdle     = 4 * time.Hour
	sessionlessIdle = 15 * time.Minute
	// idleInterval is the time between two searches for idle clients, which the server ends.
	idleInterval = time.Minute
)

// httpClient is a client over HTTP.
type httpClient struct {
	*server
	stream *listenStream
	// sessionless reports whether the client's protocol has no sessions.
	sessionless bool
	// answering counts the requests that wait for their answers.
	answering sync.WaitGroup

	// The rest is guarded by the httpServer's mu.

	// startMissed reports whether the request that could have started a session has ended.
	startMissed bool
	// openRequests counts the requests under way; lastUsed is when the last one ended.
	openRequests int
	lastUsed     time.Time
}

type httpClientKey struct{}

// httpClientOf returns the client that sent a request, or nil.
func httpClientOf(r *http.Request) *httpClient {
	c, _ := r.Context().Value(httpClientKey{}).(*httpClient)
	return c
}

func withHTTPClient(r *http.Request, c *httpClient) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), httpClientKey{}, c))
}

// inboxName returns the name that a client gives its inbox, or "".
func inboxName(r *http.Request) string {
	if name := r.Header.Get(HeaderClient); name != "" {
		return name
	}
	return r.URL.Query().Get("client")
}

// methodOf returns the method of one JSON-RPC request, or "".
func methodOf(body []byte) string {
	var message struct {
		Method string `json:"method"`
	}
	if json.Unmarshal(body, &message) != nil { // a batch, or what the SDK refuses
		return ""
	}
	return message.Method
}

// announcedName returns the name that a request's sender announces.
func announcedName(body []byte) string {
	var message struct {
		Params struct {
			Meta struct {
				Client *mcp.Implementation `json:"io.modelcontextprotocol/clientInfo"`
			} `json:"_meta"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &message) != nil {
		return clientName(nil)
	}
	return clientName(message.Params.Meta.Client)
}

// newClient returns a client over HTTP that is not started. It sets output, quota and
// response of t.
func (h *httpServer) newClient(name string, t transport) *httpClient {
	cfg := h.cfg
	cfg.Client = name
	life := busclient.NewLifetime(h.ctx)
	c := &httpClient{stream: newListenStream(life.Context()), lastUsed: h.now()}
	t.output, t.quota = c.stream, h.quota
	t.response = func(header http.Header) *response {
		to, _ := h.responses.Load(header.Get(headerResponse))
		found, _ := to.(*response)
		return found
	}
	c.server = newServer(life, cfg, t)
	return c
}

// addClient accepts a client, and reports whether there was room.
func (h *httpServer) addClient(key string, c *httpClient) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.startMissed || !h.makeRoom() {
		h.metrics.refused.Inc()
		return false
	}
	h.metrics.accepted.Inc()
	h.clients[key] = c
	return true
}

// full reports whether another client would be refused.
func (h *httpServer) full() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, idle := longestIdle(h.clients, h.now())
	return h.ended || len(h.clients) >= maxClients && idle == nil
}

// makeRoom reports whether there is room for another client. If needed, it ends the one
// that has been idle longest. The caller holds mu.
func (h *httpServer) makeRoom() bool {
	if h.ended || len(h.clients) < maxClients {
		return !h.ended
	}
	key, c := longestIdle(h.clients, h.now())
	if c == nil {
		return false
	}
	h.log.Info("ended the client that was idle longest: another client needs the room", "client", c.alerts.Inbox())
	delete(h.clients, key)
	h.ending.Go(func() { h.endClient(key, c) })
	return true
}

// longestIdle returns the client that has been idle longest, or nil if none has been idle
// for evictableAfter.
func longestIdle(clients map[string]*httpClient, now time.Time) (key string, longest *httpClient) {
	for k, c := range clients {
		if c.openRequests == 0 && now.Sub(c.lastUsed) >= evictableAfter && (longest == nil || c.lastUsed.Before(longest.lastUsed)) {
			key, longest = k, c
		}
	}
	return key, longest
}

// endClient ends a client and its MCP session, if it has one.
func (h *httpServer) endClient(key string, c *httpClient) {
	c.life.StopAccepting()
	for session := range c.mcp.Sessions() {
		_ = session.Close() // Wait has the reason
	}
	if c.sessionless { // nothing else ends it
		h.removeClient(key, c)
	}
}

// removeClient removes a client and ends its server.
func (h *httpServer) removeClient(key string, c *httpClient) {
	h.mu.Lock()
	if h.clients[key] == c {
		delete(h.clients, key)
	}
	h.mu.Unlock()
	if err := within(endTimeout, c.end); errors.Is(err, errTimeout) {
		h.log.Debug("the parts of a client did not end in time", "client", c.alerts.Inbox(), "error", err)
	}
}

// acquireClient returns the client with a key and counts a request of it. It accepts a new
// client, or returns nil if there is no room.
func (h *httpServer) acquireClient(name, key string) *httpClient {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.clients[key]
	if c == nil {
		if !h.makeRoom() {
			return nil
		}
		c = h.newClient(name, transport{inboxKey: func(string) string { return key }})
		c.sessionless = true
		c.start()
		h.metrics.accepted.Inc()
		h.clients[key] = c
	}
	c.openRequests++
	return c
}

// releaseClient ends a request of a client.
func (h *httpServer) releaseClient(c *httpClient) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c.openRequests--
	c.lastUsed = h.now()
}

// endIdleClients ends idle clients until ctx ends.
func (h *httpServer) endIdleClients(ctx context.Context) {
	tick := time.NewTicker(idleInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for key, c := range h.takeIdle(now) {
				h.endClient(key, c)
			}
		}
	}
}

// idleLimit is how long the client may be without a request.
func (c *httpClient) idleLimit() time.Duration {
	if c.sessionless {
		return sessionlessIdle
	}
	return sessionIdle
}

// takeIdle removes the clients that are idle for too long, and returns them.
func (h *httpServer) takeIdle(now time.Time) map[string]*httpClient {
	h.mu.Lock()
	defer h.mu.Unlock()
	idle := map[string]*httpClient{}
	for key, c := range h.clients {
		if c.openRequests == 0 && now.Sub(c.lastUsed) >= c.idleLimit() {
			idle[key] = c
			delete(h.clients, key)
		}
	}
	return idle
}
