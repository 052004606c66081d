package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type testCLI struct {
	Settings
	Greet   greetCommand   `cmd:""`
	Whisper whisperCommand `cmd:""`
}

// whisperCommand logs nothing about settings files.
type whisperCommand struct{ greetCommand }

func (*whisperCommand) Silent() {}

type greetCommand struct {
	Name  string   `env:"TEST_GREET_NAME" default:"world"`
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
		file     string // the user's own tocsin.yaml
		here     string // ./tocsin.yaml
		other    string // ./other.yaml
		code     int
		out, err string
	}{
		"default":                       {args: []string{"greet"}, out: "world 1 []"},
		"file wins over default":        {args: []string{"greet"}, file: "name: file\ntimes: 3\ntags: [a, b]\n", out: "file 3 [a b]"},
		"environment wins over file":    {args: []string{"greet"}, file: "name: file\n", env: map[string]string{"TEST_GREET_NAME": "env"}, out: "env 1 []"},
		"flag wins over environment":    {args: []string{"greet", "--name=flag"}, file: "name: file\n", env: map[string]string{"TEST_GREET_NAME": "env"}, out: "flag 1 []"},
		"underscores in the file":       {args: []string{"greet"}, file: "log_format: json\n", out: "world 1 []", err: `"msg":"greeting"`},
		"unknown key in the file":       {args: []string{"greet"}, file: "colour: x\n", code: ExitUsage, err: `"colour" is no setting`},
		"broken file":                   {args: []string{"greet"}, file: "a: [", code: ExitUsage, err: "read the settings file CONFIG/tocsin/tocsin.yaml: "},
		"wrong value in the file":       {args: []string{"greet"}, file: "times: many\n", code: ExitUsage, err: "times"},
		"unknown flag":                  {args: []string{"greet", "--colour"}, code: ExitUsage, err: "--colour (see test greet --help)"},
		"unknown command":               {args: []string{"gret"}, code: ExitUsage, err: `"greet"? (see test --help)`},
		"no command":                    {code: ExitUsage, err: "expected"},
		"a failure is one line":         {args: []string{"greet", "--break"}, code: ExitFailed, err: "test: greet world: the door is shut; knock\n"},
		"wrong use found by the code":   {args: []string{"greet", "--times=-1"}, code: ExitUsage, err: "--times must not be negative (see test greet --help)"},
		"a named file stands alone":     {args: []string{"greet", "--config=other.yaml"}, file: "name: file\n", other: "times: 2\n", out: "world 2 []"},
		"and hides a broken default":    {args: []string{"--config", "other.yaml", "greet"}, file: "a: [", other: "name: other\n", out: "other 1 []"},
		"not one that lies there":       {args: []string{"greet"}, here: "name: here\n", out: "world 1 []", err: "./tocsin.yaml is not read; pass --config tocsin.yaml or move it to CONFIG/tocsin/tocsin.yaml"},
		"not even when it is broken":    {args: []string{"greet"}, here: "a: [", out: "world 1 []", err: "./tocsin.yaml is not read"},
		"nor beside the user's own":     {args: []string{"greet"}, file: "name: file\n", here: "name: here\n", out: "file 1 []", err: "./tocsin.yaml is not read"},
		"but where it is named":         {args: []string{"greet", "--config=tocsin.yaml"}, here: "name: here\n", out: "here 1 []"},
		"silent about it":               {args: []string{"whisper"}, here: "name: here\n", out: "world 1 []"},
		"silent, with the user's own":   {args: []string{"whisper"}, file: "name: file\n", out: "file 1 []"},
		"a broken named file":           {args: []string{"greet", "--config=other.yaml"}, other: "a: [", code: ExitUsage, err: "other.yaml: yaml"},
		"a named file must exist":       {args: []string{"greet", "--config=none.yaml"}, code: ExitUsage, err: "none.yaml"},
		"a wrong key in a named file":   {args: []string{"greet", "--config=other.yaml"}, other: "colour: x\n", code: ExitUsage, err: `"colour" is no setting`},
		"empty is not set":              {args: []string{"greet"}, env: map[string]string{"TEST_GREET_NAME": ""}, out: "world 1 []"},
		"blank is not set":              {args: []string{"greet"}, env: map[string]string{"TEST_GREET_NAME": " \t"}, out: "world 1 []"},
		"the file wins over empty":      {args: []string{"greet"}, file: "name: file\n", env: map[string]string{"TEST_GREET_NAME": ""}, out: "file 1 []"},
		"empty log settings":            {args: []string{"greet"}, env: map[string]string{"TOCSIN_LOG_LEVEL": "", "TOCSIN_LOG_FORMAT": "", "TOCSIN_STATE_DIR": "", "TOCSIN_NATS_URL": ""}, out: "world 1 []", err: "level=INFO"},
		"empty where that means off":    {args: []string{"greet"}, env: map[string]string{"TEST_GREET_OFF": ""}, out: `world 1 [] off=""`},
		"a cluster":                     {args: []string{"greet", "--nats-url=nats://u:p@a:1,tls://b, c:3"}, out: "world"},
		"websockets":                    {args: []string{"greet", "--nats-url=wss://a:1,ws://[::1]:80"}, out: "world"},
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
			dir, config := t.TempDir(), t.TempDir()
			t.Chdir(dir)
			t.Setenv("XDG_CONFIG_HOME", config)
			for k, v := range c.env {
				t.Setenv(k, v)
			}
			own := filepath.Join(config, "tocsin", "tocsin.yaml")
			if err := os.Mkdir(filepath.Dir(own), 0o700); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{own: c.file, filepath.Join(dir, "tocsin.yaml"): c.here, filepath.Join(dir, "other.yaml"): c.other} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			c.err = strings.ReplaceAll(c.err, "CONFIG", config)
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
				t.Errorf("stderr %q, want one line", &stderr)
			}
			if got, want := strings.Count(stderr.String(), "is not read"), strings.Count(c.err, "is not read"); got != want {
				t.Errorf("%d warnings about a file that is not read, want %d: %q", got, want, &stderr)
			}
		})
	}
}

