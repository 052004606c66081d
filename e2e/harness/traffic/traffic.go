// Package traffic sends a steady stream to the ingest services of a cluster, as a
// well-behaved sender does: a request that was not answered with 2xx is sent again, to the
// next ingest service. It records what was accepted, and when.
//
// Each event and result has a unique name, which is also on the bus, in its alert and in an
// agent's answer. The package fails no test.
package traffic

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

const (
	// answerTimeout bounds the answer of ingest. It is longer than ingest waits for the bus.
	answerTimeout = 8 * time.Second
	// eventsRetry and resultRetry are the pauses before the first retry. Each further pause
	// is twice as long, up to maxRetry. So nothing is sent more than 10 times in 10 s, and
	// the storm limits do not apply to repeats.
	eventsRetry, resultRetry, maxRetry = 200 * time.Millisecond, time.Second, 2 * time.Second
	// quietEvents is the number of events in a batch that raise no alert.
	quietEvents = 9
	// One in errorEvery batches of an app has a new error, one in requestEvery a failed
	// request.
	errorEvery, requestEvery = 16, 48
)

// Kind is the kind of an event or result.
type Kind int

// The kinds. Each but the first raises an alert.
const (
	Quiet Kind = iota
	Error
	Request
	Result
)

// Sent is an event or result that was accepted.
type Sent struct {
	Kind Kind
	App  string
	// Name is a unique word.
	Name string
	// Accepted is when the answer arrived.
	Accepted time.Time
}

// Config configures the stream.
type Config struct {
	// Ingest are the URLs of the ingest services.
	Ingest []string
	Token  string
	// Apps are the apps of the events. Each sends one batch per Every.
	Apps  []string
	Every time.Duration
	// Results is the pause between two CI results. Each is sent to all ingest services at
	// once, like the result of a pipeline that reports twice.
	Results time.Duration
}

// Traffic is a stream and what it has sent. It is safe for concurrent use.
type Traffic struct {
	cfg  Config
	http *http.Client

	mu       sync.Mutex
	named    int
	sent     []Sent
	answers  []time.Time
	repeated int
	refused  []string
}

// New prepares a stream. Run sends it.
func New(cfg Config) *Traffic {
	return &Traffic{cfg: cfg, http: &http.Client{Timeout: answerTimeout}}
}

// Run sends until stop is closed. It returns when everything was accepted, or at the end
// of ctx.
func (t *Traffic) Run(ctx context.Context, stop <-chan struct{}) {
	var all sync.WaitGroup
	for i, app := range t.cfg.Apps {
		all.Go(func() { t.app(ctx, stop, app, i) })
	}
	all.Go(func() { t.results(ctx, stop) })
	all.Wait()
	t.http.CloseIdleConnections()
}

// app sends batches of one app.
func (t *Traffic) app(ctx context.Context, stop <-chan struct{}, app string, number int) {
	every := time.NewTicker(t.cfg.Every)
	defer every.Stop()
	for n := number; ; n++ { // each app starts at another number, so that errors of several apps do not coincide
		select {
		case <-stop:
			return
		case <-ctx.Done():
			return
		case <-every.C:
		}
		batch, names := t.batch(app, n)
		if t.deliver(ctx, "/v1/events", batch, number, eventsRetry) {
			t.accepted(names)
		}
	}
}

func (t *Traffic) batch(app string, n int) ([]map[string]any, []Sent) {
	var events []map[string]any
	var names []Sent
	add := func(kind Kind, event func(name string) map[string]any) {
		s := Sent{Kind: kind, App: app, Name: t.name()}
		e := event(s.Name)
		e["app"] = app
		events, names = append(events, e), append(names, s)
	}
	for range quietEvents {
		add(Quiet, func(name string) map[string]any {
			return map[string]any{"kind": "action", "action": map[string]any{"type": "navigate", "target": name}}
		})
	}
	if n%errorEvery == 0 {
		add(Error, func(name string) map[string]any {
			return map[string]any{"kind": "log", "log": map[string]any{"level": "error", "message": "cannot settle " + name}}
		})
	}
	if n%requestEvery == requestEvery/3 {
		add(Request, func(name string) map[string]any {
			return map[string]any{"kind": "network", "network": map[string]any{"method": "POST", "url": "http://shop.test/settle/" + name, "status": 503}}
		})
	}
	return events, names
}

// results sends CI results, each by as many senders at once as there are ingest services.
func (t *Traffic) results(ctx context.Context, stop <-chan struct{}) {
	every := time.NewTicker(t.cfg.Results)
	defer every.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ctx.Done():
			return
		case <-every.C:
		}
		s := Sent{Kind: Result, Name: t.name()}
		result := map[string]any{"status": "failure", "source": "custom", "name": "build", "ref": "on-" + s.Name, "commit": s.Name}
		var twice sync.WaitGroup
		taken := make([]bool, len(t.cfg.Ingest))
		for i := range t.cfg.Ingest {
			twice.Go(func() { taken[i] = t.deliver(ctx, "/ci-result", result, i, resultRetry) })
		}
		twice.Wait()
		if slices.Contains(taken, true) {
			t.accepted([]Sent{s})
		}
	}
}

// deliver tries one ingest service after the other until one accepts it, or ctx ends.
func (t *Traffic) deliver(ctx context.Context, path string, body any, first int, pause time.Duration) bool {
	data, err := json.Marshal(body)
	if err != nil {
		t.note(path + ": " + err.Error())
		return false
	}
	for try := first; ; try++ {
		status, answer := t.post(ctx, t.cfg.Ingest[try%len(t.cfg.Ingest)]+path, data)
		switch {
		case status >= 200 && status < 300:
			return true
		case status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
			t.note(fmt.Sprintf("%s: %d %s", path, status, answer))
			return false
		}
		t.mu.Lock()
		t.repeated++
		t.mu.Unlock()
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
			pause = min(2*pause, maxRetry)
		}
	}
}

// post tries once. The status is 0 without an answer.
func (t *Traffic) post(ctx context.Context, url string, data []byte) (status int, answer string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(data))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+t.cfg.Token)
	a, err := harness.DoWith(t.http, req)
	if err != nil {
		return 0, err.Error()
	}
	return a.Status, a.Body
}

func (t *Traffic) name() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.named++
	return Word(t.named)
}

func (t *Traffic) accepted(names []Sent) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	for _, s := range names {
		s.Accepted = now
		t.sent = append(t.sent, s)
	}
	t.answers = append(t.answers, now)
}

func (t *Traffic) note(refused string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused = append(t.refused, refused)
}

// Sent returns what was accepted so far.
func (t *Traffic) Sent() []Sent {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.sent)
}

// Refused returns the requests that ingest wrongly refused, and the number of retries.
func (t *Traffic) Refused() (refused []string, repeated int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.refused), t.repeated
}

// Longest returns the longest time without an accepted request, since a moment.
func (t *Traffic) Longest(since time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	longest, last := time.Duration(0), since
	for _, at := range t.answers {
		if at.After(since) {
			longest, last = max(longest, at.Sub(last)), at
		}
	}
	return max(longest, time.Since(last))
}
