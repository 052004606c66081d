package ingest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lockedBuffer is a buffer that can be read while a logger writes to it.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// TestRefusedOriginsAreBounded checks that at most twenty origins are kept, each with a
// count and the time of its last request, for an hour.
func TestRefusedOriginsAreBounded(t *testing.T) {
	o := newRefusedOrigins()
	now := time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)
	for i := range 30 {
		o.record(fmt.Sprintf("https://%d.example", i), now.Add(time.Duration(i)*time.Second))
	}
	o.record("https://15.example", now.Add(31*time.Second))
	got := o.list(now.Add(32 * time.Second))
	if len(got) != maxRefusedOrigins || got[0].Origin != "https://15.example" || got[0].Count != 2 || !got[0].Last.Equal(now.Add(31*time.Second)) {
		t.Errorf("%d sites, the first %+v; want %d, and https://15.example twice at +31 s", len(got), got[0], maxRefusedOrigins)
	}
	if last := got[len(got)-1].Origin; last != "https://10.example" {
		t.Errorf("the oldest is %s, want https://10.example", last)
	}
	if got := o.list(now.Add(29*time.Second + refusedOriginTTL)); len(got) != 2 {
		t.Errorf("an hour later: %+v, want two", got)
	}
}

// TestRefusedOriginsAreLoggedOnceAMinute checks that one line a minute has the origins and
// the number of requests.
func TestRefusedOriginsAreLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lockedBuffer
		h := testHandler(&fakeSink{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); h.refused.run(ctx, slog.New(slog.NewTextHandler(&log, nil))) }()
		post := func(origin string) {
			if w := answerOf(h, ask("POST", pathEvents, strings.NewReader(logEvent), "Content-Type", "text/plain", "Origin", origin)); w.Code != http.StatusForbidden ||
				!strings.Contains(w.Body.String(), strings.Split(origin, "://")[0]) || !strings.Contains(w.Body.String(), "TOCSIN_ALLOWED_ORIGINS") {
				t.Errorf("%s: %d %s, want 403 with the origin and the setting", origin, w.Code, w.Body)
			}
		}
		lines := func() []string { return strings.Split(strings.TrimSpace(log.String()), "\n") }
		post("https://evil.example")
		synctest.Wait()
		if got := lines(); len(got) != 1 || !strings.Contains(got[0], "https://evil.example") || !strings.Contains(got[0], "TOCSIN_ALLOWED_ORIGINS") || !strings.Contains(got[0], "requests=1") {
			t.Errorf("the first: %q, want one line with the origin, the setting and requests=1", got)
		}
		for range 100 {
			post("https://evil.example")
		}
		post("https://other.example")
		post("null")
		synctest.Wait()
		if got := lines(); len(got) != 1 {
			t.Errorf("within the minute: %q, want one line", got)
		}
		time.Sleep(originLogEvery)
		synctest.Wait()
		if got := lines(); len(got) != 2 || !strings.Contains(got[1], "https://other.example") || !strings.Contains(got[1], "null") || !strings.Contains(got[1], "requests=102") {
			t.Errorf("after the minute: %q, want a second line with both origins and requests=102", got)
		}
		time.Sleep(10 * originLogEvery)
		synctest.Wait()
		if got := lines(); len(got) != 2 {
			t.Errorf("later: %q, want no further line", got)
		}
		cancel()
		<-ended
	})
}
