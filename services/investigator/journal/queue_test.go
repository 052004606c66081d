package journal_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

func enqueue(t *testing.T, j *journal.Journal, n int) []string {
	t.Helper()
	var ids []string
	for range n {
		ids = append(ids, journal.NewSession())
		if err := j.Enqueue(t.Context(), ids[len(ids)-1], 1); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

func next(t *testing.T, q *journal.Queue) *journal.Claim {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := q.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Release)
	return c
}

// none expects that no session is given out within a request's time.
func none(t *testing.T, q *journal.Queue) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if c, err := q.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Next = %+v, %v, want none", c, err)
	}
}

// TestQueueOrder: oldest first; a released session comes before those that were queued later,
// and an attempt is queued once.
func TestQueueOrder(t *testing.T) {
	onEachBus(t, func(t *testing.T, connect func() *journal.Journal) {
		j := connect()
		q := must(j.OpenQueue(t.Context(), 10))(t)
		ids := enqueue(t, j, 3)
		if err := j.Enqueue(t.Context(), ids[0], 1); err != nil {
			t.Errorf("Enqueue of a queued attempt = %v, want nil", err)
		}
		var queued []string
		for _, e := range must(j.Queued(t.Context()))(t) {
			queued = append(queued, e.Session)
		}
		if diff := cmp.Diff(ids, queued); diff != "" {
			t.Errorf("Queued (-want +got):\n%s", diff)
		}
		c := next(t, q)
		if c.Session != ids[0] || c.Attempt != 1 || c.Deliveries != 1 {
			t.Errorf("first claim = %s, attempt %d, %d deliveries, want %s, 1, 1", c.Session, c.Attempt, c.Deliveries, ids[0])
		}
		c.Release()
		if c.Context().Err() == nil || c.Valid(time.Now()) {
			t.Error("a released claim is valid, want it over")
		}
		if c = next(t, q); c.Session != ids[0] || c.Deliveries != 2 {
			t.Errorf("claim after a release = %s, %d deliveries, want %s, 2", c.Session, c.Deliveries, ids[0])
		}
		// The next attempt is queued while the first is still under way.
		if err := j.Enqueue(t.Context(), ids[0], 2); err != nil {
			t.Fatal(err)
		}
		if err := c.Done(); err != nil {
			t.Errorf("Done = %v, want nil", err)
		}
		var order []string
		for range 3 {
			c := next(t, q)
			order = append(order, c.Session+"."+strconv.Itoa(c.Attempt))
			if err := c.Done(); err != nil {
				t.Errorf("Done = %v, want nil", err)
			}
		}
		if diff := cmp.Diff([]string{ids[1] + ".1", ids[2] + ".1", ids[0] + ".2"}, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		none(t, q)
		if left := must(j.Queued(t.Context()))(t); len(left) != 0 {
			t.Errorf("Queued at the end = %v, want none", left)
		}
	})
}

// TestMaxClaims: the bound holds over all processes, and follows the configuration.
func TestMaxClaims(t *testing.T) {
	onEachBus(t, func(t *testing.T, connect func() *journal.Journal) {
		a, b := connect(), connect()
		qa, qb := must(a.OpenQueue(t.Context(), 2))(t), must(b.OpenQueue(t.Context(), 2))(t)
		enqueue(t, a, 5)
		first := next(t, qa)
		next(t, qb)
		none(t, qa)
		must(a.OpenQueue(t.Context(), 3))(t)
		next(t, qb)
		none(t, qa)
		if err := first.Done(); err != nil {
			t.Fatal(err)
		}
		next(t, qa)
		none(t, qb)
	})
}

// TestHeartbeats: a claim outlives AckWait as long as its process is connected, and another
// worker gets the session once it is not.
func TestHeartbeats(t *testing.T) {
	r := bustest.Cluster(t, 3)
	r.Provision(bus.Layout{})
	r.Ready()
	connect := func() (*journal.Journal, *bus.Session) {
		c := r.Connect(bus.RoleInvestigator)
		return journal.New(c, bustest.Quiet()), c
	}
	a, session := connect()
	b, _ := connect()
	qa, qb := must(a.OpenQueue(t.Context(), 2))(t), must(b.OpenQueue(t.Context(), 2))(t)
	enqueue(t, a, 1)
	first := next(t, qa)
	ctx, cancel := context.WithTimeout(t.Context(), journal.AckWait+time.Second)
	defer cancel()
	if c, err := qb.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Next while another worker has the session = %+v, %v, want none", c, err)
	}
	if !first.Valid(time.Now()) || first.Context().Err() != nil {
		t.Fatal("the claim is lost after AckWait, want it renewed")
	}
	if first.Valid(time.Now().Add(journal.Fence)) {
		t.Error("the claim is valid a Fence after its last heartbeat, want it lost")
	}
	// That asked for a time to come; with it the claim is over, and its heartbeats are.
	begun := time.Now()
	second := next(t, qb)
	if took := time.Since(begun); took < journal.AckWait-journal.Fence || took > 2*journal.AckWait {
		t.Errorf("another worker got the session after %s, want about %s", took, journal.AckWait)
	}
	if second.Session != first.Session || second.Deliveries != 2 {
		t.Errorf("second claim = %s, %d deliveries, want %s, 2", second.Session, second.Deliveries, first.Session)
	}
	if cause := context.Cause(first.Context()); !errors.Is(cause, journal.ErrLost) {
		t.Errorf("cause of the first = %v, want ErrLost", cause)
	}
	if err := first.Done(); !errors.Is(err, journal.ErrLost) {
		t.Errorf("Done of a lost claim = %v, want ErrLost", err)
	}
	session.Close()
	if !second.Valid(time.Now()) {
		t.Error("the second claim is lost, want it valid")
	}
	if err := second.Done(); err != nil {
		t.Errorf("Done = %v, want nil", err)
	}
}

