package regression_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/changepoint"
	"github.com/tocsin-bus/tocsin/services/detector/finding"
	"github.com/tocsin-bus/tocsin/services/detector/regression"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Each row is loads of one page under the contract's rule, 20*1000 being 20 loads of
// 1000 ms, and the ends among what is raised, by the number of the load behind the bar.
// The state is written down and read back between any two loads.
func TestIncidents(t *testing.T) {
	const second = time.Second
	for _, tt := range []struct {
		name, loads string
		apart       time.Duration
		want        string
	}{
		{"twice as slow for 45 s, a load a second", "20*1000 | 45*2000 10*1000", second, "46 Resolved: LCP regressed on /cart"},
		{"twice as slow for 45 s, a load each 5 s", "20*1000 | 9*2000 10*1000", 5 * second, "10 Resolved: LCP regressed on /cart"},
		{"one slow load", "20*1000 | 2000 10*1000", second, "2 Resolved: LCP regressed on /cart"},
		{"it varies while it is slow", "20*1000 | 2000 1800 2400 1150 2100 1900 1180 1150 2000 1000", second, "10 Resolved: LCP regressed on /cart"},
		{"it comes down to where it may be either", "20*1000 | 5*2000 1150 1150 1150", second, "8 Resolved: LCP regressed on /cart"},
		{"two slow loads, and one that is not over", "20*1000 | 2000 2000 1150 1150", second, "4 Resolved: LCP regressed on /cart"},
		{"what stays for 20 loads", "20*1000 | 30*2000", 5 * second, "20 New level: LCP on /cart"},
		{"not in a minute", "20*1000 | 70*2000", second, "61 New level: LCP on /cart"},
		{"what stays for 15 minutes", "20*1000 | 30*2000", 300 * second, "4 New level: LCP on /cart"},
		{"two loads in 15 minutes are too few", "20*1000 | 2000 2000 1000", 1200 * second, "3 Resolved: LCP regressed on /cart"},
		{"the new level is the baseline", "20*1000 | 4*2000 2300 2300 3000 2000", 300 * second, "4 New level: LCP on /cart, 8 Resolved: LCP regressed on /cart"},
		{"nothing is over after it", "20*1000 | 40*2000 10*1000", 5 * second, "20 New level: LCP on /cart"},
		{"a fast load in between ends it", "20*1000 | 15*2000 1000 15*2000 1000", 5 * second, "16 Resolved: LCP regressed on /cart"},
		{"an end that is held back is the next load's", "20*1000 | 5*2000 (1000) 1000 1000", second, "7 Resolved: LCP regressed on /cart"},
		{"a new level that is held back too", "20*1000 | 19*2000 (2000) 2000 2000", 5 * second, "21 New level: LCP on /cart"},
		{"what nobody was told of has no end", "20*1000 | (5*2000) 1000 1000", second, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			pages, now, n := regression.New(), noon, 0
			var got []string
			for word := range strings.FieldsSeq(tt.loads) {
				if word == "|" {
					n = 0
					continue
				}
				many, text := 1, strings.Trim(word, "()")
				if before, after, ok := strings.Cut(text, "*"); ok {
					many, _ = strconv.Atoi(before)
					text = after
				}
				ms, err := strconv.ParseFloat(text, 64)
				if err != nil {
					t.Fatal(err)
				}
				for range many {
					n, now = n+1, now.Add(tt.apart)
					for _, f := range pages.Load("web", cart, lcp(ms), now) {
						if strings.HasPrefix(word, "(") {
							continue
						}
						f.Told(fmt.Sprint("load ", n))
						if f.Alert.Resolves != "" {
							got = append(got, fmt.Sprint(n, " ", f.Alert.Title))
						}
					}
					pages = restored(t, pages)
				}
			}
			if got := strings.Join(got, ", "); got != tt.want {
				t.Errorf("%s, %v apart\n got %s\nwant %s", tt.loads, tt.apart, got, tt.want)
			}
		})
	}
}

// opened is one alert that is open.
func opened() *finding.Open {
	open := &finding.Open{}
	open.Add("old", alert.Error)
	return open
}

// TestIncidentsOfOlderSnapshots reads what version 7 wrote while a page was slow: it
// goes on until the page is as before.
func TestIncidentsOfOlderSnapshots(t *testing.T) {
	var spec, confirmed snapshot.Writer
	spec.Len(1)
	spec.String("/cart")
	confirmed.Len(1)
	confirmed.String("0/cart")
	for metric := range 6 {
		confirmed.Bool(metric == 1)
		if metric != 1 { // not lcp_ms
			spec.Len(0)
			continue
		}
		values := append(slices.Repeat([]int64{1_000_000}, 15), slices.Repeat([]int64{2_000_000}, 5)...)
		spec.Len(len(values))
		for _, v := range values {
			spec.Int(v)
		}
		opened().Save(&spec)
		for _, part := range [][]int64{values[:15], values[15:]} { // the reference, and what is newer
			confirmed.Len(len(part))
			for _, v := range part {
				confirmed.Int(v)
			}
		}
		confirmed.Len(int(changepoint.Confirmed))
		confirmed.Bool(false)
		confirmed.Len(0)
		for _, n := range []int{5, 0, 75} { // under suspicion, since then, ranks
			confirmed.Len(n)
		}
		confirmed.Int(2 * 2_000_000)
		opened().Save(&confirmed)
		confirmed.Len(int(changepoint.Confirmed))
	}
	for name, load := range map[string]func(ms float64, now time.Time) []finding.Finding{
		"spec": func() func(float64, time.Time) []finding.Finding {
			r := snapshot.NewReaderOf(snapshot.Trust, spec.Bytes())
			p := regression.Restore(r)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			return func(ms float64, now time.Time) []finding.Finding { return p.Load("web", cart, lcp(ms), now) }
		}(),
		"confirmed": func() func(float64, time.Time) []finding.Finding {
			r := snapshot.NewReaderOf(snapshot.Trust, confirmed.Bytes())
			c := regression.RestoreConfirmed(r)
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			return func(ms float64, now time.Time) []finding.Finding { return c.Load("web", cart, lcp(ms), now) }
		}(),
	} {
		var got []string
		for i, ms := range append(times(10, 2000), times(4, 1000)...) {
			for _, f := range load(ms, noon.Add(time.Duration(i)*time.Second)) {
				f.Told(fmt.Sprint(i))
				if f.Alert.Resolves != "" {
					got = append(got, fmt.Sprint(i, " ", f.Alert.Title))
				}
			}
		}
		want := map[string]string{"spec": "10 Resolved: LCP regressed on /cart", "confirmed": "12 Resolved: LCP regressed on /cart"}[name]
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
