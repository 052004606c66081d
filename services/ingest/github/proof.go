package github

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/google/go-github/v92/github"
)

// The media types of a delivery, as chosen in the webhook's settings.
const (
	TypeJSON = "application/json"
	TypeForm = "application/x-www-form-urlencoded"
)

// Reasons why a signature is refused.
var (
	ErrUnsigned = errors.New(HeaderSignature + " is missing: set the webhook's secret to the value of TOCSIN_GITHUB_WEBHOOK_SECRET")
	ErrSHA1     = errors.New(HeaderSHA1 + " alone is not enough: " + HeaderSignature + " is needed")
	ErrForged   = errors.New(HeaderSignature + " does not fit the body: the webhook's secret must be the value of TOCSIN_GITHUB_WEBHOOK_SECRET")
)

// Verify returns nil if the sender of a delivery knows the secret, or one of the errors
// above. signature and sha1 are the values of HeaderSignature and HeaderSHA1; body is the
// whole body as it was sent. It accepts nothing for an empty secret.
func Verify(signature, sha1 string, body, secret []byte) error {
	switch {
	case signature == "" && sha1 != "":
		return ErrSHA1
	case signature == "":
		return ErrUnsigned
	case len(secret) == 0, !strings.HasPrefix(signature, "sha256="): // the library also accepts weaker hashes
		return ErrForged
	}
	if err := github.ValidateSignature(signature, body, secret); err != nil {
		return ErrForged // the library's text would quote the header
	}
	return nil
}

// Payload returns the JSON in a body: the whole body, or the form's field payload.
func Payload(media string, body []byte) ([]byte, error) {
	if media != TypeForm {
		return body, nil
	}
	for field := range strings.SplitSeq(string(body), "&") {
		value, ok := strings.CutPrefix(field, "payload=")
		if !ok {
			continue
		}
		payload, err := url.QueryUnescape(value)
		if err != nil {
			return nil, fmt.Errorf("the form's field payload: %w", err)
		}
		return []byte(payload), nil
	}
	return nil, errors.New("the form has no field payload")
}
