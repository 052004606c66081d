package telemetry_test

import (
	"math"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestOnlyNumbersOfJSON: events are also made by decoders of other formats, which
// multiply and add. What JSON can't say can't be stored.
func TestOnlyNumbersOfJSON(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, v := range []float64{inf, nan} {
		for name, e := range map[string]telemetry.Event{
			"network.duration_ms": {Kind: telemetry.KindNetwork, Network: &telemetry.Network{Method: "GET", URL: "/", DurationMS: v}},
			"vitals.inp_ms":       {Kind: telemetry.KindVitals, Vitals: &telemetry.Vitals{INP: &v}},
			"memory.used_bytes":   {Kind: telemetry.KindMemory, Memory: &telemetry.Memory{UsedBytes: v, LimitBytes: 1}},
			"memory.limit_bytes":  {Kind: telemetry.KindMemory, Memory: &telemetry.Memory{UsedBytes: 1, LimitBytes: v}},
		} {
			if got := e.Validate(); got == nil || got.Field != name {
				t.Errorf("%s %v: %v", name, v, got)
			}
		}
	}
}
