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
	// stdinPatience is how long the client may take to write its input, and
	// parentTick how often a waiting hook looks whether the client is still there.
	stdinPatience = time.Second
	parentTick    = 2 * time.Second
)

// exitWake is the exit status by which Claude Code is woken, with stderr.
const exitWake = 2

// Hook is the command `tocsin hook`, which answers the hooks of coding agents.
type Hook struct {
	service.BusFlags
	Client   string        `help:"Whose hook this is: claude-code, codex, gemini-cli or cursor." required:"" enum:"claude-code,codex,gemini-cli,cursor" placeholder:"NAME"`
	Inbox    string        `help:"Whose inbox: that of the gateway with this --client. Default: that of the client's gateway in the project's directory." env:"TOCSIN_CLIENT" placeholder:"NAME"`
	Stop     bool          `help:"Hold back once an agent that is about to stop while an error alert pends. Default: on." default:"true" negatable:"" env:"TOCSIN_HOOK_STOP"`
	Wait     time.Duration `help:"Once the agent has stopped, wait this long for an alert to wake it: for a stop hook of Claude Code with asyncRewake." placeholder:"D"`
	Severity string        `help:"The least that --wait waits for: ${enum}. Default: ${default}." enum:"info,warning,error" default:"error" placeholder:"S"`

	NamespacesFlag

	// ran says that the command line, the settings file and the environment were
	// all right.
	ran bool
}

// Validate refuses what could never end well.
func (c *Hook) Validate() error {
	switch {
	case c.Wait < 0:
		return errors.New("--wait must not be negative")
	case c.Wait > 0 && c.Client != "claude-code":
		return errors.New("--wait is for --client claude-code: no other client can be woken")
	}
	return nil
}

// Silent implements service.Silent: agents show what a hook logs, at every call.
func (*Hook) Silent() {}

// Run answers a client's hook. What goes wrong is said to nobody, but at the
// debug level: an agent's work is never held up by its alerts.
func (c *Hook) Run(ctx context.Context, env service.Env) error {
	c.ran = true
	client := os.Getppid() // before it may have gone
	log := env.Logger
	if !log.Enabled(ctx, slog.LevelDebug) {
		log = slog.New(slog.DiscardHandler)
	}
	cfg, err := c.config(env, log)
	if err != nil {
		log.Debug("no hook to answer", "error", err)
		return nil
	}
	if c.Wait > 0 {
		return c.wake(ctx, env, cfg, client)
	}
	line, err := hook.Answer(ctx, cfg)
	if err != nil {
		log.Debug("nothing could be looked up", "error", err)
		return nil
	}
	_, _ = env.Stdout.Write(line) // a client that does not read it has gone
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

// wake waits, as long as the process of that id is our parent, and ends as Claude
// Code wants it to be woken.
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
		cancel() // nobody is left to be woken
	})
	text, err := hook.Wait(ctx, hook.WaitConfig{Config: cfg, Severity: alert.Severity(c.Severity), Timeout: c.Wait})
	if err != nil {
		cfg.Logger.Debug("nothing could be waited for", "error", err)
		return nil
	}
	if text == "" {
		return nil
	}
	_, _ = fmt.Fprintln(env.Stderr, text) // a client that does not read it has gone
	return service.Exit(exitWake)
}

// config reads which moment it is, and finds the inbox.
func (c *Hook) config(env service.Env, log *slog.Logger) (hook.Config, error) {
	cfg := hook.Config{Bus: env.Bus(c.BusFlags), BlockStop: c.Stop, Logger: log}
	shown, err := c.Set() // one that is wrong shows nothing
	if err != nil {
		return cfg, err
	}
	cfg.Namespaces = shown
	data, err := within(stdinPatience, env.Stdin)
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

// dir is where the client's gateway runs: the project's directory.
func (c *Hook) dir(call hook.Call) (string, error) {
	dir := os.Getenv(hook.DirVariable(c.Client))
	if !filepath.IsAbs(dir) {
		dir = call.Dir
	}
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return "", fmt.Errorf("find the project's directory: %w", err)
		}
	}
	return filepath.EvalSymlinks(dir)
}

// within reads an input of at most hook.MaxInput and a byte, so that a longer one
// is noticed. One that does not end in time is given up, with whoever writes it.
func within(patience time.Duration, r io.Reader) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := io.ReadAll(io.LimitReader(r, hook.MaxInput+1))
		if err == nil && len(data) > hook.MaxInput {
			_, err = io.Copy(io.Discard, r) // a client could stumble over a pipe that nobody reads
		}
		done <- result{data, err}
	}()
	select {
	case got := <-done:
		return got.data, got.err
	case <-time.After(patience):
		return nil, fmt.Errorf("the input has not ended after %v", patience)
	}
}
