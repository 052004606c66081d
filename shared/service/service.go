// Package service is what every command of Tocsin needs: settings from flags, environment
// and file, a logger, signals, exit codes, and health probes.
//
// It knows nothing of events, alerts or subjects of the bus.
package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// Exit codes. ExitTimeUp is that of commands whose wait timed out.
const (
	ExitOK     = 0
	ExitFailed = 1
	ExitUsage  = 2
	ExitTimeUp = 3
)

// ErrTimeUp marks errors of commands whose wait timed out.
var ErrTimeUp = errors.New("the time is up")

// ErrUsage marks errors of wrong usage.
var ErrUsage = errors.New("used wrongly")

// Usagef returns an error that ends the process with ExitUsage.
func Usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

type usageError struct{ text string }

func (e *usageError) Error() string        { return e.text }
func (e *usageError) Is(target error) bool { return target == ErrUsage }

// Exit returns an error that ends the process with an exit code and prints nothing: the command
// has printed its message.
func Exit(code int) error { return exitError(code) }

type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Settings are the flags of every command.
type Settings struct {
	Config    kong.ConfigFlag `help:"Settings file; a flag or an environment variable wins over it. Default: $$XDG_CONFIG_HOME/tocsin/tocsin.yaml, else ~/.config/tocsin/tocsin.yaml, if there." placeholder:"FILE"`
	StateDir  string          `help:"Where streams, credentials and runtime.json live. Default: $$XDG_STATE_HOME/tocsin, else ~/.local/state/tocsin." env:"TOCSIN_STATE_DIR" placeholder:"DIR"`
	LogFormat string          `help:"How to log to stderr: ${enum}." enum:"text,json" default:"text" env:"TOCSIN_LOG_FORMAT"`
	LogLevel  string          `help:"What to log: ${enum}." enum:"debug,info,warn,error" default:"info" env:"TOCSIN_LOG_LEVEL"`
}

// Env is the environment of a command.
type Env struct {
	// StateDir is an absolute path; it need not exist.
	StateDir string
	// Config is the settings file that --config names, or empty.
	Config string
	// SettingsFile is the settings file that was read, or empty.
	SettingsFile   string
	Logger         *slog.Logger
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Version        Version
}

// LogSettingsFile logs which settings file was read, if any. Services call it at their
// start.
func (e Env) LogSettingsFile() {
	if e.SettingsFile != "" {
		e.Logger.Info("read the settings file", "file", e.SettingsFile)
	}
}

// Command is a command line: a struct of kong flags and subcommands whose chosen command
// has the method Run(context.Context, Env) error.
type Command interface{ Common() Settings }

// Partial is a Command with only some of the commands of its program.
type Partial interface {
	// SettingNames returns the long names of the flags of all the program's commands: a
	// settings file may hold any of them.
	SettingNames() []string
}

// Common makes a struct that embeds Settings a Command.
func (s Settings) Common() Settings { return s }

// NewParser returns a parser of the command line. If line has a method Vars() [kong.Vars],
// its tags may refer to these variables.
func NewParser(line any, options ...kong.Option) (*kong.Kong, error) {
	if l, ok := line.(interface{ Vars() kong.Vars }); ok {
		options = append(options, l.Vars())
	}
	return kong.New(line, append(options, kong.Help(printHelp))...)
}

// Main parses the command line into cli, runs the chosen command until it returns or the
// process gets SIGINT or SIGTERM, and returns the exit code.
func Main(name, description string, cli Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Args[1:], name, description, cli, Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Version: BuildVersion(),
	})
}

// printHelp prints the help of a command. Where it has a default command, the flags of that are
// listed too: they work without its name.
func printHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if command := ctx.Selected(); command != nil && command.DefaultCmd != nil {
		command.Flags = append(command.Flags, command.DefaultCmd.Flags...)
	}
	return kong.DefaultHelpPrinter(options, ctx)
}

// IsValid reports whether a command line is valid by itself, without settings file and
// environment. It clears the environment, so the process must be about to end.
func IsValid(cli Command, args []string) bool {
	os.Clearenv()
	k, err := NewParser(cli, kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}), kong.Configuration(ignoreFile))
	if err != nil {
		return false
	}
	_, err = k.Parse(args)
	return err == nil
}

