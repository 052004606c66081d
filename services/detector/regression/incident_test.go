package regression_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/regression"
)

// TestIncidents plays loads of one page under the specification's rule: 20*1000 is 20 loads
// of 1000 ms. want has the alerts that end an incident, by the number of the load after the
// bar. After each load the state is written and read back.
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
		{"an end that is suppressed is the next load's", "20*1000 | 5*2000 (1000) 1000 1000", second, "7 Resolved: LCP regressed on /cart"},
		{"a new level that is suppressed too", "20*1000 | 19*2000 (2000) 2000 2000", 5 * second, "21 New level: LCP on /cart"},
		{"what was not published has no end", "20*1000 | (5*2000) 1000 1000", second, ""},
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
						f.MarkPublished(fmt.Sprint("load ", n))
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
