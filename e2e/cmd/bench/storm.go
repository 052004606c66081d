package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/storm"
)

const (
	// stormRate is the number of failing requests a second in a storm, stormBatch the
	// number in one POST.
	stormRate, stormBatch = 10_000, 200
	stormFor              = 8 * time.Second
)

// storms measures how late a calm app's alerts are during a storm: many different failing
// requests of one app, then of many. Each storm has a bus of its own, because the detector
// remembers earlier ones.
func storms(ctx context.Context, bin string, _ int) (all []harness.Figure, err error) {
	for _, apps := range []int{1, 300} {
		more, err := oneStorm(ctx, bin, apps)
		if err != nil {
			return nil, fmt.Errorf("a storm of %d apps: %w", apps, err)
		}
		all = append(all, more...)
	}
	return all, nil
}

func oneStorm(ctx context.Context, bin string, apps int) (all []harness.Figure, err error) {
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
	r, err := storm.Run(ctx, bus, storm.Config{Apps: apps, Rate: stormRate, Batch: stormBatch, For: stormFor, Seed: 1})
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, bus.Log)
	}
	what := fmt.Sprintf("storm of %d apps, %.0f failing requests/s: ", apps, r.Rate)
	return []harness.Figure{
		{What: what + "another app's POST accepted to its alert", Asked: "< 1 s", Measured: harness.Quantiles(r.Delays)},
		{What: what + "alerts, counted of sent, slow consumers", Asked: "all counted, none", Measured: fmt.Sprintf(
			"%d, %d of %d, %d (%d of the other app missing)", r.Alerts, r.Counted, r.Sent, strings.Count(bus.Log.String(), "slow consumer"), r.Missing)},
	}, nil
}
