package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/alecthomas/kong"

	"github.com/tocsin-bus/tocsin/services/tocsin/quick"
	"github.com/tocsin-bus/tocsin/services/tocsin/setup"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// setupFlags are the flags of both install and uninstall.
type setupFlags struct {
	Client string `arg:"" enum:"${agents}" help:"MCP client: ${enum}."`
	Scope  string `help:"Files to change: of the project in the working directory, or of the user, for all projects: ${enum}. Default: ${default}." enum:"project,user" default:"project" placeholder:"SCOPE"`
	DryRun bool   `help:"Print the changes as a diff and write nothing."`
}

type installCommand struct {
	setupFlags
	Hooks  bool `help:"Write hooks that deliver alerts to the model. With --no-hooks, only the MCP server is written, and existing hooks stay. Default: on." default:"true" negatable:""`
	Rewake bool `help:"Also write a hook that waits up to 30 minutes after the model has stopped and wakes it for an alert (claude-code only)."`

	// elsewhere reports whether the command line names a state directory.
	elsewhere bool
}

// Validate refuses --rewake without hooks or for another client than claude-code.
func (c *installCommand) Validate(line *kong.Context) error {
	c.elsewhere = quick.Given(line, "state-dir")
	if c.Rewake && (c.Client != "claude-code" || !c.Hooks) {
		return errors.New("--rewake works with claude-code only, and needs --hooks")
	}
	return nil
}

// Run writes the client's entries, unless they are up to date.
func (c *installCommand) Run(_ context.Context, env service.Env) error {
	client, dirs, err := c.find()
	if err != nil {
		return err
	}
	program, err := thisProgram()
	if err != nil {
		return err
	}
	scope := setup.Scope(c.Scope)
	w, err := c.wanted(client, dirs, env, program)
	if err != nil {
		return err
	}
	if err := w.Check(); err != nil {
		return service.Usagef("%v", err)
	}
	changes, err := plan(client, dirs, scope, func(f setup.File, src []byte) ([]byte, error) {
		return f.Install(src, w)
	})
	if err != nil {
		return err
	}
	wrote, err := c.apply(env.Stdout, client, changes)
	if err != nil || !wrote {
		return err
	}
	out := printer{w: env.Stdout}
	out.line("next:")
	if s, err := inspect(client, dirs, scope); err == nil {
		w.Rewake = s.rewakes() // an earlier install may have written it
	}
	for _, next := range client.NextSteps(scope, w) {
		out.line("  - " + next)
	}
	for _, note := range notes(client, dirs, scope, w) {
		out.line("note: " + note)
	}
	return out.err
}

// wanted returns what to write: the hooks join the bus and share the inbox of the gateway
// that is set up, with the arguments and variables that its user added.
func (c *installCommand) wanted(client setup.Client, dirs setup.Dirs, env service.Env, program string) (setup.Options, error) {
	w := setup.Options{Program: program, Hooks: c.Hooks && client.HasHooks, Rewake: c.Rewake}
	var err error
	if w.Variables, err = gatewayVariables(); err != nil {
		return w, err
	}
	for _, scope := range append([]setup.Scope{setup.Scope(c.Scope)}, setup.Scopes()...) {
		// plan reports what can't be read.
		if s, err := inspect(client, dirs, scope); err == nil && s.found.Server != nil {
			w.Inbox, w.StateDir, w.Namespaces = s.found.Server.Client(), s.found.Server.StateDir(), s.found.Server.Namespaces()
			break
		}
	}
	if c.elsewhere {
		w.StateDir = env.StateDir
	}
	return w, nil
}

// find returns the client, and where its configuration is.
func (c *setupFlags) find() (setup.Client, setup.Dirs, error) {
	client, ok := setup.Lookup(c.Client)
	if !ok {
		return setup.Client{}, setup.Dirs{}, service.Usagef("unknown client %q", c.Client)
	}
	dirs, err := currentDirs()
	if err == nil && setup.Scope(c.Scope) == setup.Project && sameFile(dirs.Project, dirs.Home) {
		// The project's files there would be the user's.
		err = service.Usagef("the working directory is your home: use --scope user, or go to a project")
	}
	return client, dirs, err
}

