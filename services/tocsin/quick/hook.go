package quick

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/hook"
	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/service"
)

const (
	// inputTimeout is how long the client may take to write its input.
	inputTimeout = time.Second
	// parentTick is the time between two checks of a waiting hook whether the client still runs.
	parentTick = 2 * time.Second
)

// exitWake is the exit status on which Claude Code wakes its model, with stderr as text.
const exitWake = 2

// Hook is the command `tocsin hook`, which answers the hooks of coding agents.
type Hook struct {
	service.BusFlags
	Client   string        `help:"Coding agent that runs the hook: ${enum}." required:"" enum:"${agents_with_hooks}" placeholder:"NAME"`
	Inbox    string        `help:"Inbox to use: that of the gateway with this --client. Default: the inbox of the agent's gateway in the project directory." env:"TOCSIN_CLIENT" placeholder:"NAME"`
	Stop     bool          `help:"Block the agent's first stop while an error alert is pending. Default: on." default:"true" negatable:"" env:"TOCSIN_HOOK_STOP"`
	Wait     time.Duration `help:"After the agent has stopped, wait up to this long for an alert to wake it: for a Stop hook of Claude Code with asyncRewake." placeholder:"D"`
	Severity string        `help:"Minimum severity for --wait: ${enum}. Default: ${default}." enum:"info,warning,error" default:"error" placeholder:"S"`

	NamespacesFlag

	// ran reports whether command line, settings file and environment were valid.
	ran bool
}

// Validate refuses a --wait that can wake no agent.
func (c *Hook) Validate() error {
	switch {
	case c.Wait < 0:
		return errors.New("--wait must not be negative")
	case c.Wait > 0 && c.Client != "claude-code":
		return errors.New("--wait is for --client claude-code: no other client can be woken")
	}
	return nil
}

// Silent implements [service.Silent]: agents show what a hook logs, at every call.
func (*Hook) Silent() {}

// Run answers a client's hook. Errors are logged at debug only and the exit status is 0,
// because alerts must never interrupt the agent's work.
func (c *Hook) Run(ctx context.Context, env service.Env) error {
	c.ran = true
	client := os.Getppid() // at once: later it may have exited
	log := env.Logger
	if !log.Enabled(ctx, slog.LevelDebug) {
		log = slog.New(slog.DiscardHandler)
	}
	cfg, err := c.config(env, log)
	if err != nil {
		log.Debug("ignored the hook", "error", err)
		return nil
	}
	if c.Wait > 0 {
		return c.wake(ctx, env, cfg, client)
	}
	line, err := hook.Answer(ctx, cfg)
	if err != nil {
		log.Debug("could not read the inbox", "error", err)
		return nil
	}
	_, _ = env.Stdout.Write(line) // fails only if the client has exited
	return nil
}

// ExitCode returns the exit status of the process: args are its arguments, line is an
// empty command line with this command in it. Clients take status 2 of a hook as the
// order to stop the agent, or to discard the user's prompt, so wrong settings in the
// environment or the settings file give [service.ExitFailed] instead.
func (c *Hook) ExitCode(code int, args []string, line service.Command) int {
	if code == service.ExitUsage && !c.ran && len(args) > 0 && args[0] == "hook" && service.IsValid(line, args) {
		return service.ExitFailed
	}
	return code
}

// wake waits for an alert while the process with that id is our parent, and exits with
// [exitWake] for it.
func (c *Hook) wake(ctx context.Context, env service.Env, cfg hook.Config, client int) error {
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	watch.Go(func() {
		for ctx.Err() == nil && os.Getppid() == client {
			select {
			case <-ctx.Done():
			case <-time.After(parentTick):
			}
		}
		cancel() // the client has exited
	})
	text, err := hook.Wait(ctx, hook.WaitConfig{Config: cfg, Severity: alert.Severity(c.Severity), Timeout: c.Wait})
	if err != nil {
		cfg.Logger.Debug("could not wait for an alert", "error", err)
		return nil
	}
	if text == "" {
		return nil
	}
	_, _ = fmt.Fprintln(env.Stderr, text) // fails only if the client has exited
	return service.Exit(exitWake)
}

// config reads the hook's input and selects the inbox.
func (c *Hook) config(env service.Env, log *slog.Logger) (hook.Config, error) {
	cfg := hook.Config{Bus: env.Bus(c.BusFlags), BlockStop: c.Stop, Logger: log}
	shown, err := c.Set() // an invalid one shows nothing
	if err != nil {
		return cfg, err
	}
	cfg.Namespaces = shown
	data, err := readInput(inputTimeout, env.Stdin)
	if err != nil {
		return cfg, err
	}
	if cfg.Call, err = hook.Parse(c.Client, data); err != nil {
		return cfg, err
	}
	if c.Inbox != "" {
		cfg.Inbox = inbox.NamedKey(c.Inbox)
		return cfg, nil
	}
	dir, err := c.dir(cfg.Call)
	if err != nil {
		return cfg, err
	}
	known, _ := inbox.FindAgent(c.Client) // kong has checked the name
	cfg.Inbox = inbox.Key(known.MCP, dir)
	return cfg, nil
}

// dir returns where the client's gateway runs: the project directory.
func (c *Hook) dir(call hook.Call) (string, error) {
	dir := os.Getenv(hook.DirVariable(c.Client))
	if !filepath.IsAbs(dir) {
		dir = call.Dir
	}
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return "", fmt.Errorf("find the project directory: %w", err)
		}
	}
	return filepath.EvalSymlinks(dir)
}

// readInput reads at most [hook.MaxInput] bytes and one more, which shows that there are
// more. It fails if the input does not end in time.
func readInput(timeout time.Duration, r io.Reader) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := io.ReadAll(io.LimitReader(r, hook.MaxInput+1))
		if err == nil && len(data) > hook.MaxInput {
			_, err = io.Copy(io.Discard, r) // some clients fail on a pipe that is not read to its end
		}
		done <- result{data, err}
	}()
	select {
	case got := <-done:
		return got.data, got.err
	case <-time.After(timeout):
		return nil, fmt.Errorf("the input did not end within %v", timeout)
	}
}
