package detector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nuid"

	"github.com/tocsin-bus/tocsin/services/detector/eventring"
	"github.com/tocsin-bus/tocsin/services/detector/merge"
	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
)

const (
	// answerTimeout bounds one answer; who asks waits for about as long.
	answerTimeout = 2 * time.Second
	// ownerTimeout bounds the search for the owner of a partition, and its answer,
	// within that. A partition that nobody answered for by then is left out.
	ownerTimeout = 1500 * time.Millisecond
	// ownerRetry is the pause before a partition without an owner is asked again.
	ownerRetry = 100 * time.Millisecond
	// maxAnswers is how many queries of one kind are answered at once. More wait.
	maxAnswers = 32
)

// answer serves the queries of package query until ctx ends: any detector answers
// for all, and asks the owners. How it is each says for itself. It calls registered
// once it can be asked.
func (d *process) answer(ctx context.Context, of int, registered func()) error {
	service, err := micro.AddService(d.in.NC, micro.Config{
		Name: query.Service, Version: "1.0.0", Description: "what Tocsin remembers of telemetry",
	})
	if err != nil {
		return fmt.Errorf("register the detector's service: %w", err)
	}
	var asked sync.WaitGroup
	defer asked.Wait()
	a := answerer{process: d, of: of}
	for _, e := range []struct {
		name, subject string
		handle        func(context.Context, []byte) (any, error)
	}{
		{nameEvents, query.SubjectEvents, a.events},
		{nameStatus, query.SubjectStatus, a.status},
		{nameNoise, query.SubjectNoise, a.noise},
		{nameVitals, query.SubjectVitals, a.vitals},
	} {
		slots := make(chan struct{}, maxAnswers)
		handler := micro.HandlerFunc(func(r micro.Request) {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			data, subject, reply := r.Data(), r.Subject(), r.Reply()
			// Beside micro, which takes one at a time: while a partition has no owner an
			// answer may take long. So it is not micro's request that responds.
			asked.Go(func() {
				defer func() { <-slots }()
				ctx, cancel := context.WithTimeout(ctx, answerTimeout)
				defer cancel()
				a.respond(subject, reply, func() (any, error) { return e.handle(ctx, data) })
			})
		})
		if err := service.AddEndpoint(e.name, handler, micro.WithEndpointSubject(e.subject)); err != nil {
			return errors.Join(fmt.Errorf("register the query %s: %w", e.name, err), service.Stop())
		}
	}
	if err := presence.Add(service, d.who, d.state.Health); err != nil {
		return errors.Join(err, service.Stop())
	}
	flushing, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_ = d.in.NC.FlushWithContext(flushing) // without the bus, nobody asks
	registered()
	<-ctx.Done()
	if d.in.Connected() {
		return service.Stop()
	}
	return nil
}

// answerer makes one answer out of those of all partitions.
type answerer struct {
	*process
	of int
}

// requestError is an error that the asker made.
type requestError struct{ error }

// errNobody says that no partition was answered for.
var errNobody = errors.New("no detector has the telemetry in hand: one takes over within 5 s")

// respond answers as nats.go's micro package does.
func (d *process) respond(subject, to string, answer func() (any, error)) {
	reply, err := answer()
	out := nats.NewMsg(to)
	if err == nil {
		out.Data, err = json.Marshal(reply)
	}
	if err != nil {
		code := "503"
		if errors.As(err, &requestError{}) {
			code = "400"
		}
		out.Data = nil
		out.Header.Set(micro.ErrorHeader, err.Error())
		out.Header.Set(micro.ErrorCodeHeader, code)
	}
	if err := d.in.NC.PublishMsg(out); err != nil {
		d.log.Warn("a query could not be answered", "subject", subject, "error", err)
	}
}

func decodeRequest[R any](data []byte) (r R, err error) {
	if err := json.Unmarshal(data, &r); err != nil {
		return r, requestError{fmt.Errorf("decode the query: %w", err)}
	}
	return r, nil
}

func (a answerer) events(ctx context.Context, data []byte) (any, error) {
	r, err := decodeRequest[query.EventsRequest](data)
	if err != nil {
		return nil, err
	}
	replies, part, err := askAll(ctx, a, nameEvents, r, (*partition).events)
	if err != nil {
		return nil, err
	}
	reply, err := merge.Events(replies, eventring.Limit(r))
	reply.Part = part
	return reply, err
}

func (a answerer) status(ctx context.Context, _ []byte) (any, error) {
	replies, part, err := askAll(ctx, a, nameStatus, statusRequest{}, (*partition).status)
	if err != nil {
		return nil, err
	}
	reply := merge.Status(replies)
	reply.Detector.Part = part
	reply.Detector.Ready = reply.Detector.Ready && len(part.Unanswered) == 0
	return reply, nil
}

