package oldsnapshot

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/changepoint"
	"github.com/tocsin-bus/tocsin/services/detector/ratetail"
	"github.com/tocsin-bus/tocsin/services/detector/regression"
	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/services/detector/spike"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// at returns the time some milliseconds after the start of a test.
func at(ms int64) time.Time { return time.UnixMilli(1_770_000_000_000 + ms).UTC() }

// read converts a part of an old snapshot and reads it into a value.
func read(t *testing.T, version uint32, data []byte, part func(converter), into snapshottest.Stater) {
	t.Helper()
	r := &reader{rest: data, version: version}
	converted := encode(r, part)
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	snapshottest.Read(t, converted, into)
}

// TestOpenSpikeOfVersion6 checks that an open spike in a snapshot of version 6 stays open
// while its errors continue, although the minute before is full of them, and ends 120 s
// after it has calmed.
func TestOpenSpikeOfVersion6(t *testing.T) {
	var w writer
	w.len(128)
	w.len(70)
	for i := range 70 { // one a second, since 70 s
		step := int64(1000)
		if i == 0 {
			step = at(0).UnixMilli()
		}
		w.int(step)
		w.int(1)
	}
	w.len(10)
	w.bool(true)
	w.uint(uint64(at(4000).UnixMilli()))
	w.bool(true)
	w.uint(uint64(at(69_000).UnixMilli()))
	var c spike.RatioCounter
	read(t, resolutions, w.buf, ratioCounter, &c)
	last := int64(0)
	for ms := int64(70_000); ms < 140_000; ms += 500 { // twice as many
		if _, spike := c.Add(at(ms)); spike {
			t.Errorf("at %d ms the spike is found again, want nothing found", ms)
		}
		if _, over, _ := c.Over(at(ms)); over {
			t.Fatalf("at %d ms the spike has ended, want it open", ms)
		}
		last = ms
	}
	for ms := last; ms < last+200_000; ms += 100 {
		if _, over, _ := c.Over(at(ms)); over {
			if after := ms - last; after < 120_000 || after > 131_000 {
				t.Errorf("the spike ended %d ms after the last error, want about 125 s", after)
			}
			return
		}
	}
	t.Error("the spike is still open 200 s after its last error, want it ended after about 125 s")
}

// TestSpikeOfVersion7 checks that an open spike in a snapshot of version 7 becomes an open
// incident with the usual rate before it, raises nothing again, and ends 120 s after it
// has calmed. The counter had seen an error every 5 s for 10 min, then one every 100 ms
// for 30 s.
func TestSpikeOfVersion7(t *testing.T) {
	data, err := os.ReadFile("testdata/ratetail-version7.bin")
	if err != nil {
		t.Fatal(err)
	}
	var c ratetail.Counter
	read(t, trust, data, rateCounter, &c)
	if now, _, _ := c.Over(at(629_900)); now.Expected < 1 || now.Expected > 4 {
		t.Errorf("%.2f errors are expected in 10 s, want about 2, as before the spike", now.Expected)
	}
	for ms := int64(630_000); ms < 690_000; ms += 100 {
		if found, ok := c.Add(at(ms), false); ok {
			t.Errorf("at %d s found = %+v, want nothing", ms/1000, found)
		}
	}
	ended := int64(0)
	for ms := int64(690_000); ended == 0 && ms < 900_000; ms += 1000 {
		if ms%5000 == 0 {
			c.Add(at(ms), false)
		}
		if end, over, _ := c.Over(at(ms)); over {
			if ended = ms / 1000; end.Kind != ratetail.SpikeOver {
				t.Errorf("the spike ended with %+v, want kind %v", end, ratetail.SpikeOver)
			}
		}
	}
	if ended < 815 || ended > 825 {
		t.Errorf("the spike ended at %d s, want about 820 s", ended)
	}
}

// putOpen writes open alerts, by their ids and ranks.
func putOpen(w *writer, ids []string, ranks ...int) {
	w.len(len(ids))
	for i, id := range ids {
		w.string(id)
		w.len(ranks[i])
	}
}

// TestOpenAlertsOfVersion7 checks that version 7 could hold alerts under another dedup
// key, and that earlier versions could not.
func TestOpenAlertsOfVersion7(t *testing.T) {
	var w writer
	putOpen(&w, []string{"a", "b"}, alert.Warning.Rank(), len(alert.Severities())+alert.Error.Rank())
	var got rule.Open
	read(t, trust, w.buf, openAlerts, &got)
	rule.RenewedFinding(alert.Alert{Severity: alert.Warning}, &got).MarkPublished("d")
	var end alert.Alert
	got.End(&end)
	if end.Resolves != "b" || !slices.Equal(end.AlsoResolves, []string{"d"}) {
		t.Errorf("the end resolves %s and %v, want b, which has another key, and d", end.Resolves, end.AlsoResolves)
	}
	older := &reader{rest: w.buf, version: resolutions}
	encode(older, openAlerts)
	if err := older.close(); !errors.Is(err, snapshot.ErrDamaged) {
		t.Errorf("version 6: error = %v, want %v", err, snapshot.ErrDamaged)
	}
}

// TestRegressionsOfVersion7 checks that a regression that was open in version 7 stays open
// until the page is as fast as before.
func TestRegressionsOfVersion7(t *testing.T) {
	var spec, confirmed writer
	spec.len(1)
	spec.string("/cart")
	confirmed.len(1)
	confirmed.string("0/cart")
	for metric := range metrics {
		confirmed.bool(metric == 1)
		if metric != 1 { // not lcp_ms
			spec.len(0)
			continue
		}
		values := append(slices.Repeat([]int64{1_000_000}, 15), slices.Repeat([]int64{2_000_000}, 5)...)
		spec.len(len(values))
		for _, v := range values {
			spec.int(v)
		}
		putOpen(&spec, []string{"old"}, alert.Error.Rank())
		for _, part := range [][]int64{values[:15], values[15:]} { // the reference, and newer values
			confirmed.len(len(part))
			for _, v := range part {
				confirmed.int(v)
			}
		}
		confirmed.len(int(changepoint.Confirmed))
		confirmed.bool(false)
		confirmed.len(0)
		for _, n := range []int{5, 0, 75} { // under suspicion, since then, ranks
			confirmed.len(n)
		}
		confirmed.int(2 * 2_000_000)
		putOpen(&confirmed, []string{"old"}, alert.Error.Rank())
		confirmed.len(int(changepoint.Confirmed))
	}
	bySpec, byConfirmed := regression.New(), regression.NewConfirmed()
	read(t, trust, spec.buf, specPages, bySpec)
	read(t, trust, confirmed.buf, confirmedPages, byConfirmed)
	for _, tt := range []struct {
		name string
		load func(app, url string, vitals *telemetry.Vitals, now time.Time) []rule.Finding
		want string
	}{
		{"spec", bySpec.Load, "10 Resolved: LCP regressed on /cart"},
		{"confirmed", byConfirmed.Load, "12 Resolved: LCP regressed on /cart"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var ends []string
			for i := range 14 {
				ms := 2000.0
				if i >= 10 {
					ms = 1000
				}
				for _, f := range tt.load("web", "http://localhost:3000/cart", &telemetry.Vitals{LCP: &ms}, at(int64(i)*1000)) {
					f.MarkPublished(fmt.Sprint(i))
					if f.Alert.Resolves != "" {
						ends = append(ends, fmt.Sprint(i, " ", f.Alert.Title))
					}
				}
			}
			if got := strings.Join(ends, ", "); got != tt.want {
				t.Errorf("ends = %q, want %q", got, tt.want)
			}
		})
	}
}
