package feed_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tocsin-bus/tocsin/services/kubewatch/api"
	"github.com/tocsin-bus/tocsin/services/kubewatch/feed"
	"github.com/tocsin-bus/tocsin/services/kubewatch/kubetest"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reader is a running feed and its output.
type reader struct {
	t       *testing.T
	cluster *kubetest.Server

	mu       sync.Mutex
	steps    []feed.Step
	health   []feed.Health
	relisted int
}

// read runs a feed from a version on until the end of the test.
func read(t *testing.T, cluster *kubetest.Server, version string) *reader {
	t.Helper()
	client, err := api.Connect(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{t: t, cluster: cluster}
	health, steps := make(chan feed.Health), make(chan feed.Step)
	f := feed.New(feed.Config{
		Source: client.Events(), Health: health, Steps: steps, Logger: slog.New(slog.DiscardHandler),
		Relisted: func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.relisted++
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := f.Run(ctx, version); !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v, want %v", err, context.Canceled)
		}
	})
	running.Go(func() {
		for {
			select {
			case s := <-steps:
				r.mu.Lock()
				r.steps = append(r.steps, s)
				r.mu.Unlock()
			case h := <-health:
				r.mu.Lock()
				r.health = append(r.health, h)
				r.mu.Unlock()
			case <-ctx.Done():
				return
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		client.Close()
	})
	return r
}

func (r *reader) watching() {
	r.t.Helper()
	bustest.Eventually(r.t, "watch", func() bool { return r.cluster.Requests("watch") > 0 })
}

// reasons returns the reasons of the events, in order.
func (r *reader) reasons() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, s := range r.steps {
		if s.Event != nil {
			all = append(all, s.Event.Reason)
		}
	}
	return strings.Join(all, " ")
}

func (r *reader) version() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.steps) == 0 {
		return ""
	}
	return r.steps[len(r.steps)-1].Version
}

// errors returns the largest number of consecutive errors, the text of the newest one, and
// the newest health.
func (r *reader) errors() (most int, text string, last feed.Health) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, h := range r.health {
		most, last = max(most, h.Errors), h
		if h.Err != nil {
			text = h.Err.Error()
		}
	}
	return most, text, last
}

func event(reason string) corev1.Event { return corev1.Event{Reason: reason} }