func (a answerer) vitals(ctx context.Context, data []byte) (any, error) {
	r, err := decodeRequest[query.VitalsRequest](data)
	if err != nil {
		return nil, err
	}
	replies, part, err := askAll(ctx, a, nameVitals, r, (*partition).vitals)
	if err != nil {
		return nil, err
	}
	reply, err := merge.Vitals(replies)
	reply.Part = part
	return reply, err
}

// noise lists the rules, or changes them: a change is written into the log, where
// every partition folds it in, so that a replay does the same.
func (a answerer) noise(ctx context.Context, data []byte) (any, error) {
	r, err := decodeRequest[query.NoiseRequest](data)
	if err != nil {
		return nil, err
	}
	ask := noiseRequest{NoiseRequest: r}
	if r.Action != query.NoiseList {
		if ask.Command, ask.After, err = a.command(ctx, r); err != nil {
			return nil, err
		}
	}
	replies, part, err := askAll(ctx, a, nameNoise, ask, (*partition).noise)
	if errors.Is(err, errNobody) && ask.After > 0 {
		err = errors.New("the command is written and takes effect once the detector has caught up")
	}
	if err != nil {
		return nil, err
	}
	if refused := refusal(replies); refused != nil {
		return nil, *refused
	}
	lists := make([]query.NoiseReply, len(replies))
	for i := range replies {
		lists[i] = replies[i].NoiseReply
	}
	reply, err := merge.Noise(lists)
	reply.Part = part
	return reply, err
}

// refusal is why no partition did what a command wants, or nil. A rule to be
// removed need only be in one of them.
func refusal(replies []noiseReply) *requestError {
	var refused *requestError
	for _, r := range replies {
		switch {
		case r.Refused == "":
			return nil
		case refused == nil || !r.NoRule:
			refused = &requestError{errors.New(r.Refused)}
		}
	}
	return refused
}

// command writes a command into the log and returns its id and its place there.
func (a answerer) command(ctx context.Context, r query.NoiseRequest) (id string, at uint64, err error) {
	if err := noise.Check(r); err != nil {
		return "", 0, requestError{err}
	}
	c := noiseCommand{ID: nuid.Next(), NoiseRequest: r}
	data, err := json.Marshal(c)
	if err != nil {
		return "", 0, fmt.Errorf("encode the command: %w", err)
	}
	at, err = a.publisher.Publish(ctx, &nats.Msg{Subject: bus.SubjectIntakeNoise, Data: data})
	return c.ID, at, err
}

// askAll asks the owners of all partitions, at once, and returns their answers in
// order, and who did not give one. It fails when nobody did.
func askAll[R, T any](ctx context.Context, a answerer, name string, r R, local func(*partition, context.Context, R) (T, error)) ([]T, query.Part, error) {
	answers, errs := make([]T, a.of), make([]error, a.of)
	if a.of == 1 {
		answers[0], errs[0] = askOwner(ctx, a, 0, name, r, local)
	} else {
		var all sync.WaitGroup
		for p := range a.of {
			all.Go(func() { answers[p], errs[p] = askOwner(ctx, a, p, name, r, local) })
		}
		all.Wait()
	}
	var part query.Part
	given := answers[:0]
	for p, err := range errs {
		if err != nil {
			part.Unanswered = append(part.Unanswered, p)
			continue
		}
		given = append(given, answers[p])
	}
	if len(given) > 0 {
		return given, part, nil
	}
	return nil, part, fmt.Errorf("%w: %w", errNobody, errs[0])
}

// askOwner asks the owner of one partition, who may be here, and waits for one for
// a moment where there is none.
func askOwner[R, T any](ctx context.Context, a answerer, number int, name string, r R, local func(*partition, context.Context, R) (T, error)) (answer T, err error) {
	if p := a.state.partition(number); p != nil {
		return local(p, ctx, r)
	}
	if !a.cfg.Shared {
		return answer, errors.New("the detector is still reading its state")
	}
	ctx, cancel := context.WithTimeout(ctx, ownerTimeout)
	defer cancel()
	data, err := json.Marshal(r)
	if err != nil {
		return answer, fmt.Errorf("encode the query: %w", err)
	}
	for {
		m, err := a.in.NC.RequestWithContext(ctx, ownerSubject(number, name), data)
		switch {
		case err == nil && m.Header.Get(micro.ErrorHeader) == "":
			if err := json.Unmarshal(m.Data, &answer); err != nil {
				return answer, fmt.Errorf("decode the answer for partition %d: %w", number, err)
			}
			return answer, nil
		case err == nil:
			return answer, errors.New(m.Header.Get(micro.ErrorHeader))
		case !errors.Is(err, nats.ErrNoResponders):
			return answer, fmt.Errorf("ask the owner of partition %d: %w", number, err)
		}
		select {
		case <-time.After(ownerRetry):
		case <-ctx.Done():
			return answer, fmt.Errorf("partition %d has no owner", number)
		}
		if p := a.state.partition(number); p != nil {
			return local(p, ctx, r)
		}
	}
}
