package ingest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// outcome is what a body says of a run.
type outcome struct {
	result ci.Result
	// deliveries are the subjects by which this sending is known when it comes again:
	// that of its id and, where it is signed, that of its body. See
	// bus.DeliverySubject and bus.BodySubject. Without any, each is taken.
	deliveries []string
	// ignored says why there is no result, and is told to the sender.
	ignored string
	// answer is what the sender is told once the result is stored, or nil.
	answer *reply
}

// ciResult takes one CI result.
func (h *handler) ciResult(r *http.Request) reply {
	return h.takeResult(r, ours, func(media string, data []byte) (outcome, error) {
		if data = bytes.TrimSpace(data); len(data) == 0 {
			return outcome{}, errors.New("the body is empty: send one CI result, a JSON object with status")
		}
		if media == typeNDJSON && bytes.ContainsRune(data, '\n') {
			return outcome{}, errors.New("send one CI result, on one line")
		}
		result, err := ci.Decode(data)
		return outcome{result: result}, err
	})
}

// takeResult serves a sender of CI results: it reads the body, has it decoded,
// and answers once the result is stored.
func (h *handler) takeResult(r *http.Request, d dialect, decode func(media string, data []byte) (outcome, error)) reply {
	said, release, refused, ok := decoded(h, r, d, func(media string, data []byte) (prepared, error) {
		said, err := decode(media, data)
		if err != nil || said.ignored != "" {
			return prepared{outcome: said}, err
		}
		return h.prepareResult(said)
	})
	if !ok {
		return refused
	}
	defer release()
	if said.ignored != "" {
		return ignoredReply(said.ignored)
	}
	for _, subject := range said.deliveries {
		switch taken, err := h.sink.Delivered(r.Context(), subject); {
		case err != nil:
			return refusePublish(err)
		case taken:
			return reply{status: http.StatusOK, body: []byte(`{"ok":true,"duplicate":true}`)}
		}
	}
	if err := h.publish(r.Context(), said.log); err != nil {
		return refusePublish(err)
	}
	if err := h.sink.Show(r.Context(), said.view); err != nil {
		return refusePublish(err)
	}
	// It is noted last: a delivery that was noted and not stored would be lost.
	// One that is stored and not noted only updates itself when it comes again.
	if notes := notesOf(said.deliveries); len(notes) > 0 {
		if err := h.publish(r.Context(), notes...); err != nil {
			return refusePublish(err)
		}
	}
	h.metrics.ciResults.WithLabelValues(said.result.Status).Inc()
	h.accepted()
	if said.answer != nil {
		return *said.answer
	}
	return okReply()
}

// notesOf makes the messages that note deliveries as taken.
func notesOf(deliveries []string) []*nats.Msg {
	notes := make([]*nats.Msg, len(deliveries))
	for i, subject := range deliveries {
		notes[i] = &nats.Msg{Subject: subject}
	}
	return notes
}

// prepared is an outcome and what is to be written of it.
type prepared struct {
	outcome
	resultWrites
}

func (h *handler) prepareResult(said outcome) (prepared, error) {
	if err := said.result.Validate(); err != nil {
		return prepared{}, err
	}
	cleanResult(&said.result, h.masker)
	writes, err := writesOf(said.result)
	if err != nil {
		return prepared{}, refusal{refuse(http.StatusInternalServerError, err.Error())}
	}
	return prepared{said, writes}, nil
}

// resultWrites are the writes of one result: first the detector's log, then the
// view of the newest.
type resultWrites struct{ log, view *nats.Msg }

func writesOf(result ci.Result) (resultWrites, error) {
	data, _, err := ci.Encode(result)
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

// Bounds of a result's texts, in characters.
const (
	maxSummary     = 8 << 10
	maxFailureName = 1 << 10
	maxFailureText = 8 << 10
)

// cleanResult makes a result fit to be stored: visible, masked, bounded.
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
