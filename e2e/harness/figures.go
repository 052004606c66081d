package harness

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"
)

// Figure is what a benchmark measured, beside the figure to meet. Asked is empty if
// there is none.
type Figure struct{ What, Asked, Measured string }

// PrintFigures writes figures as a table.
func PrintFigures(w io.Writer, all []Figure) error {
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

// Median returns the middle value, or the higher of the two middle ones. There has to
// be one.
func Median[T cmp.Ordered](all []T) T {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}
