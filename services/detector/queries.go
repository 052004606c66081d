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
	"github.com/tocsin-bus/tocsin/services/detector/noise"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
)

const (
	// answerTimeout bounds one answer. Clients wait for about as long.
	answerTimeout = 2 * time.Second
	// ownerTimeout bounds finding the owner of a partition and its answer. It is less
	// than answerTimeout. The answer leaves out a partition that did not answer by then.
	ownerTimeout = 1500 * time.Millisecond
	// ownerRetry is the pause before a partition without an owner is queried again.
	ownerRetry = 100 * time.Millisecond
	// maxQueries is how many queries of one kind are answered at once. More wait.
	maxQueries = 32
)

// serveQueries answers the queries of package query until ctx ends. Any detector answers
// for all partitions by querying their owners; each answers query.health for itself.
// onRegistered is called once queries can arrive.
func (d *process) serveQueries(ctx context.Context, partitions int, onRegistered func()) error {
	service, err := micro.AddService(d.in.NC, micro.Config{
		Name: query.Service, Version: "1.0.0", Description: "recent telemetry, page vitals, noise rules and status of Tocsin",
	})
	if err != nil {
		return fmt.Errorf("register the detector's service: %w", err)
	}
	var inProgress sync.WaitGroup
	defer inProgress.Wait()
	s := queryServer{process: d, partitions: partitions}
	for _, e := range []struct {
		name, subject string
		handle        func(context.Context, []byte) (any, error)
	}{
		{nameEvents, query.SubjectEvents, s.events},
		{nameStatus, query.SubjectStatus, s.status},
		{nameNoise, query.SubjectNoise, s.noise},
		{nameVitals, query.SubjectVitals, s.vitals},
	} {
		slots := make(chan struct{}, maxQueries)
		handler := micro.HandlerFunc(func(r micro.Request) {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			data, subject, reply := r.Data(), r.Subject(), r.Reply()
			// micro handles one request at a time, and an answer may take long while a
			// partition has no owner. So it is answered in a goroutine, without micro.
			inProgress.Go(func() {
				defer func() { <-slots }()
				ctx, cancel := context.WithTimeout(ctx, answerTimeout)
				defer cancel()
				s.respond(subject, reply, func() (any, error) { return e.handle(ctx, data) })
			})
		})
		if err := service.AddEndpoint(e.name, handler, micro.WithEndpointSubject(e.subject)); err != nil {
			return errors.Join(fmt.Errorf("register the query %s: %w", e.name, err), service.Stop())
		}
	}
	if err := presence.Add(service, d.identity, d.state.Health); err != nil {
		return errors.Join(err, service.Stop())
	}
	flushing, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_ = d.in.NC.FlushWithContext(flushing) // without the bus no query arrives
	onRegistered()
	<-ctx.Done()
	if d.in.Connected() {
		return service.Stop()
	}
	return nil
}

// queryServer merges the answers of all partitions.
type queryServer struct {
	*process
	partitions int
}

// requestError is an error in the query itself.
type requestError struct{ error }

// errNoPartition is returned when no partition answered.
var errNoPartition = errors.New("no detector owns the telemetry now: one takes over within 5 s")

// respond sends an answer or an error in the form of nats.go's micro package.
func (d *process) respond(subject, reply string, answer func() (any, error)) {
	value, err := answer()
	var refused *bus.RefusedError
	if err != nil {
		refused = &bus.RefusedError{Code: "503", Text: err.Error()}
		if errors.As(err, &requestError{}) {
			refused.Code = "400"
		}
	}
	if err := bus.Answer(d.in, reply, value, refused); err != nil {
		d.log.Warn("cannot answer a query", "subject", subject, "error", err)
	}
}

func decodeRequest[R any](data []byte) (r R, err error) {
	if err := json.Unmarshal(data, &r); err != nil {
		return r, requestError{fmt.Errorf("decode the query: %w", err)}
	}
	return r, nil
}

func (s queryServer) events(ctx context.Context, data []byte) (any, error) {
	r, err := decodeRequest[query.EventsRequest](data)
	if err != nil {
		return nil, err
	}
	replies, part, err := queryAll(ctx, s, nameEvents, r, (*partition).events)
	if err != nil {
		return nil, err
	}
	reply, err := mergeEvents(replies, eventring.Limit(r))
	reply.Part = part
	return reply, err
}

func (s queryServer) status(ctx context.Context, _ []byte) (any, error) {
	replies, part, err := queryAll(ctx, s, nameStatus, statusRequest{}, (*partition).status)
	if err != nil {
		return nil, err
	}
	reply := mergeStatus(replies)
	reply.Detector.Part = part
	reply.Detector.Ready = reply.Detector.Ready && len(part.Unanswered) == 0
	return reply, nil
}

