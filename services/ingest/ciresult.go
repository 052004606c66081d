package ingest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/untrusted"
)

const (
	// maxResult is the largest message of a CI result, in bytes: below the
	// largest that a NATS server takes by default. Above it failures lose their
	// messages, then the last ones go.
	maxResult = 900 << 10
	// shortFailure is what such a message keeps, in characters.
	shortFailure = 80
)

// ciResult takes one CI result.
func (h *handler) ciResult(r *http.Request) reply {
	media, refusal, ok := contentType(r, typeJSON, typeNDJSON, typeText)
	if !ok {
		return refusal
	}
	b, refusal, ok := h.read(r)
	if !ok {
		return refusal
	}
	defer b.release()
	result, writes, refusal, ok := h.prepareResult(r, media, b.data)
	if !ok {
		return refusal
	}
	if err := h.publish(r.Context(), writes.log); err != nil {
		return refusePublish(err)
	}
	if err := h.sink.Show(r.Context(), writes.view); err != nil {
		return refusePublish(err)
	}
	h.metrics.ciResults.WithLabelValues(result.Status).Inc()
	h.accepted()
	return okReply()
}

func (h *handler) prepareResult(r *http.Request, media string, data []byte) (ci.Result, resultWrites, reply, bool) {
	done, err := h.work(r.Context())
	if err != nil {
		return ci.Result{}, resultWrites{}, refusePublish(err), false
	}
	defer done()
	if data = bytes.TrimSpace(data); len(data) == 0 {
		return ci.Result{}, resultWrites{}, refuse(http.StatusBadRequest, "the body is empty: send one CI result, a JSON object with status"), false
	}
	if media == typeNDJSON && bytes.ContainsRune(data, '\n') {
		return ci.Result{}, resultWrites{}, refuse(http.StatusBadRequest, "send one CI result, on one line"), false
	}
	result, err := ci.Decode(data)
	if err != nil {
		return ci.Result{}, resultWrites{}, refuse(http.StatusBadRequest, err.Error()), false
	}
	cleanResult(&result, h.masker)
	writes, err := writesOf(result)
	if err != nil {
		return ci.Result{}, resultWrites{}, refuse(http.StatusInternalServerError, err.Error()), false
	}
	return result, writes, reply{}, true
}

// resultWrites are the writes of one result: first the detector's log, then the
// view of the newest.
type resultWrites struct{ log, view *nats.Msg }

func writesOf(result ci.Result) (resultWrites, error) {
	data, err := encodeResult(result)
	if err != nil {
		return resultWrites{}, err
	}
	subject := bus.CIResultSubject(result.Source, commitToken(result), result.Name, result.Status)
	return resultWrites{
		log:  &nats.Msg{Subject: bus.SubjectIntakeCI, Data: data},
		view: &nats.Msg{Subject: subject, Data: data},
	}, nil
}

// commitToken is the commit, or what stands in for it: the ref, and a digest of
// ref and URL, because URLs of runs differ only at their end, which a subject
// token would lose.
func commitToken(r ci.Result) string {
	if r.Commit != "" {
		return r.Commit
	}
	sum := sha256.Sum256([]byte(r.Ref + "\x00" + r.URL))
	ref := bus.Token(r.Ref)
	return ref[:min(len(ref), 40)] + "-" + hex.EncodeToString(sum[:8])
}

func encodeResult(result ci.Result) ([]byte, error) {
	for short := false; ; {
		data, err := json.Marshal(result)
		if err != nil {
			return nil, fmt.Errorf("encode the CI result: %w", err)
		}
		switch {
		case len(data) <= maxResult:
			return data, nil
		case !short:
			short = true
			for i := range result.Failures {
				f := &result.Failures[i]
				f.Name, f.Message = untrusted.Cut(f.Name, shortFailure), untrusted.Cut(f.Message, shortFailure)
			}
		default:
			result.Failures = result.Failures[:len(result.Failures)/2]
		}
	}
}

// Bounds of a result's texts, in characters.
const (
	maxSummary     = 8 << 10
	maxFailureName = 1 << 10
	maxFailureText = 8 << 10
)

// cleanResult makes a result fit to be stored: visible, masked, bounded.
func cleanResult(r *ci.Result, m Masker) {
	eachResultText(r, func(s *string, _ int) { *s = untrusted.Strip(*s) })
	m.Result(r)
	eachResultText(r, func(s *string, limit int) { *s = untrusted.Cut(*s, limit) })
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
