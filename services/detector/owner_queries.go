package detector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/services/detector/eventring"
	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/services/detector/regression"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// The names of the queries, both the public ones and those to the owner of a partition.
const (
	nameEvents = "events"
	nameStatus = "status"
	nameNoise  = "noise"
	nameVitals = "vitals"
)

// ownerSubject returns the subject on which the owner of a partition answers a query.
func ownerSubject(partition int, name string) string {
	return "query.partition." + strconv.Itoa(partition) + "." + name
}

// statusRequest is an empty request.
type statusRequest struct{}

// noiseRequest asks for the noise rules after a command was folded.
type noiseRequest struct {
	query.NoiseRequest
	// Command is the id of the command and After its sequence; empty and 0 for none.
	Command string `json:"command,omitempty"`
	After   uint64 `json:"after,omitempty"`
}

// noiseReply is the answer of one partition.
type noiseReply struct {
	query.NoiseReply
	// Refused is why the partition refused the command. NoRule is set if the reason is
	// that it has no such rule; another partition may have it.
	Refused string `json:"refused,omitempty"`
	NoRule  bool   `json:"no_rule,omitempty"`
}

// errTooBusy is returned if the loop did not take a question in time.
var errTooBusy = errors.New("the detector is too busy to answer: try again")

// ask runs q in the loop and waits for it.
func (p *partition) ask(ctx context.Context, q func(l *loop)) error {
	done := make(chan struct{})
	select {
	case p.loop.questions <- func(l *loop) { q(l); close(done) }:
	case <-ctx.Done():
		return errTooBusy
	}
	<-done // the loop runs q as soon as it has received it
	return nil
}

// historyTimeout is how long a query waits for the events before the start. A detector
// that has just started would otherwise answer that there are none.
const historyTimeout = time.Second

// waitForHistory waits until the ring contains the events before the start, for at most
// historyTimeout.
func (p *partition) waitForHistory(ctx context.Context) {
	select {
	case <-p.loop.historyRead:
		return
	default:
	}
	timeout := time.NewTimer(historyTimeout)
	defer timeout.Stop()
	select {
	case <-p.loop.historyRead:
	case <-timeout.C:
	case <-ctx.Done():
	}
}

func (p *partition) events(ctx context.Context, r query.EventsRequest) (reply query.EventsReply, err error) {
	p.waitForHistory(ctx)
	err = p.ask(ctx, func(l *loop) { reply = l.ring.Page(r) })
	return reply, err
}

func (p *partition) status(ctx context.Context, _ statusRequest) (reply query.StatusReply, err error) {
	p.waitForHistory(ctx)
	err = p.ask(ctx, func(l *loop) {
		apps := l.ring.Status(time.Now())
		for i := range apps {
			apps[i].History = l.fold.HasHistory(apps[i].App)
		}
		reply = query.StatusReply{
			Apps: apps,
			Detector: query.DetectorStatus{
				Ready: l.caughtUp || l.backlog == 0, Behind: l.backlog, Lost: l.lost,
				Rules: rulesInForce(p.cfg.Rules), AppsNotTracked: l.fold.NotTracked(),
			},
		}
	})
	return reply, err
}

// noise lists the noise rules. For a command it waits until the command is folded and
// returns its result.
func (p *partition) noise(ctx context.Context, r noiseRequest) (reply noiseReply, err error) {
	var waiter chan struct{}
	read := func(l *loop) {
		if waiter = nil; l.position.Telemetry < r.After {
			waiter = make(chan struct{})
			l.waiters[waiter] = r.After
			return
		}
		reply.Rules, reply.Removed = l.fold.NoiseRules(r.App), l.fold.RemovedNoiseRules(r.App)
		reply.HiddenTotal = 0
		for i := range reply.Rules {
			reply.HiddenTotal += reply.Rules[i].Hidden
		}
		report, known := l.results.reports[r.Command]
		if !known { // no command, or the previous owner has folded it
			return
		}
		reply.Added, reply.Found = report.Added, report.Found
		if report.Err != nil {
			reply.Refused, reply.NoRule = report.Err.Error(), errors.Is(report.Err, noise.ErrNoRule)
		}
	}
	for {
		if err := p.ask(ctx, read); err != nil || waiter == nil {
			return reply, err
		}
		select {
		case <-waiter:
		case <-ctx.Done():
			abandoned := waiter
			cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
			defer cancel()
			_ = p.ask(cleaning, func(l *loop) { delete(l.waiters, abandoned) }) // fails only if the loop has ended
			return reply, errTooBusy
		}
	}
}

func (p *partition) vitals(ctx context.Context, r query.VitalsRequest) (reply query.VitalsReply, err error) {
	var loads []query.StoredEvent
	var known []string
	p.waitForHistory(ctx)
	err = p.ask(ctx, func(l *loop) {
		loads = l.ring.Loads(r.App)
		if r.App != "" {
			known = l.fold.Pages(r.App)
		}
	})
	if err != nil {
		return reply, err
	}
	reply.Pages, reply.Truncated = regression.GroupLoads(r, loads, known)
	reply.Truncated = reply.Truncated || len(loads) == eventring.MaxLoads
	err = p.ask(ctx, func(l *loop) {
		for i := range reply.Pages {
			page := &reply.Pages[i]
			page.Baselines = l.fold.PageBaselines(page.App, page.Page)
		}
	})
	return reply, err
}

// serveOwnerQueries answers the queries of other detectors about this partition until
// ctx ends. It does not answer while another detector may own the partition: the client
// retries.
func (p *partition) serveOwnerQueries(ctx context.Context) error {
	var inProgress sync.WaitGroup
	defer inProgress.Wait()
	for name, handle := range map[string]func(context.Context, []byte) (any, error){
		nameEvents: ownerHandler(p.events, func(r query.EventsReply) (query.EventsReply, error) {
			return mergeEvents([]query.EventsReply{r}, query.MaxLimit)
		}),
		nameStatus: ownerHandler(p.status, nil),
		nameNoise: ownerHandler(p.noise, func(r noiseReply) (noiseReply, error) {
			merged, err := mergeNoise([]query.NoiseReply{r.NoiseReply})
			r.NoiseReply = merged
			return r, err
		}),
		nameVitals: ownerHandler(p.vitals, func(r query.VitalsReply) (query.VitalsReply, error) {
			return mergeVitals([]query.VitalsReply{r})
		}),
	} {
		sub, err := p.in.NC.Subscribe(ownerSubject(p.number, name), func(m *nats.Msg) {
			if !p.lease.held() {
				return
			}
			select {
			case p.querySlots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			inProgress.Go(func() {
				defer func() { <-p.querySlots }()
				ctx, cancel := context.WithTimeout(ctx, answerTimeout)
				defer cancel()
				p.respond(m.Subject, m.Reply, func() (any, error) { return handle(ctx, m.Data) })
			})
		})
		if err != nil {
			return fmt.Errorf("subscribe to %s: %w", ownerSubject(p.number, name), err)
		}
		defer func() { _ = sub.Unsubscribe() }() // an error means that the connection has ended
	}
	<-ctx.Done()
	return nil
}

// ownerHandler decodes a request, answers it and limits the reply to its maximum size.
func ownerHandler[R, T any](answer func(context.Context, R) (T, error), limit func(T) (T, error)) func(context.Context, []byte) (any, error) {
	return func(ctx context.Context, data []byte) (any, error) {
		var r R
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("decode the query: %w", err)
		}
		reply, err := answer(ctx, r)
		if err == nil && limit != nil {
			reply, err = limit(reply)
		}
		return reply, err
	}
}
