// Command kubebench measures what of a Kubernetes cluster reaches an agent, and what
// that costs: a real API server, tocsin up, tocsin kubewatch and tocsin gateway, each a
// process of its own. It prints a table as bench does, and asserts nothing, because
// machines differ: people compare the figures.
//
// Rates are also ratios, in one run: beside Tocsin there is a plain watch of client-go.
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
	"strings"
	"syscall"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

func main() { os.Exit(run()) }

// sizes are how much is measured.
type sizes struct {
	events, rounds, writers int
	rate                    int
	steady                  time.Duration
	pods                    int
	settle                  time.Duration
	faults                  int
}

// part is a part of the measurement, on a cluster and a bus of its own.
type part struct {
	name    string
	measure func(context.Context, *stage) ([]harness.Figure, error)
}

func parts(s sizes) []part {
	return []part{
		{"events", s.measureEvents},
		{"backlog", s.measureBacklog},
		{"faults", s.measureFaults},
		{"memory", s.measureMemory},
	}
}

func run() int {
	var s sizes
	bin := flag.String("tocsin", "bin/tocsin", "the binary to measure")
	only := flag.String("parts", "", "which parts to measure, with commas between them: events, backlog, faults, memory; empty is all")
	flag.IntVar(&s.events, "events", 10_000, "how many events a round has")
	flag.IntVar(&s.rounds, "rounds", 3, "how many rounds there are, whose median is printed")
	flag.IntVar(&s.writers, "writers", 16, "how many write to the API server at once")
	flag.IntVar(&s.rate, "rate", 100, "how many events a second come while delays are measured")
	flag.DurationVar(&s.steady, "steady", 20*time.Second, "how long they come")
	flag.IntVar(&s.pods, "pods", 10_000, "how many pods there are when memory is measured")
	flag.DurationVar(&s.settle, "settle", 10*time.Second, "how long is waited before memory is read")
	flag.IntVar(&s.faults, "faults", 100, "how many crash loops are timed; at most 100 of a kind are delivered at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx, *bin, *only, s); err != nil {
		fmt.Fprintln(os.Stderr, "kubebench:", err)
		return 1
	}
	return 0
}

func (s sizes) check() error {
	for _, n := range []int{s.events, s.rounds, s.writers, s.rate, s.pods, s.faults} {
		if n < 1 {
			return errors.New("every number has to be 1 or more")
		}
	}
	if s.faults > 100 {
		return errors.New("-faults must be at most 100: kubewatch reports more than that one by one, each a second later")
	}
	return nil
}

func bench(ctx context.Context, bin, only string, s sizes) error {
	if err := s.check(); err != nil {
		return err
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	chosen, err := choose(parts(s), only)
	if err != nil {
		return err
	}
	var all []harness.Figure
	for _, p := range chosen {
		more, err := onStage(ctx, bin, p.measure)
		if err != nil {
			return fmt.Errorf("measure %s: %w", p.name, err)
		}
		all = append(all, more...)
	}
	return harness.PrintFigures(os.Stdout, all)
}

// choose returns the named parts in their order.
func choose(all []part, only string) ([]part, error) {
	if only == "" {
		return all, nil
	}
	names := strings.Split(only, ",")
	var chosen []part
	for _, p := range all {
		if slices.Contains(names, p.name) {
			chosen = append(chosen, p)
		}
	}
	if len(chosen) != len(names) {
		return nil, fmt.Errorf("-parts %s: there are events, backlog, faults and memory", only)
	}
	return chosen, nil
}
