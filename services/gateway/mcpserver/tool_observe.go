package mcpserver

import (
	"context"
	"errors"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/services/gateway/delivery"
	"github.com/tocsin-bus/tocsin/services/gateway/history"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// observeArgs are the arguments of observe.
type observeArgs struct {
	What         history.What   `json:"what" enum:"what" default:"status"`
	App          string         `json:"app" max:"2048" jsonschema:"Only this app"`
	URL          string         `json:"url" max:"2048" jsonschema:"Only what has this in its URL (plain substring)"`
	SeverityMin  alert.Severity `json:"severity_min" enum:"severity" jsonschema:"Only this severity and above"`
	SinceSeconds int            `json:"since_seconds" min:"1" max:"604800" default:"600" jsonschema:"How far back; investigations: no bound unless given"`
	SinceGiven   bool           `json:"-" given:"since_seconds"`
	Limit        int            `json:"limit" min:"1" max:"200" default:"50"`
	WaitSeconds  int            `json:"wait_seconds" min:"0" max:"50" default:"0" jsonschema:"Hold the call until an alert is pending, at most this long"`
	Before       string         `json:"before" max:"2048" jsonschema:"Continue a list: truncated.before of an earlier answer for the same what"`
}

// query returns the query of history for the arguments.
func (a observeArgs) query(now time.Time) (q history.Query, err error) {
	q = history.Query{What: a.What, App: a.App, URL: a.URL, MinRank: a.SeverityMin.Rank(), Limit: a.Limit}
	if a.What == history.Errors {
		q.MinRank = alert.Error.Rank()
	}
	if a.Before != "" {
		if q.Before, err = history.ParseCursor(a.Before, a.What); err != nil {
			return q, err
		}
	}
	since := time.Duration(a.SinceSeconds) * time.Second
	if a.What == history.Investigations && !a.SinceGiven { // the newest: the last minutes may have none
		since = 0
	}
	return q.Since(since, now), nil
}

// observe answers the query and delivers the pending alerts. An error of the bus or the
// detector is in the first block: alerts that are in the inbox already are delivered all
// the same.
func (s *server) observe(ctx context.Context, args observeArgs, c call) (answer, error) {
	if _, err := args.query(time.Now()); err != nil {
		return nil, err
	}
	s.alerts.WaitForPast(ctx)
	s.alerts.DiscardDelivered(ctx)
	wait := time.Duration(args.WaitSeconds) * time.Second
	for until := time.Now().Add(wait); ; {
		held, err := s.hold(ctx, until, wait, c.progress)
		if err != nil {
			return nil, err
		}
		blocks, err := s.readAndTake(ctx, args, c.gone)
		// Another call, or another reader of the client, may have been faster.
		if err != nil || len(blocks) > 1 || held != delivery.AlertPending || !time.Now().Before(until) {
			return blocks, err
		}
	}
}

// readAndTake answers the query and takes the pending alerts.
func (s *server) readAndTake(ctx context.Context, args observeArgs, gone func() bool) (answer, error) {
	first, err := s.firstBlock(ctx, args)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // cancelled: no one would read the alerts
	}
	if gone() {
		return nil, errors.New("the client has closed the connection")
	}
	block, err := s.alerts.Take(ctx)
	if err != nil || block == "" {
		return answer{first}, err
	}
	return answer{first, block}, nil
}

// firstBlock answers the query.
func (s *server) firstBlock(ctx context.Context, args observeArgs) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, busclient.RequestTimeout)
	defer cancel()
	q, err := args.query(time.Now())
	if err != nil {
		return "", err
	}
	if q.What != history.Status {
		return s.history.Block(ctx, q)
	}
	return s.history.Status(ctx, q, func() (c history.Client, err error) {
		c.Name = s.alerts.Inbox()
		err = s.alerts.Do(func(state *delivery.State, _ time.Time) {
			c.Pending, c.Streaming = state.Inbox.Pending(), state.Notifier.Config().Enabled
		})
		return c, err
	})
}

// progressInterval is the time between two progress reports of a call that waits.
const progressInterval = 2 * time.Second

// hold returns why the call is held no longer: an alert is pending, the time is up, or
// the call has ended. report gets how much of the whole time has passed.
func (s *server) hold(ctx context.Context, until time.Time, whole time.Duration, report progress) (delivery.Outcome, error) {
	for {
		turn := time.Until(until)
		if report != nil {
			turn = min(turn, progressInterval)
		}
		outcome, err := s.alerts.Wait(ctx, 0, turn)
		rest := time.Until(until)
		switch {
		case err != nil || outcome == delivery.CallEnded || outcome == delivery.TimeUp && rest <= 0:
			return outcome, err
		case outcome == delivery.TimeUp:
			report((whole - rest).Round(progressInterval/4), whole)
		case s.alerts.DiscardDelivered(ctx) > 0:
			return delivery.AlertPending, nil
		}
	}
}
