package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/net/netutil"

	"github.com/tocsin-bus/tocsin/services/gateway/clients"
	"github.com/tocsin-bus/tocsin/services/gateway/events"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/untrusted"
)

const (
	// pathMCP is where MCP is served; the root is taken too.
	pathMCP = "/mcp"
	// headerClient, and the query parameter client, name the client whose inbox
	// this is, as --client does on stdio.
	headerClient = "Tocsin-Client"
	// headerReply carries the number of a request to those who answer it. What a
	// client says there is overwritten.
	headerReply    = "Tocsin-Reply"
	headerSession  = "Mcp-Session-Id"
	headerProtocol = "Mcp-Protocol-Version"

	// maxGuests is how many clients are served at once; past it a new one is
	// refused with 503.
	maxGuests = 64
	// maxConns is how many connections may be open; past it they wait.
	maxConns = 1024
	// sessionIdle is how long a session may be without a request before it is
	// ended: as long as a bus that was started in the background stays.
	sessionIdle = 4 * time.Hour
	// guestIdle is the same where the protocol has no sessions. The inbox stays.
	guestIdle = 15 * time.Minute
	// sweepEvery is how often is looked for such.
	sweepEvery = time.Minute
	// headerTimeout and bodyTimeout bound how slow a request may come.
	headerTimeout = 5 * time.Second
	bodyTimeout   = 10 * time.Second
	// dropTimeout bounds the forgetting of a client's place.
	dropTimeout = time.Second
)

// HTTPConfig says where MCP is served on HTTP, and to whom.
type HTTPConfig struct {
	// Addr is host:port; port 0 picks a free one. Anything but loopback needs a
	// Token.
	Addr string
	// Token, when set, must come with every request as Authorization: Bearer.
	Token string
	// AllowedHosts and AllowedOrigins may beside loopback; see httpguard.Policy.
	AllowedHosts, AllowedOrigins []string
	// Ready is called once, with the URL, when requests are taken. It may be nil.
	Ready func(url string)
}

// Serve serves MCP on HTTP until ctx ends. Each client has an inbox, a stream
// and filters of its own, which end with its session.
func Serve(ctx context.Context, cfg Config, at HTTPConfig) error {
	if err := httpguard.CheckListen(ctx, "--http", at.Addr, at.Token); err != nil {
		return service.Usagef("%s", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", at.Addr)
	if err != nil {
		return fmt.Errorf("listen for MCP clients: %w: free the port or name another with --http", err)
	}
	// A name is whatever the resolver makes of it: what counts is what it was now.
	if err := httpguard.CheckListen(ctx, "--http", l.Addr().String(), at.Token); err != nil {
		return errors.Join(service.Usagef("%s", err), l.Close())
	}
	f := newFront(ctx, cfg, at)
	url := "http://" + httpguard.Reachable(l.Addr()) + pathMCP
	f.log.Info("the gateway listens", "url", url)
	if at.Ready != nil {
		at.Ready(url)
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		f.sweep(ctx)
		f.end() // streams that clients hold open end with their sessions
		stop()
	}()
	return service.ServeHTTP(serving, netutil.LimitListener(l, maxConns), &http.Server{
		Handler: f, ReadHeaderTimeout: headerTimeout, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	})
}

// front is the HTTP side: who may come in, and which client a request is of.
type front struct {
	ctx    context.Context
	cfg    Config
	at     HTTPConfig
	policy httpguard.Policy
	log    *slog.Logger

	// sessions serves the protocol's versions that have sessions, and sessionless
	// those that have none.
	sessions, sessionless http.Handler

	replies sync.Map // number of a request -> *reply
	number  atomic.Uint64

	mu     sync.Mutex
	guests map[string]*guest // by session, or by name where there are none
	ended  bool
	// serving counts requests that are to be answered, leaving guests that are
	// being ended.
	serving, leaving sync.WaitGroup
}

// guest is a client over HTTP.
type guest struct {
	*gateway
	server *mcp.Server
	push   *push
	// named says that the client has a name of its own, under which it can come
	// back: its place in the alerts stays.
	named bool

	// late says that the request which could have begun a session is over. The
	// front's.
	late bool
	// sessionless says that the client's protocol has no sessions.
	sessionless bool
	// Of a client without a session: open counts its requests under way, used is
	// when the last one ended. Both are the front's.
	open int
	used time.Time
}

type guestKey struct{}

func guestOf(r *http.Request) *guest {
	g, _ := r.Context().Value(guestKey{}).(*guest)
	return g
}

func newFront(ctx context.Context, cfg Config, at HTTPConfig) *front {
	f := &front{
		ctx: ctx, cfg: cfg, at: at, log: cfg.Logger.With("component", "gateway"), guests: map[string]*guest{},
		policy: httpguard.Policy{AllowedHosts: at.AllowedHosts, AllowedOrigins: at.AllowedOrigins}.ListeningOn(at.Addr),
	}
	server := func(r *http.Request) *mcp.Server {
		if g := guestOf(r); g != nil {
			return g.server
		}
		return nil
	}
	// The front has checked the Host, and knows which others are allowed.
	options := mcp.StreamableHTTPOptions{
		Logger: slog.New(slog.DiscardHandler), DisableLocalhostProtection: true, MaxRequestBodyBytes: maxLine, SessionTimeout: sessionIdle,
	}
	f.sessions = mcp.NewStreamableHTTPHandler(server, &options)
	options.Stateless, options.PropagateRequestCancellation, options.SessionTimeout = true, true, 0
	f.sessionless = mcp.NewStreamableHTTPHandler(server, &options)
	return f
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !f.admit(w, r) {
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("a message must arrive within %s and have at most %d bytes", bodyTimeout, maxLine))
		return
	}
	if r.Method == http.MethodPost {
		if !f.begin() {
			refuse(w, http.StatusServiceUnavailable, "the gateway is shutting down")
			return
		}
		defer f.serving.Done()
	}
	to := &reply{ctx: r.Context(), w: w}
	number := strconv.FormatUint(f.number.Add(1), 10)
	r.Header.Set(headerReply, number)
	f.replies.Store(number, to)
	defer func() {
		to.finish()
		f.replies.Delete(number)
	}()
	if f.cfg.Protocol == Latest && r.Header.Get(headerProtocol) >= version20260728 {
		f.serveSessionless(to, r, body)
		return
	}
	f.serveSession(to, r)
}

// admit refuses those who may not, and answers what is no MCP.
func (f *front) admit(w http.ResponseWriter, r *http.Request) bool {
	if err := f.policy.CheckHost(r); err != nil {
		refuse(w, http.StatusForbidden, err.Error())
		return false
	}
	switch f.policy.Origin(r) {
	case httpguard.None, httpguard.Own:
	case httpguard.Configured:
		f.allowPage(w.Header(), r)
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return false
		}
	case httpguard.LoopbackOrigin, httpguard.Foreign:
		refuse(w, http.StatusForbidden, "origin not allowed: only programs may, and pages whose origin is in TOCSIN_ALLOWED_ORIGINS")
		return false
	}
	switch r.URL.Path {
	case "/", pathMCP:
	case "/healthz":
		_, _ = io.WriteString(w, "{\"ok\":true}\n") // nobody to tell
		return false
	default:
		refuse(w, http.StatusNotFound, "not found: MCP is at "+pathMCP)
		return false
	}
	if !httpguard.HasToken(r, f.at.Token) {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, "a token is required: send Authorization: Bearer with the value of TOCSIN_TOKEN")
		return false
	}
	return true
}