// TestASettingsFileThatOthersCanWrite is refused, and so is another user's.
func TestASettingsFileThatOthersCanWrite(t *testing.T) {
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	t.Chdir(t.TempDir())
	own := filepath.Join(config, "tocsin", "tocsin.yaml")
	if err := os.Mkdir(filepath.Dir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, []byte("name: file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o644: false, 0o646: true, 0o664: true, 0o666: true, 0o602: true} {
		if err := os.Chmod(own, mode); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"greet"}, "test", "A test.", &testCLI{}, Env{Stdout: &stdout, Stderr: &stderr})
		if got := code == ExitUsage && strings.Contains(stderr.String(), own) && strings.Contains(stderr.String(), "chmod go-w"); got != refused {
			t.Errorf("mode %04o: exit %d, %s; want refused = %t", mode, code, &stderr, refused)
		}
		if got := stdout.String() == "file 1 []"; got == refused {
			t.Errorf("mode %04o: stdout %q; want refused = %t", mode, &stdout, refused)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("not root: the file can't be given to another user")
	}
	if err := errors.Join(os.Chmod(own, 0o600), os.Chown(own, 12345, 12345)); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"greet"}, "test", "A test.", &testCLI{}, Env{Stdout: &stdout, Stderr: &stderr})
	if code != ExitUsage || !strings.Contains(stderr.String(), "another user") {
		t.Errorf("of another user: exit %d, stderr %q; want it refused", code, &stderr)
	}
}

// TestUserFile checks that a relative XDG_CONFIG_HOME is ignored, as its standard requires.
func TestUserFile(t *testing.T) {
	for _, c := range []struct{ config, home, want string }{
		{"/c", "/h", "/c/tocsin/tocsin.yaml"},
		{"", "/h", "/h/.config/tocsin/tocsin.yaml"},
		{"c", "/h", "/h/.config/tocsin/tocsin.yaml"},
		{"", "", ""},
	} {
		t.Setenv("XDG_CONFIG_HOME", c.config)
		t.Setenv("HOME", c.home)
		if got := UserFile(); got != c.want {
			t.Errorf("XDG_CONFIG_HOME=%q HOME=%q: UserFile = %q, want %q", c.config, c.home, got, c.want)
		}
	}
}

// TestExit checks that a command may set the exit code, without an error message.
func TestExit(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"greet", "--times=7"}, "test", "A test.", &testCLI{}, Env{Stdout: &stdout, Stderr: &stderr})
	if code != 7 || stdout.Len()+stderr.Len() > 0 {
		t.Errorf("exit %d, output %q, want 7 without output", code, stdout.String()+stderr.String())
	}
}

// programCLI is a program without commands.
type programCLI struct {
	Settings
	greetCommand
}

// TestProgramWithoutCommands checks a program whose flags belong to no command.
func TestProgramWithoutCommands(t *testing.T) {
	for _, c := range []struct {
		args     []string
		code     int
		out, err string
	}{
		{[]string{"--name=you", "--log-level=warn"}, 0, "you 1 []", ""},
		{[]string{"--times=-1"}, 2, "", "test: --times must not be negative (see test --help)\n"},
		{[]string{"--wrong"}, 2, "", "test: unknown flag --wrong (see test --help)\n"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), c.args, "test", "A test.", &programCLI{}, Env{Stdout: &stdout, Stderr: &stderr})
		if code != c.code || stdout.String() != c.out || stderr.String() != c.err {
			t.Errorf("%q: exit %d, output %q, errors %q, want exit %d, %q, %q",
				c.args, code, stdout.String(), stderr.String(), c.code, c.out, c.err)
		}
	}
}
