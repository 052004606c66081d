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
	"github.com/tocsin-bus/tocsin/services/detector/merge"
	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/services/detector/vitals"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// The names of the queries, public and to the owner of one partition.
const (
	nameEvents = "events"
	nameStatus = "status"
	nameNoise  = "noise"
	nameVitals = "vitals"
)

// ownerSubject is where the owner of a partition answers.
func ownerSubject(partition int, name string) string {
	return "query.partition." + strconv.Itoa(partition) + "." + name
}

// statusRequest has no content.
type statusRequest struct{}

// noiseRequest asks for the rules as they are after a command was folded in.
type noiseRequest struct {
	query.NoiseRequest
	// Command is the id of the command, After where it stands in the log; empty and
	// 0 for none.
	Command string `json:"command,omitempty"`
	After   uint64 `json:"after,omitempty"`
}

// noiseReply is what a partition made of that.
type noiseReply struct {
	query.NoiseReply
	// Refused is why the partition did not do what the command wants; NoRule that it
	// only has no such rule, which another one may have.
	Refused string `json:"refused,omitempty"`
	NoRule  bool   `json:"no_rule,omitempty"`
}

// errTooBusy says that the loop did not take a question in time.
var errTooBusy = errors.New("the detector is too busy to answer: try again")

// ask has the loop run q, and waits until it has.
func (p *partition) ask(ctx context.Context, q func(l *loop)) error {
	done := make(chan struct{})
	select {
	case p.loop.questions <- func(l *loop) { q(l); close(done) }:
	case <-ctx.Done():
		return errTooBusy
	}
	<-done // the loop has taken it, and runs it at once
	return nil
}

// recallTimeout is how long a query waits for what was folded in before the start:
// just begun, a detector would answer that there was nothing.
const recallTimeout = time.Second

// recall waits until the recent events are remembered, or for recallTimeout.
func (p *partition) recall(ctx context.Context) {
	select {
	case <-p.loop.recalled:
		return
	default:
	}
	late := time.NewTimer(recallTimeout)
	defer late.Stop()
	select {
	case <-p.loop.recalled:
	case <-late.C:
	case <-ctx.Done():
	}
}

func (p *partition) events(ctx context.Context, r query.EventsRequest) (reply query.EventsReply, err error) {
	p.recall(ctx)
	err = p.ask(ctx, func(l *loop) { reply = l.recent.Page(r) })
	return reply, err
}

func (p *partition) status(ctx context.Context, _ statusRequest) (reply query.StatusReply, err error) {
	p.recall(ctx)
	err = p.ask(ctx, func(l *loop) {
		apps := l.recent.Status(time.Now())
		for i := range apps {
			apps[i].History = l.fold.HasHistory(apps[i].App)
		}
		reply = query.StatusReply{
			Apps:     apps,
			Detector: query.DetectorStatus{Ready: l.caughtUp || l.behind == 0, Behind: l.behind, Lost: l.lost, Rules: judged(p.cfg.Rules), AppsNotTracked: l.fold.NotTracked()},
		}
	})
	return reply, err
}

// noise lists the rules, and says what became of a command once that is folded in.
func (p *partition) noise(ctx context.Context, r noiseRequest) (reply noiseReply, err error) {
	var wait chan struct{}
	look := func(l *loop) {
		if wait = nil; l.at.Telemetry < r.After {
			wait = make(chan struct{})
			l.waiters[wait] = r.After
			return
		}
		reply.Rules, reply.Removed = l.fold.NoiseRules(r.App), l.fold.RemovedNoiseRules(r.App)
		reply.HiddenTotal = 0
		for i := range reply.Rules {
			reply.HiddenTotal += reply.Rules[i].Hidden
		}
		report, known := l.outcomes.reports[r.Command]
		if !known { // none was asked about, or the owner before has folded it in
			return
		}
		reply.Added, reply.Found = report.Added, report.Found
		if report.Err != nil {
			reply.Refused, reply.NoRule = report.Err.Error(), errors.Is(report.Err, noise.ErrNoRule)
		}
	}
	for {
		if err := p.ask(ctx, look); err != nil || wait == nil {
			return reply, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			waiter := wait
			cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTimeout)
			defer cancel()
			_ = p.ask(cleaning, func(l *loop) { delete(l.waiters, waiter) }) // fails only at the end
			return reply, errTooBusy
		}
	}
}

func (p *partition) vitals(ctx context.Context, r query.VitalsRequest) (reply query.VitalsReply, err error) {
	var loads []query.StoredEvent
	var known []string
	p.recall(ctx)
	err = p.ask(ctx, func(l *loop) {
		loads = l.recent.Loads(r.App)
		if r.App != "" {
			known = l.fold.Pages(r.App)
		}
	})
	if err != nil {
		return reply, err
	}
	reply.Pages, reply.Truncated = vitals.Pages(r, loads, known)
	reply.Truncated = reply.Truncated || len(loads) == eventring.MaxLoads
	err = p.ask(ctx, func(l *loop) {
		for i := range reply.Pages {
			page := &reply.Pages[i]
			page.Baselines = l.fold.PageBaselines(page.App, page.Page)
		}
	})
	return reply, err
}

// answerOwner answers other detectors' queries about this partition until ctx
// ends. While another one may own it, nobody gets an answer: who asks tries again.
func (p *partition) answerOwner(ctx context.Context) error {
	var asked sync.WaitGroup
	defer asked.Wait()
	for name, handle := range map[string]func(context.Context, []byte) (any, error){
		nameEvents: answerTo(p.events, func(r query.EventsReply) (query.EventsReply, error) {
			return merge.Events([]query.EventsReply{r}, query.MaxLimit)
		}),
		nameStatus: answerTo(p.status, nil),
		nameNoise: answerTo(p.noise, func(r noiseReply) (noiseReply, error) {
			fits, err := merge.Noise([]query.NoiseReply{r.NoiseReply})
			r.NoiseReply = fits
			return r, err
		}),
		nameVitals: answerTo(p.vitals, func(r query.VitalsReply) (query.VitalsReply, error) {
			return merge.Vitals([]query.VitalsReply{r})
		}),
	} {
		sub, err := p.in.NC.Subscribe(ownerSubject(p.number, name), func(m *nats.Msg) {
			if !p.tenure.held() {
				return
			}
			select {
			case p.slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			asked.Go(func() {
				defer func() { <-p.slots }()
				ctx, cancel := context.WithTimeout(ctx, answerTimeout)
				defer cancel()
				p.respond(m.Subject, m.Reply, func() (any, error) { return handle(ctx, m.Data) })
			})
		})
		if err != nil {
			return fmt.Errorf("listen on %s: %w", ownerSubject(p.number, name), err)
		}
		defer func() { _ = sub.Unsubscribe() }() // else it ends with the connection
	}
	<-ctx.Done()
	return nil
}

// answerTo decodes a request, asks, and makes the answer fit into a reply.
func answerTo[R, T any](ask func(context.Context, R) (T, error), fit func(T) (T, error)) func(context.Context, []byte) (any, error) {
	return func(ctx context.Context, data []byte) (any, error) {
		var r R
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("decode the query: %w", err)
		}
		reply, err := ask(ctx, r)
		if err == nil && fit != nil {
			reply, err = fit(reply)
		}
		return reply, err
	}
}
