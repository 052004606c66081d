package investigator

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// prepare checks a request, and returns the first fact of its session without the id and the
// text. It sets the request's text and its dedup_key, both masked.
func (s *submitter) prepare(ctx context.Context, r *Request) (session.Submitted, error) {
	if err := checkRequest(r); err != nil {
		return session.Submitted{}, err
	}
	if err := s.checkNames(r.Servers); err != nil {
		return session.Submitted{}, err
	}
	cfg := s.config()
	alertType := r.AlertType
	if alertType == "" {
		alertType = cfg.Defaults.AlertType
	}
	plan, err := cfg.Plan(config.PlanRequest{Chain: r.Chain, AlertType: alertType, Servers: r.Servers, RunbookURL: r.Runbook})
	if err != nil {
		return session.Submitted{}, httpserve.Refuse(http.StatusBadRequest, err.Error())
	}
	stored, err := s.storedAlert(ctx, r)
	if err != nil {
		return session.Submitted{}, err
	}
	if stored != nil {
		text, err := json.Marshal(stored)
		if err != nil {
			return session.Submitted{}, fmt.Errorf("encode alert %s: %w", stored.ID, err)
		}
		r.Data = string(text)
		if r.DedupKey == "" {
			r.DedupKey = stored.DedupKey
		}
	}
	submitted := session.Submitted{
		AlertType: alertType, Author: r.Author, Selection: r.Selection, Fingerprint: r.Fingerprint, Runbook: r.Runbook, Plan: plan,
	}
	for _, text := range []*string{&r.Data, &submitted.AlertType, &submitted.Fingerprint, &submitted.Runbook} {
		if *text, err = s.masked(*text); err != nil {
			return session.Submitted{}, err
		}
	}
	if err := s.maskPlan(&submitted.Plan); err != nil {
		return session.Submitted{}, err
	}
	r.DedupKey = s.storedKey(r.DedupKey)
	submitted.DedupKey, submitted.Alert = r.DedupKey, s.maskedAlert(stored, r.Data)
	return submitted, nil
}

// checkNames refuses servers and tools whose names have a secret: a selection is stored as it was
// sent, and masked names would select nothing.
func (s *submitter) checkNames(servers []config.Selection) error {
	for i, server := range servers {
		for _, name := range append([]string{server.Name}, server.Tools...) {
			masked, err := s.masked(name)
			if err != nil {
				return err
			}
			if masked != name {
				return badRequest("mcp.servers[%d]: the name of the server or of one of its tools contains a secret, or what masking takes for one: it would be stored", i)
			}
		}
	}
	return nil
}

// maskPlan masks the texts of a plan that a model reads. They come from the configuration, or from
// the environment that it names.
func (s *submitter) maskPlan(plan *session.Plan) (err error) {
	texts := []*string{&plan.Runbook, &plan.RunbookURL}
	agent := func(a *session.Agent) {
		texts = append(texts, &a.Instructions)
		for i := range a.Servers {
			texts = append(texts, &a.Servers[i].Instructions)
		}
	}
	for _, stage := range plan.Stages {
		for i := range stage.Agents {
			agent(&stage.Agents[i])
		}
		if stage.Synthesis != nil {
			agent(stage.Synthesis)
		}
	}
	for _, text := range texts {
		if *text, err = s.masked(*text); err != nil {
			return err
		}
	}
	return nil
}

// storedKey returns a dedup_key as sessions store it.
func (s *submitter) storedKey(key string) string { return maskedKey(s.mask, key) }

// maskedKey returns a dedup_key as it is stored. One with a secret is masked, and begins with its
// digest: equal keys stay equal, and different ones different. Masking it again changes nothing.
func maskedKey(mask func(string) string, key string) (masked string) {
	sum := sha256.Sum256([]byte(key))
	// No pattern takes the parts for a secret.
	digest := fmt.Sprintf("%x-%x-%x-%x", sum[:4], sum[4:8], sum[8:12], sum[12:16])
	defer func() {
		if recover() != nil { // it can't be masked
			masked = digest
		}
	}()
	if masked = mask(key); masked == key {
		return key
	}
	return sanitize.Cut(digest+" "+masked, maxDedupKey)
}

