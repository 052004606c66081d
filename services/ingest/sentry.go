package ingest

import (
	"net/http"
	"strings"

	"github.com/tocsin-bus/tocsin/services/ingest/sentry"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// sentryBodies have any content type: browsers send text/plain, which needs no preflight,
// and the SDK for Node sends none.
var sentryBodies = bodyFormat{allowCompressed: true}

// Reasons to refuse an SDK: its DSN has no key, or a wrong one.
const (
	noSentryKey    = "a token is required" + sentryDSN
	wrongSentryKey = "the token is not valid" + sentryDSN
	sentryDSN      = ": the DSN must be http://TOKEN@HOST/PROJECT with the value of TOCSIN_TOKEN"
)

// sentryKey returns the public key of the DSN in a request, or "".
func sentryKey(r *http.Request) string {
	for _, header := range []string{"X-Sentry-Auth", "Authorization"} {
		scheme, fields, _ := strings.Cut(strings.TrimSpace(r.Header.Get(header)), " ")
		if !strings.EqualFold(scheme, "Sentry") {
			continue
		}
		for field := range strings.SplitSeq(fields, ",") {
			if name, value, _ := strings.Cut(strings.TrimSpace(field), "="); name == "sentry_key" {
				return value
			}
		}
	}
	return r.URL.Query().Get("sentry_key")
}

// hasSentryProof reports whether a request has the token, as a bearer or as the key of
// its DSN.
func (h *handler) hasSentryProof(r *http.Request) bool {
	key := sentryKey(r)
	return httpguard.HasToken(r, h.access.Token) || key != "" && httpguard.SameSecret(key, h.access.Token)
}

// checkSentry refuses a request that names a wrong key. A key may also be in the envelope.
func (h *handler) checkSentry(r *http.Request) error {
	if sentryKey(r) != "" && !h.hasSentryProof(r) {
		return refuseProof(wrongSentryKey)
	}
	return nil
}

// decodeSentry decodes the body of an SDK: decode is for envelopes, or for single events.
// The answer has the event id, as SDKs expect.
func (h *handler) decodeSentry(memory *sentryMemory, decode func(sentry.Sender, []byte) (sentry.Decoded, error)) func(*http.Request, *body) (decodedEvents, error) {
	return func(r *http.Request, b *body) (decodedEvents, error) {
		if !h.hasSentryProof(r) {
			switch key := sentry.KeyOf(b.data); {
			case key == "":
				return decodedEvents{}, refuseProof(noSentryKey)
			case !httpguard.SameSecret(key, h.access.Token):
				return decodedEvents{}, refuseProof(wrongSentryKey)
			}
		}
		added := &sentryAdditions{sentryMemory: memory}
		in, err := decode(sentry.Sender{Project: r.PathValue("project"), Memory: added}, b.data)
		if err != nil {
			added.undo()
			return decodedEvents{}, err
		}
		ignored := 0
		for _, n := range in.Ignored {
			ignored += n
		}
		answer := httpserve.Answer{Status: http.StatusOK, Body: []byte(`{}`)}
		if in.ID != "" { // it is hexadecimal
			answer.Body = []byte(`{"id":"` + in.ID + `"}`)
		}
		return decodedEvents{events: in.Events, isValid: true, skipped: ignored, answer: &answer, undo: added.undo}, nil
	}
}
