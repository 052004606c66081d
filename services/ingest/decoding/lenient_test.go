package decoding

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestText(t *testing.T) {
	for given, want := range map[string]string{
		`"a"`: "a", `"a\n\u0041"`: "a\nA", `"\ud800"`: "\ufffd", "\"\xff\"": "\ufffd", `7`: "7", `1e3`: "1e3", `true`: "true",
		`null`: "", `{"a":1}`: "", `[1]`: "",
	} {
		var got Text
		if err := json.Unmarshal([]byte(given), &got, Lenient()); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", given, got, err, want)
		}
	}
}

func TestObject(t *testing.T) {
	for given, ok := range map[string]bool{
		`{"a":"x"}`: true, `{"a":"y","a":"x"}`: true, `{"a":"x","b":[]}`: true, `[]`: false, `null`: false, `"x"`: false, `{"a":"x"`: false, ``: false, `{"a":"x"} 1`: false,
	} {
		var got struct {
			A Text `json:"a"`
		}
		if err := json.Unmarshal([]byte(given), NewObject(&got), Lenient()); (err == nil) != ok || ok && got.A != "x" {
			t.Errorf("%s: a = %q, error %v, want an object: %t", given, got.A, err, ok)
		}
	}
}

// TestMalformed checks that an error names the mistake and no Go type.
func TestMalformed(t *testing.T) {
	for given, want := range map[string]string{
		`7`:        "malformed JSON: it must be a JSON object",
		`{"b":[]}`: "malformed JSON: it must be a JSON object",
		`{"a":`:    "malformed JSON: jsontext: unexpected EOF",
	} {
		var got struct {
			B *Object[struct{}] `json:"b"`
		}
		err := json.Unmarshal([]byte(given), NewObject(&got), Lenient())
		if err == nil || !strings.HasPrefix(Malformed(err).Error(), want) {
			t.Errorf("%s: got %v, want %s", given, Malformed(err), want)
		}
	}
}
