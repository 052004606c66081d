package otlp_test

import (
	"math"
	"strings"
	"testing"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/tocsin-bus/tocsin/services/ingest/otlp"
)

func ptraceTime(ns uint64) pcommon.Timestamp { return pcommon.Timestamp(ns) }

// point is a data point of a gauge, or of a sum if the name begins with +.
type point struct {
	name  string
	value any
	attrs attrs
	at    uint64
}

func gauges(t testing.TB, points ...point) func(pmetric.MetricSlice) {
	return func(all pmetric.MetricSlice) {
		for _, p := range points {
			m := all.AppendEmpty()
			name, sum := strings.CutPrefix(p.name, "+")
			m.SetName(name)
			var dp pmetric.NumberDataPoint
			if sum {
				m.SetEmptySum().SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
				dp = m.Sum().DataPoints().AppendEmpty()
			} else {
				dp = m.SetEmptyGauge().DataPoints().AppendEmpty()
			}
			dp.SetTimestamp(ptraceTime(p.at))
			put(t, dp.Attributes(), p.attrs)
			switch v := p.value.(type) {
			case int:
				dp.SetIntValue(int64(v))
			case int64:
				dp.SetIntValue(v)
			case float64:
				dp.SetDoubleValue(v)
			}
		}
	}
}

func TestMemory(t *testing.T) {
	pool := func(name string) attrs { return attrs{"jvm.memory.type": "heap", "jvm.memory.pool.name": name} }
	state := func(name string) attrs { return attrs{"system.memory.state": name} }
	for _, tt := range []struct {
		name        string
		points      []point
		used, limit string // empty: no event
	}{
		{"Go", []point{{"+go.memory.used", 30, attrs{"go.memory.type": "stack"}, 1}, {"+go.memory.used", 60, attrs{"go.memory.type": "other"}, 1}, {"+go.memory.limit", 100, nil, 1}}, "90", "100"},
		{"Go without a limit", []point{{"+go.memory.used", 30, nil, 1}, {"+go.memory.limit", int64(math.MaxInt64), nil, 1}}, "", ""},
		{"a limit that is none, as a double", []point{{"container.memory.usage", 30.5, nil, 1}, {"container.memory.limit", float64(math.MaxInt64 - 4095), nil, 1}}, "", ""},
		{"Java, by pools", []point{
			{"+jvm.memory.used", 50, pool("eden"), 1}, {"+jvm.memory.used", 70, pool("old"), 1}, {"+jvm.memory.used", 5, pool("code"), 1},
			{"+jvm.memory.limit", 100, pool("old"), 1}, {"+jvm.memory.limit", 20, pool("code"), 1},
		}, "75", "120"},
		{"Java, former names", []point{
			{"process.runtime.jvm.memory.usage", 7, attrs{"type": "heap", "pool": "old"}, 1}, {"process.runtime.jvm.memory.limit", 10, attrs{"pool": "old", "type": "heap"}, 1},
		}, "7", "10"},
		{"pools without any in common", []point{{"jvm.memory.used", 7, pool("a"), 1}, {"jvm.memory.limit", 10, pool("b"), 1}}, "", ""},
		{"a container", []point{{"container.memory.usage", 7, nil, 1}, {"container.memory.limit", 10, nil, 1}}, "7", "10"},
		{"a container of Kubernetes", []point{{"container.memory.usage", 7, nil, 1}, {"k8s.container.memory_limit", 10, nil, 1}}, "7", "10"},
		{"a container of Kubernetes, newer", []point{{"container.memory.usage", 7, nil, 1}, {"k8s.container.memory.limit.current", 10, nil, 1}}, "7", "10"},
		{"a container by the kubelet", []point{{"container.memory.usage", 99, nil, 1}, {"container.memory.working_set", 7, nil, 1}, {"container.memory.available", 3, nil, 1}}, "7", "10"},
		{"a container that is full", []point{{"container.memory.working_set", 7, nil, 1}, {"container.memory.available", 0, nil, 1}}, "7", "7"},
		{"a container without a limit", []point{{"container.memory.working_set", 7, nil, 1}}, "", ""},
		{"Docker", []point{{"+container.memory.usage.total", 7, nil, 1}, {"+container.memory.usage.limit", 10, nil, 1}}, "7", "10"},
		{"a pod", []point{{"k8s.pod.memory.usage", 7, nil, 1}, {"k8s.pod.memory.limit", 10, nil, 1}}, "7", "10"},
		{"a process", []point{{"+process.memory.usage", 7, nil, 1}, {"+system.memory.limit", 10, nil, 1}}, "7", "10"},
		{"a host", []point{{"+system.memory.usage", 7, state("used"), 1}, {"+system.memory.usage", 1, state("free"), 1}, {"+system.memory.usage", 2, state("cached"), 1}}, "7", "10"},
		{"a host, former name of the state", []point{{"+system.memory.usage", 7, attrs{"state": "used"}, 1}, {"+system.memory.usage", 3, attrs{"state": "free"}, 1}}, "7", "10"},
		{"a host that reports its limit", []point{{"+system.memory.usage", 7, state("used"), 1}, {"+system.memory.usage", 1, state("free"), 1}, {"+system.memory.limit", 20, nil, 1}}, "7", "20"},
		{"the newest point", []point{{"container.memory.usage", 9, nil, 3}, {"container.memory.usage", 7, nil, 2}, {"container.memory.limit", 10, nil, 1}}, "9", "10"},
		{"the first pair of several", []point{{"process.memory.usage", 7, nil, 1}, {"system.memory.limit", 10, nil, 1}, {"go.memory.used", 1, nil, 1}, {"go.memory.limit", 2, nil, 1}}, "1", "2"},
		{"nothing used", []point{{"container.memory.usage", 0, nil, 1}, {"container.memory.limit", 10, nil, 1}}, "", ""},
		{"a limit alone", []point{{"container.memory.limit", 10, nil, 1}}, "", ""},
		// Not a limit, as the comment of pairs explains.
		{"Node", []point{{"v8js.memory.heap.used", 9, nil, 1}, {"v8js.memory.heap.limit", 10, nil, 1}}, "", ""},
		{"something else", []point{{"http.server.active_requests", 9, nil, 1}}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var want []string
			if tt.used != "" {
				want = []string{`{"kind":"memory","app":"shop","session":"i-1","time":"1970-01-01T00:00:00.000000001Z","memory":{"used_bytes":` + tt.used + `,"limit_bytes":` + tt.limit + `}}`}
			}
			if tt.name == "the newest point" {
				want[0] = strings.Replace(want[0], "01Z", "03Z", 1)
			}
			d := same(t, otlp.Metrics, metricRequest(t, resource, gauges(t, tt.points...)), want...)
			if d.Rejected != 0 {
				t.Errorf("%d rejected: %s, want none", d.Rejected, d.Reason)
			}
		})
	}
}

