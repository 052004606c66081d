package ingest

import (
	"net/http"

	"github.com/tocsin-bus/tocsin/services/ingest/github"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// webhookSecrets are the secrets of webhooks; those that are empty are not set.
type webhookSecrets struct{ github, gitlabToken, gitlabSigning string }

var githubBodies = bodyFormat{media: []string{github.TypeJSON, github.TypeForm}}

// checkGitHub refuses a delivery that is signed where no secret is set, because its
// signature can't be verified. A delivery that is not signed needs the bearer token.
func (h *handler) checkGitHub(r *http.Request) error {
	signed := r.Header.Get(github.HeaderSignature) != "" || r.Header.Get(github.HeaderSHA1) != ""
	switch {
	case h.secrets.github != "": // decodeGitHub verifies the signature
		return nil
	case signed:
		return refuseProof("the delivery is signed, but TOCSIN_GITHUB_WEBHOOK_SECRET is not set: set it to the webhook's secret")
	}
	return h.checkWebhookToken(r, "TOCSIN_GITHUB_WEBHOOK_SECRET to the webhook's secret")
}

// decodeGitHub takes one delivery. With a secret, the signature of the body proves it.
func (h *handler) decodeGitHub(r *http.Request, b *body) (decodedResult, error) {
	secret := h.secrets.github
	if secret != "" {
		if err := github.Verify(r.Header.Get(github.HeaderSignature), r.Header.Get(github.HeaderSHA1), b.data, []byte(secret)); err != nil {
			return decodedResult{}, refuseProof(err.Error())
		}
	}
	payload, err := github.Payload(b.media, b.data)
	if err != nil {
		return decodedResult{}, err
	}
	result, ignored, err := github.Decode(r.Header.Get(github.HeaderEvent), payload)
	known := deliveries("github", r.Header.Get(github.HeaderDelivery))
	if secret != "" { // the id is not signed, so one signed body could come with any number of ids
		known = append(known, bus.BodySubject("github", b.data))
	}
	return decodedResult{result: result, ignored: ignored, deliveries: known}, err
}

// deliveries returns the subjects that identify a delivery by its id, or none without an id.
func deliveries(sender, id string) []string {
	if id == "" {
		return nil
	}
	return []string{bus.DeliverySubject(sender, id)}
}

// checkWebhookToken refuses a webhook without the bearer token, if one is set. The hint
// completes "or set ...".
func (h *handler) checkWebhookToken(r *http.Request, hint string) error {
	if err := httpguard.CheckToken(r, h.access.Token); err != nil {
		return httpserve.Unauthorized(err.Error() + "; or set " + hint)
	}
	return nil
}

// refuseProof refuses a sender whose own proof is missing or wrong. The answer has no
// WWW-Authenticate, because the bearer token would not help.
func refuseProof(message string) *httpserve.Refusal {
	return httpserve.Refuse(http.StatusUnauthorized, message)
}
