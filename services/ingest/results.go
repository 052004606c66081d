package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// decodedResult is the CI result of a body.
type decodedResult struct {
	result ci.Result
	// deliveries are the subjects that identify this delivery if it is repeated: one with
	// its id and, if it is signed, one with its body. See
	// bus.DeliverySubject and bus.BodySubject. Without any, every delivery is stored.
	deliveries []string
	// ignored is the reason, for the sender, why the body has no result. It is empty if the
	// body has one.
	ignored string
	// answer is the answer once the result is stored. If it is nil, it is {"ok":true}.
	answer *httpserve.Answer
}

// receiveResult decodes, cleans and stores one CI result. It answers once the result is
// stored, and as a duplicate if its delivery was stored before.
func (h *handler) receiveResult(r *http.Request, s *sender) (httpserve.Answer, error) {
	prepared, release, err := receive(h, r, s.bodies, func(b *body) (preparedResult, error) {
		decoded, err := s.result(r, b)
		if err != nil || decoded.ignored != "" {
			return preparedResult{decodedResult: decoded}, err
		}
		return h.prepareResult(decoded)
	})
	if err != nil {
		return httpserve.Answer{}, err
	}
	defer release()
	if prepared.ignored != "" {
		return answerIgnored(prepared.ignored), nil
	}
	for _, subject := range prepared.deliveries {
		switch known, err := h.sink.Delivered(r.Context(), subject); {
		case err != nil:
			return httpserve.Answer{}, refusePublish(err)
		case known:
			return answerDuplicate(), nil
		}
	}
	if err := h.storeResult(r.Context(), prepared); err != nil {
		return httpserve.Answer{}, refusePublish(err)
	}
	h.metrics.ciResults.WithLabelValues(prepared.result.Status).Inc()
	h.accepted()
	if prepared.answer != nil {
		return *prepared.answer, nil
	}
	return httpserve.OK(), nil
}

// storeResult writes a result, and after it the subjects of its delivery: if those were written
// first and the result was not, a repeated delivery would count as a duplicate and be lost.
func (h *handler) storeResult(ctx context.Context, p preparedResult) error {
	if err := h.publish(ctx, p.log); err != nil {
		return err
	}
	if err := h.sink.Show(ctx, p.view); err != nil {
		return err
	}
	if len(p.deliveries) == 0 {
		return nil
	}
	notes := make([]*nats.Msg, len(p.deliveries))
	for i, subject := range p.deliveries {
		notes[i] = &nats.Msg{Subject: subject}
	}
	return h.publish(ctx, notes...)
}

// preparedResult is a result and the messages that store it.
type preparedResult struct {
	decodedResult
	resultMessages
}

// prepareResult validates, cleans and encodes a result.
func (h *handler) prepareResult(decoded decodedResult) (preparedResult, error) {
	if err := decoded.result.Validate(); err != nil {
		return preparedResult{}, err
	}
	cleanResult(&decoded.result, h.masker)
	messages, err := messagesOfResult(decoded.result)
	if err != nil {
		return preparedResult{}, httpserve.Refuse(http.StatusInternalServerError, err.Error())
	}
	return preparedResult{decoded, messages}, nil
}

// resultMessages store one result: first in the detector's log, then in the view of the
// newest results.
type resultMessages struct{ log, view *nats.Msg }

func messagesOfResult(result ci.Result) (resultMessages, error) {
	data, _, err := ci.Encode(result)
	if err != nil {
		return resultMessages{}, err
	}
	subject := bus.CIResultSubject(result.Source, commitToken(result), result.Name, result.Status)
	return resultMessages{
		log:  &nats.Msg{Subject: bus.SubjectIntakeCI, Data: data},
		view: &nats.Msg{Subject: subject, Data: data},
	}, nil
}

// commitToken returns the commit of a result. Without one it is the ref and a digest of ref and URL:
// URLs of runs differ only at their end, which a subject token would cut off.
func commitToken(r ci.Result) string {
	if r.Commit != "" {
		return r.Commit
	}
	sum := sha256.Sum256([]byte(r.Ref + "\x00" + r.URL))
	ref := bus.Token(r.Ref)
	return ref[:min(len(ref), 40)] + "-" + hex.EncodeToString(sum[:8])
}

// Bounds of a result's texts, in characters.
const (
	maxSummary     = 8 << 10
	maxFailureName = 1 << 10
	maxFailureText = 8 << 10
)

// cleanResult removes hidden characters, masks secrets and cuts texts.
func cleanResult(r *ci.Result, m Masker) {
	eachResultText(r, func(s *string, _ int) { *s = sanitize.Strip(*s) })
	m.Result(r)
	eachResultText(r, func(s *string, limit int) { *s = sanitize.Cut(*s, limit) })
}

func eachResultText(r *ci.Result, visit func(text *string, limit int)) {
	visit(&r.Ref, maxName)
	visit(&r.Commit, maxName)
	visit(&r.Name, maxName)
	visit(&r.Summary, maxSummary)
	visit(&r.URL, maxURL)
	for i := range r.Failures {
		visit(&r.Failures[i].Name, maxFailureName)
		visit(&r.Failures[i].Message, maxFailureText)
	}
}
