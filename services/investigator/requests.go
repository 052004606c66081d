package investigator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/namespaces"
	"github.com/tocsin-bus/tocsin/shared/presence"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// Bounds of the requests of gateways that one investigator answers at once.
const (
	// maxRequests is how many are under way. Beyond it they are refused.
	maxRequests = 128
	// maxWaiting is how many of them wait for the end of a session. Beyond it they are answered at
	// once, with a note.
	maxWaiting = 64
)

const (
	// submitTimeout bounds a submission, which may wait for another one with the same dedup_key.
	submitTimeout = reservationWait + 3*time.Second
	// readTimeout bounds reading a session, or a list of sessions.
	readTimeout = 3 * time.Second
)

// unknownClient is the author's name where a gateway names no client.
const unknownClient = "unknown"

// requests answers the requests of gateways on one connection to the bus: it submits, shows and
// lists sessions. Of several investigators one answers each request.
type requests struct {
	session *bus.Session
	backend *backend
	mask    *redact.Engine
	// sessionURL returns the address of a session.
	sessionURL func(id string) string
	log        *slog.Logger

	mu sync.Mutex
	// underWay and waiting count towards maxRequests and maxWaiting.
	underWay, waiting int
	// stopped means that no more requests are accepted.
	stopped bool
	ended   sync.WaitGroup
}

// endpoints returns what the requests are answered by. Their answers are due before ctx ends: then
// those that wait are answered at once.
func (r *requests) endpoints(ctx context.Context) []presence.Endpoint {
	return []presence.Endpoint{
		{Name: "submit", Subject: bus.SubjectInvestigateSubmit, Handle: handled(ctx, r, r.submit)},
		{Name: "get", Subject: bus.SubjectInvestigateGet, Handle: handled(ctx, r, r.get)},
		{Name: "list", Subject: bus.SubjectInvestigateList, Handle: handled(ctx, r, r.list)},
	}
}

// handled returns the handler of one kind of requests. micro handles one request at a time, and an
// answer may take long. So it is answered in a goroutine, without micro.
func handled[Q any](ctx context.Context, r *requests, answer func(context.Context, Q) (any, error)) micro.Handler {
	return micro.HandlerFunc(func(m micro.Request) {
		data, reply := m.Data(), m.Reply()
		refused := r.begin()
		if refused != nil {
			r.respond(reply, nil, refused)
			return
		}
		go func() {
			defer r.end()
			value, err := safely(r.log, func() (any, error) {
				var q Q
				if err := json.Unmarshal(data, &q); err != nil {
					return nil, badRequest("the request can't be read: %v", err)
				}
				return answer(ctx, q)
			})
			r.respond(reply, value, err)
		}()
	})
}

// safely returns an error for a panic of f, which would end the process.
func safely(log *slog.Logger, f func() (any, error)) (value any, err error) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("a request of a gateway can't be answered", "panic", p, "stack", string(debug.Stack()))
			err = httpserve.Refuse(http.StatusInternalServerError, "the request can't be answered: the investigator's log has the reason")
		}
	}()
	return f()
}

// begin counts a request, or refuses it.
func (r *requests) begin() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopped:
		return httpserve.Refuse(http.StatusServiceUnavailable, "the investigator is stopping").Retry(busRetry)
	case r.underWay == maxRequests:
		return httpserve.Refuse(http.StatusServiceUnavailable, fmt.Sprintf("the investigator is busy: %d requests are under way", maxRequests)).Retry(busRetry)
	}
	r.underWay++
	r.ended.Add(1)
	return nil
}

func (r *requests) end() {
	r.mu.Lock()
	r.underWay--
	r.mu.Unlock()
	r.ended.Done()
}

// stop refuses further requests, and waits until those under way are answered.
func (r *requests) stop() {
	r.mu.Lock()
	r.stopped = true
	r.mu.Unlock()
	r.ended.Wait()
}

func (r *requests) respond(reply string, value any, err error) {
	var refused *bus.RefusedError
	if err != nil {
		refusal := httpserve.AsRefusal(err)
		if refusal == nil {
			refusal = explain(err)
		}
		refused = &bus.RefusedError{
			Code: strconv.Itoa(refusal.Status), Text: cmp.Or(refusal.Text(), http.StatusText(refusal.Status)), RetryAfter: refusal.RetryAfter,
		}
	}
	if err := bus.Answer(r.session, reply, value, refused); err != nil {
		r.log.Warn("a request of a gateway could not be answered", "error", err)
	}
}

