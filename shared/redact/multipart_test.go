package redact_test

import (
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/redact"
)

// TestBetweenNameAndValueOfAPart checks that a secret among the headers of a part is
// masked beside the value of the part.
func TestBetweenNameAndValueOfAPart(t *testing.T) {
	const key = "AKIAQ7Q7Q7Q7Q7Q7Q7Q7"
	for _, in := range []string{
		"!&name=\"pin\"2\x01+AaA:" + key + "\n\nabc",
		"--b\nContent-Disposition: form-data; name=\"password\"\nX-Note: " + key + "\n\nHUNTER2\n--b--",
	} {
		got := redact.New().Body(in)
		if strings.Contains(got, key) || strings.Contains(got, "HUNTER2") || !strings.Contains(got, redact.Mask) {
			t.Errorf("got %q of %q, want neither the key nor the value", got, in)
		}
	}
	const plain = "--b\nContent-Disposition: form-data; name=\"password\"\nContent-Type: text/plain\n\n[REDACTED]\n--b--"
	if got := redact.New().Body(strings.Replace(plain, "[REDACTED]", "HUNTER2", 1)); got != plain {
		t.Errorf("got %q, want %q", got, plain)
	}
}
