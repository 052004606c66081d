package investigator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

const (
	defaultEvents = 500
	maxEvents     = 1000
)

// pagination says where a page stands.
type pagination struct {
	Page       int `json:"page"`
	PageSize   int `json:"page_size"`
	TotalPages int `json:"total_pages"`
	TotalItems int `json:"total_items"`
}

func (h *handler) list(r *http.Request, b *backend) (any, error) {
	q, err := parseListQuery(r.URL.Query())
	if err != nil {
		return nil, err
	}
	if err := b.index.await(r.Context()); err != nil {
		return nil, err
	}
	items, total := b.index.page(q)
	return struct {
		Sessions   []*session.Item `json:"sessions"`
		Pagination pagination      `json:"pagination"`
	}{items, pagination{q.page, q.pageSize, (total + q.pageSize - 1) / q.pageSize, total}}, nil
}

func (h *handler) active(r *http.Request, b *backend) (any, error) {
	if err := withoutParameters(r); err != nil {
		return nil, err
	}
	if err := b.index.await(r.Context()); err != nil {
		return nil, err
	}
	active, queued := b.index.open()
	return struct {
		Active []*session.Item `json:"active"`
		Queued []queuedItem    `json:"queued"`
	}{orEmpty(active), orEmpty(queued)}, nil
}

