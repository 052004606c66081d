// Command demo plays a short story over HTTP and prints what a coding agent sees: a shop
// page that loads well, a deploy, slower loads, failing requests, a hook that delivers an
// alert, noise, and a failed CI run. In a second act the failure is investigated, by a model
// that follows a script.
//
// The bus and the agent's gateway are real processes on free ports with a temporary state
// directory. The agent is go-sdk's MCP client. The demo ends by itself and removes its
// files.
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
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// agentName is the client name of the agent: its hooks share its inbox.
const agentName = "claude-code"

// limit bounds the whole demo.
const limit = 30 * time.Second

func main() { os.Exit(run()) }

func run() int {
	bin := flag.String("tocsin", "bin/tocsin", "path of the binary")
	pace := flag.Duration("pace", time.Second, "pause between chapters, at most 3s")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := demo(ctx, *bin, min(max(*pace, 0), 3*time.Second)); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		return 1
	}
	return 0
}

func demo(ctx context.Context, bin string, pace time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	bin, err = filepath.Abs(bin)
	if err != nil {
		return fmt.Errorf("find the binary: %w", err)
	}
	if _, err := os.Stat(bin); err != nil {
		return fmt.Errorf("%w: build it with make build", err)
	}
	dir, err := os.MkdirTemp("", "tocsin-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	model, err := investigatingModel()
	if err != nil {
		return err
	}
	defer model.Close()
	investigates, err := investigator(dir, model.URL)
	if err != nil {
		return err
	}
	started := time.Now()
	bus, err := harness.Up(ctx, bin, dir, investigates...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bus.Stop()) }()
	agent, err := harness.StartAgent(ctx, bin, dir, agentName)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, agent.Close()) }()

	s := &stage{started: started, pace: pace, bin: bin, dir: dir, bus: bus, agent: agent, out: os.Stdout}
	s.say("tocsin up and an agent's gateway are ready, ingest at %s", bus.IngestURL)
	if err := s.play(ctx); err != nil {
		return fmt.Errorf("%w\n%s%s", err, bus.Log, agent.Log)
	}
	s.say("the end: %d events and CI results posted, %d notifications; all processes are stopped", s.posted, s.notified)
	return nil
}
