package ingest

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestEncodingEqualsTelemetryEncode generates events and compares with the encoder that
// uses reflection, so it finds a field that appendEvent lacks. Each event has at most one
// header, because that encoder does not sort them.
func TestEncodingEqualsTelemetryEncode(t *testing.T) {
	text := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.StringMatching(`[a-z<>&"\\/\x{2028}]{0,8}`))
	number := rapid.Float64Range(0, 1e12)
	metric := rapid.Ptr(number, true)
	header := rapid.MapOfN(text, text, 0, 1)
	kinds := map[telemetry.Kind]func(*rapid.T, *telemetry.Event){
		telemetry.KindLog: func(t *rapid.T, e *telemetry.Event) {
			args := rapid.SliceOfN(rapid.OneOf(text.AsAny(), number.AsAny(), rapid.Bool().AsAny(), rapid.Just(any(nil)), rapid.Just(any([]any{map[string]any{"a": 1.5}}))), 0, 3)
			e.Log = &telemetry.Log{Level: telemetry.LevelInfo, Message: text.Draw(t, "message"), Stack: text.Draw(t, "stack"), Source: text.Draw(t, "source"), Args: args.Draw(t, "args"),
				Fingerprint: rapid.SliceOfN(text, 0, 3).Draw(t, "fingerprint")}
		},
		telemetry.KindNetwork: func(t *rapid.T, e *telemetry.Event) {
			e.Network = &telemetry.Network{Method: "GET", URL: text.Draw(t, "url"), Status: rapid.IntRange(0, 599).Draw(t, "status"), DurationMS: number.Draw(t, "duration"), Error: text.Draw(t, "error"),
				RequestHeaders: header.Draw(t, "header"), ResponseHeaders: header.Draw(t, "header"), RequestBody: text.Draw(t, "body"), ResponseBody: text.Draw(t, "body")}
		},
		telemetry.KindVitals: func(t *rapid.T, e *telemetry.Event) {
			e.Vitals = &telemetry.Vitals{FCP: new(number.Draw(t, "fcp")), LCP: metric.Draw(t, "lcp"), INP: metric.Draw(t, "inp"), TTFB: metric.Draw(t, "ttfb"), Load: metric.Draw(t, "load"), CLS: metric.Draw(t, "cls")}
		},
		telemetry.KindAction: func(t *rapid.T, e *telemetry.Event) {
			e.Action = &telemetry.Action{Type: telemetry.ActionClick, Target: text.Draw(t, "target")}
		},
		telemetry.KindMemory: func(t *rapid.T, e *telemetry.Event) {
			e.Memory = &telemetry.Memory{UsedBytes: number.Draw(t, "used"), LimitBytes: number.Draw(t, "limit")}
		},
		telemetry.KindCircuit: func(t *rapid.T, e *telemetry.Event) {
			e.Circuit = &telemetry.Circuit{Name: text.Draw(t, "name"), State: telemetry.CircuitOpen, Reason: text.Draw(t, "reason")}
		},
		telemetry.KindSecurity: func(t *rapid.T, e *telemetry.Event) {
			e.Security = &telemetry.Security{Type: "csp", Message: text.Draw(t, "message"), BlockedURL: text.Draw(t, "blocked")}
		},
	}
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(telemetry.Kinds()).Draw(t, "kind")
		events := make([]telemetry.Event, rapid.IntRange(1, 3).Draw(t, "events"))
		for i := range events {
			events[i] = telemetry.Event{Kind: kind, App: "web", Session: text.Draw(t, "session"), Release: text.Draw(t, "release"), URL: text.Draw(t, "url")}
			if rapid.Bool().Draw(t, "timed") {
				events[i].Time = time.UnixMilli(rapid.Int64Range(-1<<40, 1<<45).Draw(t, "time")).UTC()
			}
			kinds[kind](t, &events[i])
		}
		want, err := telemetry.Encode(events)
		if err != nil {
			t.Fatal(err)
		}
		got, err := eventMessages(events, "")
		if err != nil || len(got) != 1 || !bytes.Equal(got[0].Data, want) {
			t.Fatalf("%v\ngot  %s\nwant %s", err, got[0].Data, want)
		}
	})
}
