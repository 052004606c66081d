package httpguard

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// HasToken reports whether a request has the token as Authorization: Bearer (RFC 6750,
// section 2.1). If the token is empty, every request has it.
func HasToken(r *http.Request, token string) bool {
	if token == "" {
		return true
	}
	got := bearer(r)
	return got != "" && SameSecret(got, token)
}

// bearer returns the bearer token of a request, or nothing.
func bearer(r *http.Request) string {
	scheme, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(got)
}

// SameSecret compares hashes, so that neither time nor length reveals anything about the
// secret.
func SameSecret(got, secret string) bool {
	have, want := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(have[:], want[:]) == 1
}
