package fold_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// TestEverySpikeEnds plays clusters of errors, several of them in one message, and
// checks that each spike has ended 30 min later.
func TestEverySpikeEnds(t *testing.T) {
	for _, by := range []ruleset.Anomaly{ruleset.Auto, ruleset.Ratio3x, ruleset.RateTail} {
		for seed := range uint64(50) {
			s := scriptBy(by)
			r := rand.New(rand.NewPCG(seed, 1))
			mean, most := float64(1+seed%30)*float64(time.Second), 1+int(seed%8)
			now := time.Duration(0)
			for now < 4*time.Hour {
				now += time.Duration(r.ExpFloat64() * mean)
				for range 1 + int(r.ExpFloat64()*8) {
					now += time.Duration(r.ExpFloat64() * float64(300*time.Millisecond))
					s.at(now, errorsLogged(1+r.IntN(most)))
				}
			}
			for range 1800 {
				now += time.Second
				s.at(now, fold.Message{})
			}
			open := map[string]string{}
			for _, a := range s.alerts {
				switch {
				case a.Category != alert.Anomaly || a.Revises != "":
				case a.Resolves == "":
					open[a.ID] = fmt.Sprint(a.Timestamp.Sub(start), ": ", a.Title)
				default:
					for _, id := range append([]string{a.Resolves}, a.AlsoResolves...) {
						delete(open, id)
					}
				}
			}
			if len(open) > 0 {
				t.Errorf("%v, seed %d: got open spikes %v, want none 30 min later", by, seed, open)
			}
		}
	}
}
