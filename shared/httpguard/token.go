package httpguard

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// HasToken says whether a request comes with the token as Authorization: Bearer
// (RFC 6750, section 2.1). Without a token every request has it.
func HasToken(r *http.Request, token string) bool {
	if token == "" {
		return true
	}
	scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.EqualFold(scheme, "Bearer") && SameSecret(strings.TrimSpace(got), token)
}

// SameSecret compares hashes, so that neither the time nor the length tells
// anything of a secret.
func SameSecret(got, secret string) bool {
	have, want := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(have[:], want[:]) == 1
}
