package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/lease"
)

// Times and bounds of the queue.
const (
	// AckWait is how long the bus waits for a heartbeat of a worker before it gives the session
	// to another.
	AckWait = 3 * time.Second
	// Fence is how long a claim is valid after its newest confirmed heartbeat was sent: AckWait
	// less 1 s, in which an effect that was started may still arrive.
	Fence = AckWait - time.Second
	// heartbeat is the time between two heartbeats, heartbeatTimeout how long one may take.
	// After a failure the next one follows at once, retryHeartbeat later.
	heartbeat        = 500 * time.Millisecond
	heartbeatTimeout = 700 * time.Millisecond
	retryHeartbeat   = 50 * time.Millisecond
	// pullWait is how long the bus keeps a worker's request for a session. It is less than
	// Fence: the time that a claim is valid counts from this request.
	pullWait = time.Second
	// pullGrace is how long the answer to such a request may be late.
	pullGrace = 500 * time.Millisecond
	// minPullPause and maxPullPause bound the pause after a request that failed.
	minPullPause = 20 * time.Millisecond
	maxPullPause = 500 * time.Millisecond
	// consumerPatience is how long requests must fail before the consumer of the workers is created
	// again. By then no worker has a valid claim that the new one would give to another.
	consumerPatience = AckWait
	// ackTimeout bounds confirming that a session is done or released.
	ackTimeout = 2 * time.Second
	// readQueue is how many queued attempts one request reads.
	readQueue = 500
)

// workers is the name of the consumer that all workers share.
const workers = "workers"

// Commands of JetStream's acknowledgements.
const (
	ackDone     = "+ACK"
	ackProgress = "+WPI"
	ackRelease  = "-NAK"
)

// ErrLost is the cause with which the context of a claim ends whose worker could not renew it
// in time: another worker may have the session, so nothing may be started or stored for it.
var ErrLost = errors.New("the claim on the session was not renewed in time")

// Queue gives sessions to workers, oldest first, each to one at a time. It is safe for
// concurrent use.
type Queue struct {
	j         *Journal
	maxClaims int
	// pulling has a token while no caller of Next asks the bus: one at a time is enough, as an
	// answer takes a fraction of a millisecond.
	pulling chan struct{}
}

// OpenQueue returns the queue, and has at most maxClaims sessions under way in all processes
// together. It creates the consumer of the workers, or changes its bound: call it again after
// a change of the configuration. Sessions that are under way stay so.
func (j *Journal) OpenQueue(ctx context.Context, maxClaims int) (*Queue, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*ackTimeout)
	defer cancel()
	if _, err := j.bus.JS.CreateOrUpdateConsumer(ctx, bus.StreamInvestigationQueue, consumer(maxClaims)); err != nil {
		return nil, fmt.Errorf("open the queue of sessions: %w", err)
	}
	q := &Queue{j: j, maxClaims: maxClaims, pulling: make(chan struct{}, 1)}
	q.pulling <- struct{}{}
	return q, nil
}

// consumer is the configuration of the consumer that all workers share.
func consumer(maxClaims int) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable: workers, Description: "workers of the investigator",
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: AckWait, MaxAckPending: maxClaims, MaxDeliver: -1,
	}
}

// restore creates the consumer of the workers where it is missing. One that is there stays as it is:
// its bound may have been changed since.
func (q *Queue) restore(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	_, err := q.j.bus.JS.Consumer(ctx, bus.StreamInvestigationQueue, workers)
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return
	}
	_, err = q.j.bus.JS.CreateConsumer(ctx, bus.StreamInvestigationQueue, consumer(q.maxClaims))
	switch {
	case err == nil:
		q.j.log.Warn("the consumer of the workers was missing and is created again", "consumer", workers, "stream", bus.StreamInvestigationQueue)
	case !errors.Is(err, jetstream.ErrConsumerExists): // another process was faster
		q.j.log.Warn("the consumer of the workers is missing and could not be created", "error", err)
	}
}

// Enqueue queues an attempt of a session. An attempt that is queued or under way is queued
// once. It does nothing to another attempt of the session: a worker finds in the log whether
// there is anything to do.
func (j *Journal) Enqueue(ctx context.Context, session string, attempt int) error {
	if err := CheckSession(session); err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	if attempt < 1 {
		return fmt.Errorf("queue session %s: attempt %d, want 1 or more", session, attempt)
	}
	return j.enqueue(ctx, session, attempt, 0)
}

