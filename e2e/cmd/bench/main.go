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
	"github.com/tocsin-bus/tocsin/e2e/harness/figures"
)

func main() { os.Exit(run()) }

func run() int {
	bin := flag.String("tocsin", "bin/tocsin", "the binary to measure")
	samples := flag.Int("samples", 500, "how often each latency is measured")
	onlyStorms := flag.Bool("storms", false, "measure only how late alerts are in a storm")
	onlyStartup := flag.Bool("startup", false, "measure only how long commands take to start, and the memory of an idle gateway")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	measure := bench
	if *onlyStorms {
		measure = benchStorms
	}
	if *onlyStartup {
		measure = benchStartup
	}
	if err := measure(ctx, *bin, *samples); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}

func bench(ctx context.Context, bin string, samples int) error {
	all, err := onTheBinary(ctx, bin, samples)
	if err != nil {
		return err
	}
	for _, measure := range []func(context.Context, measured) ([]figures.Figure, error){intakeRatio, foreignRatios} {
		more, err := withIntake(ctx, measure)
		if err != nil {
			return err
		}
		all = append(all, more...)
	}
	starts, err := startupAndMemory(ctx, bin, samples)
	if err != nil {
		return err
	}
	all = append(all, starts...)
	more, err := page(ctx, bin)
	if err != nil {
		return err
	}
	stormy, err := storms(ctx, bin)
	if err != nil {
		return err
	}
	all = append(append(append(all, more...), stormy...), decisions()...)
	return figures.Print(os.Stdout, all)
}

func startupAndMemory(ctx context.Context, bin string, samples int) ([]figures.Figure, error) {
	starts, err := startup(ctx, bin, min(samples, 200))
	if err != nil {
		return nil, err
	}
	memory, err := gatewayMemory(ctx, bin)
	return append(starts, memory...), err
}

func benchStartup(ctx context.Context, bin string, samples int) error {
	all, err := startupAndMemory(ctx, bin, samples)
	if err != nil {
		return err
	}
	return figures.Print(os.Stdout, all)
}

func benchStorms(ctx context.Context, bin string, _ int) error {
	all, err := storms(ctx, bin)
	if err != nil {
		return err
	}
	return figures.Print(os.Stdout, all)
}

// onTheBinary measures a real bus and a real gateway.
func onTheBinary(ctx context.Context, bin string, samples int) (all []figures.Figure, err error) {
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
	for _, measure := range []func(context.Context) ([]figures.Figure, error){m.notification, m.ciResult, m.configure, m.toolsList, m.hooks, m.pages} {
		more, err := measure(ctx)
		if err != nil {
			return nil, fmt.Errorf("%w\n%s%s", err, bus.Log, agent.Log)
		}
		all = append(all, more...)
	}
	return all, nil
}
