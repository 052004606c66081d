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
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tocsin-bus/tocsin/services/kubewatch/api"
	"github.com/tocsin-bus/tocsin/services/kubewatch/feed"
	"github.com/tocsin-bus/tocsin/services/kubewatch/kubetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 60 * time.Second

// reader is a feed that runs, and what it said.
type reader struct {
	t       *testing.T
	cluster *kubetest.Server

	mu       sync.Mutex
	steps    []feed.Step
	signs    []feed.Sign
	relisted int
}

// read runs a feed from a version on, to the end of the test.
func read(t *testing.T, cluster *kubetest.Server, version string) *reader {
	t.Helper()
	client, err := api.Connect(cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{t: t, cluster: cluster}
	signs, steps := make(chan feed.Sign), make(chan feed.Step)
	f := feed.New(client.Events(), signs, steps, slog.New(slog.DiscardHandler))
	f.Relisted = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.relisted++
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := f.Run(ctx, version); !errors.Is(err, context.Canceled) {
			t.Errorf("the feed ended: %v", err)
		}
	})
	running.Go(func() {
		for {
			select {
			case s := <-steps:
				r.mu.Lock()
				r.steps = append(r.steps, s)
				r.mu.Unlock()
			case s := <-signs:
				r.mu.Lock()
				r.signs = append(r.signs, s)
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

func (r *reader) until(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			r.t.Fatalf("no %s within %s: %v, %+v", what, patience, r.reasons(), r.signs)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (r *reader) watching() {
	r.t.Helper()
	r.until("watch", func() bool { return r.cluster.Asked("watch") > 0 })
}

// reasons are those of the events that came, in order.
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

// failures are how many errors came one after the other, at most, and how the feed said
// last that it goes.
func (r *reader) failures() (most int, last feed.Sign) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.signs {
		most = max(most, s.Errors)
	}
	if len(r.signs) > 0 {
		last = r.signs[len(r.signs)-1]
	}
	return most, last
}

func event(reason string) corev1.Event { return corev1.Event{Reason: reason} }

// TestFeed: each is a way in which a watch is interrupted. Two events are told: one
// before and one after it; none is lost and none comes twice.
func TestFeed(t *testing.T) {
	unavailable := kubetest.Answer{Status: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable}
	for name, tt := range map[string]struct {
		// version is where the feed begins; empty is now.
		version   string
		interrupt func(c *kubetest.Server)
		// errors is how many come one after the other; said is in the words of the last.
		errors   int
		said     string
		relisted int
		want     string
	}{
		"no interruption":    {interrupt: func(*kubetest.Server) {}, want: "one two"},
		"from a place":       {version: "1000", interrupt: func(*kubetest.Server) {}, want: "zero one two"},
		"a clean close":      {interrupt: func(c *kubetest.Server) { c.CloseWatches() }, want: "one two"},
		"connections closed": {interrupt: func(c *kubetest.Server) { c.CloseClientConnections() }, want: "one two"},
		"expired, by the answer": {
			interrupt: func(c *kubetest.Server) { c.Event(event("missed")); c.Compact(false); c.CloseWatches() },
			relisted:  1, want: "one missed two",
		},
		"a broken frame": {
			interrupt: func(c *kubetest.Server) { c.Frame(`{"type":"ADDED","object":{"kind":` + "\n" + `nonsense`) },
			errors:    1, said: "decode", want: "one two",
		},
		"an event of no kind": {
			interrupt: func(c *kubetest.Server) {
				c.Frame(`{"type":"ADDED","object":{"kind":"Nonsense","apiVersion":"v7"}}` + "\n")
			},
			errors: 1, said: "Nonsense", want: "one two",
		},
		"half a frame": {interrupt: func(c *kubetest.Server) { c.Frame(`{"type":"ADDED","obj`) }, want: "one two"},
		"an error in the stream": {
			interrupt: func(c *kubetest.Server) {
				c.Frame(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500,"message":"etcd is gone"}}` + "\n")
			},
			errors: 1, said: "etcd is gone", want: "one two",
		},
		"busy for a second": {
			interrupt: func(c *kubetest.Server) {
				c.Answer("watch", kubetest.Path, kubetest.Answer{Status: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Header: map[string]string{"Retry-After": "1"}})
				c.CloseWatches()
			},
			errors: 1, said: "test wants", want: "one two",
		},
		"500, twice": {
			interrupt: func(c *kubetest.Server) {
				c.Answer("watch", kubetest.Path, kubetest.Answer{Status: http.StatusInternalServerError}, unavailable)
				c.CloseWatches()
			},
			errors: 2, said: "test wants", want: "one two",
		},
		"no right for a while": {
			interrupt: func(c *kubetest.Server) {
				c.Answer("watch", kubetest.Path, kubetest.Answer{Status: http.StatusForbidden, Reason: metav1.StatusReasonForbidden})
				c.CloseWatches()
			},
			errors: 1, said: "does not let us: kubewatch needs to list and watch events", want: "one two",
		},
		"no credentials": {
			interrupt: func(c *kubetest.Server) {
				c.Answer("watch", kubetest.Path, kubetest.Answer{Status: http.StatusUnauthorized, Reason: metav1.StatusReasonUnauthorized})
				c.CloseWatches()
			},
			errors: 1, said: "does not know these credentials", want: "one two",
		},
		"no proxy's page": {
			interrupt: func(c *kubetest.Server) {
				c.Answer("watch", kubetest.Path, kubetest.Answer{Status: http.StatusBadGateway, Header: map[string]string{"Content-Type": "text/html"}, Body: "<html>\x1b[31m"})
				c.CloseWatches()
			},
			errors: 1, said: "", want: "one two",
		},
		"put back to an older state": {
			interrupt: func(c *kubetest.Server) { c.Restore(1000) },
			errors:    1, said: "Too large resource version", want: "one two",
		},
		"put back to an older state while it was away": {
			interrupt: func(c *kubetest.Server) { c.Patient(); c.Answer("watch", kubetest.Path, unavailable); c.Restore(1000) },
			errors:    2, said: "the cluster is at an older state than before: it is at 1000", want: "one two",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := kubetest.New(t)
			c.Event(event("zero"))
			r := read(t, c, tt.version)
			r.watching()
			c.Event(event("one"))
			r.until("first event", func() bool { return strings.HasSuffix(r.reasons(), "one") })
			tt.interrupt(c)
			if strings.HasPrefix(name, "put back") { // what comes before it was seen is before the feed begins anew
				r.until("look where the cluster is", func() bool { return r.version() == "1000" })
			}
			c.Event(event("two"))
			r.until("last event", func() bool { return strings.HasSuffix(r.reasons(), "two") })
			if got := r.reasons(); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			most, last := r.failures()
			if most != tt.errors || last.Errors != 0 {
				t.Errorf("%d errors, want %d; at the end %+v", most, tt.errors, last)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if tt.relisted > 0 && r.relisted != tt.relisted {
				t.Errorf("%d lists, want %d", r.relisted, tt.relisted)
			}
			said := ""
			for _, s := range r.signs {
				if s.Err != nil {
					said = s.Err.Error()
				}
			}
			if !strings.Contains(said, tt.said) {
				t.Errorf("said %q, want %q", said, tt.said)
			}
		})
	}
}

// TestExpiredInTheStream: the cluster says within the watch that it has forgotten; the
// list that follows is the next start, so that it is asked for once.
func TestExpiredInTheStream(t *testing.T) {
	c := kubetest.New(t)
	first := c.Event(event("zero"))
	c.Event(event("one"))
	c.Compact(true)
	r := read(t, c, first)
	r.until("missed event", func() bool { return r.reasons() == "one" })
	c.Event(event("two"))
	r.until("next event", func() bool { return r.reasons() == "one two" })
	if lists := c.Asked("list"); lists != 2 { // where it is, and what was missed
		t.Errorf("%d lists", lists)
	}
	if most, _ := r.failures(); most != 0 {
		t.Errorf("it is told as %d errors", most)
	}
}

// TestBookmarks: they move the place on, in order with the events, also past what was
// deleted.
func TestBookmarks(t *testing.T) {
	c := kubetest.New(t)
	r := read(t, c, "")
	r.watching()
	c.Event(event("one"))
	c.Delete(corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "event-1001"}, Reason: "one"})
	mark := c.Bookmark()
	r.until("bookmark", func() bool { return r.version() == mark })
	r.mu.Lock()
	defer r.mu.Unlock()
	var versions []string
	for _, s := range r.steps {
		versions = append(versions, s.Version)
	}
	if want := []string{"1000", "1001", "1002", "1003"}; !slices.Equal(versions, want) || r.steps[2].Event != nil {
		t.Errorf("%v, want %v", versions, want)
	}
}

// TestMissedMany: what was missed is more than one page.
func TestMissedMany(t *testing.T) {
	c := kubetest.New(t)
	for i := range 1200 {
		c.Event(event(strconv.Itoa(i)))
	}
	c.Compact(false)
	r := read(t, c, "1200") // of 1001 to 2200
	r.until("last of what was missed", func() bool { return r.version() == "2200" && strings.HasSuffix(r.reasons(), " 1199") })
	if got := strings.Fields(r.reasons()); len(got) != 1000 || got[0] != "200" {
		t.Errorf("%d, from %s", len(got), got[0])
	}
}