func (h *handler) filterOptions(r *http.Request, b *backend) (any, error) {
	if err := withoutParameters(r); err != nil {
		return nil, err
	}
	if err := b.index.await(r.Context()); err != nil {
		return nil, err
	}
	types, chains := []string{}, []string{}
	for _, it := range b.index.all(nil) {
		types, chains = append(types, it.AlertType), append(chains, it.ChainID)
	}
	slices.Sort(types)
	slices.Sort(chains)
	return struct {
		AlertTypes []string         `json:"alert_types"`
		ChainIDs   []string         `json:"chain_ids"`
		Statuses   []session.Status `json:"statuses"`
	}{slices.Compact(types), slices.Compact(chains), statuses}, nil
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func withoutParameters(r *http.Request) error {
	_, err := parametersOf(r.URL.Query())
	return err
}

// viewer returns what shows one session. load reads its long texts.
type viewer func(s *session.Session, p parameters, load session.Load) (any, error)

// show answers with a view of the session in the path.
func (h *handler) show(view viewer, known ...string) func(*http.Request, *backend) (any, error) {
	return func(r *http.Request, b *backend) (answer any, err error) {
		ctx, id := r.Context(), r.PathValue("id")
		load := func(t session.Text) (string, error) {
			text, err := b.texts.Get(ctx, id, t.Object)
			return string(text), err
		}
		err = b.log.view(ctx, id, func(s *session.Session) error {
			p, err := parametersOf(r.URL.Query(), known...)
			if err != nil {
				return err
			}
			if answer, err = view(s, p, load); err != nil {
				return err
			}
			// Encoded here, because a view may share what the session changes.
			answer, err = encode(answer)
			return err
		})
		return answer, explainSession(err)
	}
}

func encode(value any) (json.RawMessage, error) {
	answer, err := httpserve.JSON(http.StatusOK, value)
	return answer.Body, err
}

// explainSession returns the refusal for a session that does not exist.
func explainSession(err error) error {
	if errors.Is(err, errNoSession) {
		return httpserve.Refuse(http.StatusNotFound, errNoSession.Error())
	}
	return err
}

func detail(s *session.Session, _ parameters, load session.Load) (any, error) {
	d := session.DetailOf(s, load)
	return struct {
		session.Detail
	}{d}, nil
}

func summary(s *session.Session, _ parameters, _ session.Load) (any, error) {
	return session.Summary(s), nil
}

func timeline(s *session.Session, p parameters, _ session.Load) (any, error) {
	after, err := p.number("after", 0, 0, int(^uint(0)>>1))
	if err != nil {
		return nil, err
	}
	limit, err := p.number("limit", defaultEvents, 1, maxEvents)
	if err != nil {
		return nil, err
	}
	return session.Timeline(s, int64(after), limit), nil
}

func trace(s *session.Session, _ parameters, _ session.Load) (any, error) {
	return session.Trace(s), nil
}

// errNoInteraction refuses an id that is not of the session.
func errNoInteraction() error {
	return httpserve.Refuse(http.StatusNotFound, "the session has no such interaction")
}

func (h *handler) llmInteraction(r *http.Request, b *backend) (any, error) {
	return h.show(func(s *session.Session, _ parameters, _ session.Load) (any, error) {
		d, ok := session.LLMInteractionOf(s, r.PathValue("iid"))
		if !ok {
			return nil, errNoInteraction()
		}
		return d, nil
	})(r, b)
}

func (h *handler) mcpInteraction(r *http.Request, b *backend) (any, error) {
	return h.show(func(s *session.Session, _ parameters, load session.Load) (any, error) {
		d, ok := session.MCPInteractionOf(s, r.PathValue("iid"), load)
		if !ok {
			return nil, errNoInteraction()
		}
		return d, nil
	})(r, b)
}

// changed is the answer to a change of a session.
type changed struct {
	SessionID string `json:"session_id"`
	Message   string `json:"message"`
}

func (h *handler) cancel(r *http.Request, b *backend) (httpserve.Answer, error) {
	author, err := h.checkChange(r)
	if err != nil {
		return httpserve.Answer{}, err
	}
	id := r.PathValue("id")
	message, err := b.cancel(r.Context(), id, author)
	if err != nil {
		return httpserve.Answer{}, explainSession(err)
	}
	return httpserve.JSON(http.StatusOK, changed{id, message})
}

// cancel cancels a session, and returns what that led to.
func (b *backend) cancel(ctx context.Context, id, by string) (message string, err error) {
	var ended bool
	err = b.log.change(ctx, id, func(s *session.Session) ([]session.Fact, error) {
		facts, err := session.Cancel(s, by, "cancelled by "+by)
		if errors.Is(err, session.ErrEnded) {
			return nil, httpserve.Refuse(http.StatusConflict, fmt.Sprintf("the session has ended: it is %s", s.Status()))
		}
		ended = slices.ContainsFunc(facts, func(f session.Fact) bool { return f.Ended != nil })
		message = "The session is being cancelled."
		if ended {
			message = "The session was cancelled before it started."
		}
		return facts, err
	})
	if err == nil && ended {
		// The worker that finds the session ended does the same, but only once it has a place for it.
		if err := b.log.view(ctx, id, func(s *session.Session) error { return b.revisions.Ended(ctx, s) }); err != nil {
			b.logger.Info("what follows from the cancellation of a session is done by the worker that finds it cancelled", "session", id, "error", err)
		}
	}
	return message, err
}

func (h *handler) retry(r *http.Request, b *backend) (httpserve.Answer, error) {
	author, err := h.checkChange(r)
	if err != nil {
		return httpserve.Answer{}, err
	}
	id := r.PathValue("id")
	if err := b.retry(r.Context(), id, author); err != nil {
		return httpserve.Answer{}, explainSession(err)
	}
	return httpserve.JSON(http.StatusAccepted, changed{id, "The session is queued again; completed stages are kept."})
}

// retry makes a session that did not complete pending again.
func (b *backend) retry(ctx context.Context, id, by string) (err error) {
	conflict := func(format string, args ...any) error {
		return httpserve.Refuse(http.StatusConflict, fmt.Sprintf(format, args...))
	}
	var key string
	var attempt int
	if err := b.log.view(ctx, id, func(s *session.Session) error {
		key, attempt = s.Submitted().DedupKey, s.Attempt()+1
		if _, err := session.Retry(s, by, session.Plan{}); err != nil {
			return conflict("%s; this one is %s", session.ErrNotRetryable, s.Status())
		}
		return nil
	}); err != nil {
		return err
	}
	if key != "" {
		if err := b.submitter.reserveAgain(ctx, key, id, attempt); err != nil {
			return err
		}
	}
	err = b.log.change(ctx, id, func(s *session.Session) ([]session.Fact, error) {
		plan, err := b.planAgain(s)
		if err != nil {
			return nil, conflict("the session can't be started again: %s", err)
		}
		facts, err := session.Retry(s, by, plan)
		if err != nil {
			return nil, conflict("%s; this one is %s", session.ErrNotRetryable, s.Status())
		}
		if s.Attempt()+1 != attempt { // the reservation is for another one
			return nil, conflict("the session was started again meanwhile; it is %s", s.Status())
		}
		return facts, nil
	})
	if err != nil {
		if key != "" {
			b.submitter.freeUnlessOpen(ctx, key, id, attempt)
		}
		return err
	}
	return b.submitter.enqueue(ctx, id, attempt)
}

// planAgain resolves the configuration as it is now, with what the alert chose itself: its runbook
// and servers. A chain that is gone is chosen again by the alert's type.
func (b *backend) planAgain(s *session.Session) (session.Plan, error) {
	cfg := b.config()
	var selection struct {
		Servers []config.Selection `json:"servers"`
	}
	if raw := s.Submitted().Selection; raw != nil {
		if err := json.Unmarshal(raw, &selection); err != nil {
			return session.Plan{}, fmt.Errorf("read the session's servers: %w", err)
		}
	}
	request := config.PlanRequest{Chain: s.Plan().Chain, AlertType: s.Submitted().AlertType, Servers: selection.Servers, RunbookURL: s.Submitted().Runbook}
	plan, err := cfg.Plan(request)
	if errors.Is(err, config.ErrNoChain) {
		request.Chain = ""
		plan, err = cfg.Plan(request)
	}
	if err != nil {
		return session.Plan{}, err
	}
	return plan, b.submitter.maskPlan(&plan)
}

// checkChange checks a request that changes a session and has no content, and returns who makes
// it.
func (h *handler) checkChange(r *http.Request) (author string, err error) {
	if err := withoutParameters(r); err != nil {
		return "", err
	}
	body, err := readJSON(r, maxSmallBody, true)
	if err != nil {
		return "", err
	}
	if len(body) > 0 {
		if _, err := decodeObject(body); err != nil {
			return "", err
		}
	}
	return h.proxies.author(r)
}

// maxSmallBody bounds the body of a request that has no content of its own.
const maxSmallBody = 4 << 10
