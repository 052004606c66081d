package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/figures"
	"github.com/tocsin-bus/tocsin/e2e/harness/storm"
)

const (
	// stormRate is how many requests a second fail in a storm, stormBatch how many of
	// them one POST has.
	stormRate, stormBatch = 10_000, 200
	stormFor              = 8 * time.Second
)

// storms measures how late another app's alerts are while many different requests of
// one app, or of many, fail. Each has a bus of its own, because the detector remembers
// earlier storms.
func storms(ctx context.Context, bin string) (all []figures.Figure, err error) {
	for _, apps := range []int{1, 300} {
		more, err := oneStorm(ctx, bin, apps)
		if err != nil {
			return nil, fmt.Errorf("a storm of %d apps: %w", apps, err)
		}
		all = append(all, more...)
	}
	return all, nil
}

func oneStorm(ctx context.Context, bin string, apps int) (all []figures.Figure, err error) {
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
	r, err := storm.Run(ctx, bus, storm.Config{Apps: apps, Rate: stormRate, Batch: stormBatch, For: stormFor, Seed: 1})
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, bus.Log)
	}
	what := fmt.Sprintf("storm of %d apps, %.0f failing requests/s: ", apps, r.Rate)
	return []figures.Figure{
		{What: what + "another app's POST accepted to its alert", Asked: "< 1 s", Measured: figures.Quantiles(r.Delays)},
		{What: what + "alerts, counted of sent, slow consumers", Asked: "all counted, none", Measured: fmt.Sprintf(
			"%d, %d of %d, %d (%d of the other app missing)", r.Alerts, r.Counted, r.Sent, strings.Count(bus.Log.String(), "slow consumer"), r.Missing)},
	}, nil
}
