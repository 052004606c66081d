package ingest

import (
	"net/http"

	"github.com/tocsin-bus/tocsin/services/ingest/gitlab"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

var gitlabBodies = bodyFormat{media: []string{typeJSON}}

// checkGitLab refuses a delivery without the secret token, if one is set and no signing
// token is. If neither is set, a delivery needs the bearer token.
func (h *handler) checkGitLab(r *http.Request) error {
	switch {
	case h.secrets.gitlabSigning != "": // decodeGitLab verifies the signature
		return nil
	case h.secrets.gitlabToken != "":
		if !httpguard.SameSecret(r.Header.Get(gitlab.HeaderToken), h.secrets.gitlabToken) {
			return refuseProof(gitlab.ErrNoToken.Error())
		}
		return nil
	case r.Header.Get(gitlab.HeaderToken) != "" || r.Header.Get(gitlab.HeaderSignature) != "":
		return refuseProof("the delivery has a token or a signature, but neither TOCSIN_GITLAB_SIGNING_TOKEN nor TOCSIN_GITLAB_SECRET_TOKEN is set: set the one that the webhook has")
	}
	return h.checkWebhookToken(r, "TOCSIN_GITLAB_SIGNING_TOKEN or TOCSIN_GITLAB_SECRET_TOKEN to what the webhook has")
}

// decodeGitLab decodes one delivery. With a signing token, it verifies the signature, and
// the signed id and the body identify the delivery.
func (h *handler) decodeGitLab(r *http.Request, b *body) (decodedResult, error) {
	id, known := gitlab.HeaderKey, []string(nil)
	if token := h.secrets.gitlabSigning; token != "" {
		signing, err := gitlab.NewSigning(token)
		if err == nil {
			err = signing.Verify(r.Header, b.data)
		}
		if err != nil {
			return decodedResult{}, refuseProof(err.Error())
		}
		id, known = gitlab.HeaderID, []string{bus.BodySubject("gitlab", b.data)}
	}
	result, ignored, err := gitlab.Decode(r.Header.Get(gitlab.HeaderEvent), b.data)
	return decodedResult{result: result, ignored: ignored, deliveries: append(deliveries("gitlab", r.Header.Get(id)), known...)}, err
}
