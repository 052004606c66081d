package spike_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/services/detector/spike"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

func at(ms int) time.Time { return time.UnixMilli(1_770_000_000_000 + int64(ms)) }

// every returns the times from first to last, step apart, in milliseconds.
func every(first, last, step int) []int {
	var out []int
	for t := first; t <= last; t += step {
		out = append(out, t)
	}
	return out
}

// TestRatioSpikes checks at which errors spikes begin, in milliseconds.
func TestRatioSpikes(t *testing.T) {
	tests := []struct {
		name   string
		errors []int
		want   []int
	}{
		{"four errors are none", every(0, 300, 100), nil},
		{"the fifth in 10 s is one", every(0, 400, 100), []int{400}},
		{"five in exactly 10 s are four in the window", []int{0, 1, 2, 3, 10_000}, nil},
		{"five in just under 10 s", []int{0, 1, 2, 3, 9_999}, []int{9_999}},
		{"one alert per spike", every(0, 9_000, 100), []int{400}},
		{"a steady rate is no spike, its beginning is", every(0, 200_000, 1000), []int{4_000}},
		// 1/s for 16 min: the beginning was found at 4 s and has become the level. 60 are
		// in the history, an average of 10, so more than 30 in 10 s.
		{"30 where 10 are usual", slices.Concat(every(0, 959_000, 1000), every(969_001, 969_030, 1)), []int{4_000}},
		{"31 where 10 are usual", slices.Concat(every(0, 959_000, 1000), every(969_001, 969_031, 1)), []int{4_000, 969_031}},
		{"5 where 4 are usual", slices.Concat(every(0, 57_500, 2500), every(70_000, 70_004, 1)), nil},
		{"errors 70 s old are forgotten", slices.Concat(every(0, 57_500, 2500), every(127_500, 127_504, 1)), []int{127_504}},
		{"what returns within 120 s of the calm is the same spike", slices.Concat(every(0, 4, 1), every(10_005, 10_009, 1), every(135_000, 135_010, 1)), []int{4}},
		{"three errors are no return", slices.Concat(every(0, 4, 1), every(60_000, 60_002, 1), every(130_003, 130_010, 1)), []int{4, 130_007}},
		{"the next spike after 120 s of calm", slices.Concat(every(0, 4, 1), every(130_003, 130_010, 1)), []int{4, 130_007}},
		{"it goes on while errors stay over 1.5x", every(0, 200_000, 100), []int{400}},
		{"what stays for 15 min is the average from then on", slices.Concat(every(0, 1_000_000, 100), every(1_000_001, 1_000_300, 1)), []int{400, 1_000_203}},
		{"a clock that is set back starts again", []int{90_000, 90_001, 90_002, 90_003, 0, 1, 2, 3, 4}, []int{4}},
		{"an avalanche is one spike", growing(45_000), []int{50}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var c spike.RatioCounter
			var got []int
			for _, ms := range tt.errors {
				if _, spike := c.Add(at(ms)); spike {
					got = append(got, ms)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("spikes at %v, want %v", got, tt.want)
			}
		})
	}
}

// growing returns errors whose rate doubles every 3 s, so that the last 10 s always have far
// more than 3 times the average.
func growing(until int) []int {
	var out []int
	for t, step := 10, 10; t <= until; t += step {
		n := 1 << (t / 3000)
		for range n / 50 {
			out = append(out, t)
		}
		out = append(out, t)
	}
	return out
}

func TestRatioSpikeCounts(t *testing.T) {
	var c spike.RatioCounter
	for _, ms := range every(0, 959_000, 1000) {
		c.Add(at(ms))
	}
	var last spike.RatioSpike
	for i := range 40 {
		if s, spike := c.Add(at(969_001 + i)); spike {
			last = s
		}
	}
	if want := (spike.RatioSpike{Count: 31, Average: 10}); last != want {
		t.Errorf("spike = %+v, want %+v", last, want)
	}
}

// TestRatioOver checks at which times no spike is open.
func TestRatioOver(t *testing.T) {
	five := every(0, 4, 1)
	// Four errors in 10 s are usual, then five times as many come for a minute.
	usual := slices.Concat(every(0, 300_000, 2500), every(300_001, 360_000, 500))
	for _, tt := range []struct {
		name   string
		errors []int
		query  int
		want   bool
	}{
		{"no error at all", nil, 0, true},
		{"no spike", every(0, 3, 1), 3, true},
		{"at once", five, 4, false},
		{"calm with one error left, which has to last 120 s", five, 10_003, false},
		{"just under 120 s later", five, 130_002, false},
		{"120 s later", five, 130_003, true},
		{"long after", five, 1_000_000, true},
		{"three errors do not return to the spike's level", slices.Concat(five, every(100_000, 100_002, 1)), 130_003, true},
		{"four errors do", slices.Concat(five, every(100_000, 100_003, 1)), 130_003, false},
		{"and 120 s after they have left the window it ends", slices.Concat(five, every(100_000, 100_003, 1)), 230_003, true},
		{"a spike of a minute: its own errors do not end it", usual, 360_000, false},
		{"it goes on while twice as many as usual come", slices.Concat(usual, every(361_000, 600_000, 1250)), 600_000, false},
		{"it ends 120 s after it is back at what is usual", slices.Concat(usual, every(361_000, 500_000, 2500)), 500_000, true},
		{"not before", slices.Concat(usual, every(361_000, 480_000, 2500)), 480_000, false},
		{"what stays is the new level after 15 min", every(0, 904_000, 1000), 904_000, true},
		{"and a spike until then", every(0, 903_000, 1000), 903_999, false},
		{"a clock that was set back", five, -1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var c spike.RatioCounter
			for _, ms := range tt.errors {
				c.Add(at(ms))
			}
			if _, over, _ := c.Over(at(tt.query)); over != tt.want {
				t.Errorf("Over(%d ms) = %v, want %v", tt.query, over, tt.want)
			}
		})
	}
}