// allowPage lets the page of a configured origin read the answer.
func (f *front) allowPage(h http.Header, r *http.Request) {
	h.Set("Access-Control-Allow-Origin", r.Header.Get("Origin"))
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", "Accept, Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, "+headerProtocol+", "+headerSession+", "+headerClient)
	h.Set("Access-Control-Expose-Headers", headerSession+", "+headerProtocol)
	h.Add("Vary", "Origin")
}

// refuse answers with an error as JSON-RPC has them, of no request.
func refuse(w http.ResponseWriter, status int, why string) {
	text, err := encode(untrusted.Visible(why))
	if err != nil {
		text = `"refused"`
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%s}}`+"\n", jsonrpc.CodeInvalidRequest, text) // nobody to tell
}

// readBody reads the whole body of a request, within the time and the size that
// it may have, and leaves it there to be read again.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.Method != http.MethodPost {
		return nil, nil
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(bodyTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLine))
	if err != nil {
		return nil, err
	}
	if err := control.SetReadDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return nil, err
	}
	body = events.StampBody(body)
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return body, nil
}

// serveSession serves the versions of the protocol that have sessions.
func (f *front) serveSession(to *reply, r *http.Request) {
	id := r.Header.Get(headerSession)
	if id == "" && r.Method == http.MethodPost {
		f.serveNew(to, r)
		return
	}
	f.mu.Lock()
	g := f.guests[id]
	f.mu.Unlock()
	if g == nil { // the SDK says what is wrong
		f.sessions.ServeHTTP(to, r)
		return
	}
	if r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") == "" {
		to.opened = func() { g.push.attach(to) }
		defer g.push.detach(to)
	}
	if r.Method == http.MethodDelete {
		g.close() // the SDK waits until what is held was answered
	}
	f.sessions.ServeHTTP(to, r.WithContext(context.WithValue(r.Context(), guestKey{}, g)))
}

// serveNew serves a request that may begin a session.
func (f *front) serveNew(to *reply, r *http.Request) {
	f.mu.Lock()
	full := len(f.guests) >= maxGuests || f.ended
	f.mu.Unlock()
	if full {
		refuse(to, http.StatusServiceUnavailable, fmt.Sprintf("%d clients are served already: end one of their sessions", maxGuests))
		return
	}
	id := rand.Text()
	g := f.newGuest(clientOf(r), func(client string) string { return client + " over HTTP, session " + id }, func() string { return id })
	g.starts = func(session *mcp.ServerSession) bool {
		if !f.add(id, g) {
			return false
		}
		g.begin()
		f.leaving.Go(func() {
			_ = session.Wait() // however it ended, it has
			f.leave(id, g)
		})
		return true
	}
	f.sessions.ServeHTTP(to, r.WithContext(context.WithValue(r.Context(), guestKey{}, g)))
	f.mu.Lock()
	late := f.guests[id] != g
	g.late = late
	f.mu.Unlock()
	if late {
		for session := range g.server.Sessions() {
			_ = session.Close() // it never began
		}
		g.stop()
	}
}

// clientOf is the name that a client gives itself for its inbox, or empty.
func clientOf(r *http.Request) string {
	if name := r.Header.Get(headerClient); name != "" {
		return name
	}
	return r.URL.Query().Get("client")
}

// newGuest makes what a client over HTTP needs, and starts none of it yet.
func (f *front) newGuest(client string, inbox func(string) string, sessionID func() string) *guest {
	cfg := f.cfg
	cfg.Client = client
	g := &guest{named: client != ""}
	g.gateway = newGateway(f.ctx, cfg, nil)
	g.push = newPush(g.life)
	g.out, g.inbox = g.push, inbox
	g.reply = func(h http.Header) *reply {
		to, _ := f.replies.Load(h.Get(headerReply))
		found, _ := to.(*reply)
		return found
	}
	g.server = g.gateway.server(mcp.ServerOptions{GetSessionID: sessionID})
	return g
}

// add takes a guest in, if there is room.
func (f *front) add(key string, g *guest) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || g.late || len(f.guests) >= maxGuests {
		return false
	}
	f.guests[key] = g
	return true
}

// leave ends what a client had. One without a name never comes back, so its
// place in the alerts goes too.
func (f *front) leave(key string, g *guest) {
	f.mu.Lock()
	if f.guests[key] == g {
		delete(f.guests, key)
	}
	f.mu.Unlock()
	if !g.named {
		ctx, cancel := context.WithTimeout(g.life, dropTimeout)
		if err := g.link.forget(ctx); err != nil {
			g.log.Warn("the place of a client that has gone stays until it expires", "error", err)
		}
		cancel()
	}
	_ = within(endWithin, g.end) // its parts have no errors
}

// serveSessionless serves the versions that have no sessions: each request says
// who asks, and is a whole of its own.
func (f *front) serveSessionless(to *reply, r *http.Request, body []byte) {
	client := clientOf(r)
	key := clients.NamedInbox(client)
	if client == "" {
		key = introducedAs(body) + " over HTTP"
	}
	g := f.enter(client, key)
	if g == nil {
		refuse(to, http.StatusServiceUnavailable, fmt.Sprintf("%d clients are served already", maxGuests))
		return
	}
	defer func() {
		f.mu.Lock()
		g.open--
		g.used = time.Now()
		f.mu.Unlock()
	}()
	f.sessionless.ServeHTTP(to, r.WithContext(context.WithValue(r.Context(), guestKey{}, g)))
}

// introducedAs is the name that a request's sender says it has.
func introducedAs(body []byte) string {
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

// enter finds the client of that key, or takes it in. It is nil when there is
// no room.
func (f *front) enter(client, key string) *guest {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.guests[key]
	if g == nil {
		if f.ended || len(f.guests) >= maxGuests {
			return nil
		}
		g = f.newGuest(client, func(string) string { return key }, nil)
		g.sessionless, g.named = true, true // it may come back
		g.begin()
		f.guests[key] = g
	}
	g.open++
	return g
}

// sweep ends clients without a session that have not asked for long, until ctx
// ends.
func (f *front) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for key, g := range f.idle(now) {
				f.leave(key, g)
			}
		}
	}
}

// idle takes out the clients without a session that have not asked for long.
func (f *front) idle(now time.Time) map[string]*guest {
	f.mu.Lock()
	defer f.mu.Unlock()
	gone := map[string]*guest{}
	for key, g := range f.guests {
		if g.sessionless && g.open == 0 && now.Sub(g.used) >= guestIdle {
			gone[key] = g
			delete(f.guests, key)
		}
	}
	return gone
}

// begin counts a request, unless the end has begun.
func (f *front) begin() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.serving.Add(1)
	}
	return !f.ended
}

// end lets go what is held, gives the calls under way some time, ends every
// client, and waits until all are.
func (f *front) end() {
	f.mu.Lock()
	f.ended = true
	guests := maps.Clone(f.guests)
	f.mu.Unlock()
	for _, g := range guests {
		g.close()
	}
	_ = within(answerWithin, func() error { f.serving.Wait(); return nil }) // it has none
	for key, g := range guests {
		for session := range g.server.Sessions() {
			f.leaving.Go(func() { _ = session.Close() }) // Wait has the reason
		}
		if g.sessionless { // nobody else ends it
			f.leave(key, g)
		}
	}
	f.leaving.Wait()
}
