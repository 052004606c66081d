package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// BenchmarkIteration measures the engine's own time in an iteration: from the end of a model's
// answer to the next request of the session, with an instant tool call and all appends. The
// figure is a p99 under 10 ms.
func BenchmarkIteration(b *testing.B) {
	const result = 4 << 10
	for _, sessions := range []int{1, 20} {
		b.Run(fmt.Sprintf("sessions=%d", sessions), func(b *testing.B) {
			rig := bustest.Start(b)
			_, j := open(b, rig.Config(bus.RoleInvestigator))
			w := newWorld()
			text := string(make([]byte, 0, result))
			for len(text) < result {
				text += "web-1 restarts with exit code 137; "
			}
			w.tool = func(context.Context, string) ToolResult { return ToolResult{Text: text} }
			var mu sync.Mutex
			var took []time.Duration
			ended := map[string]time.Time{}
			instant := func(r model.Request) (model.Answer, error) {
				turn := len(r.Messages) / 2
				key := r.Messages[0].Text // it has the session's id
				mu.Lock()
				if begin, ok := ended[key]; ok && turn > 0 {
					took = append(took, time.Since(begin))
				}
				mu.Unlock()
				a := model.Answer{Text: "More.", Stop: model.StopEnd, Usage: model.Usage{Input: 100, Output: 10}}
				if len(r.Tools) > 0 {
					a.Calls = []model.Call{{ID: fmt.Sprintf("call_%d", turn+1), Name: toolName, Arguments: fmt.Sprintf(`{"page":%d}`, turn+1)}}
				}
				mu.Lock()
				defer mu.Unlock()
				ended[key] = time.Now()
				return a, nil
			}
			plan := testPlan()
			plan.Stages[0].Agents[0].MaxIterations = max(1, b.N)
			plan.Limits = session.Limits{}
			stop := serveWith(b, rig.Config(bus.RoleInvestigator), w, "a", Limits{Workers: sessions, Sessions: sessions}, func(c *Config) { c.Models = instantModel(instant) })
			defer stop()
			b.ResetTimer()
			var ids []string
			for range sessions {
				id := journal.NewSession()
				first := submitted(id, plan)
				first.Submitted.Data.Inline = id
				appendFacts(b, j, id, first)
				if err := j.Enqueue(b.Context(), id, 1); err != nil {
					b.Fatal(err)
				}
				ids = append(ids, id)
			}
			for _, id := range ids {
				over(b, j, id)
			}
			b.StopTimer()
			mu.Lock()
			defer mu.Unlock()
			slices.Sort(took)
			if len(took) > 0 {
				b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			}
		})
	}
}

// instantModel answers at once, and counts nothing.
type instantModel func(model.Request) (model.Answer, error)

func (m instantModel) Model(session.Provider, bool) (Model, bool) { return m, true }

func (m instantModel) Ask(_ context.Context, r model.Request, _ func(int, model.Chunk)) (model.Answer, error) {
	return m(r)
}