func TestRatioAlert(t *testing.T) {
	begin := spike.RatioSpike{Count: 31, Average: 10}.Alert("web", alert.SignalRequests)
	if diff := cmp.Diff(alert.Alert{
		Title:  "Error spike in requests: more than 3x the rolling average",
		Detail: "31 errors in the last 10 s, rolling average 10.0 (of the 60 s before)", DedupKey: "anomaly:web:requests",
		Severity: alert.Error, Category: alert.Anomaly, Source: alert.SourceAnomaly,
		Context: map[string]any{alert.SignalKey: "requests", "count": 31, "average": 10.0},
	}, begin); diff != "" {
		t.Errorf("the beginning (-want +got):\n%s", diff)
	}
	end := spike.RatioSpike{Count: 12, Average: 10}.Resolution("web", alert.SignalRequests, "id")
	if diff := cmp.Diff(alert.Alert{
		Title: "Resolved: Error spike in requests", Resolves: "id",
		Detail: "12 errors in the last 10 s, rolling average 10.0 (of the 60 s before)", DedupKey: "anomaly:web:requests",
		Severity: alert.Info, Category: alert.Anomaly, Source: alert.SourceAnomaly,
		Context: map[string]any{alert.SignalKey: "requests", "count": 12, "average": 10.0},
	}, end); diff != "" {
		t.Errorf("the end (-want +got):\n%s", diff)
	}
	stayed := spike.RatioSpike{Count: 12, Average: 10, Stayed: true}.Resolution("web", alert.SignalLogs, "id")
	if diff := cmp.Diff(alert.Alert{
		Title: "Error rate in logs stays at the spike's level, now treated as normal", Resolves: "id",
		Detail: "12 errors in the last 10 s, rolling average 10.0 (of the 60 s before)", DedupKey: "anomaly:web:logs",
		Severity: alert.Info, Category: alert.Anomaly, Source: alert.SourceAnomaly,
		Context: map[string]any{alert.SignalKey: "logs", "count": 12, "average": 10.0, alert.OutcomeKey: alert.NewLevel},
	}, stayed); diff != "" {
		t.Errorf("the new level (-want +got):\n%s", diff)
	}
}

// model is a simple implementation of the rule over all errors. It checks whether a spike has
// calmed or ended at every millisecond at which a count changes.
type model struct {
	errors                    []int
	open, calm                bool
	opened, calmSince, frozen int
	checked                   int
}

func (m *model) count(from, to int) (n int) {
	for _, e := range m.errors {
		if e > from && e <= to {
			n++
		}
	}
	return n
}

func (m *model) counts(t int) (c, before int) {
	return m.count(t-10_000, t), m.count(t-70_000, t-10_000)
}

func (m *model) at(t int) {
	c, before := m.counts(t)
	if m.open && !m.calm && float64(c) <= max(1.5*float64(m.frozen)/6, 1) {
		m.calm, m.calmSince = true, t
	}
	if m.open && (m.calm && t >= m.calmSince+120_000 || !m.calm && t >= m.opened+900_000 && float64(c) <= 3*float64(before)/6) {
		m.open = false
	}
}

func (m *model) over(t int) bool {
	m.check(t)
	return !m.open
}

func (m *model) check(t int) {
	var moments []int
	for _, e := range m.errors {
		moments = append(moments, e+10_000, e+70_000, e+130_000, e+190_000)
	}
	moments = append(moments, m.opened+900_000)
	slices.Sort(moments)
	for _, moment := range moments {
		if moment > m.checked && moment <= t {
			m.at(moment)
		}
	}
	m.checked = t
}

func (m *model) add(t int) bool {
	m.check(t)
	m.errors = append(m.errors, t)
	c, before := m.counts(t)
	if m.open {
		if 4*c >= 3*max(5, m.frozen/2+1) { // more than 3 times the average
			m.calm = false
		}
		return false
	}
	if c < 5 || float64(c) <= 3*float64(before)/6 {
		return false
	}
	m.open, m.calm, m.opened, m.frozen = true, false, t, before
	return true
}

