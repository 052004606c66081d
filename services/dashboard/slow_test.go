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

// dial opens a stream on a connection with small buffers, and does not read it.
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

// raiseLarge publishes n alerts of 22 kB each.
func (b *testBus) raiseLarge(t *testing.T, n int) {
	t.Helper()
	for range n {
		a := b.alert()
		a.Detail = strings.Repeat("x", 2000)
		a.Context = map[string]any{"more": strings.Repeat("y", 20_000)}
		b.publish(t, a)
	}
}

// TestSlowReader: a reader that reads nothing for a while receives the number of alerts that it
// missed, then the rest, and does not delay other readers.
func TestSlowReader(t *testing.T) {
	b := newBus(t)
	cfg := b.config()
	cfg.backlog.Events = 100
	d := start(t, cfg)
	d.awaitReady(t)
	slow := dial(t, d, "")
	quick := d.listen(t, "")
	d.awaitMetric(t, "tocsin_dashboard_readers 2")
	const alerts = 500 // 10 MB: more than the buffers of the connection and the backlog
	for i := 1; i <= alerts; i++ {
		if i%50 == 1 { // in batches, so that the quick reader keeps up on a busy machine
			b.raiseLarge(t, 50)
		}
		if e := quick.next(t); e.id != uint64(i) || e.kind != "" {
			t.Fatalf("event of the quick reader = id %d of type %q, want id %d without a type", e.id, e.kind, i)
		}
	}
	b.raise(t, 1)
	seen, dropped, last := 0, 0, 0
	lines := bufio.NewScanner(slow)
	lines.Buffer(nil, 1<<20)
	if err := slow.SetReadDeadline(time.Now().Add(waitTimeout)); err != nil {
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
				t.Fatalf("alert after %d = %d, want %d", last, n, last+1)
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
		t.Errorf("%d seen and %d dropped (%v), want %d together, and some dropped", seen, dropped, lines.Err(), alerts+1)
	}
	checkContains(t, "metrics", d.get(t, pathMetrics).body, fmt.Sprintf("tocsin_dashboard_dropped_total %d\n", dropped))
}

// TestStopWithReaders: the shutdown waits for no reader, whether it reads or not.
func TestStopWithReaders(t *testing.T) {
	b, d := onBus(t)
	dial(t, d, "")
	listeners := make([]*listener, 50)
	for i := range listeners {
		listeners[i] = d.listen(t, "")
	}
	d.awaitMetric(t, "tocsin_dashboard_readers 51")
	b.raiseLarge(t, 300)
	stopped := time.Now()
	d.stop()
	if took := time.Since(stopped); took > 4*time.Second { // httpserve would abort the readers after 5 s
		t.Errorf("stop took %s, want at most 4s", took)
	}
	for _, l := range listeners {
		select {
		case <-l.closed:
		case <-time.After(waitTimeout):
			t.Fatalf("a stream is open %s after the stop, want it closed", waitTimeout)
		}
	}
}

// TestLongerThanTimeouts: a stream lasts longer than the timeouts of requests.
func TestLongerThanTimeouts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes longer than httpserve.ReadTimeout")
	}
	t.Parallel()
	b, d := onBus(t)
	l := d.listen(t, "")
	beats := dial(t, d, "")
	select {
	case <-l.closed:
		t.Fatal("the stream has ended, want it open")
	case <-time.After(httpserve.ReadTimeout + heartbeat/2 + time.Second): // after the first heartbeat, too
	}
	b.raise(t, 1)
	checkEqual(t, "alert", l.ids(t, 1), "1")
	if err := beats.SetReadDeadline(time.Now().Add(waitTimeout)); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(beats)
	for lines.Scan() {
		if lines.Text() == ": heartbeat" {
			return
		}
	}
	t.Errorf("the stream has no heartbeat (%v), want one", lines.Err())
}

// TestShortReaders: readers that leave after a few alerts are removed.
func TestShortReaders(t *testing.T) {
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
	d.awaitMetric(t, "tocsin_dashboard_readers 0")
}
