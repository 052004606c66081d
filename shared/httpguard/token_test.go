package httpguard_test

import (
	"testing"

	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

func TestHasToken(t *testing.T) {
	for header, want := range map[string]bool{
		"Bearer s3cret":   true,
		"bearer  s3cret ": true,
		"Bearer s3cre":    false,
		"Bearer s3crett":  false,
		"Basic s3cret":    false,
		"Bearer":          false,
		"s3cret":          false,
		"":                false,
	} {
		r := request("POST", "localhost", "Authorization", header)
		if got := httpguard.HasToken(r, "s3cret"); got != want {
			t.Errorf("%q: %t, want %t", header, got, want)
		}
		if !httpguard.HasToken(r, "") {
			t.Errorf("HasToken(%q) without a token = false, want true", header)
		}
	}
}
