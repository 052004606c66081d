package gitlab

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// The headers of a signed delivery, since GitLab 19; the form is that of
// Standard Webhooks.
const (
	HeaderID        = webhooks.HeaderWebhookID
	HeaderTimestamp = webhooks.HeaderWebhookTimestamp
	HeaderSignature = webhooks.HeaderWebhookSignature
)

// signingPrefix is the beginning of a signing token, before the key in base64.
const signingPrefix = "whsec_"

// Reasons why a delivery is refused.
var (
	ErrNoToken   = errors.New(HeaderToken + " is missing or wrong: the webhook's secret token must be the value of TOCSIN_GITLAB_SECRET_TOKEN")
	ErrUnsigned  = errors.New(HeaderID + ", " + HeaderTimestamp + " and " + HeaderSignature + " are needed: set the webhook's signing token to the value of TOCSIN_GITLAB_SIGNING_TOKEN")
	ErrTime      = errors.New(HeaderTimestamp + " is more than 5 minutes away from now: send the event again, or set the clock")
	ErrForged    = errors.New(HeaderSignature + " does not fit the body: the webhook's signing token must be the value of TOCSIN_GITLAB_SIGNING_TOKEN")
	errNoSigning = errors.New("must be the signing token that GitLab shows: whsec_ and base64")
)

// Signing verifies signatures with a signing token.
type Signing struct{ webhook *webhooks.Webhook }

// NewSigning parses a signing token: whsec_ and the key in base64.
func NewSigning(token string) (*Signing, error) {
	key, ok := strings.CutPrefix(token, signingPrefix)
	if !ok || key == "" {
		return nil, errNoSigning
	}
	w, err := webhooks.NewWebhook(token)
	if err != nil {
		return nil, fmt.Errorf("%w: the part after whsec_ is not base64", errNoSigning)
	}
	return &Signing{w}, nil
}

// Verify returns why body was not signed with the token within the last 5 minutes, or nil.
// body is the whole body as it was sent.
func (s *Signing) Verify(header http.Header, body []byte) error {
	err := s.webhook.Verify(body, header)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, webhooks.ErrRequiredHeaders):
		return ErrUnsigned
	case errors.Is(err, webhooks.ErrMessageTooOld), errors.Is(err, webhooks.ErrMessageTooNew):
		return ErrTime
	default:
		return ErrForged
	}
}
