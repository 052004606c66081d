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

// UniqueWord returns a word for each i below 17,576. It has letters only, because
// digits are no part of an error's fingerprint.
func UniqueWord(i int) string {
	return "subject" + string([]byte{byte('a' + i/26/26%26), byte('a' + i/26%26), byte('a' + i%26)})
}

// Letters returns four letters for each n below 456,976, so that no two texts with
// them have one log template.
func Letters(n int) string {
	text := []byte("aaaa")
	for i := range text {
		text[i] += byte(n % 26)
		n /= 26
	}
	return string(text)
}
