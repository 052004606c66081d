package otlp

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// series is the newest value of a metric for one set of attributes.
type series struct {
	value float64
	time  pcommon.Timestamp
	state string
}

// readings holds the series of a resource's metrics, by the metric's name and by [key].
type readings map[string]map[string]series

// metrics adds one memory event for each resource that reports how much it uses and how
// much it may use.
func (d *Decoded) metrics(all pmetric.Metrics) error {
	for _, from := range all.ResourceMetrics().All() {
		r := readings{}
		for _, scope := range from.ScopeMetrics().All() {
			for _, m := range scope.Metrics().All() {
				if memoryMetrics[m.Name()] {
					d.read(r, m)
				}
			}
		}
		memory, time, ok := r.memory()
		if !ok {
			continue
		}
		sender := originOf(from.Resource())
		if err := d.add(telemetry.Event{
			Kind: telemetry.KindMemory, App: sender.app, Session: sender.session(from.Resource().Attributes()), Release: sender.release,
			Time: firstTime(time), Memory: &memory,
		}); err != nil {
			return err
		}
	}
	return nil
}

// read adds the current values of a metric to r: those of gauges, and of cumulative sums
// that may fall. It ignores deltas, which mean nothing without the earlier ones.
func (d *Decoded) read(r readings, m pmetric.Metric) {
	var points pmetric.NumberDataPointSlice
	switch m.Type() {
	case pmetric.MetricTypeGauge:
		points = m.Gauge().DataPoints()
	case pmetric.MetricTypeSum:
		if m.Sum().IsMonotonic() || m.Sum().AggregationTemporality() == pmetric.AggregationTemporalityDelta {
			return
		}
		points = m.Sum().DataPoints()
	default:
		return
	}
	for _, p := range points.All() {
		if p.Flags().NoRecordedValue() {
			continue
		}
		value := p.DoubleValue()
		if p.ValueType() == pmetric.NumberDataPointValueTypeInt {
			value = float64(p.IntValue())
		}
		if !(value >= 0) || math.IsInf(value, 1) {
			d.reject(fmt.Sprintf("%s must be a number of bytes, not %s", m.Name(), doubleText(value)))
			continue
		}
		if r[m.Name()] == nil {
			r[m.Name()] = map[string]series{}
		}
		set := key(p.Attributes())
		if before, ok := r[m.Name()][set]; !ok || before.time <= p.Timestamp() {
			r[m.Name()][set] = series{value, p.Timestamp(), text(p.Attributes(), "system.memory.state", "state")}
		}
	}
}

// key returns a text that is equal for equal attributes, and empty for none.
func key(attributes pcommon.Map) string {
	if attributes.Len() == 0 {
		return ""
	}
	parts := make([]string, 0, attributes.Len())
	for name, value := range attributes.All() {
		parts = append(parts, fmt.Sprintf("%q=%q", name, valueText(value)))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}
