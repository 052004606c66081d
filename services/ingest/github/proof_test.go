package github_test

import (
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"hash"
	"net/url"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/ingest/github"
)

func sign(h func() hash.Hash, secret, body string) string {
	m := hmac.New(h, []byte(secret))
	m.Write([]byte(body))
	return hex.EncodeToString(m.Sum(nil))
}

func TestVerify(t *testing.T) {
	const secret, body = "It's a Secret to Everybody", "Hello, World!"
	// The example of GitHub's documentation.
	const documented = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	right := sign(sha256.New, secret, body)
	for name, c := range map[string]struct {
		signature, sha1, secret string
		want                    error
	}{
		"the documented one":    {documented, "", secret, nil},
		"computed here":         {"sha256=" + right, "", secret, nil},
		"in capitals":           {"sha256=" + strings.ToUpper(right), "", secret, nil},
		"none":                  {"", "", secret, github.ErrUnsigned},
		"SHA-1 alone":           {"", "sha1=" + sign(sha1.New, secret, body), secret, github.ErrSHA1},
		"SHA-1 in its place":    {"sha1=" + sign(sha1.New, secret, body), "", secret, github.ErrForged},
		"SHA-512 in its place":  {"sha512=" + sign(sha512.New, secret, body), "", secret, github.ErrForged},
		"of another secret":     {"sha256=" + sign(sha256.New, "x", body), "", secret, github.ErrForged},
		"of another body":       {"sha256=" + sign(sha256.New, secret, body+" "), "", secret, github.ErrForged},
		"the first half":        {"sha256=" + right[:32], "", secret, github.ErrForged},
		"no digits":             {"sha256=zz", "", secret, github.ErrForged},
		"no prefix":             {right, "", secret, github.ErrForged},
		"of no secret, for one": {"sha256=" + sign(sha256.New, "", body), "", "", github.ErrForged},
	} {
		t.Run(name, func(t *testing.T) {
			if err := github.Verify(c.signature, c.sha1, []byte(body), []byte(c.secret)); !errors.Is(err, c.want) {
				t.Fatalf("Verify = %v, want %v", err, c.want)
			}
		})
	}
}

func TestPayload(t *testing.T) {
	const payload = `{"a":"b & c = ü"}`
	for name, c := range map[string]struct{ media, body, want, err string }{
		"JSON":             {github.TypeJSON, payload, payload, ""},
		"a form":           {github.TypeForm, url.Values{"payload": {payload}}.Encode(), payload, ""},
		"beside others":    {github.TypeForm, "x=1&payload=%7B%7D&payload=2", "{}", ""},
		"another field":    {github.TypeForm, "body=%7B%7D", "", "no field payload"},
		"broken escapes":   {github.TypeForm, "payload=%7", "", "payload"},
		"a million fields": {github.TypeForm, strings.Repeat("a&", 1_000_000), "", "no field payload"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := github.Payload(c.media, []byte(c.body))
			if string(got) != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("Payload = %q, %v, want %q, error %q", got, err, c.want, c.err)
			}
		})
	}
}
