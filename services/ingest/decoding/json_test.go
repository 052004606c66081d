package decoding_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
)

func TestCheckJSON(t *testing.T) {
	const parts = 100
	for name, c := range map[string]struct {
		in  string
		too bool
	}{
		"nothing":                {``, false},
		"an object":              {`{"a":[1,{"b":null}]}`, false},
		"brackets in a text":     {`{"a":"` + strings.Repeat(`[{\"`, 500) + `"}`, false},
		"a text that ends in \\": {`{"a":"\\","b":[` + strings.Repeat(`{},`, 98) + `{}]}`, true},
		"as deep as allowed":     {strings.Repeat("[", decoding.MaxDepth) + strings.Repeat("]", decoding.MaxDepth), false},
		"deeper":                 {strings.Repeat("[", decoding.MaxDepth+1), true},
		"as many as allowed":     {`[` + strings.Repeat(`{},`, parts-2) + `{}]`, false},
		"one more":               {`[` + strings.Repeat(`{},`, parts-1) + `{}]`, true},
		"numbers alone":          {`[` + strings.Repeat(`1,`, 5000) + `1]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := decoding.CheckJSON([]byte(c.in), parts)
			if errors.Is(err, decoding.ErrTooMany) != c.too || (err != nil) != c.too {
				t.Errorf("error %v, want one that wraps ErrTooMany: %t", err, c.too)
			}
		})
	}
}

func TestJSONError(t *testing.T) {
	type inner struct {
		N int `json:"n"`
	}
	for in, want := range map[string]string{
		`[]`:              "must be a JSON object",
		`{"a":{"n":"x"}}`: "a.n must not be a JSON string",
		`{"a":`:           "malformed JSON: unexpected end of JSON input",
	} {
		var v struct {
			A inner `json:"a"`
		}
		if got := decoding.JSONError(json.Unmarshal([]byte(in), &v)); got == nil || got.Error() != want {
			t.Errorf("%s: got %v, want %s", in, got, want)
		}
	}
}
