package ingest

import (
	"net/http"
	"strings"

	"github.com/tocsin-bus/tocsin/services/ingest/sentry"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

// Where the SDKs of Sentry send to, with the DSN http://KEY@HOST/PROJECT. A slash
// at the end may be missing.
const (
	pathEnvelope = "/api/" + projectMark + "/envelope/"
	pathStore    = "/api/" + projectMark + "/store/"
)

// sentryBodies may be called anything: browsers say text/plain, so that they
// need not ask first, and the SDK for Node says nothing.
var sentryBodies = dialect{packed: true}

// Why an SDK is refused: its DSN has no key, or a wrong one.
const (
	noSentryKey    = "a token is required" + sentryDSN
	wrongSentryKey = "the token is not valid" + sentryDSN
	sentryDSN      = ": the DSN must be http://TOKEN@HOST/PROJECT with the value of TOCSIN_TOKEN"
)

// sentryRoutes are the paths of the SDKs. The pages of this machine may send
// there.
func (h *handler) sentryRoutes() []route {
	told := newRemembered(rememberedBytes)
	at := func(path string, decode func(sentry.Sender, []byte) (sentry.Decoded, error)) route {
		return route{
			path: path, method: http.MethodPost, pages: true, ownProof: true,
			serve: func(r *http.Request) reply { return h.sentry(r, told, decode) },
		}
	}
	return []route{at(pathEnvelope, sentry.Sender.Envelope), at(pathStore, sentry.Sender.Store)}
}

// sentryKey is the public key of the DSN that a request names, or empty.
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

// sentry takes what an SDK sends that has the token, as a bearer or as the key of
// its DSN; that is in the request, or else in the envelope. The answer names the
// event, as SDKs expect it.
func (h *handler) sentry(r *http.Request, told *remembered, decode func(sentry.Sender, []byte) (sentry.Decoded, error)) reply {
	key := sentryKey(r)
	proven := h.authorized(r) == nil || key != "" && httpguard.SameSecret(key, h.access.Token)
	if !proven && key != "" {
		return unproven(wrongSentryKey)
	}
	return h.takeEvents(r, sentryBodies, func(_ string, data []byte) (found, error) {
		if !proven {
			switch key := sentry.KeyOf(data); {
			case key == "":
				return found{}, refusal{unproven(noSentryKey)}
			case !httpguard.SameSecret(key, h.access.Token):
				return found{}, refusal{unproven(wrongSentryKey)}
			}
		}
		own := &notes{remembered: told}
		in, err := decode(sentry.Sender{Project: r.PathValue("project"), Memory: own}, data)
		if err != nil {
			own.undo()
			return found{}, err
		}
		ignored := 0
		for _, n := range in.Ignored {
			ignored += n
		}
		answer := reply{status: http.StatusOK, body: []byte(`{}`)}
		if in.ID != "" { // it is hexadecimal
			answer.body = []byte(`{"id":"` + in.ID + `"}`)
		}
		return found{events: in.Events, checked: true, leftOut: ignored, answer: &answer, undo: own.undo}, nil
	})
}
