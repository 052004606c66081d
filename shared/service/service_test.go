package service

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type testCLI struct {
	Settings
	Greet greetCommand `cmd:""`
}

type greetCommand struct {
	Name  string   `env:"TEST_GREET_NAME" default:"nobody"`
	Tags  []string `env:"TEST_GREET_TAGS"`
	Times int      `default:"1"`
	Break bool
}

func (c *greetCommand) Run(ctx context.Context, env Env) error {
	if c.Break {
		return fmt.Errorf("greet %s: the door is shut\nknock", c.Name)
	}
	if c.Times < 0 {
		return Usagef("--times must not be negative")
	}
	env.Logger.InfoContext(ctx, "greeting")
	_, err := fmt.Fprintf(env.Stdout, "%s %d %v", c.Name, c.Times, c.Tags)
	return err
}

func TestSettingsAndExitCodes(t *testing.T) {
	for name, c := range map[string]struct {
		args     []string
		env      map[string]string
		file     string
		code     int
		out, err string
	}{
		"default":                     {args: []string{"greet"}, out: "nobody 1 []"},
		"file wins over default":      {args: []string{"greet"}, file: "name: file\ntimes: 3\ntags: [a, b]\n", out: "file 3 [a b]"},
		"environment wins over file":  {args: []string{"greet"}, file: "name: file\n", env: map[string]string{"TEST_GREET_NAME": "env"}, out: "env 1 []"},
		"flag wins over environment":  {args: []string{"greet", "--name=flag"}, file: "name: file\n", env: map[string]string{"TEST_GREET_NAME": "env"}, out: "flag 1 []"},
		"underscores in the file":     {args: []string{"greet"}, file: "log_format: json\n", out: "nobody 1 []", err: `"msg":"greeting"`},
		"unknown key in the file":     {args: []string{"greet"}, file: "colour: x\n", code: ExitUsage, err: `"colour" is no setting`},
		"broken file":                 {args: []string{"greet"}, file: "a: [", code: ExitUsage, err: "settings file"},
		"wrong value in the file":     {args: []string{"greet"}, file: "times: many\n", code: ExitUsage, err: "times"},
		"unknown flag":                {args: []string{"greet", "--colour"}, code: ExitUsage, err: "--colour"},
		"unknown command":             {args: []string{"gret"}, code: ExitUsage, err: "gret"},
		"no command":                  {code: ExitUsage, err: "expected"},
		"a failure is one line":       {args: []string{"greet", "--break"}, code: ExitFailed, err: "test: greet nobody: the door is shut; knock\n"},
		"wrong use found by the code": {args: []string{"greet", "--times=-1"}, code: ExitUsage, err: "--times must not be negative"},
		"help":                        {args: []string{"greet", "--help"}, out: "Usage: test greet"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			if c.file != "" {
				if err := os.WriteFile(filepath.Join(dir, "tocsin.yaml"), []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), c.args, "test", "A test.", &testCLI{}, Env{Stdout: &stdout, Stderr: &stderr})
			if code != c.code {
				t.Errorf("exit %d, want %d; stderr: %s", code, c.code, &stderr)
			}
			if !strings.Contains(stdout.String(), c.out) {
				t.Errorf("stdout %q, want %q", &stdout, c.out)
			}
			if !strings.Contains(stderr.String(), c.err) {
				t.Errorf("stderr %q, want %q", &stderr, c.err)
			}
			if c.code != ExitOK && strings.Count(stderr.String(), "\n") != 1 {
				t.Errorf("stderr is not one line: %q", &stderr)
			}
		})
	}
}