// TestServerBelievesAnyWorker pins what the bus does with the acknowledgements of a delivery
// that was followed by another: it takes all for the newest one. That is why a lost claim
// sends nothing.
func TestServerBelievesAnyWorker(t *testing.T) {
	j, c := open(t)
	q := must(j.OpenQueue(t.Context(), 1))(t)
	enqueue(t, j, 1)
	pull := func() *nats.Msg {
		m, err := c.NC.Request("$JS.API.CONSUMER.MSG.NEXT."+bus.StreamInvestigationQueue+".workers", []byte(`{"batch":1,"expires":10000000000}`), 11*time.Second)
		if err != nil || m.Reply == "" {
			t.Fatalf("pull = %+v, %v, want a session", m, err)
		}
		return m
	}
	old := pull()
	newer := pull() // after AckWait
	if old.Reply == newer.Reply {
		t.Fatalf("both deliveries have the reply subject %s, want different ones", old.Reply)
	}
	// The server confirms the heartbeat of the old delivery, so a confirmation proves nothing.
	if _, err := c.NC.Request(old.Reply, []byte("+WPI"), time.Second); err != nil {
		t.Errorf("heartbeat of an old delivery = %v, want it confirmed", err)
	}
	if _, err := c.NC.Request(old.Reply, []byte("+ACK"), time.Second); err != nil {
		t.Errorf("acknowledgement of an old delivery = %v, want it confirmed", err)
	}
	if left := must(j.Queued(t.Context()))(t); len(left) != 0 {
		t.Errorf("Queued = %v, want none: the old delivery took it away", left)
	}
	none(t, q)
}

