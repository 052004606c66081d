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
	Greet  greetCommand  `cmd:""`
	Wander wanderCommand `cmd:""`
}

// wanderCommand is started in places of others.
type wanderCommand struct{ greetCommand }

func (*wanderCommand) OnlyNamedFile() {}

type greetCommand struct {
	Name  string   `env:"TEST_GREET_NAME" default:"nobody"`
	Tags  []string `env:"TEST_GREET_TAGS"`
	Times int      `default:"1"`
	Off   string   `env:"TEST_GREET_OFF" default:"on" empty:"off"`
	Break bool
	BusFlags
}

func (c *greetCommand) Run(ctx context.Context, env Env) error {
	if c.Break {
		return fmt.Errorf("greet %s: the door is shut\nknock", c.Name)
	}
	if c.Times < 0 {
		return Usagef("--times must not be negative")
	}
	if c.Times > 6 {
		return fmt.Errorf("greet: %w", Exit(c.Times))
	}
	env.Logger.InfoContext(ctx, "greeting")
	_, err := fmt.Fprintf(env.Stdout, "%s %d %v", c.Name, c.Times, c.Tags)
	if c.Off != "on" {
		_, err = fmt.Fprintf(env.Stdout, " off=%q", c.Off)
	}
	return err
}

func TestSettingsAndExitCodes(t *testing.T) {
	for name, c := range map[string]struct {
		args     []string
		env      map[string]string
		file     string // tocsin.yaml
		other    string // other.yaml
		code     int
		out, err string
	}{
		"default":                       {args: []string{"greet"}, out: "nobody 1 []"},
		"file wins over default":        {args: []string{"greet"}, file: "name: file\ntimes: 3\ntags: [a, b]\n", out: "file 3 [a b]"},
		"environment wins over file":    {args: []string{"greet"}, file: "name: file\n", env: map[string]string{"TEST_GREET_NAME": "env"}, out: "env 1 []"},
		"flag wins over environment":    {args: []string{"greet", "--name=flag"}, file: "name: file\n", env: map[string]string{"TEST_GREET_NAME": "env"}, out: "flag 1 []"},
		"underscores in the file":       {args: []string{"greet"}, file: "log_format: json\n", out: "nobody 1 []", err: `"msg":"greeting"`},
		"unknown key in the file":       {args: []string{"greet"}, file: "colour: x\n", code: ExitUsage, err: `"colour" is no setting`},
		"broken file":                   {args: []string{"greet"}, file: "a: [", code: ExitUsage, err: "settings file"},
		"wrong value in the file":       {args: []string{"greet"}, file: "times: many\n", code: ExitUsage, err: "times"},
		"unknown flag":                  {args: []string{"greet", "--colour"}, code: ExitUsage, err: "--colour"},
		"unknown command":               {args: []string{"gret"}, code: ExitUsage, err: "gret"},
		"no command":                    {code: ExitUsage, err: "expected"},
		"a failure is one line":         {args: []string{"greet", "--break"}, code: ExitFailed, err: "test: greet nobody: the door is shut; knock\n"},
		"wrong use found by the code":   {args: []string{"greet", "--times=-1"}, code: ExitUsage, err: "--times must not be negative"},
		"a named file stands alone":     {args: []string{"greet", "--config=other.yaml"}, file: "name: file\n", other: "times: 2\n", out: "nobody 2 []"},
		"and hides a broken default":    {args: []string{"--config", "other.yaml", "greet"}, file: "a: [", other: "name: other\n", out: "other 1 []"},
		"not where others say":          {args: []string{"wander"}, file: "name: file\n", out: "nobody 1 []"},
		"not even when it is broken":    {args: []string{"wander"}, file: "a: [", out: "nobody 1 []"},
		"but a named one":               {args: []string{"wander", "--config=other.yaml"}, file: "name: file\n", other: "name: other\n", out: "other 1 []"},
		"a named file must be there":    {args: []string{"greet", "--config=none.yaml"}, code: ExitUsage, err: "none.yaml"},
		"a wrong key in a named file":   {args: []string{"greet", "--config=other.yaml"}, other: "colour: x\n", code: ExitUsage, err: `"colour" is no setting`},
		"empty is not set":              {args: []string{"greet"}, env: map[string]string{"TEST_GREET_NAME": ""}, out: "nobody 1 []"},
		"blank is not set":              {args: []string{"greet"}, env: map[string]string{"TEST_GREET_NAME": " \t"}, out: "nobody 1 []"},
		"the file wins over empty":      {args: []string{"greet"}, file: "name: file\n", env: map[string]string{"TEST_GREET_NAME": ""}, out: "file 1 []"},
		"empty log settings":            {args: []string{"greet"}, env: map[string]string{"TOCSIN_LOG_LEVEL": "", "TOCSIN_LOG_FORMAT": "", "TOCSIN_STATE_DIR": "", "TOCSIN_NATS_URL": ""}, out: "nobody 1 []", err: "level=INFO"},
		"empty where that means off":    {args: []string{"greet"}, env: map[string]string{"TEST_GREET_OFF": ""}, out: `nobody 1 [] off=""`},
		"a cluster":                     {args: []string{"greet", "--nats-url=nats://u:p@a:1,tls://b, c:3"}, out: "nobody"},
		"websockets":                    {args: []string{"greet", "--nats-url=wss://a:1,ws://[::1]:80"}, out: "nobody"},
		"colons are no URL":             {args: []string{"greet", "--nats-url=::::"}, code: ExitUsage, err: "--nats-url"},
		"a broken host":                 {args: []string{"greet", "--nats-url=http://[bad"}, code: ExitUsage, err: "--nats-url"},
		"another scheme":                {args: []string{"greet", "--nats-url=http://a"}, code: ExitUsage, err: "must be one of nats, tls, ws, wss"},
		"a port too many":               {args: []string{"greet", "--nats-url=nats://a:99999"}, code: ExitUsage, err: "65535"},
		"no host":                       {args: []string{"greet", "--nats-url=nats://"}, code: ExitUsage, err: "no host"},
		"one of two is wrong":           {args: []string{"greet", "--nats-url=nats://a,"}, code: ExitUsage, err: "no host"},
		"two kinds":                     {args: []string{"greet", "--nats-url=nats://a,ws://b"}, code: ExitUsage, err: "mixed"},
		"wrong beside a right variable": {args: []string{"greet", "--nats-url=::::"}, env: map[string]string{"TOCSIN_NATS_URL": "nats://a"}, code: ExitUsage, err: "greet: --nats-url: not a URL"},
		"wrong in the environment":      {args: []string{"greet"}, env: map[string]string{"TOCSIN_NATS_URL": "::::"}, code: ExitUsage, err: "--nats-url (TOCSIN_NATS_URL)"},
		"no word of a list":             {args: []string{"greet"}, env: map[string]string{"TOCSIN_LOG_LEVEL": "loud"}, code: ExitUsage, err: `--log-level (TOCSIN_LOG_LEVEL) must be one of`},
		"help":                          {args: []string{"greet", "--help"}, out: "Usage: test greet"},
		"help names the environment":    {args: []string{"greet", "--help"}, out: "($TEST_GREET_NAME)"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			for name, text := range map[string]string{"tocsin.yaml": c.file, "other.yaml": c.other} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
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

// TestExit: a command may end with a code of its own, and has said why itself.
func TestExit(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"greet", "--times=7"}, "test", "A test.", &testCLI{}, Env{Stdout: &stdout, Stderr: &stderr})
	if code != 7 || stdout.Len()+stderr.Len() > 0 {
		t.Errorf("exit %d: %s%s", code, &stdout, &stderr)
	}
}
