package e2etest

import (
	"encoding/json"
	"testing"
)

// NoError ends the test if there is an error.
func NoError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// JSON encodes v.
func JSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// UniqueWord returns a unique word for each i below 17,576. It has only letters: the
// fingerprint of an error ignores digits.
func UniqueWord(i int) string {
	return "subject" + string([]byte{byte('a' + i/26/26%26), byte('a' + i/26%26), byte('a' + i%26)})
}

// Letters returns four unique letters for each n below 456,976. Texts with different letters
// have different log templates.
func Letters(n int) string {
	text := []byte("aaaa")
	for i := range text {
		text[i] += byte(n % 26)
		n /= 26
	}
	return string(text)
}
