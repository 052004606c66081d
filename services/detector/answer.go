package detector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nuid"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// answerTimeout bounds one answer; who asks waits for about as long.
const answerTimeout = 2 * time.Second

// answer serves the queries of package query until ctx ends.
func (d *detector) answer(ctx context.Context, l *loop) error {
	service, err := micro.AddService(d.in.NC, micro.Config{
		Name: query.Service, Version: "1.0.0", Description: "what Tocsin remembers of telemetry",
	})
	if err != nil {
		return fmt.Errorf("register the detector's service: %w", err)
	}
	a := answerer{d: d, loop: l, ctx: ctx}
	for _, e := range []struct {
		name, subject string
		handle        func(context.Context, []byte) (any, error)
	}{
		{"events", query.SubjectEvents, a.events},
		{"status", query.SubjectStatus, a.status},
		{"noise", query.SubjectNoise, a.noise},
	} {
		err := service.AddEndpoint(e.name, a.handler(e.handle), micro.WithEndpointSubject(e.subject))
		if err != nil {
			return errors.Join(fmt.Errorf("register the query %s: %w", e.name, err), service.Stop())
		}
	}
	<-ctx.Done()
	if d.in.Connected() {
		return service.Stop()
	}
	return nil
}

// answerer turns requests into questions to the loop.
type answerer struct {
	d    *detector
	loop *loop
	// ctx is the service's life: requests come from the bus and have none.
	ctx context.Context
}

// requestError is an error that the asker made.
type requestError struct{ error }

func (a answerer) handler(handle func(context.Context, []byte) (any, error)) micro.Handler {
	return micro.HandlerFunc(func(r micro.Request) {
		ctx, cancel := context.WithTimeout(a.ctx, answerTimeout)
		defer cancel()
		reply, err := handle(ctx, r.Data())
		if err == nil {
			err = r.RespondJSON(reply)
		}
		var bad requestError
		switch {
		case errors.As(err, &bad):
			err = r.Error("400", bad.Error(), nil)
		case err != nil:
			err = r.Error("503", err.Error(), nil)
		}
		if err != nil {
			a.d.log.Warn("a query could not be answered", "subject", r.Subject(), "error", err)
		}
	})
}

// ask has the loop run q, and waits until it has.
func (a answerer) ask(ctx context.Context, q func(l *loop)) error {
	done := make(chan struct{})
	select {
	case a.loop.questions <- func(l *loop) { q(l); close(done) }:
	case <-ctx.Done():
		return errors.New("the detector is too busy to answer: try again")
	}
	<-done // the loop has taken it, and runs it at once
	return nil
}

func (a answerer) events(ctx context.Context, data []byte) (any, error) {
	var r query.EventsRequest
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, requestError{fmt.Errorf("decode the query: %w", err)}
	}
	var reply query.EventsReply
	if err := a.ask(ctx, func(l *loop) { reply.Events = l.recent.Query(r) }); err != nil {
		return nil, err
	}
	var err error
	reply.Events, reply.Truncated, err = cutToSize(reply.Events)
	return reply, err
}

// cutToSize leaves out the end of a list where the reply would be too large.
func cutToSize[T any](list []T) (fits []T, truncated bool, err error) {
	size := 0
	for i := range list {
		data, err := json.Marshal(list[i])
		if err != nil {
			return nil, false, fmt.Errorf("encode the answer: %w", err)
		}
		if size += len(data) + 1; size > query.MaxReply {
			return list[:i], true, nil
		}
	}
	return list, false, nil
}

func (a answerer) status(ctx context.Context, _ []byte) (any, error) {
	var reply query.StatusReply
	err := a.ask(ctx, func(l *loop) {
		reply = query.StatusReply{
			Apps:     l.recent.Status(time.Now()),
			Detector: query.DetectorStatus{Ready: l.caughtUp || l.behind == 0, Behind: l.behind, Lost: l.lost},
		}
	})
	return reply, err
}

// noise lists the rules, or changes them: a change is written into the log and
// takes effect where the fold meets it, so that a replay does the same.
func (a answerer) noise(ctx context.Context, data []byte) (any, error) {
	var r query.NoiseRequest
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, requestError{fmt.Errorf("decode the query: %w", err)}
	}
	var reply query.NoiseReply
	if r.Action != query.NoiseList {
		var err error
		if reply, err = a.command(ctx, r); err != nil {
			return nil, err
		}
	}
	err := a.ask(ctx, func(l *loop) { reply.Rules = l.fold.NoiseRules(r.App) })
	if err != nil {
		return nil, err
	}
	reply.Rules, reply.Truncated, err = cutToSize(reply.Rules)
	return reply, err
}

func (a answerer) command(ctx context.Context, r query.NoiseRequest) (query.NoiseReply, error) {
	c := noiseCommand{ID: nuid.Next(), NoiseRequest: r}
	if err := noise.Check(r); err != nil {
		return query.NoiseReply{}, requestError{err}
	}
	data, err := json.Marshal(c)
	if err != nil {
		return query.NoiseReply{}, fmt.Errorf("encode the command: %w", err)
	}
	outcome := make(chan fold.Outcome, 1)
	if err := a.ask(ctx, func(l *loop) { l.commands[c.ID] = outcome }); err != nil {
		return query.NoiseReply{}, err
	}
	defer func() { // where the answer never came
		_ = a.ask(a.ctx, func(l *loop) { delete(l.commands, c.ID) }) // fails only at the end
	}()
	if _, err := a.d.publisher.Publish(ctx, &nats.Msg{Subject: bus.SubjectIntakeNoise, Data: data}); err != nil {
		return query.NoiseReply{}, err
	}
	select {
	case out := <-outcome:
		if out.Noise.Err != nil {
			return query.NoiseReply{}, requestError{out.Noise.Err}
		}
		return query.NoiseReply{Added: out.Noise.Added, Found: out.Noise.Found}, nil
	case <-ctx.Done():
		return query.NoiseReply{}, errors.New("the command is written and takes effect once the detector has caught up")
	}
}
