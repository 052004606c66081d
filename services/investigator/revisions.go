package investigator

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// reviser publishes the revision that brings an investigation to an alert, once. It is an
// [alertStore].
type reviser interface {
	Revise(ctx context.Context, a alert.Alert, inv alert.Investigation) error
	// ReviseWhile is Revise of a revision that is only published while wanted reports true.
	ReviseWhile(ctx context.Context, a alert.Alert, inv alert.Investigation, wanted wanted) error
}

// wanted reports whether a revision is still to be published.
type wanted func(ctx context.Context) (bool, error)

// revisions brings what a session came to into its alert. Its methods may be called again for the
// same state: nothing is published twice.
type revisions struct {
	alerts reviser
	mask   *redact.Engine
	// sessionURL returns the address of a session.
	sessionURL func(id string) string
	// free frees a dedup_key, if the attempt of the session still owns it.
	free func(ctx context.Context, key, session string, attempt int) error
	// runs reports whether the attempt of a session is stored as one that has not ended.
	runs func(ctx context.Context, session string, attempt int) (bool, error)
}

// Started publishes that the investigation of the session's alert has begun. It is a hook of a
// worker.
func (r *revisions) Started(ctx context.Context, s *session.Session) error {
	a := s.Submitted().Alert
	if s.Ended() || a == nil {
		return nil
	}
	// A worker that was held up may come here after another one has ended the session.
	id, attempt := s.ID(), s.Attempt()
	return r.alerts.ReviseWhile(ctx, *a, r.investigation(s), func(ctx context.Context) (bool, error) { return r.runs(ctx, id, attempt) })
}

// Ended frees the session's dedup_key, and publishes what the session came to. It is a hook of a
// worker, called after the end was stored.
func (r *revisions) Ended(ctx context.Context, s *session.Session) error {
	if !s.Ended() { // it was retried meanwhile
		return nil
	}
	if key := s.Submitted().DedupKey; key != "" {
		if err := r.free(ctx, key, s.ID(), s.Attempt()); err != nil {
			return fmt.Errorf("free the dedup_key of session %s: %w", s.ID(), err)
		}
	}
	return r.revise(ctx, s)
}

// Skipped publishes that an alert was not investigated, and why.
func (r *revisions) Skipped(ctx context.Context, a alert.Alert, reason string) error {
	return r.alerts.Revise(ctx, a, alert.Investigation{Status: alert.InvestigationSkipped, Reason: conclusion.Summary(reason, r.mask)})
}

func (r *revisions) revise(ctx context.Context, s *session.Session) error {
	a := s.Submitted().Alert
	if a == nil {
		return nil
	}
	return r.alerts.Revise(ctx, *a, r.investigation(s))
}

func (r *revisions) investigation(s *session.Session) alert.Investigation {
	inv := investigationOf(s, r.mask)
	inv.URL = r.sessionURL(s.ID())
	return inv
}

// investigationStatus is the status of a session as its alert shows it. A session that has not
// ended is in progress.
func investigationStatus(s session.Status) alert.InvestigationStatus {
	switch s {
	case session.StatusCompleted:
		return alert.InvestigationCompleted
	case session.StatusFailed:
		return alert.InvestigationFailed
	case session.StatusTimedOut:
		return alert.InvestigationTimedOut
	case session.StatusCancelled:
		return alert.InvestigationCancelled
	default:
		return alert.InvestigationInProgress
	}
}

// investigationOf returns what an alert shows of a session. The summary of a session whose
// executive summary failed is the cause in its conclusion.
func investigationOf(s *session.Session, mask *redact.Engine) alert.Investigation {
	inv := alert.Investigation{SessionID: s.ID(), Status: investigationStatus(s.Status())}
	if s.Attempt() > 1 {
		inv.Attempt = s.Attempt()
	}
	if !s.Ended() {
		return inv
	}
	outcome := session.Summary(s)
	if outcome.ExecutiveSummary != nil {
		inv.Summary = conclusion.Summary(*outcome.ExecutiveSummary, mask)
	}
	if outcome.ErrorMessage != nil {
		inv.Reason = conclusion.Summary(*outcome.ErrorMessage, mask)
	}
	if inv.Status != alert.InvestigationCompleted {
		return inv
	}
	var c conclusion.Conclusion
	if json.Unmarshal(s.Conclusion(), &c) != nil { // there is none
		return inv
	}
	inv.Confidence = alert.Confidence(c.Confidence)
	if inv.Summary == "" {
		inv.Summary = conclusion.Summary(c.Cause, mask)
	}
	// The error is why a suggestion stays out of the alert; the session shows it.
	if change, err := conclusion.PublishedChange(c, mask); err == nil && change != nil {
		inv.SuggestedChange = &alert.SuggestedChange{File: change.File, Description: change.Description}
	}
	return inv
}