// enqueue queues an attempt that was put back a number of times.
func (j *Journal) enqueue(ctx context.Context, session string, attempt, requeued int) error {
	m := nats.NewMsg(queueSubject(session, attempt, requeued))
	// No Nats-Msg-Id: it would be remembered for longer than the message is queued, and the
	// sweep could not queue it again.
	_, err := j.publish(ctx, m)
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &api) && strings.Contains(api.Description, "maximum messages per subject"):
		return nil
	case isFull(err):
		return fmt.Errorf("queue session %s: %w: %w", session, ErrFull, err)
	}
	return fmt.Errorf("queue session %s: %w", session, err)
}

// Queued is an attempt that waits for a worker or has one.
type Queued struct {
	Session string
	Attempt int
	// At is when it was queued.
	At time.Time
}

// Queued returns what is queued or under way, oldest first. In a cluster it may lack what was
// queued just now.
func (j *Journal) Queued(ctx context.Context) ([]Queued, error) {
	var all []Queued
	for from := uint64(1); ; {
		msgs, err := j.bus.Read(ctx, bus.StreamInvestigationQueue, from, readQueue)
		if err != nil {
			return nil, fmt.Errorf("read the queue of sessions: %w", err)
		}
		for _, m := range msgs {
			if session, attempt, _, ok := parseQueued(m.Subject); ok {
				all = append(all, Queued{session, attempt, m.Time})
			}
			from = m.Seq + 1
		}
		if len(msgs) == 0 || msgs[len(msgs)-1].Pending == 0 {
			return all, nil
		}
	}
}

// queueSubject returns the subject that queues an attempt which was put back a number of times. Each
// number has its own subject: the new message is stored before the old one is removed.
func queueSubject(session string, attempt, requeued int) string {
	token := strconv.Itoa(attempt)
	if requeued > 0 {
		token += "-" + strconv.Itoa(requeued)
	}
	return bus.InvestigationQueueSubject(session, token)
}

func parseQueued(subject string) (session string, attempt, requeued int, ok bool) {
	parts := strings.Split(subject, ".")
	if len(parts) != 4 || CheckSession(parts[1]) != nil {
		return "", 0, 0, false
	}
	number, count, again := strings.Cut(parts[3], "-")
	attempt, err := strconv.Atoi(number)
	if again && err == nil {
		requeued, err = strconv.Atoi(count)
	}
	ok = err == nil && attempt > 0 && requeued >= 0 && subject == queueSubject(parts[1], attempt, requeued)
	return parts[1], attempt, requeued, ok
}

// Due is an attempt that needs a worker.
type Due struct {
	Session string
	Attempt int
}

// Sweep queues what is due and not queued: a process may die between a session's first
// message and the queue, and the queue may lose the message of a session that runs. due returns
// all attempts that have not ended. It returns how many were queued. The holder of
// [Journal.SweepLease] calls it every 10 s.
func (j *Journal) Sweep(ctx context.Context, due func() []Due) (int, error) {
	// What is due is asked first: what ends meanwhile is found done by its worker.
	want := due()
	queued, err := j.Queued(ctx)
	if err != nil {
		return 0, err
	}
	present := make(map[Due]bool, len(queued))
	for _, q := range queued {
		present[Due{q.Session, q.Attempt}] = true
	}
	n := 0
	for _, d := range want {
		if present[d] {
			continue
		}
		if err := j.Enqueue(ctx, d.Session, d.Attempt); err != nil {
			return n, err
		}
		j.log.Info("a session without a place in the queue was queued", "session", d.Session, "attempt", d.Attempt)
		n++
	}
	return n, nil
}