// currentDirs returns where clients that start here read their configuration.
func currentDirs() (setup.Dirs, error) {
	dir, err := os.Getwd()
	if err != nil {
		return setup.Dirs{}, fmt.Errorf("find the working directory: %w: change to the project and run this again", err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return setup.Dirs{}, fmt.Errorf("find the home directory: %w: set HOME", err)
	}
	config, err := os.UserConfigDir()
	if err != nil {
		return setup.Dirs{}, fmt.Errorf("find the configuration directory: %w: set HOME", err)
	}
	return setup.Dirs{Project: dir, Home: home, Config: config, Getenv: os.Getenv}, nil
}

// thisProgram returns the path by which tocsin was started: that of the launcher where
// it started this program. Symbolic links stay, because the link of a package manager
// outlives the version that it points to.
func thisProgram() (string, error) {
	itself, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the path of tocsin: %w: start it by its path", err)
	}
	itself = launcherOf(itself)
	found, err := exec.LookPath(os.Args[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return itself, nil // started by a name that leads nowhere
	}
	path, err := filepath.Abs(found)
	if err != nil || !sameFile(path, itself) {
		return itself, nil //nolint:nilerr // as above
	}
	return path, nil
}

// launcherOf returns the path of the launcher beside a program that is tocsin-services,
// else the path of the program.
func launcherOf(program string) string {
	resolved, err := filepath.EvalSymlinks(program)
	if err != nil || filepath.Base(resolved) != quick.ServicesProgram {
		return program
	}
	launcher := filepath.Join(filepath.Dir(resolved), "tocsin")
	if info, err := os.Stat(launcher); err != nil || !info.Mode().IsRegular() {
		return program
	}
	return launcher
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a) //nolint:gosec // the name by which we were started is only compared
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// plan computes all changes before the first is written, so that one file which can't be
// edited prevents them all.
func plan(client setup.Client, dirs setup.Dirs, scope setup.Scope, edit func(setup.File, []byte) ([]byte, error)) ([]setup.Change, error) {
	var out []setup.Change
	for _, file := range client.Files(dirs, scope) {
		if scope == setup.Project {
			if err := setup.CheckInside(dirs.Project, file.Path); err != nil {
				return nil, err
			}
		}
		before, err := setup.Read(file.Path)
		if err != nil {
			return nil, err
		}
		after, err := edit(file, before)
		if err != nil {
			return nil, err
		}
		change := setup.Change{File: file, Before: before, After: after, Private: scope == setup.User}
		if !change.IsEmpty() {
			out = append(out, change)
		}
	}
	return out, nil
}

// apply writes or prints the changes, and prints what it did. It reports whether it wrote
// any.
func (c *setupFlags) apply(to io.Writer, client setup.Client, changes []setup.Change) (wrote bool, err error) {
	out := printer{w: to}
	if len(changes) == 0 {
		out.line(fmt.Sprintf("nothing to do for %s (scope %s)", client.Title, c.Scope))
		return false, out.err
	}
	if c.DryRun {
		for _, change := range changes {
			out.text(change.Diff())
		}
		return false, out.err
	}
	for i, change := range changes {
		backup, err := change.Write()
		if err != nil && i > 0 {
			return false, fmt.Errorf("%w (%s is already changed, and stays so)", err, changes[0].File.Path)
		}
		if err != nil {
			return false, err
		}
		action := "wrote"
		if change.After == nil {
			action = "removed"
		}
		line := fmt.Sprintf("%s %s (%s)", action, change.File.Path, change.Part())
		if backup != "" {
			line += "\n  backup: " + backup
		}
		out.line(line)
	}
	return true, out.err
}

// repository returns the nearest parent directory with a .git, or nothing.
func repository(dir string) string {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			return ""
		}
		dir = up
	}
}

// printer writes lines until the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(s string) { p.text(s + "\n") }

func (p *printer) text(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, s)
	}
}
