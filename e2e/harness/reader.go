package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

const (
	// readerSilence is the time without a heartbeat after which a reader reconnects.
	readerSilence = 40 * time.Second
	// readerAgain is the pause before it reconnects, as the stream asks browsers to.
	readerAgain = time.Second
)

// Heard is an alert that was read from a dashboard's event stream.
type Heard struct {
	Seq   uint64
	Alert alert.Alert
	At    time.Time
}

// Reader reads the alerts of a dashboard as the page does: when the stream ends, it
// reconnects and continues after the last alert. It is safe for concurrent use.
type Reader struct {
	url, token string

	mu          sync.Mutex
	heard       []Heard
	last        string
	connections int
	unexpected  []string
}

// NewReader returns a reader that begins after a sequence of ALERTS. Run reads, with a
// token if it is not empty.
func NewReader(dashboard, token string, after uint64) *Reader {
	return &Reader{url: dashboard + "/events/stream", token: token, last: strconv.FormatUint(after, 10)}
}

// Run reads until ctx ends.
func (r *Reader) Run(ctx context.Context) {
	for ctx.Err() == nil {
		_ = r.read(ctx) // streams end, and a reader reconnects
		select {
		case <-ctx.Done():
		case <-time.After(readerAgain):
		}
	}
}

func (r *Reader) read(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(readerSilence, cancel)
	defer silence.Stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, http.NoBody)
	if err != nil {
		return err
	}
	r.mu.Lock()
	req.Header.Set("Last-Event-ID", r.last)
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	r.mu.Unlock()
	own := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := own.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	r.mu.Lock()
	r.connections++
	r.mu.Unlock()
	return readEvents(resp.Body, func() { silence.Reset(readerSilence) }, r.take)
}

// take keeps an alert. Any other event is unexpected.
func (r *Reader) take(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, err := e.Alert()
	if err == nil && e.ID == 0 {
		err = errors.New("no sequence")
	}
	if err != nil {
		r.unexpected = append(r.unexpected, fmt.Sprintf("event %q %s: %v", e.Kind, e.Data, err))
		return
	}
	r.last = strconv.FormatUint(e.ID, 10)
	r.heard = append(r.heard, Heard{Seq: e.ID, Alert: a, At: e.At})
}

// Heard returns the alerts so far, in the order in which they arrived.
func (r *Reader) Heard() []Heard {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.heard)
}

// Connections returns how often it connected, and the events that were no alerts.
func (r *Reader) Connections() (n int, unexpected []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.connections, slices.Clone(r.unexpected)
}