// TestFeed interrupts a watch between two events, and checks that the feed delivers both, and
// each once.
func TestFeed(t *testing.T) {
	unavailable := kubetest.Answer{Status: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable}
	for name, tt := range map[string]struct {
		// version is where the feed starts; empty means now.
		version   string
		interrupt func(c *kubetest.Server)
		// errors is the number of consecutive errors, text a part of the last one's.
		errors   int
		text     string
		relisted int
		want     string
	}{
		"no interruption":    {interrupt: func(*kubetest.Server) {}, want: "one two"},
		"from a version":     {version: "1000", interrupt: func(*kubetest.Server) {}, want: "zero one two"},
		"a clean close":      {interrupt: func(c *kubetest.Server) { c.CloseWatches() }, want: "one two"},
		"connections closed": {interrupt: func(c *kubetest.Server) { c.CloseClientConnections() }, want: "one two"},
		"expired, by the answer": {
			interrupt: func(c *kubetest.Server) { c.Miss(event("missed")) },
			relisted:  1, want: "one missed two",
		},
		"a broken frame": {
			interrupt: func(c *kubetest.Server) { c.Frame(`{"type":"ADDED","object":{"kind":` + "\n" + `nonsense`) },
			errors:    1, text: "decode", want: "one two",
		},
		"an event of no kind": {
			interrupt: func(c *kubetest.Server) {
				c.Frame(`{"type":"ADDED","object":{"kind":"Nonsense","apiVersion":"v7"}}` + "\n")
			},
			errors: 1, text: "Nonsense", want: "one two",
		},
		"half a frame": {interrupt: func(c *kubetest.Server) { c.Frame(`{"type":"ADDED","obj`) }, want: "one two"},
		"an error in the stream": {
			interrupt: func(c *kubetest.Server) {
				c.Frame(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500,"message":"etcd is gone"}}` + "\n")
			},
			errors: 1, text: "etcd is gone", want: "one two",
		},
		"busy for a second": {
			interrupt: func(c *kubetest.Server) {
				c.Answer("watch", kubetest.Path, kubetest.Answer{Status: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Header: map[string]string{"Retry-After": "1"}})
				c.CloseWatches()
			},
			errors: 1, text: "requested by the test", want: "one two",
		},
		"500, twice": {
			interrupt: func(c *kubetest.Server) {
				c.Answer("watch", kubetest.Path, kubetest.Answer{Status: http.StatusInternalServerError}, unavailable)
				c.CloseWatches()
			},
			errors: 2, text: "requested by the test", want: "one two",
		},
		"forbidden for a while": {
			interrupt: func(c *kubetest.Server) {
				c.Answer("watch", kubetest.Path, kubetest.Answer{Status: http.StatusForbidden, Reason: metav1.StatusReasonForbidden})
				c.CloseWatches()
			},
			errors: 1, text: "kubewatch needs the rights to list and watch events", want: "one two",
		},
		"no credentials": {
			interrupt: func(c *kubetest.Server) {
				c.Answer("watch", kubetest.Path, kubetest.Answer{Status: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized})
				c.CloseWatches()
			},
			errors: 1, text: "does not accept these credentials", want: "one two",
		},
		"the page of a proxy": {
			interrupt: func(c *kubetest.Server) {
				c.Answer("watch", kubetest.Path, kubetest.Answer{Status: http.StatusBadGateway, Header: map[string]string{"Content-Type": "text/html"}, Body: "<html>\x1b[31m"})
				c.CloseWatches()
			},
			errors: 1, text: "", want: "one two",
		},
		"restored to an older state": {
			interrupt: func(c *kubetest.Server) { c.Restore(1000) },
			errors:    1, text: "Too large resource version", want: "one two",
		},
		"restored to an older state while it was unreachable": {
			interrupt: func(c *kubetest.Server) { c.Patient(); c.Answer("watch", kubetest.Path, unavailable); c.Restore(1000) },
			errors:    2, text: "the cluster is at an older state than before: it is at 1000", want: "one two",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := kubetest.New(t)
			c.Event(event("zero"))
			r := read(t, c, tt.version)
			r.watching()
			c.Event(event("one"))
			bustest.Eventually(t, "first event", func() bool { return strings.HasSuffix(r.reasons(), "one") })
			tt.interrupt(c)
			if strings.HasPrefix(name, "restored") { // the feed restarts from the version that it finds then
				bustest.Eventually(t, "request for the version", func() bool { return r.version() == "1000" })
			}
			c.Event(event("two"))
			bustest.Eventually(t, "last event", func() bool { return strings.HasSuffix(r.reasons(), "two") })
			if got := r.reasons(); got != tt.want {
				t.Errorf("events = %q, want %q", got, tt.want)
			}
			most, text, last := r.errors()
			if most != tt.errors {
				t.Errorf("%d consecutive errors, want %d", most, tt.errors)
			}
			if last.Errors != 0 {
				t.Errorf("health at the end = %+v, want no errors", last)
			}
			if !strings.Contains(text, tt.text) {
				t.Errorf("error = %q, want one with %q", text, tt.text)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if tt.relisted > 0 && r.relisted != tt.relisted {
				t.Errorf("%d lists of all events, want %d", r.relisted, tt.relisted)
			}
		})
	}
}

// TestExpiredInTheStream checks that a watch which the cluster ends because the version is
// expired is followed by one list of all events.
func TestExpiredInTheStream(t *testing.T) {
	c := kubetest.New(t)
	first := c.Event(event("zero"))
	c.Event(event("one"))
	c.Compact(true)
	r := read(t, c, first)
	bustest.Eventually(t, "missed event", func() bool { return r.reasons() == "one" })
	c.Event(event("two"))
	bustest.Eventually(t, "next event", func() bool { return r.reasons() == "one two" })
	if lists := c.Requests("list"); lists != 2 { // one for the version, one for what was missed
		t.Errorf("%d lists, want 2", lists)
	}
	if most, _, _ := r.errors(); most != 0 {
		t.Errorf("%d errors, want 0", most)
	}
}

// TestBookmarks checks that bookmarks and deletions advance the version, in order with the
// events.
func TestBookmarks(t *testing.T) {
	c := kubetest.New(t)
	r := read(t, c, "")
	r.watching()
	c.Event(event("one"))
	c.Delete(corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "event-1001"}, Reason: "one"})
	mark := c.Bookmark()
	bustest.Eventually(t, "bookmark", func() bool { return r.version() == mark })
	r.mu.Lock()
	defer r.mu.Unlock()
	var versions []string
	for _, s := range r.steps {
		versions = append(versions, s.Version)
	}
	if want := []string{"1000", "1001", "1002", "1003"}; !slices.Equal(versions, want) {
		t.Errorf("versions = %v, want %v", versions, want)
	}
	if e := r.steps[2].Event; e != nil {
		t.Errorf("step of the deletion has the event %+v, want none", e)
	}
}

// TestMissedMany checks a list of missed events that is longer than a page.
func TestMissedMany(t *testing.T) {
	c := kubetest.New(t)
	for i := range 1200 {
		c.Event(event(strconv.Itoa(i)))
	}
	c.Compact(false)
	r := read(t, c, "1200") // events have the versions 1001 to 2200
	bustest.Eventually(t, "last of what was missed", func() bool { return r.version() == "2200" && strings.HasSuffix(r.reasons(), " 1199") })
	if got := strings.Fields(r.reasons()); len(got) != 1000 || got[0] != "200" {
		t.Errorf("%d missed events from %s on, want 1000 from 200 on", len(got), got[0])
	}
}