// Next waits for a session and claims it. It returns the cause of ctx up to 1 s after ctx has
// ended, because a session that arrives meanwhile is released. Errors of the bus are logged
// and waited out, unless its connection is closed for good.
func (q *Queue) Next(ctx context.Context) (*Claim, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-q.pulling:
	}
	defer func() { q.pulling <- struct{}{} }()
	pause := minPullPause
	var failing time.Time // since when requests fail, or the consumer was looked for last
	for ctx.Err() == nil {
		c, err := q.pull(ctx)
		switch {
		case c != nil && ctx.Err() == nil:
			return c, nil
		case c != nil:
			c.Release()
			return nil, context.Cause(ctx)
		case err == nil:
			pause, failing = minPullPause, time.Time{}
			continue
		}
		if closed := q.j.bus.Err(); closed != nil {
			return nil, fmt.Errorf("wait for a session: %w", closed)
		}
		q.j.log.Debug("waiting for a session is interrupted", "error", err, "pause", pause)
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
		pause = min(2*pause, maxPullPause)
		switch {
		case failing.IsZero():
			failing = time.Now()
		case time.Since(failing) > consumerPatience:
			q.restore(ctx)
			failing = time.Now()
		}
	}
	return nil, context.Cause(ctx)
}

// pull sends one request for a session. Without one and without an error it is nil.
func (q *Queue) pull(ctx context.Context) (*Claim, error) {
	request, err := json.Marshal(struct {
		Batch   int           `json:"batch"`
		Expires time.Duration `json:"expires"`
	}{1, pullWait})
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	if !q.j.bus.Connected() {
		return nil, bus.ErrUnreachable
	}
	waiting, cancel := context.WithTimeout(context.WithoutCancel(ctx), pullWait+pullGrace)
	defer cancel()
	// The answer has the subject of the stored message. A client that shares one subscription
	// among its requests can't assign it to one and drops it, so this request has its own.
	inbox, err := q.j.bus.NC.SubscribeSync(q.j.bus.NC.NewInbox())
	if err != nil {
		return nil, err
	}
	defer func() { _ = inbox.Unsubscribe() }()
	sent := time.Now()
	if err := q.j.bus.NC.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+bus.StreamInvestigationQueue+"."+workers, inbox.Subject, request); err != nil {
		return nil, err
	}
	m, err := inbox.NextMsgWithContext(waiting)
	if err != nil {
		return nil, err
	}
	switch status := m.Header.Get("Status"); {
	case m.Reply != "" && status == "":
	case status == "404", status == "408":
		return nil, nil
	default:
		return nil, fmt.Errorf("the bus answered %s %s", status, m.Header.Get("Description"))
	}
	session, attempt, requeued, ok := parseQueued(m.Subject)
	if !ok {
		q.j.log.Warn("a message of no session is removed from the queue", "subject", m.Subject)
		return nil, m.Respond([]byte(ackDone))
	}
	c := newClaim(ctx, q.j, m.Reply, session, attempt, deliveries(m.Reply), sent)
	c.Requeued = requeued
	go c.beat()
	return c, nil
}

// deliveries returns how often a message was delivered, this time included, from its reply
// subject: $JS.ACK.<stream>.<consumer>.<delivered>... or, with a domain and an account's hash
// before the stream, two more tokens.
func deliveries(reply string) int {
	parts := strings.Split(reply, ".")
	at := 4
	if len(parts) >= 11 {
		at = 6
	}
	if len(parts) <= at {
		return 1
	}
	n, err := strconv.Atoi(parts[at])
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// Claim is a worker's exclusive right to a session. It is renewed by heartbeats until Done or
// Release, or until it is lost. It is safe for concurrent use.
//
// The bus does not check who sends a heartbeat: one of a worker that lost its claim would
// extend that of the next, and its Done would end it. So a lost claim sends nothing any
// more.
type Claim struct {
	Session string
	Attempt int
	// Deliveries counts the workers that were given this attempt, this one included.
	Deliveries int
	// Requeued is the number of times that [Claim.Requeue] has put the attempt back.
	Requeued int

	j     *Journal
	reply string
	ctx   context.Context
	end   context.CancelCauseFunc
	// ended is closed when no heartbeat is under way any more.
	ended chan struct{}

	mu    sync.Mutex
	clock lease.Clock
}

func newClaim(ctx context.Context, j *Journal, reply, session string, attempt, delivered int, sent time.Time) *Claim {
	c := &Claim{Session: session, Attempt: attempt, Deliveries: delivered, j: j, reply: reply, ended: make(chan struct{}), clock: lease.NewClock(Fence)}
	c.ctx, c.end = context.WithCancelCause(context.WithoutCancel(ctx))
	// It was delivered after it was asked for.
	c.clock.Renew(sent, sent)
	return c
}

// Context ends when the claim is over, with the cause [ErrLost] where it was lost. It outlives
// the context of Next, so that a worker can stop in order.
func (c *Claim) Context() context.Context { return c.ctx }

// Valid reports whether an effect may be started at now: the newest confirmed heartbeat was
// sent less than [Fence] before. A claim that was invalid once stays so.
func (c *Claim) Valid(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		return false
	}
	if c.clock.Left(now) <= 0 {
		c.end(ErrLost)
		return false
	}
	return true
}

