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

// setupFlags are what install and uninstall have in common.
type setupFlags struct {
	Client string `arg:"" enum:"claude-code,codex,gemini-cli,cursor,vscode" help:"The client: ${enum}."`
	Scope  string `help:"Whose files: those of the project in the working directory, or the user's own, for all projects: ${enum}. Default: ${default}." enum:"project,user" default:"project" placeholder:"SCOPE"`
	DryRun bool   `help:"Show the change as a diff, and write nothing."`
}

type installCommand struct {
	setupFlags
	Hooks  bool `help:"Write the hooks that put alerts before the model; without, the MCP server alone, and hooks that are there stay. Default: on." default:"true" negatable:""`
	Rewake bool `help:"Also a hook that waits for up to 30 minutes after the model has stopped, and wakes it for an alert (claude-code)."`

	// elsewhere says that the command line names a state directory.
	elsewhere bool
}

// Validate refuses what no client has, and notes what the command line itself says.
func (c *installCommand) Validate(line *kong.Context) error {
	c.elsewhere = given(line, "state-dir")
	if c.Rewake && (c.Client != "claude-code" || !c.Hooks) {
		return errors.New("--rewake is a hook of claude-code, and needs hooks")
	}
	return nil
}

// Run writes the client's entries, or says that they are there.
func (c *installCommand) Run(_ context.Context, env service.Env) error {
	client, place, err := c.find()
	if err != nil {
		return err
	}
	program, err := thisProgram()
	if err != nil {
		return err
	}
	scope := setup.Scope(c.Scope)
	w, err := c.wanted(client, place, env, program)
	if err != nil {
		return err
	}
	if err := w.Check(); err != nil {
		return service.Usagef("%v", err)
	}
	changes, err := plan(client, place, scope, func(f setup.File, src []byte) ([]byte, error) {
		return f.Install(src, w)
	})
	if err != nil {
		return err
	}
	wrote, err := c.apply(env.Stdout, client, changes)
	if err != nil || !wrote {
		return err
	}
	say := printer{w: env.Stdout}
	say.line("next:")
	if s, err := inspect(client, place, scope); err == nil {
		w.Rewake = s.rewakes() // it may be there from before
	}
	for _, next := range client.Next(scope, w) {
		say.line("  - " + next)
	}
	for _, note := range notes(client, place, scope, w) {
		say.line("note: " + note)
	}
	return say.err
}

// wanted is what is to be written: the hooks join the bus and share the inbox of
// the gateway that is set up, whatever its user added to it.
func (c *installCommand) wanted(client setup.Client, place setup.Place, env service.Env, program string) (setup.Wanted, error) {
	w := setup.Wanted{Program: program, Hooks: c.Hooks && client.HasHooks, Rewake: c.Rewake}
	var err error
	if w.Variables, err = passedOn(); err != nil {
		return w, err
	}
	for _, scope := range append([]setup.Scope{setup.Scope(c.Scope)}, setup.Scopes()...) {
		// What can't be read is said by plan.
		if s, err := inspect(client, place, scope); err == nil && s.found.Server != nil {
			w.Inbox, w.StateDir, w.Namespaces = s.found.Server.Client(), s.found.Server.StateDir(), s.found.Server.Namespaces()
			break
		}
	}
	if c.elsewhere {
		w.StateDir = env.StateDir
	}
	return w, nil
}

// find is the client, and where its configuration lies.
func (c *setupFlags) find() (setup.Client, setup.Place, error) {
	client, ok := setup.Lookup(c.Client)
	if !ok {
		return setup.Client{}, setup.Place{}, service.Usagef("there is no client %q", c.Client)
	}
	place, err := herePlace()
	if err == nil && setup.Scope(c.Scope) == setup.Project && sameFile(place.Project, place.Home) {
		// Its files there are those of the user's scope.
		err = service.Usagef("the working directory is your home: use --scope user, or go to a project")
	}
	return client, place, err
}

// herePlace is where clients that are started here look.
func herePlace() (setup.Place, error) {
	dir, err := os.Getwd()
	if err != nil {
		return setup.Place{}, fmt.Errorf("find the working directory: %w: go to the project, and run this again", err)
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return setup.Place{}, fmt.Errorf("find the home directory: %w: set HOME", err)
	}
	config, err := os.UserConfigDir()
	if err != nil {
		return setup.Place{}, fmt.Errorf("find the directory of configurations: %w: set HOME", err)
	}
	return setup.Place{Project: dir, Home: home, Config: config, Getenv: os.Getenv}, nil
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
	x, errX := os.Stat(a) //nolint:gosec // by which name we were started is only compared
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// plan works out all changes before the first is made, so that a file which
// can't be edited stops them all.
func plan(client setup.Client, place setup.Place, scope setup.Scope, edit func(setup.File, []byte) ([]byte, error)) ([]setup.Change, error) {
	var out []setup.Change
	for _, file := range client.Files(place, scope) {
		if scope == setup.Project {
			if err := setup.Within(place.Project, file.Path); err != nil {
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
		if !change.None() {
			out = append(out, change)
		}
	}
	return out, nil
}

// apply makes the changes, or shows them, and says what it did; wrote says
// whether there is anything to do next.
func (c *setupFlags) apply(to io.Writer, client setup.Client, changes []setup.Change) (wrote bool, err error) {
	say := printer{w: to}
	if len(changes) == 0 {
		say.line(fmt.Sprintf("nothing to do for %s (scope %s)", client.Title, c.Scope))
		return false, say.err
	}
	if c.DryRun {
		for _, change := range changes {
			say.text(change.Diff())
		}
		return false, say.err
	}
	for i, change := range changes {
		backup, err := change.Write()
		if err != nil && i > 0 {
			return false, fmt.Errorf("%w (%s is changed already, and stays so)", err, changes[0].File.Path)
		}
		if err != nil {
			return false, err
		}
		did := "wrote"
		if change.After == nil {
			did = "removed"
		}
		line := fmt.Sprintf("%s %s (%s)", did, change.File.Path, change.Of())
		if backup != "" {
			line += "\n  what it was is in " + backup
		}
		say.line(line)
	}
	return true, say.err
}

// repository is the nearest directory above that has a .git; empty without one.
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

// printer writes lines until one can't be written.
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
