// Command bench measures the figures of the contract's section 9 and prints
// them as a table: p50 and p99, and beside each what was asked. It asserts
// nothing: machines differ, and it is for people to compare.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

func main() { os.Exit(run()) }

func run() int {
	bin := flag.String("tocsin", "bin/tocsin", "the binary to measure")
	samples := flag.Int("samples", 500, "how often each latency is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx, *bin, *samples); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// figure is one line of the table.
type figure struct {
	what, asked, measured string
}

func bench(ctx context.Context, bin string, samples int) error {
	figures, err := onTheBinary(ctx, bin, samples)
	if err != nil {
		return err
	}
	for _, measure := range []func(context.Context, measured) ([]figure, error){intakeRatio, foreignRatios} {
		more, err := withIntake(ctx, measure)
		if err != nil {
			return err
		}
		figures = append(figures, more...)
	}
	more, err := page(ctx, bin)
	if err != nil {
		return err
	}
	figures = append(append(figures, more...), decisions()...)
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "WHAT\tASKED\tMEASURED")
	for _, f := range figures {
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\n", f.what, f.asked, f.measured)
	}
	return table.Flush()
}

// onTheBinary measures what goes through a real bus and a real gateway.
func onTheBinary(ctx context.Context, bin string, samples int) (figures []figure, err error) {
	if bin, err = filepath.Abs(bin); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tocsin-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	bus, err := harness.Up(ctx, bin, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bus.Stop()) }()
	agent, err := harness.StartAgent(ctx, bin, dir, "bench")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, agent.Close()) }()
	m := &meter{bin: bin, bus: bus, agent: agent, samples: samples}
	for _, measure := range []func(context.Context) ([]figure, error){m.notification, m.ciResult, m.configure, m.toolsList, m.hooks, m.pages} {
		more, err := measure(ctx)
		if err != nil {
			return nil, fmt.Errorf("%w\n%s%s", err, bus.Log, agent.Log)
		}
		figures = append(figures, more...)
	}
	return figures, nil
}

// quantiles prints p50 and p99 of what was measured.
func quantiles(all []time.Duration) string {
	slices.Sort(all)
	at := func(p int) time.Duration { return all[min(len(all)*p/100, len(all)-1)] }
	return fmt.Sprintf("p50 %s, p99 %s (n=%d)", rounded(at(50)), rounded(at(99)), len(all))
}

// rounded keeps three digits or so.
func rounded(d time.Duration) time.Duration {
	for unit := time.Second; unit > time.Nanosecond; unit /= 10 {
		if d >= 100*unit {
			return d.Round(unit)
		}
	}
	return d
}
