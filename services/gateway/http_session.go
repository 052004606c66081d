package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// headerClient, and the query parameter client, name the client whose inbox
	// this is, as --client does on stdio.
	headerClient = "Tocsin-Client"

	// maxGuests is how many clients are served at once. Past it the one that has
	// not asked for longest makes room, if it has not for roomIdle; else a new one
	// is refused with 503.
	maxGuests = 64
	roomIdle  = time.Minute
	// guestIdle is how long a client without a session may be without a request
	// before it is ended, as sessionIdle is for the others. The inbox stays.
	guestIdle = 15 * time.Minute
	// sweepEvery is how often is looked for such.
	sweepEvery = time.Minute
)

// guest is a client over HTTP.
type guest struct {
	*gateway
	server *mcp.Server
	push   *push
	// late says that the request which could have begun a session is over. The
	// front's.
	late bool
	// sessionless says that the client's protocol has no sessions.
	sessionless bool
	// answering counts the requests that wait for their answers.
	answering sync.WaitGroup
	// open counts the requests under way, used is when the last one ended. Both are
	// the front's.
	open int
	used time.Time
}

type guestKey struct{}

func guestOf(r *http.Request) *guest {
	g, _ := r.Context().Value(guestKey{}).(*guest)
	return g
}

// clientOf is the name that a client gives itself for its inbox, or empty.
func clientOf(r *http.Request) string {
	if name := r.Header.Get(headerClient); name != "" {
		return name
	}
	return r.URL.Query().Get("client")
}

// methodOf is the method that one request of JSON-RPC asks for, or empty.
func methodOf(body []byte) string {
	var message struct {
		Method string `json:"method"`
	}
	if json.Unmarshal(body, &message) != nil { // a batch, or what the SDK refuses
		return ""
	}
	return message.Method
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

// newGuest makes what a client over HTTP needs, and starts none of it yet.
func (f *front) newGuest(client string, inbox func(string) string, sessionID func() string) *guest {
	cfg := f.cfg
	cfg.Client = client
	g := &guest{gateway: newGateway(f.ctx, cfg, nil), used: f.now()}
	g.present()
	g.link.kubewatch = g.attendKubewatch
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
	if g.late || !f.room() {
		f.metrics.turned.Inc()
		return false
	}
	f.metrics.came.Inc()
	f.guests[key] = g
	return true
}

// full says whether there is no room for one more guest, and none to be made.
func (f *front) full() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, idle := longestIdle(f.guests, f.now())
	return f.ended || len(f.guests) >= maxGuests && idle == nil
}

// room says whether there is room for one more guest, and makes some where one has
// not asked for long. It needs mu.
func (f *front) room() bool {
	if f.ended || len(f.guests) < maxGuests {
		return !f.ended
	}
	key, g := longestIdle(f.guests, f.now())
	if g == nil {
		return false
	}
	f.log.Info("a client that has not asked for long makes room for another", "client", g.link.client())
	delete(f.guests, key)
	f.leaving.Go(func() { f.dismiss(key, g) })
	return true
}

// longestIdle is the guest that has not asked for longest, and for roomIdle at
// least, or nil.
func longestIdle(guests map[string]*guest, now time.Time) (key string, longest *guest) {
	for k, g := range guests {
		if g.open == 0 && now.Sub(g.used) >= roomIdle && (longest == nil || g.used.Before(longest.used)) {
			key, longest = k, g
		}
	}
	return key, longest
}

// dismiss ends a guest, with its session where it has one.
func (f *front) dismiss(key string, g *guest) {
	g.close()
	for session := range g.server.Sessions() {
		_ = session.Close() // Wait has the reason
	}
	if g.sessionless { // nobody else ends it
		f.leave(key, g)
	}
}

// leave ends what a client had.
func (f *front) leave(key string, g *guest) {
	f.mu.Lock()
	if f.guests[key] == g {
		delete(f.guests, key)
	}
	f.mu.Unlock()
	_ = within(endWithin, g.end) // its parts have no errors
}

// enter finds the client of that key, or takes it in. It is nil when there is no
// room.
func (f *front) enter(client, key string) *guest {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.guests[key]
	if g == nil {
		if !f.room() {
			return nil
		}
		g = f.newGuest(client, func(string) string { return key }, nil)
		g.sessionless = true
		g.begin()
		f.metrics.came.Inc()
		f.guests[key] = g
	}
	g.open++
	return g
}

// asked says that a request of a client is over.
func (f *front) asked(g *guest) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g.open--
	g.used = f.now()
}

// sweep ends clients that have not asked for long, until ctx ends.
func (f *front) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			for key, g := range f.idle(now) {
				f.dismiss(key, g)
			}
		}
	}
}

// patience is how long the client may be without a request.
func (g *guest) patience() time.Duration {
	if g.sessionless {
		return guestIdle
	}
	return sessionIdle
}

// idle takes out the clients that have not asked for long.
func (f *front) idle(now time.Time) map[string]*guest {
	f.mu.Lock()
	defer f.mu.Unlock()
	gone := map[string]*guest{}
	for key, g := range f.guests {
		if g.open == 0 && now.Sub(g.used) >= g.patience() {
			gone[key] = g
			delete(f.guests, key)
		}
	}
	return gone
}
