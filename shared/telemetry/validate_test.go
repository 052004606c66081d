package telemetry_test

import (
	"math"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestOnlyNumbersOfJSON checks that infinity and NaN are refused: decoders of other formats compute
// numbers, and JSON can't represent these two.
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
				t.Errorf("Validate with %s %v = %v, want an error of that field", name, v, got)
			}
		}
	}
}