// submit has an alert investigated, by the same bounds and checks as POST /alerts.
func (r *requests) submit(ctx context.Context, q query.SubmitRequest) (any, error) {
	until, err := waitUntil(q.WaitSeconds)
	if err != nil {
		return nil, err
	}
	submitting, cancel := context.WithTimeout(ctx, submitTimeout)
	defer cancel()
	a, err := r.backend.submitter.Submit(submitting, Request{
		Chain: q.Chain, Data: string(q.Data), AlertID: q.AlertID, Author: mcpAuthor(q.Client),
	})
	if err != nil {
		return nil, err
	}
	inv, err := r.await(ctx, a.SessionID, until)
	if err != nil { // it is submitted all the same
		inv = query.Investigation{
			SessionID: a.SessionID, Status: string(session.StatusPending), URL: r.sessionURL(a.SessionID),
			Note: "The alert is submitted, but the session can't be read now: ask again with session_id.",
		}
	}
	inv.Joined = a.Joined()
	return inv, nil
}

func (r *requests) get(ctx context.Context, q query.SessionRequest) (any, error) {
	until, err := waitUntil(q.WaitSeconds)
	if err != nil {
		return nil, err
	}
	return r.await(ctx, q.SessionID, until)
}

// waitUntil returns when an answer is due that may wait for some seconds.
func waitUntil(seconds int) (time.Time, error) {
	if seconds < 0 || seconds > query.MaxWait {
		return time.Time{}, badRequest("wait_seconds must be between 0 and %d", query.MaxWait)
	}
	return time.Now().Add(time.Duration(seconds) * time.Second), nil
}

// await returns a session once it has ended, or as it is at a time.
func (r *requests) await(ctx context.Context, id string, until time.Time) (query.Investigation, error) {
	inv, ended, err := r.read(ctx, id)
	if err != nil || ended || !time.Now().Before(until) {
		return inv, err
	}
	if !r.beginWait() {
		inv.Note = fmt.Sprintf("The answer did not wait: %d other calls wait already. Ask again with session_id.", maxWaiting)
		return inv, nil
	}
	defer r.endWait()
	waiting, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	r.backend.index.awaitEnd(waiting, id)
	if ctx.Err() != nil {
		inv.Note = "The answer did not wait: the investigator is stopping. Ask again with session_id."
		return inv, nil
	}
	inv, _, err = r.read(ctx, id)
	return inv, err
}

func (r *requests) beginWait() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting == maxWaiting {
		return false
	}
	r.waiting++
	return true
}

func (r *requests) endWait() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting--
}

// read returns a session as it is stored now.
func (r *requests) read(ctx context.Context, id string) (inv query.Investigation, ended bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	err = r.backend.log.view(ctx, id, func(s *session.Session) error {
		inv, ended = sessionAnswer(s, r.mask), s.Ended()
		return nil
	})
	if errors.Is(err, errNoSession) {
		err = httpserve.Refuse(http.StatusNotFound, "there is no such session: session_id must be that of a session of the last "+r.backend.config().System.Retention.Sessions.String())
	}
	inv.URL = r.sessionURL(id)
	return inv, ended, err
}

// sessionAnswer returns what a gateway is answered about a session, without its address.
func sessionAnswer(s *session.Session, mask *redact.Engine) query.Investigation {
	shown := investigationOf(s, mask)
	inv := query.Investigation{
		SessionID: s.ID(), Status: string(s.Status()), Summary: shown.Summary, Error: shown.Reason, Alert: investigatedAlert(s.Submitted().Alert),
	}
	if s.Status() != session.StatusCompleted {
		return inv
	}
	var c conclusion.Conclusion
	if json.Unmarshal(s.Conclusion(), &c) == nil {
		c.SuggestedChange = nil
		if change := shown.SuggestedChange; change != nil {
			c.SuggestedChange = &conclusion.Change{File: change.File, Description: change.Description}
		}
		inv.Conclusion, _ = json.Marshal(c) // it has nothing that can't be encoded
	}
	if text := session.Summary(s).FinalAnalysis; text != nil && !c.Structured {
		inv.Analysis = sanitize.Cut(mask.String(*text), query.MaxAnalysis)
	}
	return inv
}

