package telemetry_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestFingerprint: what is a fingerprint, what is none, and that neither refuses
// the line it came with.
func TestFingerprint(t *testing.T) {
	part := strings.Repeat("x", telemetry.MaxFingerprint/2)
	many := strings.Repeat(`"a",`, telemetry.MaxFingerprintParts-1) + `"a"`
	for _, tt := range []struct {
		name, json string
		want       telemetry.Fingerprint
	}{
		{"a string", `"cart"`, telemetry.Fingerprint{"cart"}},
		{"texts", `["a","b c"]`, telemetry.Fingerprint{"a", "b c"}},
		{"a line break is one of a text", `["a\nb"]`, telemetry.Fingerprint{"a\nb"}},
		{"an empty one among others", `["a",""]`, telemetry.Fingerprint{"a", ""}},
		{"nothing said", `""`, nil},
		{"nothing said in a list", `["",""]`, nil},
		{"an empty list", `[]`, nil},
		{"null", `null`, nil},
		{"a number", `17`, nil},
		{"an object", `{"a":["b"]}`, nil},
		{"a number among texts", `["a",1,"b"]`, nil},
		{"a list in a list", `[["a"],"b"]`, nil},
		{"as long as may be", `["` + part + `","` + part + `"]`, telemetry.Fingerprint{part, part}},
		{"too long", `["` + part + `","` + part + `x"]`, nil},
		{"a string that is too long", `"` + part + part + `x"`, nil},
		{"as many as may be", `[` + many + `]`, telemetry.NewFingerprint(strings.Split(strings.ReplaceAll(many, `"`, ""), ",")...)},
		{"too many", `[` + many + `,"a"]`, nil},
		{"far too many", `[` + strings.Repeat(`"a",`, 50_000) + `"a"]`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			body := fmt.Sprintf(`{"kind":"log","log":{"level":"error","fingerprint":%s,"message":"hi"}}`, tt.json)
			events, err := telemetry.Decode(telemetry.FormJSON, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			if got := events[0].Log; got.Message != "hi" || !reflect.DeepEqual(got.Fingerprint, tt.want) {
				t.Fatalf("Fingerprint = %.200q, message %q, want %.200q, hi", got.Fingerprint, got.Message, tt.want)
			}
			message, err := telemetry.Encode(events)
			if err != nil {
				t.Fatal(err)
			}
			again, err := telemetry.DecodeMessage(message)
			if err != nil || !reflect.DeepEqual(again, events) {
				t.Errorf("DecodeMessage of %.200s = %v, want the same events", message, err)
			}
		})
	}
	if _, err := telemetry.Decode(telemetry.FormJSON, []byte(`{"kind":"log","log":{"level":"error","message":"hi","fingerprint":["a",}}`)); err == nil {
		t.Error("Decode of a fingerprint that is not JSON = nil error, want one")
	}
}
