package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

const (
	// Bounds of the time between two loads of a page.
	gapMin, gapMax = 10 * time.Second, 30 * time.Second
	// unchangedLoads is the number of loads of a page without a deploy.
	unchangedLoads = 150
	// A page has beforeDeploy to beforeDeploy+moreBefore loads before its deploy, and
	// afterDeploy loads after it.
	beforeDeploy, moreBefore, afterDeploy = 60, 40, 30
	// A finding within inTimeLoads of a deploy is in time. Up to lateLoads it is late, but
	// not false.
	inTimeLoads, lateLoads = 10, 20
	// phones is the share of loads on phones, in workloads that report devices.
	phones = 0.3
	// uncached is the share of loads without a cached response, in workloads with a cache.
	// They take uncachedSlower times as long.
	uncached, uncachedSlower = 0.3, 3
	// kept is the correlation of a load with the next one, in workloads of correlated loads.
	kept = 0.7
	// Bounds of the medians of pages, in ms.
	fastest, slowest = 800, 3000
)

// Deploy is an episode of page loads.
const Deploy = "deploy"

// variations are the coefficients of variation of page loads.
var variations = []float64{0.1, 0.15, 0.25, 0.4}

func loadWorkloads(size Size) []Workload {
	var all []Workload
	add := func(generator, cell string, make func(*rand.Rand) Run) {
		all = append(all, Workload{Generator: generator, Cell: cell, Kind: Loads, Runs: size.Pages, make: make})
	}
	// still adds pages that never become slower. next returns the factor of the next load.
	still := func(generator, more string, next func(*rand.Rand, *page) (factor float64)) {
		for _, cv := range variations {
			add(generator, fmt.Sprintf("cv %g%s", cv, more), func(r *rand.Rand) Run {
				p := newPage(r, cv)
				for range unchangedLoads {
					p.load(next(r, p))
				}
				return p.done()
			})
		}
	}
	still("unchanged", "", func(*rand.Rand, *page) float64 { return 1 })
	still("outliers", "", func(r *rand.Rand, _ *page) float64 {
		if r.IntN(50) == 0 {
			return 3
		}
		return 1
	})
	still("devices", ", phones x2", func(r *rand.Rand, p *page) float64 {
		if r.Float64() < phones {
			p.device = telemetry.DeviceMobile
			return 2
		}
		p.device = telemetry.DeviceDesktop
		return 1
	})
	still("cached", ", 30% x3", func(r *rand.Rand, _ *page) float64 {
		if r.Float64() < uncached {
			return uncachedSlower
		}
		return 1
	})
	still("correlated", "", func(_ *rand.Rand, p *page) float64 {
		p.kept = kept
		return 1
	})
	for _, slower := range []float64{0.1, 0.2, 0.3, 0.5} {
		for _, cv := range variations {
			add("deploy", fmt.Sprintf("+%.0f%%, cv %g", 100*slower, cv), func(r *rand.Rand) Run {
				p := newPage(r, cv)
				for range beforeDeploy + r.IntN(moreBefore) {
					p.load(1)
				}
				e := Episode{Kind: Deploy}
				for i := range afterDeploy {
					at := p.load(1 + slower)
					switch i + 1 {
					case 1:
						e.Start = at
					case inTimeLoads:
						e.End = at
					case lateLoads:
						e.Grace = at - e.End
					}
				}
				p.run.Episodes = []Episode{e}
				return p.done()
			})
		}
	}
	return all
}

// page is a page that is loaded repeatedly.
type page struct {
	r      *rand.Rand
	run    Run
	at     time.Duration
	median float64
	sigma  float64 // of the logarithm
	// kept is the correlation of neighbouring loads. z is the deviation of the last one.
	kept, z float64
	device  telemetry.Device
}

func newPage(r *rand.Rand, cv float64) *page {
	return &page{
		r: r, median: fastest * math.Pow(slowest/fastest, r.Float64()), sigma: math.Sqrt(math.Log1p(cv * cv)),
	}
}

// load adds a load that takes factor times as long as usual, and returns when it arrives.
func (p *page) load(factor float64) time.Duration {
	p.at += uniform(p.r, gapMin, gapMax)
	p.z = p.kept*p.z + math.Sqrt(1-p.kept*p.kept)*p.r.NormFloat64()
	value := p.median * factor * math.Exp(p.sigma*p.z)
	value = math.Round(10*value) / 10 // as browsers report it
	e := Load(value)
	e.Vitals.Device = p.device
	p.run.add(p.at, e)
	return p.at
}

// Load returns the event of a page load with a largest contentful paint, in ms.
func Load(ms float64) *telemetry.Event {
	return &telemetry.Event{
		Kind: telemetry.KindVitals, App: App, URL: "http://localhost:3000/cart", Vitals: &telemetry.Vitals{LCP: &ms},
	}
}

// done returns the run, which ends with the last load.
func (p *page) done() Run {
	p.run.Length = p.at
	return p.run
}