// TestOnlyCurrentValues checks that counters, deltas and histograms are ignored.
func TestOnlyCurrentValues(t *testing.T) {
	for name, change := range map[string]func(pmetric.Metric){
		"a counter": func(m pmetric.Metric) { m.Sum().SetIsMonotonic(true) },
		"a change":  func(m pmetric.Metric) { m.Sum().SetAggregationTemporality(pmetric.AggregationTemporalityDelta) },
		"nothing recorded": func(m pmetric.Metric) {
			m.Sum().DataPoints().At(0).SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
		},
		"a histogram": func(m pmetric.Metric) { m.SetEmptyHistogram().DataPoints().AppendEmpty().SetSum(7) },
	} {
		t.Run(name, func(t *testing.T) {
			same(t, otlp.Metrics, metricRequest(t, resource, func(all pmetric.MetricSlice) {
				gauges(t, point{"+container.memory.usage", 7, nil, 1}, point{"container.memory.limit", 10, nil, 1})(all)
				change(all.At(0))
			}))
		})
	}
}

func TestRejectedDataPoints(t *testing.T) {
	r := metricRequest(t, resource, gauges(t,
		point{"container.memory.usage", -1, nil, 2}, point{"container.memory.limit", math.Inf(1), nil, 1}, point{"other", -1, nil, 1},
		point{"go.memory.used", math.NaN(), nil, 1}))
	d, err := otlp.Decode(otlp.Metrics, otlp.Protobuf, write(t, r)[otlp.Protobuf])
	if err != nil || d.Rejected != 3 || d.Reason != "container.memory.usage must be a number of bytes, not -1" || len(d.Events) != 0 {
		t.Errorf("Decode = %+v, %v, want 3 rejected and no event", d, err)
	}
}
