package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// hooks measures tocsin hook on a running bus: the whole process, as a coding agent runs
// it.
func (m *meter) hooks(ctx context.Context) ([]harness.Figure, error) {
	nothing, err := m.hookTimes(ctx, m.samples, nil)
	if err != nil {
		return nil, err
	}
	// Each hook delivers one alert, which is on the bus once the agent has received it.
	delivering, err := m.hookTimes(ctx, max(m.samples/5, 1), func() error {
		if err := m.post(ctx, "/ci-result", m.failure()); err != nil {
			return err
		}
		_, err := m.agent.Observe(ctx, map[string]any{"wait_seconds": 10})
		return err
	})
	if err != nil {
		return nil, err
	}
	return []harness.Figure{
		{What: "tocsin hook, no alert pending", Asked: "p99 < 20 ms", Measured: harness.Quantiles(nothing)},
		{What: "tocsin hook, an alert pending", Asked: "p99 < 20 ms", Measured: harness.Quantiles(delivering)},
	}, nil
}

// hookTimes runs a hook n times. before, if it is not nil, prepares an alert for each run. A
// hook that prints nothing in spite of that gave up on a busy machine: more than one in ten
// fail the measurement.
func (m *meter) hookTimes(ctx context.Context, n int, before func() error) ([]time.Duration, error) {
	if _, _, err := m.timed(ctx, "hook", "--client", "codex"); err != nil { // take earlier alerts
		return nil, err
	}
	times := make([]time.Duration, n)
	gaveUp := 0
	for i := range times {
		if before != nil {
			if err := before(); err != nil {
				return nil, err
			}
		}
		out, took, err := m.timed(ctx, "hook", "--client", "codex")
		if err != nil {
			return nil, err
		}
		if (before != nil) != (len(out) > 0) {
			if gaveUp++; before == nil || gaveUp > n/10 {
				return nil, fmt.Errorf("tocsin hook printed %q in %v, want an alert: %v", out, took, before != nil)
			}
		}
		times[i] = took
	}
	return times, nil
}

// timed runs a command to its end.
func (m *meter) timed(ctx context.Context, args ...string) (stdout []byte, took time.Duration, err error) {
	cmd := exec.CommandContext(ctx, m.bin, args...)
	cmd.Env, cmd.Dir = harness.Env(m.bus.StateDir), m.bus.StateDir
	cmd.Stdin = bytes.NewReader(fmt.Appendf(nil, `{"hook_event_name":"PostToolUse","session_id":"s","cwd":%q,"tool_name":"Bash","tool_response":"ok"}`, m.bus.StateDir))
	started := time.Now()
	stdout, err = cmd.Output()
	if err != nil {
		return nil, 0, fmt.Errorf("tocsin %v: %w", args, err)
	}
	return stdout, time.Since(started), nil
}