// TestSweep: what is due and not queued is queued, also where its message was taken away while
// it runs.
func TestSweep(t *testing.T) {
	j, _ := open(t)
	ids := enqueue(t, j, 2)
	forgotten := journal.NewSession()
	due := func() []journal.Due {
		return []journal.Due{{Session: ids[0], Attempt: 1}, {Session: ids[1], Attempt: 2}, {Session: forgotten, Attempt: 1}}
	}
	for _, want := range []int{2, 0} {
		if got, err := j.Sweep(t.Context(), due); got != want || err != nil {
			t.Errorf("Sweep = %d, %v, want %d", got, err, want)
		}
	}
	var queued []string
	for _, e := range must(j.Queued(t.Context()))(t) {
		queued = append(queued, e.Session+"."+strconv.Itoa(e.Attempt))
	}
	if diff := cmp.Diff([]string{ids[0] + ".1", ids[1] + ".1", ids[1] + ".2", forgotten + ".1"}, queued); diff != "" {
		t.Errorf("Queued (-want +got):\n%s", diff)
	}
	if _, err := j.SweepLease("a").Acquire(t.Context(), []byte("a")); err != nil {
		t.Errorf("Acquire = %v, want nil", err)
	}
	if _, err := j.SweepLease("b").Acquire(t.Context(), []byte("b")); err == nil {
		t.Error("Acquire by a second process = nil, want an error")
	}
}

// TestServerLost: the queue goes on when the server that leads it is lost, and gives each
// session out until its worker ended it. Where Done fails, the bus may have done it or not:
// its answer was lost.
func TestServerLost(t *testing.T) {
	r := bustest.Cluster(t, 3)
	r.Provision(bus.Layout{})
	r.Ready()
	j := journal.New(r.Connect(bus.RoleInvestigator), bustest.Quiet())
	q := must(j.OpenQueue(t.Context(), 4))(t)
	ids := enqueue(t, j, 12)
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	ended := map[string]bool{} // a worker called Done
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				c, err := q.Next(ctx)
				if err != nil {
					return
				}
				_ = c.Done()
				mu.Lock()
				ended[c.Session] = true
				mu.Unlock()
			}
		})
	}
	r.Stop(r.Leader(bus.StreamInvestigationQueue))
	var open []string
	var left []journal.Queued
	var err error
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("not ended by a worker: %v; Queued = %v, %v", open, left, err)
		}
	})
	bustest.Eventually(t, "end of all sessions", func() bool {
		mu.Lock()
		open = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return ended[id] })
		mu.Unlock()
		left, err = j.Queued(t.Context())
		return len(open) == 0 && err == nil && len(left) == 0
	})
	cancel()
	wg.Wait()
}

// TestClaimsAmongRequests: other requests of the same connection take no session away.
func TestClaimsAmongRequests(t *testing.T) {
	j := journal.New(bustest.Start(t).Connect(bus.RoleInvestigator), bustest.Quiet())
	q := must(j.OpenQueue(t.Context(), 1000))(t)
	ids := enqueue(t, j, 50)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for ctx.Err() == nil {
				_, _ = j.Last(ctx, ids[0])
			}
		})
	}
	for range ids {
		if c := next(t, q); c.Deliveries != 1 {
			t.Errorf("session %s was given out %d times, want once", c.Session, c.Deliveries)
		}
	}
	stop()
	running.Wait()
}

// TestConsumerIsRestored: workers go on after someone deleted their consumer.
func TestConsumerIsRestored(t *testing.T) {
	j, c := open(t)
	q := must(j.OpenQueue(t.Context(), 1))(t)
	enqueue(t, j, 1)
	held := next(t, q)
	if err := c.JS.DeleteConsumer(t.Context(), bus.StreamInvestigationQueue, "workers"); err != nil {
		t.Fatal(err)
	}
	second := next(t, q)
	if second.Session != held.Session {
		t.Errorf("claim of the new consumer = %s, want %s, which is still queued", second.Session, held.Session)
	}
	if held.Valid(time.Now()) {
		t.Error("the claim of the deleted consumer is valid, want it lost before the session is given out again")
	}
	info := must(c.JS.Consumer(t.Context(), bus.StreamInvestigationQueue, "workers"))(t).CachedInfo()
	if got := info.Config.MaxAckPending; got != 1 {
		t.Errorf("the new consumer has at most %d claims, want 1", got)
	}
	none(t, q)
}

