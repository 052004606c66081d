package investigator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// CheckCommand is the command `tocsin investigator check`, which checks a configuration file.
type CheckCommand struct {
	File  string `arg:"" help:"Configuration of an investigator (YAML). Also tarsy.yaml, with llm-providers.yaml beside it."`
	Probe bool   `help:"Start the MCP servers and list their tools, and ask each model provider for one token."`
}

// Run prints every error and warning with its line, and what the file leads to.
func (c *CheckCommand) Run(ctx context.Context, env service.Env) error {
	out := &report{w: env.Stdout}
	cfg, warnings, err := loadChecked(c.File)
	var wrong config.Errors
	errors.As(err, &wrong)
	for _, p := range wrong {
		out.line("error    %s", p)
	}
	for _, p := range warnings {
		out.line("warning  %s", p)
	}
	switch {
	case out.err != nil:
		return out.err
	case len(wrong) > 0:
		return fmt.Errorf("%s is not valid: %s", c.File, counted(len(wrong), "error"))
	case err != nil:
		return err
	}
	s, err := newSettings(cfg, nil)
	if err != nil {
		return err
	}
	var found *probed
	if c.Probe {
		if found, err = probe(ctx, s); err != nil {
			return err
		}
	}
	describe(out, s, found)
	if out.err != nil {
		return out.err
	}
	if found != nil && found.failed() > 0 {
		return fmt.Errorf("%s is valid, but %d of %s failed", c.File, found.failed(), counted(found.all(), "probe"))
	}
	verdict := "is valid"
	if len(warnings) > 0 {
		verdict += ", with " + counted(len(warnings), "warning")
	}
	out.line("%s %s", c.File, verdict)
	return out.err
}

// loadChecked reads a file, or the two files of the system that this one replaces.
func loadChecked(file string) (*config.Config, config.Warnings, error) {
	if first, providers, is := config.ForeignFiles(file); is {
		return config.LoadForeign(first, providers, os.LookupEnv)
	}
	return config.Load(file, os.LookupEnv)
}

// report writes lines until one fails.
type report struct {
	w   io.Writer
	err error
}

// line writes a line without control characters.
func (r *report) line(format string, args ...any) {
	if r.err == nil {
		_, r.err = fmt.Fprintln(r.w, sanitize.Visible(fmt.Sprintf(format, args...)))
	}
}

// counted returns a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// commaList returns names as a list for people.
func commaList(names []string) string { return strings.Join(names, ", ") }
