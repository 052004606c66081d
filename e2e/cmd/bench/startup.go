package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// maxStarts bounds how often each command is started.
const maxStarts = 200

// startup measures the commands that agents and pipelines run again and again: the whole
// process, beside a minimal program in the same run. There is no bus, so that starting is
// nearly all that they do.
func startup(ctx context.Context, bin string, samples int) (all []harness.Figure, err error) {
	minimal, err := harness.Build(ctx, harness.Program{Name: "minimal", Package: "github.com/tocsin-bus/tocsin/e2e/cmd/bench/minimal", Dir: "e2e"})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "tocsin-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	withFile := filepath.Join(dir, "with-file")
	own := filepath.Join(withFile, "config", "tocsin", "tocsin.yaml") // see harness.Env
	if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
		return nil, err
	}
	if err := os.WriteFile(own, []byte("log-level: warn\ningest-addr: 127.0.0.1:0\nnotify-level: error\n"), 0o600); err != nil {
		return nil, err
	}
	commands := []struct {
		what, dir string
		line      []string
	}{
		{"a minimal program", dir, []string{minimal}},
		{"tocsin version", dir, []string{bin, "version"}},
		{"tocsin hook", dir, []string{bin, "hook", "--client", "claude-code"}},
		{"tocsin hook with a settings file", withFile, []string{bin, "hook", "--client", "claude-code"}},
		{"tocsin ci", dir, []string{bin, "ci", "--status", "success", "--ingest-url", "http://127.0.0.1:1"}}, // nothing listens there
		{"tocsin wait", dir, []string{bin, "wait", "--timeout", "1ms"}},
	}
	times := make([][]time.Duration, len(commands))
	for range min(samples, maxStarts) {
		for i, command := range commands {
			took, err := startOnce(ctx, command.dir, command.line)
			if err != nil {
				return nil, err
			}
			times[i] = append(times[i], took)
		}
	}
	for i, command := range commands {
		f := harness.Figure{What: "start of " + command.what, Measured: harness.Quantiles(times[i])}
		if i > 0 {
			f.Asked = "p50 <= 1.6x minimal"
			f.Measured = fmt.Sprintf("%.2fx, %s", float64(harness.Median(times[i]))/float64(harness.Median(times[0])), f.Measured)
		}
		all = append(all, f)
	}
	return all, nil
}

// startOnce runs a command to its end, with any exit status.
func startOnce(ctx context.Context, dir string, command []string) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env, cmd.Dir = harness.Env(dir), dir
	cmd.Stdin = bytes.NewReader(fmt.Appendf(nil, `{"hook_event_name":"PostToolUse","session_id":"s","cwd":%q,"tool_name":"Bash","tool_response":"ok"}`, dir))
	started := time.Now()
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return 0, fmt.Errorf("run %v: %w", command, err)
	}
	return time.Since(started), ctx.Err()
}

// settled is the time after its start at which a gateway counts as idle.
const settled = 30 * time.Second

// gatewayMemory reads the resident memory of an idle gateway on stdio, on Linux only.
func gatewayMemory(ctx context.Context, bin string, _ int) (all []harness.Figure, err error) {
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
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(settled):
	}
	f := harness.Figure{What: fmt.Sprintf("resident memory of a gateway on stdio, idle for %v", settled), Asked: "< 25 MB", Measured: "unknown: this system has no /proc"}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", agent.PID()))
	if errors.Is(err, os.ErrNotExist) {
		return []harness.Figure{f}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the gateway's memory: %w", err)
	}
	f.Measured = fmt.Sprintf("%.1f MB, private %.1f MB", float64(kib(status, "VmRSS"))/1000*1.024, float64(kib(status, "RssAnon"))/1000*1.024)
	return []harness.Figure{f}, nil
}