// investigatedAlert returns what identifies an alert, or nil for nil.
func investigatedAlert(a *alert.Alert) *query.InvestigatedAlert {
	if a == nil {
		return nil
	}
	return &query.InvestigatedAlert{ID: a.AsOriginal().ID, App: a.App, Title: a.Title, DedupKey: a.DedupKey}
}

// list returns the newest sessions.
func (r *requests) list(ctx context.Context, q query.SessionsRequest) (any, error) {
	shown, err := namespaces.New(q.Namespaces)
	if err != nil {
		return nil, badRequest("namespaces %v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	if err := r.backend.index.await(ctx); err != nil {
		return nil, err
	}
	limit := min(cmp.Or(max(q.Limit, 0), query.DefaultLimit), query.MaxLimit)
	found := r.backend.index.newest(q, shown)
	reply := query.SessionsReply{Sessions: []query.SessionEntry{}}
	size := 0
	for _, e := range found {
		if len(reply.Sessions) == limit {
			break
		}
		entry := r.entryOf(e)
		data, err := json.Marshal(entry)
		if err != nil {
			return nil, fmt.Errorf("encode session %s: %w", e.item.ID, err)
		}
		if size += len(data) + 1; size > query.MaxReply {
			break
		}
		reply.Sessions = append(reply.Sessions, entry)
	}
	reply.Older = min(len(found)-len(reply.Sessions), query.MaxOlder)
	return reply, nil
}

func (r *requests) entryOf(e *indexed) query.SessionEntry {
	entry := query.SessionEntry{
		SessionID: e.item.ID, Status: string(e.item.Status), Alert: e.alert, Chain: e.item.ChainID, Author: e.item.Author,
		Created: time.Time(e.item.CreatedAt), Completed: endOf(e.item), URL: r.sessionURL(e.item.ID),
	}
	if text := e.item.ExecutiveSummary; text != nil {
		entry.Summary = conclusion.Summary(*text, r.mask)
	}
	if text := e.item.ErrorMessage; text != nil {
		entry.Error = conclusion.Summary(*text, r.mask)
	}
	return entry
}

// newest returns the sessions that a request selects and whose alerts are shown, the newest first.
// Those that are open are never too old. Where some namespaces are not shown, a session without an
// alert may be about any of them.
func (x *index) newest(q query.SessionsRequest, shown namespaces.Set) []*indexed {
	var found []*indexed
	x.mu.Lock()
	for id, e := range x.entries {
		switch {
		case q.Before != "" && id >= q.Before,
			q.App != "" && (e.alert == nil || e.alert.App != q.App),
			shown.Limited() && (e.alert == nil || !shown.ShowsKey(e.alert.DedupKey)),
			e.state == nil && endOf(e.item).Before(q.Since):
		default:
			found = append(found, e)
		}
	}
	x.mu.Unlock()
	slices.SortFunc(found, func(a, b *indexed) int { return cmp.Compare(b.item.ID, a.item.ID) })
	return found
}

// awaitEnd waits until a session has ended, or ctx ends.
func (x *index) awaitEnd(ctx context.Context, id string) {
	for {
		x.mu.Lock()
		e, moved := x.entries[id], x.moved
		ended := e != nil && e.state == nil
		x.mu.Unlock()
		if ended {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-moved:
		}
	}
}

// openCounts returns how many sessions wait for a worker, and how many have begun and not ended.
func (x *index) openCounts() (queued, running int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.entries {
		switch {
		case e.state == nil:
		case e.item.Status == session.StatusPending:
			queued++
		default:
			running++
		}
	}
	return queued, running
}

// mcpAuthor returns the author of a session that an MCP client submits.
func mcpAuthor(client string) string {
	name := strings.TrimSpace(sanitize.Visible(strings.TrimSpace(client)))
	return AuthorMCP + sanitize.Cut(cmp.Or(name, unknownClient), maxAuthor-len(AuthorMCP))
}
