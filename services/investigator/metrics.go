package investigator

import "github.com/tocsin-bus/tocsin/shared/httpserve"

// registerGauges registers the numbers of sessions. Those of models, tools and stages are the
// worker's.
func registerGauges(m httpserve.Metrics, h *handler) {
	count := func(number func(*backend) int) func() float64 {
		return func() float64 {
			b := h.backend.Load()
			if b == nil {
				return 0
			}
			return float64(number(b))
		}
	}
	m.GaugeFunc("sessions_queued", "Sessions that wait for a worker, over all processes.", count(func(b *backend) int { return b.index.waiting() }))
	m.GaugeFunc("sessions_open", "Sessions that have not ended, over all processes.", count(func(b *backend) int { return len(b.index.due()) }))
	m.GaugeFunc("sessions_indexed", "Sessions that lists show.", count(func(b *backend) int { return b.index.size() }))
}