// beat sends heartbeats until the claim is over.
func (c *Claim) beat() {
	defer close(c.ended)
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-next.C:
		}
		if !c.Valid(time.Now()) {
			c.j.logger(c.Session).Warn("a claim on a session was lost: its heartbeats did not arrive in time")
			return
		}
		pause := heartbeat
		if err := c.renew(); err != nil {
			pause = retryHeartbeat
		}
		next.Reset(min(pause, c.left()))
	}
}

// left returns how long the claim is valid without another heartbeat, at least 0.
func (c *Claim) left() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(0, c.clock.Left(time.Now()))
}

// renew sends one heartbeat, and waits for its confirmation.
func (c *Claim) renew() error {
	ctx, cancel := context.WithTimeout(c.ctx, min(heartbeatTimeout, c.left()))
	defer cancel()
	sent := time.Now()
	if err := c.send(ctx, ackProgress); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// A confirmation that arrives when the claim has expired must not revive it.
	if now := time.Now(); c.clock.Left(now) > 0 {
		c.clock.Renew(sent, now)
	}
	return nil
}

func (c *Claim) send(ctx context.Context, command string) error {
	if !c.j.bus.Connected() {
		return bus.ErrUnreachable
	}
	_, err := c.j.bus.NC.RequestWithContext(ctx, c.reply, []byte(command))
	return err
}

// Done takes the attempt from the queue, once all of it is stored. The error wraps [ErrLost]
// where the claim was lost before, or is one of the bus. Then another worker gets the attempt
// and finds it done, unless the bus did it and only its answer was lost.
func (c *Claim) Done() error {
	valid := c.finish()
	if !valid {
		return fmt.Errorf("end the attempt of session %s: %w", c.Session, ErrLost)
	}
	ctx, cancel := context.WithTimeout(context.Background(), ackTimeout)
	defer cancel()
	if err := c.send(ctx, ackDone); err != nil {
		return fmt.Errorf("end the attempt of session %s: %w", c.Session, err)
	}
	return nil
}

// Requeue puts the attempt at the end of the queue, behind those that wait. It is never out of the
// queue: where the process ends in the middle, the attempt is there twice, and the second worker finds
// what the first one did. The error is that of Done, or of [Journal.Enqueue]; then the claim is still
// in force.
func (c *Claim) Requeue() error {
	if !c.Valid(time.Now()) {
		return fmt.Errorf("queue session %s again: %w", c.Session, ErrLost)
	}
	ctx, cancel := context.WithTimeout(c.ctx, ackTimeout)
	defer cancel()
	if err := c.j.enqueue(ctx, c.Session, c.Attempt, c.Requeued+1); err != nil {
		return err
	}
	return c.Done()
}

// Release gives the session back, to be given to another worker at once and before those that
// were queued later. Where that fails, another worker gets it after [AckWait].
func (c *Claim) Release() {
	if !c.finish() {
		return
	}
	// It waits for the bus to confirm it: in a cluster a request for the next session can arrive
	// before a release that was sent earlier.
	ctx, cancel := context.WithTimeout(context.Background(), ackTimeout)
	defer cancel()
	if err := c.send(ctx, ackRelease); err != nil {
		c.j.logger(c.Session).Info("a claim could not be released; it expires", "error", err)
	}
}

// finish ends the heartbeats, and reports whether the claim was valid until now.
func (c *Claim) finish() bool {
	valid := c.Valid(time.Now())
	c.end(context.Canceled)
	<-c.ended
	return valid
}
