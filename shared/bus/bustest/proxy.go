package bustest

import (
	"net"
	"strings"
	"sync"
	"testing"
)

// Proxy is a TCP proxy in front of a server, which can cut connections and stop passing
// bytes on. It is safe for concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	running  sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	// stalled keeps all bytes, silent only those of the server; cut refuses connections.
	stalled, silent, cut bool
	conns                map[net.Conn]struct{}
}

// NewProxy runs a proxy in front of target, which is host:port or a nats:// URL, until
// the end of the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	must(t, err)
	p := &Proxy{target: strings.TrimPrefix(target, "nats://"), listener: l, conns: map[net.Conn]struct{}{}}
	p.changed = sync.NewCond(&p.mu)
	p.running.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.Cut()
		p.running.Wait()
	})
	return p
}

// Addr is host:port of the proxy.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL is the proxy's address for NATS clients.
func (p *Proxy) URL() string { return "nats://" + p.Addr() }

// Stall stops passing bytes on in both directions; connections stay open.
func (p *Proxy) Stall() { p.set(true, false, false) }

// Silence stops passing on what the server sends; connections stay open.
func (p *Proxy) Silence() { p.set(false, true, false) }

// Cut closes all connections and refuses new ones.
func (p *Proxy) Cut() { p.set(false, false, true) }

// Restore ends Stall, Silence and Cut, and passes on the bytes that it has kept.
func (p *Proxy) Restore() { p.set(false, false, false) }

func (p *Proxy) set(stalled, silent, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled, p.silent, p.cut = stalled, silent, cut
	if cut {
		for c := range p.conns {
			_ = c.Close()
		}
	}
	p.changed.Broadcast()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target) //nolint:noctx // a test's server is there or not
		p.mu.Lock()
		if err != nil || p.cut {
			_ = client.Close()
			if err == nil {
				_ = server.Close()
			}
			p.mu.Unlock()
			continue
		}
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		p.running.Go(func() { p.carry(client, server, func() bool { return p.stalled }) })
		p.running.Go(func() { p.carry(server, client, func() bool { return p.stalled || p.silent }) })
	}
}

// carry passes bytes on while stopped, which is called under the lock, returns false.
func (p *Proxy) carry(from, to net.Conn, stopped func() bool) {
	defer func() {
		_, _ = from.Close(), to.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, from)
		delete(p.conns, to)
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		p.mu.Lock()
		for stopped() && !p.cut {
			p.changed.Wait()
		}
		p.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