// masked returns the masked text. What can't be masked is not stored.
func (s *submitter) masked(text string) (masked string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = httpserve.Refuse(http.StatusInternalServerError, "a text of the session can't be masked, so the session is not stored")
		}
	}()
	return s.mask(text), nil
}

// maskedAlert returns the alert with its texts masked. Where masking broke the JSON, only what
// identifies the alert is kept.
func (s *submitter) maskedAlert(a *alert.Alert, masked string) *alert.Alert {
	if a == nil {
		return nil
	}
	kept := &alert.Alert{}
	if json.Unmarshal([]byte(masked), kept) != nil {
		kept = &alert.Alert{}
	}
	kept.ID, kept.Severity, kept.Category, kept.Timestamp = a.ID, a.Severity, a.Category, a.Timestamp
	kept.Source, kept.App, kept.DedupKey, kept.CorrelationID = a.Source, a.App, s.storedKey(a.DedupKey), a.CorrelationID
	return kept
}

func checkRequest(r *Request) error {
	hasAlert := r.AlertID != "" || r.Alert != nil
	for _, text := range []struct{ name, value string }{
		{"alert_type", r.AlertType}, {"chain", r.Chain}, {"data", r.Data}, {"alert_id", r.AlertID}, {"runbook", r.Runbook},
		{"slack_message_fingerprint", r.Fingerprint}, {"dedup_key", r.DedupKey},
	} {
		if !utf8.ValidString(text.value) {
			return badRequest("%s is not UTF-8", text.name)
		}
	}
	switch {
	case r.Data == "" && !hasAlert:
		return badRequest("data or alert_id is missing: send the alert's data, or the id of a stored alert")
	case r.Data != "" && hasAlert:
		return badRequest("data and alert_id exclude each other: send one of them")
	case len(r.Data) > maxData:
		return httpserve.Refuse(http.StatusRequestEntityTooLarge, fmt.Sprintf("data has %d bytes, and may have %d", len(r.Data), maxData))
	case !hasAlert && isEmptyData(r.Data):
		return badRequest("data is empty: send what is known of the alert")
	case len(r.AlertType) > maxName:
		return badRequest("alert_type may have %d bytes", maxName)
	case len(r.Chain) > maxName:
		return badRequest("chain may have %d bytes", maxName)
	case len(r.DedupKey) > maxDedupKey:
		return badRequest("dedup_key may have %d bytes", maxDedupKey)
	case len(r.Fingerprint) > maxFingerprint:
		return badRequest("slack_message_fingerprint may have %d bytes", maxFingerprint)
	}
	return nil
}

func isEmptyData(text string) bool {
	text = strings.TrimSpace(text)
	if text == "" {
		return true
	}
	var object map[string]json.RawMessage
	return text[0] == '{' && len(text) < 100 && json.Unmarshal([]byte(text), &object) == nil && len(object) == 0
}

func badRequest(format string, args ...any) *Refusal {
	return httpserve.Refuse(http.StatusBadRequest, fmt.Sprintf(format, args...))
}

// storedAlert returns the alert that the request names, or nil.
func (s *submitter) storedAlert(ctx context.Context, r *Request) (*alert.Alert, error) {
	if r.Alert != nil {
		return r.Alert, nil
	}
	if r.AlertID == "" {
		return nil, nil
	}
	a, found, err := s.alerts(ctx, r.AlertID)
	if err != nil {
		return nil, fmt.Errorf("look up alert %s: %w", r.AlertID, err)
	}
	if !found {
		return nil, httpserve.Refuse(http.StatusNotFound, "there is no stored alert with this alert_id")
	}
	return &a, nil
}
