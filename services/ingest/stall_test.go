package ingest

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

// proxy passes bytes on to a server, and on demand keeps its answers back: a
// bus that is there and says nothing.
type proxy struct {
	listener net.Listener
	target   string
	stalled  atomic.Bool
	resumed  chan struct{} // closed when answers pass again
	running  sync.WaitGroup
	mu       sync.Mutex
	conns    []net.Conn
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, target: target, resumed: make(chan struct{})}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		if p.stalled.Load() {
			p.resume()
		}
		l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.running.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, in, out)
		p.mu.Unlock()
		p.running.Go(func() { _, _ = io.Copy(out, in); out.Close() })
		p.running.Go(func() { _, _ = io.Copy(gate{in, p}, out); in.Close() })
	}
}

func (p *proxy) stall()  { p.stalled.Store(true) }
func (p *proxy) resume() { p.stalled.Store(false); close(p.resumed) }

// gate holds writes back while the proxy is stalled.
type gate struct {
	io.Writer
	p *proxy
}

func (g gate) Write(b []byte) (int, error) {
	if g.p.stalled.Load() {
		<-g.p.resumed
	}
	return g.Writer.Write(b)
}

// TestABusThatStopsAnswering: nobody is told of success, nobody waits for more
// than a few seconds, and those who come later don't wait at all.
func TestABusThatStopsAnswering(t *testing.T) {
	dir := openDir(t, t.TempDir())
	serveBus(t, dir)
	r, err := dir.Running()
	if err != nil {
		t.Fatal(err)
	}
	p := newProxy(t, strings.TrimPrefix(r.NATSURL, "nats://"))
	url, _ := start(t, Config{Bus: bus.Config{URL: "nats://" + p.listener.Addr().String(), Creds: dir.Credential(string(bus.RoleIngest))}})
	ready := func() bool { status, _, _ := send(t, "GET", url+"/readyz", ""); return status == 200 }
	eventually(t, "readiness", ready)

	p.stall()
	var waiting sync.WaitGroup
	for range breakAfter {
		waiting.Go(func() {
			start := time.Now()
			status, header, body := send(t, "POST", url+"/v1/events", logEvent)
			if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.HasPrefix(body, `{"ok":false,"error":"`) {
				t.Errorf("%d %v %s", status, header, body)
			}
			if took := time.Since(start); took > 8*time.Second {
				t.Errorf("answered after %s", took)
			}
		})
	}
	waiting.Wait()
	start := time.Now()
	if status, _, body := send(t, "POST", url+"/ci-result", failure); status != 503 || !strings.Contains(body, "the last writes failed") || time.Since(start) > time.Second {
		t.Errorf("%d %s after %s", status, body, time.Since(start))
	}
	// By now it may also be known that the connection is dead.
	if status, _, body := send(t, "GET", url+"/readyz", ""); status != 503 || !strings.Contains(body, errCircuitOpen.Error()) && !strings.Contains(body, bus.ErrUnreachable.Error()) {
		t.Errorf("%d %s", status, body)
	}
	p.resume()
	eventually(t, "write", func() bool { status, _, _ := send(t, "POST", url+"/v1/events", logEvent); return status == 200 })
	eventually(t, "readiness again", ready)
}