// ignoreFile ignores a settings file.
func ignoreFile(io.Reader) (kong.Resolver, error) {
	return kong.ResolverFunc(func(*kong.Context, *kong.Path, *kong.Flag) (any, error) { return nil, nil }), nil
}

func run(ctx context.Context, args []string, name, description string, cli Command, env Env) int {
	exited, code, found := false, ExitOK, settingsFiles{}
	if partial, ok := cli.(Partial); ok {
		found.names = partial.SettingNames()
	}
	k, err := NewParser(cli,
		kong.Name(name), kong.Description(description),
		kong.Writers(env.Stdout, env.Stderr),
		kong.Configuration(found.loadYAML),
		kong.WithBeforeResolve(found.load),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.Exit(func(c int) { exited, code = true, c }), // --help
	)
	if err != nil {
		return printError(env.Stderr, name, "", fmt.Errorf("%w: %w", ErrUsage, err))
	}
	ignoreEmptyEnv(k.Model.Node)
	chosen, err := k.Parse(args)
	switch {
	case exited:
		return code
	case err != nil:
		return printError(env.Stderr, name, refusedPath(err), fmt.Errorf("%w: %w", ErrUsage, withVariableName(err)))
	}
	settings := cli.Common()
	if env.StateDir, err = settings.stateDir(); err != nil {
		return printError(env.Stderr, name, "", err)
	}
	env.Config = string(settings.Config)
	env.SettingsFile = cmp.Or(env.Config, found.read)
	env.Logger = newLogger(settings, env.Stderr)
	defer FlushLog(env.Logger)
	if found.warning != "" && !isSilent(chosen) {
		env.Logger.Warn(found.warning)
	}
	return printError(env.Stderr, name, commandPath(chosen), chosen.Run(env))
}

// commandPath returns the name of the program and the command that was chosen, or nothing for
// a program without commands.
func commandPath(line *kong.Context) string {
	if line == nil || line.Selected() == nil {
		return ""
	}
	return line.Selected().FullPath()
}

// refusedPath is [commandPath] for a command line that kong refused.
func refusedPath(err error) string {
	var wrong *kong.ParseError
	if !errors.As(err, &wrong) {
		return ""
	}
	return commandPath(wrong.Context)
}

// withVariableName adds to an error about a flag the name of the environment variable that set
// the flag, if one did.
func withVariableName(err error) error {
	var wrong *kong.ParseError
	if !errors.As(err, &wrong) || wrong.Context == nil {
		return err
	}
	text := err.Error()
	for _, flag := range wrong.Context.Flags() {
		if slices.ContainsFunc(wrong.Context.Path, func(w *kong.Path) bool { return w.Flag == flag && !w.Resolved }) {
			continue // the command line set it
		}
		at := strings.Index(text, "--"+flag.Name)
		end := at + len("--"+flag.Name)
		if at < 0 || end < len(text) && strings.ContainsRune("-abcdefghijklmnopqrstuvwxyz", rune(text[end])) {
			continue
		}
		for _, name := range flag.Envs {
			if _, set := os.LookupEnv(name); set && !strings.Contains(text, name) {
				return errors.New(text[:end] + " (" + name + ")" + text[end:])
			}
		}
	}
	return err
}

// printError prints an error on one line, and returns its exit code. For a wrong command line it
// names the help of the command, or of the program where command is empty.
func printError(w io.Writer, name, command string, err error) int {
	if err == nil {
		return ExitOK
	}
	var exit exitError
	if errors.As(err, &exit) {
		return int(exit)
	}
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	text = strings.TrimPrefix(text, ErrUsage.Error()+": ")
	if !errors.Is(err, ErrUsage) {
		_, _ = fmt.Fprintf(w, "%s: %s\n", name, text) // stderr may be closed
		if errors.Is(err, ErrTimeUp) {
			return ExitTimeUp
		}
		return ExitFailed
	}
	_, _ = fmt.Fprintf(w, "%s: %s (see %s --help)\n", name, text, cmp.Or(command, name))
	return ExitUsage
}
