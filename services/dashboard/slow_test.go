package dashboard

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// dial opens a stream on a connection with small buffers, and reads nothing of it.
func dial(t *testing.T, d *running, query string) *net.TCPConn {
	t.Helper()
	addr, err := net.ResolveTCPAddr("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.DialTCP("tcp", nil, addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetReadBuffer(128 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(c, "GET %s%s HTTP/1.1\r\nHost: %s\r\n\r\n", pathStream, query, addr); err != nil {
		t.Fatal(err)
	}
	return c
}

// large are alerts that fill buffers.
func (b *testBus) large(t *testing.T, n int) {
	t.Helper()
	for range n {
		a := b.alert()
		a.Detail = strings.Repeat("x", 2000)
		a.Context = map[string]any{"more": strings.Repeat("y", 20_000)}
		b.publish(t, a)
	}
}

// TestSlowReader: who takes nothing for a while is told how much it lost, gets the
// rest, and has held up nobody.
func TestSlowReader(t *testing.T) {
	b := newBus(t)
	cfg := b.config()
	cfg.backlog.Events = 100
	d := start(t, cfg)
	d.awaitReady(t)
	slow := dial(t, d, "")
	quick := d.listen(t, "")
	eventually(t, "two readers", func() bool { return strings.Contains(d.get(t, pathMetrics).body, "tocsin_dashboard_readers 2\n") })
	const alerts = 500 // 10 MB: more than the kernel keeps for it, and than is kept for all
	for i := 1; i <= alerts; i++ {
		if i%50 == 1 { // it is quick, but for a machine that has no time for it
			b.large(t, 50)
		}
		if e := quick.next(t); e.id != uint64(i) || e.kind != "" {
			t.Fatalf("the quick reader has %d %s, want %d", e.id, e.kind, i)
		}
	}
	b.raise(t, 1)
	seen, dropped, last := 0, 0, 0
	lines := bufio.NewScanner(slow)
	lines.Buffer(nil, 1<<20)
	if err := slow.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() && seen+dropped < alerts+1 {
		var n int
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "id: "):
			if _, err := fmt.Sscanf(line, "id: %d", &n); err != nil {
				t.Fatal(err)
			}
			if n != last+1 {
				t.Fatalf("%d comes after %d", n, last)
			}
			seen, last = seen+1, n
		case strings.HasPrefix(line, `data: {"dropped":`):
			if _, err := fmt.Sscanf(line, `data: {"dropped":%d}`, &n); err != nil {
				t.Fatal(err)
			}
			dropped, last = dropped+n, last+n
		}
	}
	if seen+dropped != alerts+1 || dropped == 0 {
		t.Errorf("%d seen, %d dropped of %d: %v", seen, dropped, alerts+1, lines.Err())
	}
	if line := fmt.Sprintf("tocsin_dashboard_dropped_total %d\n", dropped); !strings.Contains(d.get(t, pathMetrics).body, line) {
		t.Errorf("the metrics don't say %s", line)
	}
}

// TestEndAtOnce: the end waits for no reader, neither one that reads nor one that
// does not.
func TestEndAtOnce(t *testing.T) {
	b, d := onBus(t)
	dial(t, d, "")
	listeners := make([]*listener, 50)
	for i := range listeners {
		listeners[i] = d.listen(t, "")
	}
	eventually(t, "readers", func() bool { return strings.Contains(d.get(t, pathMetrics).body, "tocsin_dashboard_readers 51\n") })
	b.large(t, 300)
	begun := time.Now()
	d.stop()
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("it took %s", took)
	}
	for _, l := range listeners {
		select {
		case <-l.closed:
		case <-time.After(within):
			t.Fatal("a stream goes on")
		}
	}
}

// TestLongerThanTimeouts: a stream outlives the times that requests have.
func TestLongerThanTimeouts(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for more than httpserve.ReadTimeout")
	}
	t.Parallel()
	b, d := onBus(t)
	l := d.listen(t, "")
	beats := dial(t, d, "")
	select {
	case <-l.closed:
		t.Fatal("the stream has ended")
	case <-time.After(httpserve.ReadTimeout + heartbeat/2 + time.Second): // past the first heartbeat, too
	}
	b.raise(t, 1)
	want(t, "then", l.ids(t, 1), "1")
	if err := beats.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(beats)
	for lines.Scan() {
		if lines.Text() == ": heartbeat" {
			return
		}
	}
	t.Errorf("no heartbeat: %v", lines.Err())
}

// TestComeAndGo: readers that come, read a little and go leave nothing behind.
func TestComeAndGo(t *testing.T) {
	b, d := onBus(t)
	b.raise(t, 20)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				l := d.listen(t, "?replay=5")
				l.ids(t, 2)
				l.close()
			}
		})
	}
	all.Wait()
	eventually(t, "no readers", func() bool { return strings.Contains(d.get(t, pathMetrics).body, "tocsin_dashboard_readers 0\n") })
}
