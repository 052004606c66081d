package run

import (
	"math/rand/v2"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/eval/bound"
	"github.com/tocsin-bus/tocsin/e2e/eval/score"
	"github.com/tocsin-bus/tocsin/e2e/eval/workload"
)

// Bound is how well bursts can be found at a usual rate that is known.
type Bound struct {
	Rate             float64
	Recall, P50, P95 score.Estimate
}

// boundBursts is how many bursts a bound is taken from.
const boundBursts = 2000

// Bounds returns the bounds of the workloads of bursts.
func Bounds(seeds workload.Seeds) []Bound {
	var bounds []Bound
	for i, rate := range workload.BurstRates() {
		b := bound.Burst{Rate: rate, Errors: workload.BurstErrors, Length: 10 * time.Second, InTime: 20 * time.Second}
		delays, missed := b.Delays(rand.New(rand.NewPCG(uint64(seeds), uint64(i))), boundBursts)
		s := score.Summarise("bound", []score.Tally{{Episodes: len(delays) + missed, Found: len(delays), Delays: delays}})
		bounds = append(bounds, Bound{Rate: rate, Recall: s.Recall, P50: s.P50, P95: s.P95})
	}
	return bounds
}
