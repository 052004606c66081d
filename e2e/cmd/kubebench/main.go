// Command kubebench measures how fast the events and faults of a Kubernetes cluster reach an
// agent, and how much memory that takes. It runs a real API server, tocsin up, tocsin
// kubewatch and tocsin gateway, each as a process. It prints a table as bench does, and asserts nothing, because
// machines differ: people compare the figures.
//
// Rates are also printed as ratios to a plain watch of client-go in the same run.
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

// sizes are the sizes of the measurements.
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
	measure func(context.Context, *testbed) ([]harness.Figure, error)
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
	bin := flag.String("tocsin", "bin/tocsin", "Binary to measure.")
	only := flag.String("parts", "", "Parts to measure, separated by commas: events, backlog, faults, memory. Default: all.")
	flag.IntVar(&s.events, "events", 10_000, "Events of a round.")
	flag.IntVar(&s.rounds, "rounds", 3, "Rounds; their median is printed.")
	flag.IntVar(&s.writers, "writers", 16, "Concurrent writers to the API server.")
	flag.IntVar(&s.rate, "rate", 100, "Events a second while delays are measured.")
	flag.DurationVar(&s.steady, "steady", 20*time.Second, "Duration of that.")
	flag.IntVar(&s.pods, "pods", 10_000, "Pods while memory is measured.")
	flag.DurationVar(&s.settle, "settle", 10*time.Second, "Pause before memory is read.")
	flag.IntVar(&s.faults, "faults", 100, "Crash loops that are timed, at most 100: kubewatch publishes no more of a kind at once.")
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
			return errors.New("every number must be at least 1")
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
		more, err := withTestbed(ctx, bin, p.measure)
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