func TestRatioAgainstModel(t *testing.T) {
	gaps := []int{0, 0, 1, 10, 100, 500, 1000, 2500, 9_999, 10_000, 10_001, 29_999, 60_000, 69_999, 70_000, 119_999, 120_000, 130_000, 900_000}
	rapid.Check(t, func(t *rapid.T) {
		c, m := &spike.RatioCounter{}, &model{checked: -1, opened: -1 << 40}
		now := 0
		for range rapid.IntRange(1, 25).Draw(t, "bursts") {
			for range rapid.IntRange(0, 3).Draw(t, "checks") {
				now += rapid.SampledFrom(gaps).Draw(t, "pause")
				counted, got, _ := c.Over(at(now))
				if want := m.over(now); got != want || counted.Count != m.count(now-10_000, now) {
					t.Fatalf("Over(%d) after %v = %v with %d errors, want %v with %d", now, m.errors, got, counted.Count, want, m.count(now-10_000, now))
				}
			}
			now += rapid.SampledFrom(gaps).Draw(t, "gap")
			step := rapid.SampledFrom([]int{0, 1, 50, 400, 1100}).Draw(t, "step")
			for range rapid.IntRange(1, 12).Draw(t, "errors") {
				_, got := c.Add(at(now))
				if want := m.add(now); got != want {
					t.Fatalf("Add(%d) after %v = %v, want %v", now, m.errors, got, want)
				}
				now += step
			}
			if rapid.Bool().Draw(t, "restart") {
				c = restoredRatio(t, c)
			}
		}
	})
}

type fataler interface{ Fatal(...any) }

func restoredRatio(t fataler, c *spike.RatioCounter) *spike.RatioCounter {
	again := &spike.RatioCounter{}
	snapshottest.Copy(t, c, again)
	if again.Size() != c.Size() {
		t.Fatal("restored size:", again.Size(), "want", c.Size())
	}
	return again
}

// TestRatioBounded checks the size with an error in every millisecond, and after that.
func TestRatioBounded(t *testing.T) {
	var c spike.RatioCounter
	for ms := range 100_000 {
		c.Add(at(ms))
		c.Add(at(ms))
	}
	if want := 16 << 17; c.Size() != want { // the power of two above 70,000
		t.Errorf("%d bytes, want %d", c.Size(), want)
	}
	restoredRatio(t, &c)
	c.Add(at(300_000))
	if want := 16 * 16; c.Size() != want {
		t.Errorf("%d bytes after silence, want %d", c.Size(), want)
	}
}

func TestRatioRestoreRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		room          int
		times, counts []int64
		recent        int
	}{
		"times that run backwards": {16, []int64{5, 4}, []int64{1, 1}, 0},
		"no error in a cell":       {16, []int64{5}, []int64{0}, 0},
		"a time beyond all":        {16, []int64{1 << 62}, []int64{1}, 0},
		"more recent than there":   {16, []int64{5}, []int64{1}, 2},
		"a ring that is too small": {0, []int64{5}, []int64{1}, 0},
		"a ring that is too large": {32, []int64{5}, []int64{1}, 0},
		"a ring of an odd length":  {17, make([]int64, 17), slices.Repeat([]int64{1}, 17), 0},
		"a time without a count":   {16, []int64{5, 6}, []int64{1}, 0},
	} {
		data := snapshot.Append(nil, func(s *snapshot.Codec) {
			snapshot.Uint(s, 1, &tt.room, 0)
			s.PackedTimes(2, tt.times, 0)
			snapshot.Packed(s, 3, tt.counts, 0, 0)
			snapshot.Uint(s, 4, &tt.recent, 0)
		})
		if err := snapshot.Read(data, (&spike.RatioCounter{}).State); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}

func BenchmarkRatioAdd(b *testing.B) {
	b.ReportAllocs()
	var c spike.RatioCounter
	now := at(0)
	for b.Loop() {
		now = now.Add(100 * time.Microsecond)
		c.Add(now)
	}
}

// TestRatioCount checks that Count finds no spike, and that the errors it counted are part of
// the average for later ones.
func TestRatioCount(t *testing.T) {
	c, start := &spike.RatioCounter{}, time.UnixMilli(1_770_000_000_000)
	for second := range 70 {
		at := start.Add(time.Duration(second) * time.Second)
		c.Count(at, 10)
		c.Count(at, 10)
	}
	now := start.Add(69 * time.Second)
	if counted, over, _ := c.Over(now); !over || counted.Count != 200 {
		t.Errorf("Over = %+v, %v, want 200 errors and no spike", counted, over)
	}
	total, cells := int64(0), 0
	for _, n := range c.Errors() {
		total, cells = total+n, cells+1
	}
	if total != 1400 || cells != 70 {
		t.Errorf("got %d errors at %d times, want 1400 at 70", total, cells)
	}
	c = restoredRatio(t, c)
	added := 0
	for ; added < 1000; added++ {
		if _, found := c.Add(now); found {
			break
		}
	}
	if added != 400 { // with one more it is over 3 times 200
		t.Errorf("got a spike with %d errors more, want it with the 401st", added+1)
	}
}
