// Package figures is how a benchmark says what it measured: as lines of a table,
// each beside what was asked. It asserts nothing.
package figures

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Figure is one line of the table. Asked is empty where nobody asked for a bound.
type Figure struct{ What, Asked, Measured string }

// Print writes a table.
func Print(w io.Writer, all []Figure) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "WHAT\tASKED\tMEASURED") // Flush has the error
	for _, f := range all {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", f.What, f.Asked, f.Measured)
	}
	return table.Flush()
}

// Quantiles says p50 and p99 of what was measured, which it sorts.
func Quantiles(all []time.Duration) string {
	if len(all) == 0 {
		return "nothing was measured"
	}
	slices.Sort(all)
	at := func(p int) time.Duration { return all[min(len(all)*p/100, len(all)-1)] }
	return fmt.Sprintf("p50 %s, p99 %s (n=%d)", Rounded(at(50)), Rounded(at(99)), len(all))
}

// Rounded keeps three digits or so.
func Rounded(d time.Duration) time.Duration {
	for unit := time.Second; unit > time.Nanosecond; unit /= 10 {
		if d >= 100*unit {
			return d.Round(unit)
		}
	}
	return d
}

// Median is the one in the middle, the higher of two. There has to be one.
func Median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}
