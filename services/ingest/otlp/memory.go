package otlp

import (
	"maps"

	"go.opentelemetry.io/collector/pdata/pcommon"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// pair names two metrics that together give the used part of a memory.
type pair struct {
	used, other string
	rule        rule
}

// rule is the way to get the limit from the other metric of a pair.
type rule int

const (
	// isLimit: the other metric is the limit. A single series without attributes is the
	// limit of all; of several series, such as one for each pool, those with the same
	// attributes in both metrics are summed.
	isLimit rule = iota
	// isAvailable: the other metric is how much memory is left.
	isAvailable
	// ofStates: the used metric has a series for each state, and only "used" counts. The
	// limit is the other metric or, without it, the sum of all states.
	ofStates
)

// pairs are in order of preference: only the first pair that a resource has counts, because
// an event has one memory use.
//
// There is no pair for the V8 engine. Node's metric v8js.memory.heap.limit, now
// v8js.memory.heap.space.size, is the current size of the heap and not its limit: an idle
// process uses 86% of it.
var pairs = []pair{
	{"jvm.memory.used", "jvm.memory.limit", isLimit},
	{"process.runtime.jvm.memory.usage", "process.runtime.jvm.memory.limit", isLimit},
	{"go.memory.used", "go.memory.limit", isLimit},
	// The kubelet reports the memory that is left, not the limit. It counts the working set
	// when it kills a container; usage includes the page cache.
	{"container.memory.working_set", "container.memory.available", isAvailable},
	{"container.memory.working_set", "k8s.container.memory_limit", isLimit},
	{"container.memory.working_set", "k8s.container.memory.limit.current", isLimit},
	{"container.memory.working_set", "k8s.container.memory.limit.desired", isLimit},
	{"container.memory.usage", "container.memory.limit", isLimit},
	{"container.memory.usage", "k8s.container.memory_limit", isLimit},
	{"container.memory.usage", "k8s.container.memory.limit.current", isLimit},
	{"container.memory.usage", "k8s.container.memory.limit.desired", isLimit},
	{"container.memory.usage.total", "container.memory.usage.limit", isLimit}, // Docker
	{"k8s.pod.memory.working_set", "k8s.pod.memory.available", isAvailable},
	{"k8s.pod.memory.usage", "k8s.pod.memory.limit", isLimit},
	{"process.memory.usage", "system.memory.limit", isLimit},
	{"system.memory.usage", "system.memory.limit", ofStates},
	{"k8s.node.memory.working_set", "k8s.node.memory.available", isAvailable},
}

// memoryMetrics are the names in pairs.
var memoryMetrics = func() map[string]bool {
	names := map[string]bool{}
	for _, p := range pairs {
		names[p.used], names[p.other] = true, true
	}
	return names
}()

// unlimited is larger than any real limit, in bytes: runtimes and control groups report
// "no limit" as the largest number of its type, or one close to it.
const unlimited = 1 << 60

// memory returns the memory use by the first pair that is present.
func (r readings) memory() (telemetry.Memory, pcommon.Timestamp, bool) {
	for _, p := range pairs {
		used, limit := r.match(p)
		if used.value > 0 && limit > 0 && limit < unlimited {
			return telemetry.Memory{UsedBytes: used.value, LimitBytes: limit}, used.time, true
		}
	}
	return telemetry.Memory{}, 0, false
}

// match returns the used memory and the limit by one pair, or zeros.
func (r readings) match(p pair) (used series, limit float64) {
	switch p.rule {
	case isAvailable:
		if len(r[p.other]) == 0 {
			return series{}, 0
		}
		used = total(r[p.used])
		return used, used.value + total(r[p.other]).value
	case ofStates:
		all := r[p.used]
		states := maps.Clone(all)
		maps.DeleteFunc(states, func(_ string, s series) bool { return s.state != "used" })
		if limit := total(r[p.other]).value; limit > 0 {
			return total(states), limit
		}
		return total(states), total(all).value
	default:
		return joinLimits(r[p.used], r[p.other])
	}
}

// joinLimits sums the used memory, and the limits, of the series that have a limit.
func joinLimits(used, limits map[string]series) (series, float64) {
	if one, ok := limits[""]; ok && len(limits) == 1 {
		return total(used), one.value
	}
	var (
		sum   series
		limit float64
	)
	for set, l := range limits {
		if u, ok := used[set]; ok && l.value > 0 && l.value < unlimited {
			sum = sum.plus(u)
			limit += l.value
		}
	}
	return sum, limit
}

func total(all map[string]series) series {
	var sum series
	for _, s := range all {
		sum = sum.plus(s)
	}
	return sum
}

// plus returns the sum of two values, with the newer time.
func (s series) plus(more series) series {
	return series{value: s.value + more.value, time: max(s.time, more.time)}
}
