package gitlab_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/ingest/gitlab"
)

// signed returns the headers of a delivery that is signed as in Standard Webhooks.
func signed(key []byte, id string, at time.Time, body string) http.Header {
	stamp := strconv.FormatInt(at.Unix(), 10)
	m := hmac.New(sha256.New, key)
	m.Write([]byte(id + "." + stamp + "." + body))
	h := http.Header{}
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", stamp)
	h.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(m.Sum(nil)))
	return h
}

func TestSigning(t *testing.T) {
	key := []byte(strings.Repeat("test", 8))
	s, err := gitlab.NewSigning("whsec_" + base64.StdEncoding.EncodeToString(key))
	if err != nil {
		t.Fatal(err)
	}
	const body = `{"object_kind":"pipeline"}`
	now := time.Now()
	for name, c := range map[string]struct {
		change func(http.Header)
		at     time.Time
		want   error
	}{
		"now":                     {func(http.Header) {}, now, nil},
		"one of several":          {func(h http.Header) { h.Set("webhook-signature", "v1,AAAA v1a,x "+h.Get("webhook-signature")) }, now, nil},
		"4 minutes ago":           {func(http.Header) {}, now.Add(-4 * time.Minute), nil},
		"6 minutes ago":           {func(http.Header) {}, now.Add(-6 * time.Minute), gitlab.ErrTime},
		"in 6 minutes":            {func(http.Header) {}, now.Add(6 * time.Minute), gitlab.ErrTime},
		"unsigned":                {func(h http.Header) { h.Del("webhook-signature") }, now, gitlab.ErrUnsigned},
		"without an id":           {func(h http.Header) { h.Del("webhook-id") }, now, gitlab.ErrUnsigned},
		"another id":              {func(h http.Header) { h.Set("webhook-id", "y") }, now, gitlab.ErrForged},
		"another time":            {func(h http.Header) { h.Set("webhook-timestamp", strconv.FormatInt(now.Unix()+1, 10)) }, now, gitlab.ErrForged},
		"a time that is none":     {func(h http.Header) { h.Set("webhook-timestamp", "now") }, now, gitlab.ErrForged},
		"another version":         {func(h http.Header) { h.Set("webhook-signature", "v2"+h.Get("webhook-signature")[2:]) }, now, gitlab.ErrForged},
		"a signature of no bytes": {func(h http.Header) { h.Set("webhook-signature", "v1,") }, now, gitlab.ErrForged},
	} {
		t.Run(name, func(t *testing.T) {
			h := signed(key, "x", c.at, body)
			c.change(h)
			if err := s.Verify(h, []byte(body)); !errors.Is(err, c.want) {
				t.Errorf("Verify = %v, want %v", err, c.want)
			}
			if err := s.Verify(h, []byte(body+" ")); err == nil {
				t.Error("Verify of another body: no error, want one")
			}
		})
	}
	for _, bad := range []string{"", "whsec_", "whsec_%", "c2VjcmV0"} {
		if _, err := gitlab.NewSigning(bad); err == nil {
			t.Errorf("NewSigning(%q): no error, want one", bad)
		}
	}
}
