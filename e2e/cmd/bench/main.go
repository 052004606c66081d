// Command bench measures latencies, throughput, start-up and memory, and prints them as
// a table: p50 and p99, each beside the figure to meet. It asserts nothing, because
// machines differ: people compare the figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

func main() { os.Exit(run()) }

func run() int {
	bin := flag.String("tocsin", "bin/tocsin", "the binary to measure")
	samples := flag.Int("samples", 500, "how often each latency is measured")
	onlyStorms := flag.Bool("storms", false, "measure only how late alerts are in a storm")
	onlyStartup := flag.Bool("startup", false, "measure only how long commands take to start, and the memory of an idle gateway")
	onlyInvestigations := flag.Bool("investigations", false, "measure only the investigator")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	sections := []section{onTheBinary, inThisProcess, startup, gatewayMemory, page, storms, investigations, decisions}
	switch {
	case *onlyStorms:
		sections = []section{storms}
	case *onlyStartup:
		sections = []section{startup, gatewayMemory}
	case *onlyInvestigations:
		sections = []section{investigations}
	}
	if err := bench(ctx, *bin, *samples, sections); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

// section measures one part of the table. bin is the absolute path of the binary,
// samples is the number of measurements of each latency.
type section func(ctx context.Context, bin string, samples int) ([]harness.Figure, error)

// bench measures the sections in order and prints one table.
func bench(ctx context.Context, bin string, samples int, sections []section) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	var all []harness.Figure
	for _, measure := range sections {
		figures, err := measure(ctx, bin, samples)
		if err != nil {
			return err
		}
		all = append(all, figures...)
	}
	return harness.PrintFigures(os.Stdout, all)
}

// inThisProcess measures an ingest service in this process, for ratios to raw publishing and to
// Tocsin's own format.
func inThisProcess(ctx context.Context, _ string, _ int) ([]harness.Figure, error) {
	own, err := withIngest(ctx, ingestRatio)
	if err != nil {
		return nil, err
	}
	foreign, err := withIngest(ctx, foreignRatios)
	return append(own, foreign...), err
}

// onTheBinary measures a real bus and a real gateway.
func onTheBinary(ctx context.Context, bin string, samples int) (all []harness.Figure, err error) {
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
	for _, measure := range []func(context.Context) ([]harness.Figure, error){m.notification, m.ciResult, m.configure, m.toolsList, m.hooks, m.eventStreams} {
		more, err := measure(ctx)
		if err != nil {
			return nil, fmt.Errorf("%w\n%s%s", err, bus.Log, agent.Log)
		}
		all = append(all, more...)
	}
	return all, nil
}
