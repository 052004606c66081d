// Package traffic sends a steady stream to the ingest services of a cluster, as a well-behaved
// sender does: what was not answered with 2xx is sent again, to the next ingest service, before
// anything new. It keeps what was accepted, and when.
//
// Everything that it sends has a unique name, which is also in the bus, in an alert and
// in an agent's answer. It asserts nothing: it returns what happened.
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
	// answerIn bounds the answer of an ingest service: longer than it waits for the bus.
	answerIn = 8 * time.Second
	// eventsAgain and resultAgain are the pauses before the next ingest service is tried for
	// the first time. Each further pause is twice as long, up to maxAgain. In 10 s
	// nothing is sent more than 10 times, and no storm limit applies to what a
	// repetition raises.
	eventsAgain, resultAgain, maxAgain = 200 * time.Millisecond, time.Second, 2 * time.Second
	// quietEvents is how many events of a batch raise nothing.
	quietEvents = 9
	// errorEvery and requestEvery are the numbers of batches of an app after which one
	// has a new error, and one a failed request.
	errorEvery, requestEvery = 16, 48
)

// Kind is the kind of what was sent.
type Kind int

// The kinds. Each but the first raises an alert.
const (
	Quiet Kind = iota
	Error
	Request
	Result
)

// Sent is something that was accepted.
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
	// Apps are the apps of the events. Each sends a batch in Every.
	Apps  []string
	Every time.Duration
	// Results is the pause between two CI results. Each is sent to all ingest services at once,
	// as by a pipeline that reports twice.
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
	return &Traffic{cfg: cfg, http: &http.Client{Timeout: answerIn}}
}

// Run sends until stop is closed, and returns when everything that was begun is
// accepted, or at the end of ctx.
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
	for n := number; ; n++ { // so that the apps' errors are not at the same time
		select {
		case <-stop:
			return
		case <-ctx.Done():
			return
		case <-every.C:
		}
		batch, names := t.batch(app, n)
		if t.deliver(ctx, "/v1/events", batch, number, eventsAgain) {
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
			twice.Go(func() { taken[i] = t.deliver(ctx, "/ci-result", result, i, resultAgain) })
		}
		twice.Wait()
		if slices.Contains(taken, true) {
			t.accepted([]Sent{s})
		}
	}
}

// deliver tries one ingest service after the other until one accepts it, or ctx ends.
func (t *Traffic) deliver(ctx context.Context, path string, body any, first int, again time.Duration) bool {
	data, err := json.Marshal(body)
	if err != nil {
		t.note(path + ": " + err.Error())
		return false
	}
	for try := first; ; try++ {
		status, said := t.post(ctx, t.cfg.Ingest[try%len(t.cfg.Ingest)]+path, data)
		switch {
		case status >= 200 && status < 300:
			return true
		case status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
			t.note(fmt.Sprintf("%s: %d %s", path, status, said))
			return false
		}
		t.mu.Lock()
		t.repeated++
		t.mu.Unlock()
		select {
		case <-ctx.Done():
			return false
		case <-time.After(again):
			again = min(2*again, maxAgain)
		}
	}
}

// post tries once. The status is 0 without an answer.
func (t *Traffic) post(ctx context.Context, url string, data []byte) (status int, said string) {
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

// Refused is how often an ingest service wrongly refused something. Repeated is how often
// something was sent again.
func (t *Traffic) Refused() (refused []string, repeated int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.refused), t.repeated
}

// Longest returns the longest time since a moment in which nothing was accepted.
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