func (s queryServer) vitals(ctx context.Context, data []byte) (any, error) {
	r, err := decodeRequest[query.VitalsRequest](data)
	if err != nil {
		return nil, err
	}
	replies, part, err := queryAll(ctx, s, nameVitals, r, (*partition).vitals)
	if err != nil {
		return nil, err
	}
	reply, err := mergeVitals(replies)
	reply.Part = part
	return reply, err
}

// noise lists the noise rules or changes them. A change is published to TELEMETRY, where
// every partition folds it, so that a replay gives the same state.
func (s queryServer) noise(ctx context.Context, data []byte) (any, error) {
	r, err := decodeRequest[query.NoiseRequest](data)
	if err != nil {
		return nil, err
	}
	request := noiseRequest{NoiseRequest: r}
	if r.Action != query.NoiseList {
		if request.Command, request.After, err = s.publishCommand(ctx, r); err != nil {
			return nil, err
		}
	}
	replies, part, err := queryAll(ctx, s, nameNoise, request, (*partition).noise)
	if errors.Is(err, errNoPartition) && request.After > 0 {
		err = errors.New("the command is stored and takes effect once the detector has caught up")
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
	reply, err := mergeNoise(lists)
	reply.Part = part
	return reply, err
}

// refusal returns why all partitions refused a command, or nil if one accepted it: a
// rule to remove need exist in one partition only.
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

// publishCommand publishes a noise command and returns its id and sequence.
func (s queryServer) publishCommand(ctx context.Context, r query.NoiseRequest) (id string, seq uint64, err error) {
	if err := noise.Check(r); err != nil {
		return "", 0, requestError{err}
	}
	c := noiseCommand{ID: nuid.Next(), NoiseRequest: r}
	data, err := json.Marshal(c)
	if err != nil {
		return "", 0, fmt.Errorf("encode the command: %w", err)
	}
	seq, err = s.publisher.Publish(ctx, &nats.Msg{Subject: bus.SubjectIntakeNoise, Data: data})
	return c.ID, seq, err
}

// queryAll queries the owners of all partitions at once. It returns their answers in
// order and which partitions did not answer; it fails only if none did.
func queryAll[R, T any](ctx context.Context, s queryServer, name string, r R, local func(*partition, context.Context, R) (T, error)) ([]T, query.Part, error) {
	answers, errs := make([]T, s.partitions), make([]error, s.partitions)
	if s.partitions == 1 {
		answers[0], errs[0] = queryOwner(ctx, s, 0, name, r, local)
	} else {
		var all sync.WaitGroup
		for p := range s.partitions {
			all.Go(func() { answers[p], errs[p] = queryOwner(ctx, s, p, name, r, local) })
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
	return nil, part, fmt.Errorf("%w: %w", errNoPartition, errs[0])
}

// queryOwner queries the owner of one partition, which may be this process. If there is
// no owner it retries for ownerTimeout.
func queryOwner[R, T any](ctx context.Context, s queryServer, number int, name string, r R, local func(*partition, context.Context, R) (T, error)) (answer T, err error) {
	if p := s.state.heldPartition(number); p != nil {
		return local(p, ctx, r)
	}
	if !s.cfg.Shared {
		return answer, errors.New("the detector is still reading its state")
	}
	ctx, cancel := context.WithTimeout(ctx, ownerTimeout)
	defer cancel()
	data, err := json.Marshal(r)
	if err != nil {
		return answer, fmt.Errorf("encode the query: %w", err)
	}
	for {
		m, err := s.in.NC.RequestWithContext(ctx, ownerSubject(number, name), data)
		switch {
		case err == nil && m.Header.Get(micro.ErrorHeader) == "":
			if err := json.Unmarshal(m.Data, &answer); err != nil {
				return answer, fmt.Errorf("decode the answer for partition %d: %w", number, err)
			}
			return answer, nil
		case err == nil:
			return answer, errors.New(m.Header.Get(micro.ErrorHeader))
		case !errors.Is(err, nats.ErrNoResponders):
			return answer, fmt.Errorf("query the owner of partition %d: %w", number, err)
		}
		select {
		case <-time.After(ownerRetry):
		case <-ctx.Done():
			return answer, fmt.Errorf("partition %d has no owner", number)
		}
		if p := s.state.heldPartition(number); p != nil {
			return local(p, ctx, r)
		}
	}
}
