// Package figures prints what a benchmark measured: as lines of a table, each beside
// the figure to meet. It asserts nothing.
package figures

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Figure is one line of the table. Asked is empty if there is no figure to meet.
type Figure struct{ What, Asked, Measured string }

// Print writes a table.
func Print(w io.Writer, all []Figure) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "WHAT\tASKED\tMEASURED") // Flush returns the error
	for _, f := range all {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", f.What, f.Asked, f.Measured)
	}
	return table.Flush()
}

// Quantiles formats p50 and p99 of values, which it sorts.
func Quantiles(all []time.Duration) string {
	if len(all) == 0 {
		return "nothing was measured"
	}
	slices.Sort(all)
	at := func(p int) time.Duration { return all[min(len(all)*p/100, len(all)-1)] }
	return fmt.Sprintf("p50 %s, p99 %s (n=%d)", Rounded(at(50)), Rounded(at(99)), len(all))
}

// Rounded formats a number with about three digits.
func Rounded(d time.Duration) time.Duration {
	for unit := time.Second; unit > time.Nanosecond; unit /= 10 {
		if d >= 100*unit {
			return d.Round(unit)
		}
	}
	return d
}

// Median returns the value in the middle, of two the higher. There has to be one.
func Median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}
