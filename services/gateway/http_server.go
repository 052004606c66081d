package gateway

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/lines"
)

const (
	// headerReply carries the number of a request to those who answer it. What a
	// client says there is overwritten.
	headerReply    = "Tocsin-Reply"
	headerSession  = "Mcp-Session-Id"
	headerProtocol = "Mcp-Protocol-Version"

	// sessionIdle is how long a session may be without a request, an open stream
	// included, before it is ended: as long as a bus that was started in the
	// background stays.
	sessionIdle = 4 * time.Hour
)

// front is the HTTP side: it serves each request as one of its client's.
type front struct {
	ctx   context.Context
	cfg   Config
	guard *guard
	log   *slog.Logger
	// outlook knows whether the bus is there, metrics what Prometheus is told.
	outlook *outlook
	metrics frontMetrics

	// sessions serves the protocol's versions that have sessions, and sessionless
	// those that have none.
	sessions, sessionless http.Handler

	// now is the time, by which a client is idle.
	now func() time.Time

	replies sync.Map // number of a request -> *reply
	number  atomic.Uint64

	mu     sync.Mutex
	guests map[string]*guest // by session, or by name where there are none
	ended  bool
	// serving counts requests that are to be answered, leaving guests that are
	// being ended.
	serving, leaving sync.WaitGroup
}

func newFront(ctx context.Context, cfg Config, at HTTPConfig) *front {
	f := &front{
		ctx: ctx, cfg: cfg, guard: newGuard(at), log: cfg.Logger.With("component", "gateway"), guests: map[string]*guest{}, now: time.Now,
	}
	f.cfg.quota = cfg.Kubernetes.quota()
	f.outlook = newOutlook(cfg.Bus, f.log)
	f.metrics = newFrontMetrics(f)
	f.guard.pages = f.pages()
	server := func(r *http.Request) *mcp.Server {
		if g := guestOf(r); g != nil {
			return g.server
		}
		return nil
	}
	// The front has checked the Host, and knows which others are allowed.
	options := mcp.StreamableHTTPOptions{
		Logger: slog.New(slog.DiscardHandler), DisableLocalhostProtection: true, MaxRequestBodyBytes: lines.Max,
	}
	f.sessions = mcp.NewStreamableHTTPHandler(server, &options)
	options.Stateless, options.PropagateRequestCancellation = true, true
	f.sessionless = mcp.NewStreamableHTTPHandler(server, &options)
	return f
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := limit(w); err != nil {
		return // the connection is gone
	}
	if !f.guard.admit(w, r) {
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		refuseBody(w, err)
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
	f.serveSession(to, r, body)
}

// serveSession serves the versions of the protocol that have sessions.
func (f *front) serveSession(to *reply, r *http.Request, body []byte) {
	id := r.Header.Get(headerSession)
	if id == "" && r.Method == http.MethodPost {
		if method := methodOf(body); method != "" && method != "initialize" && r.Header.Get(headerProtocol) < version20260728 {
			refuse(to, http.StatusBadRequest, "there is no session: send initialize first, and the "+headerSession+" of its answer with every request after")
			return
		}
		f.serveNew(to, r)
		return
	}
	f.mu.Lock()
	g := f.guests[id]
	if g != nil {
		g.open++
		if r.Method == http.MethodPost {
			g.answering.Add(1)
			defer g.answering.Done()
		}
	}
	f.mu.Unlock()
	if g == nil { // the SDK says what is wrong
		f.sessions.ServeHTTP(to, r)
		return
	}
	defer f.asked(g)
	to.guest.Store(g)
	if r.Method == http.MethodGet && r.Header.Get("Last-Event-ID") == "" {
		to.opened = func() {
			g.push.attach(to)
			g.toolset.remind()
		}
		defer g.push.detach(to)
	}
	if r.Method == http.MethodDelete {
		g.close()
		f.letAnswer(&g.answering, g)
	}
	f.sessions.ServeHTTP(to, r.WithContext(context.WithValue(r.Context(), guestKey{}, g)))
}

// serveNew serves a request that may begin a session.
func (f *front) serveNew(to *reply, r *http.Request) {
	if f.full() {
		f.metrics.turned.Inc()
		refuse(to, http.StatusServiceUnavailable, fmt.Sprintf("%d clients are served already: end one of their sessions", maxGuests))
		return
	}
	id, client := rand.Text(), clientOf(r)
	g := f.newGuest(client, func(client string) string { return client + " over HTTP, session " + id }, func() string { return id })
	g.link.once = client == "" // it can't come back
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

// serveSessionless serves the versions that have no sessions: each request says
// who asks, and is a whole of its own.
func (f *front) serveSessionless(to *reply, r *http.Request, body []byte) {
	client := clientOf(r)
	key := inbox.NamedKey(client)
	if client == "" {
		key = introducedAs(body) + " over HTTP"
	}
	g := f.enter(client, key)
	if g == nil {
		f.metrics.turned.Inc()
		refuse(to, http.StatusServiceUnavailable, fmt.Sprintf("%d clients are served already", maxGuests))
		return
	}
	defer f.asked(g)
	f.sessionless.ServeHTTP(to, r.WithContext(context.WithValue(r.Context(), guestKey{}, g)))
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

// letAnswer gives requests under way some time to be answered. Then it cuts off
// those of the guest, of all where that is nil: a client that does not read would
// hold up the end.
func (f *front) letAnswer(under *sync.WaitGroup, of *guest) {
	_ = within(answerWithin, func() error { under.Wait(); return nil }) // it has none
	f.replies.Range(func(_, value any) bool {
		if to, ok := value.(*reply); ok && (of == nil || to.guest.Load() == of) {
			to.cut()
		}
		return true
	})
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
	f.letAnswer(&f.serving, nil)
	for key, g := range guests {
		f.leaving.Go(func() { f.dismiss(key, g) })
	}
	f.leaving.Wait()
}
