package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/services/gateway/busclient"
	"github.com/tocsin-bus/tocsin/services/gateway/history"
	"github.com/tocsin-bus/tocsin/services/gateway/truncate"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/display"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// submitTime is how long an investigator may take to store a session: it may wait for
	// another submission with the same dedup_key.
	submitTime = 14 * time.Second
	// fromModel marks texts that a model wrote.
	fromModel = "model"
)

// investigateArgs are the arguments of investigate.
type investigateArgs struct {
	AlertID     string `json:"alert_id" max:"2048" jsonschema:"The id of an alert to investigate"`
	Data        string `json:"data" max:"1048576" object:"true" jsonschema:"Or what is known of a problem"`
	Chain       string `json:"chain" max:"200" jsonschema:"Chain of agents; default: that of the default alert type"`
	SessionID   string `json:"session_id" max:"64" jsonschema:"Or an earlier investigation, to read it"`
	WaitSeconds int    `json:"wait_seconds" min:"0" max:"50" default:"0" jsonschema:"Hold the call until the investigation ends, at most this long"`
}

// check returns an error unless the arguments name one thing to investigate or to read.
func (a investigateArgs) check() error {
	given := 0
	for _, text := range []string{a.AlertID, a.Data, a.SessionID} {
		if text != "" {
			given++
		}
	}
	switch {
	case given != 1:
		return errors.New("name one of alert_id, data and session_id")
	case a.SessionID != "" && a.Chain != "":
		return errors.New("chain is for alert_id and data: a session has its chain already")
	}
	return nil
}

// investigationReply is the answer of investigate.
type investigationReply struct {
	SessionID string `json:"session_id"`
	Status    string `json:"status"`
	// Summary and Conclusion are null before the end.
	Summary    *string `json:"summary"`
	Conclusion any     `json:"conclusion"`
	// Analysis is what the agent wrote where it gave no structured conclusion.
	Analysis string `json:"analysis,omitempty"`
	Error    string `json:"error,omitempty"`
	URL      string `json:"url"`
	Joined   bool   `json:"joined,omitempty"`
	Note     string `json:"note,omitempty"`
	// From is model where a model wrote the texts.
	From string `json:"from,omitempty"`
}

// investigate submits an alert to an investigator, or reads a session.
func (s *server) investigate(ctx context.Context, args investigateArgs, c call) (answer, error) {
	if err := args.check(); err != nil {
		return nil, err
	}
	if args.AlertID != "" && s.cfg.Kubernetes.Namespaces.Limited() {
		if _, err := s.lifecycle(ctx, args.AlertID); err != nil {
			return nil, errNotShown(err)
		}
	}
	wait := time.Duration(args.WaitSeconds) * time.Second
	ctx, cancel := context.WithTimeout(ctx, max(wait, submitTime)+busclient.RequestTimeout)
	defer cancel()
	var inv query.Investigation
	var err error
	reportWhile(c.progress, wait, func() { inv, err = s.askInvestigator(ctx, args) })
	if err != nil {
		return nil, s.explainInvestigator(ctx, args, err)
	}
	if !s.history.ShowsSession(inv) {
		return nil, errors.New("there is no such session")
	}
	return s.encodeInvestigation(inv)
}

// errNotShown returns the error for an alert that can't be read.
func errNotShown(err error) error {
	if errors.Is(err, history.ErrNoSuchAlert) {
		return errors.New(`alert_id must be the id of an alert of the last 7 days: observe {"what":"alerts","since_seconds":604800} shows them`)
	}
	return err
}

func (s *server) askInvestigator(ctx context.Context, args investigateArgs) (query.Investigation, error) {
	if args.SessionID != "" {
		return busclient.AskInvestigator[query.Investigation](ctx, s.bus, bus.SubjectInvestigateGet, query.SessionRequest{
			SessionID: args.SessionID, WaitSeconds: args.WaitSeconds,
		})
	}
	return busclient.AskInvestigator[query.Investigation](ctx, s.bus, bus.SubjectInvestigateSubmit, query.SubmitRequest{
		Client: cmp.Or(s.cfg.Client, s.peer().name), AlertID: args.AlertID, Data: []byte(args.Data), Chain: args.Chain, WaitSeconds: args.WaitSeconds,
	})
}

// explainInvestigator returns an error of a request to an investigator in words for the model.
func (s *server) explainInvestigator(ctx context.Context, args investigateArgs, err error) error {
	var refused *bus.RefusedError
	switch {
	case errors.As(err, &refused) && refused.RetryAfter > 0:
		return fmt.Errorf("%w; try again in %d s", err, refused.RetryAfter)
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("data has %d bytes, which do not fit in one message of this bus: shorten it, or send it to POST /api/v1/alerts of the investigator", len(args.Data))
	case errors.Is(err, busclient.ErrNoInvestigator) && args.SessionID == "" && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf(`%w; the alert may be submitted all the same: observe {"what":"investigations"} shows it`, err)
	default:
		return err
	}
}

// encodeInvestigation returns a session as one block of at most [history.MaxBlock] bytes. Its texts
// come from models and from what they read: they are masked again, and cut where they are too long.
func (s *server) encodeInvestigation(inv query.Investigation) (answer, error) {
	line := func(text string) string { return sanitize.Visible(s.mask.String(text)) }
	reply := investigationReply{
		SessionID: line(inv.SessionID), Status: line(inv.Status), Error: line(inv.Error), URL: line(inv.URL), Joined: inv.Joined, Note: line(inv.Note),
		Analysis: sanitize.Strip(s.mask.String(inv.Analysis)),
	}
	if inv.Summary != "" {
		summary := line(inv.Summary)
		reply.Summary = &summary
	}
	if inv.Conclusion != nil {
		if err := json.Unmarshal(inv.Conclusion, &reply.Conclusion); err != nil {
			return nil, fmt.Errorf("decode the conclusion of the investigator: %w", err)
		}
		reply.Conclusion = display.Value(reply.Conclusion, s.mask)
		if members, ok := reply.Conclusion.(map[string]any); ok {
			if change, ok := members["suggested_change"].(map[string]any); ok {
				change["from"] = fromModel
			}
		}
	}
	if reply.Summary != nil || reply.Conclusion != nil || reply.Analysis != "" {
		reply.From = fromModel
	}
	switch inv.Status {
	case "pending", "in_progress", "cancelling":
		reply.Note = cmp.Or(reply.Note, "The investigation has not ended: call investigate again with session_id.")
	}
	blocks, err := truncate.Encode([]investigationReply{reply})
	if err != nil {
		return nil, err
	}
	return answer{string(truncate.Object(blocks[0], history.MaxBlock))}, nil
}

// reportWhile calls f, and reports progress until it returns. report may be nil.
func reportWhile(report progress, whole time.Duration, f func()) {
	if report == nil {
		f()
		return
	}
	begun, done := time.Now(), make(chan struct{})
	go func() { defer close(done); f() }()
	tick := time.NewTicker(progressInterval)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			past := time.Since(begun).Round(progressInterval / 4)
			report(past, max(whole, past))
		}
	}
}