// TestRequeue: an attempt that is queued again comes after those that wait, and its new message is
// stored before the old one is removed.
func TestRequeue(t *testing.T) {
	j, c := open(t)
	q := must(j.OpenQueue(t.Context(), 1))(t)
	ids := enqueue(t, j, 2)
	for n := range 3 {
		first := next(t, q)
		if first.Session != ids[0] || first.Attempt != 1 || first.Requeued != n {
			t.Fatalf("claim = %s, attempt %d, requeued %d times, want %s, 1, %d", first.Session, first.Attempt, first.Requeued, ids[0], n)
		}
		held := messagesOf(t, c, ids[0])
		if err := first.Requeue(); err != nil {
			t.Fatal(err)
		}
		stored := messagesOf(t, c, ids[0])
		if len(held) != 1 || len(stored) != 1 || held[0] == stored[0] {
			t.Errorf("messages of the session before %v and after %v, want one each, on another subject: it is stored before the other is removed", held, stored)
		}
		if err := first.Requeue(); !errors.Is(err, journal.ErrLost) {
			t.Errorf("Requeue of a claim that is over = %v, want ErrLost", err)
		}
		other := next(t, q)
		if other.Session != ids[1] {
			t.Errorf("next claim = %s, want %s, which waits", other.Session, ids[1])
		}
		if err := other.Requeue(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(ids, sessions(must(j.Queued(t.Context()))(t))); diff != "" {
		t.Errorf("Queued (-want +got):\n%s", diff)
	}
}

// TestRequeueInterrupted: a process that ends between the two steps of Requeue leaves the attempt in
// the queue twice, and both leave it.
func TestRequeueInterrupted(t *testing.T) {
	j, c := open(t)
	q := must(j.OpenQueue(t.Context(), 2))(t)
	id := enqueue(t, j, 1)[0]
	// What the process that ended stored before it removed the old message.
	if _, err := c.JS.Publish(t.Context(), bus.InvestigationQueueSubject(id, "1-1"), nil); err != nil {
		t.Fatal(err)
	}
	first, second := next(t, q), next(t, q)
	if first.Requeued != 0 || second.Requeued != 1 || second.Attempt != 1 {
		t.Fatalf("claims requeued %d and %d times, attempt %d; want 0, 1, attempt 1", first.Requeued, second.Requeued, second.Attempt)
	}
	// Whichever order they end in, one is left as long as one is put back.
	for _, c := range []*journal.Claim{first, second} {
		if err := c.Requeue(); err != nil {
			t.Fatal(err)
		}
	}
	third := next(t, q)
	if third.Requeued != 2 {
		t.Errorf("the third claim was requeued %d times, want 2", third.Requeued)
	}
	if err := third.Done(); err != nil {
		t.Fatal(err)
	}
	none(t, q)
}

// TestForeignQueueMessages: what names no attempt is removed from the queue.
func TestForeignQueueMessages(t *testing.T) {
	j, c := open(t)
	q := must(j.OpenQueue(t.Context(), 1))(t)
	id := journal.NewSession()
	for _, token := range []string{"0", "x", "1-0", "1-x", "1--1", "01", "1-01", "-1"} {
		if _, err := c.JS.Publish(t.Context(), bus.InvestigationQueueSubject(id, token), nil); err != nil {
			t.Fatal(err)
		}
	}
	if queued := must(j.Queued(t.Context()))(t); len(queued) != 0 {
		t.Errorf("Queued = %v, want none", queued)
	}
	none(t, q)
	if left := messagesOf(t, c, id); len(left) != 0 {
		t.Errorf("messages %v are left, want none", left)
	}
}

// messagesOf returns the subjects of the messages that the queue has of a session.
func messagesOf(t *testing.T, c *bus.Session, session string) []string {
	t.Helper()
	var subjects []string
	for _, m := range must(c.Read(t.Context(), bus.StreamInvestigationQueue, 1, 100))(t) {
		if strings.Contains(m.Subject, session) {
			subjects = append(subjects, m.Subject)
		}
	}
	return subjects
}

func sessions(queued []journal.Queued) []string {
	var ids []string
	for _, q := range queued {
		ids = append(ids, q.Session)
	}
	return ids
}
