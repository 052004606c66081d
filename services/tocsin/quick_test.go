package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/tocsin/quick"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// runAs is a variable of the environment with which this test binary is a program: with
// "quick" that of package quick, with "whole" one that has all commands.
const runAs = "TEST_RUN_AS"

func TestMain(m *testing.M) {
	switch os.Getenv(runAs) {
	case "quick":
		code, ran := quick.Run(os.Args[1:])
		if !ran {
			panic(fmt.Sprintf("package quick does not run %q", os.Args[1:]))
		}
		os.Exit(code)
	case "whole":
		line := &cli{}
		code := service.Main("tocsin", quick.Description, line)
		os.Exit(line.Hook.ExitCode(code, os.Args[1:], &cli{}))
	}
	os.Exit(m.Run())
}

// TestSettingNames checks that package quick knows the flags of all commands, as the keys of
// a settings file.
func TestSettingNames(t *testing.T) {
	k, err := service.NewParser(&cli{}, kong.Configuration(noSettings))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	err = kong.Visit(k.Model.Node, func(node kong.Visitable, next kong.Next) error {
		if flag, ok := node.(*kong.Flag); ok {
			want[flag.Name] = true
		}
		return next(nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(want) < 50 {
		t.Errorf("%d flags, want all of tocsin", len(want))
	}
	for _, command := range []string{"hook", "ci", "wait", "version"} {
		partial, ok := quick.Line([]string{command}).(service.Partial)
		if !ok {
			t.Errorf("the command line of %s is no service.Partial", command)
			continue
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), partial.SettingNames()); diff != "" {
			t.Errorf("settingNames in quick/setting_names.go are not the flags of all commands (-want +got):\n%s", diff)
		}
	}
}

// TestQuickReadsSettingsFiles runs command lines with package quick and with the whole
// command line, and expects the same output and exit status of both.
func TestQuickReadsSettingsFiles(t *testing.T) {
	t.Parallel()
	const hook = "hook --client codex"
	for name, tt := range map[string]struct {
		args  string
		env   string
		file  string      // the user's own tocsin.yaml
		mode  os.FileMode // its permissions, 0600 if 0
		here  string      // ./tocsin.yaml
		other string      // ./other.yaml
		code  int
		want  string // in stdout or stderr
	}{
		"hook":                            {args: hook, file: "log-level: info\n"},
		"an empty file":                   {args: "version", file: "\n", want: "tocsin "},
		"settings of other commands":      {args: "version", file: "ingest-addr: 127.0.0.1:0\nnats_ws_addr: ''\nkubernetes-namespaces: [a, b]\nlast: 3\n", want: "tocsin "},
		"wrong ones of other commands":    {args: hook, file: "last: many\npartitions: {a: b}\n"},
		"the key of help":                 {args: "version", file: "help: false\nconfig: none.yaml\n"},
		"wrong type of another command":   {args: "wait --timeout 1ms", file: "status: [1, {a: b}]\n", code: 1, want: "tocsin up"},
		"unknown key":                     {args: "version", file: "colour: x\n", code: 2, want: `"colour" is no setting`},
		"unknown key, of ci":              {args: "ci --status success", file: "colour: x\n", code: 2, want: "(see tocsin ci --help)"},
		"unknown key, of a hook":          {args: hook, file: "colour: x\n", code: 1, want: `"colour" is no setting`},
		"two unknown keys":                {args: "version", file: "size: x\ncolour: x\n", code: 2, want: `"colour" is no setting`},
		"the name of a command":           {args: "version", file: "hook: x\n", code: 2, want: `"hook" is no setting`},
		"the name of a negated flag":      {args: hook, file: "no-stop: true\n", code: 1, want: "no-stop"},
		"broken YAML":                     {args: "version", file: "a: [", code: 2, want: "read the settings file"},
		"broken YAML, of a hook":          {args: hook, file: "a: [", code: 1, want: "read the settings file"},
		"a list, not a map":               {args: "wait", file: "- a\n", code: 2, want: "read the settings file"},
		"a key twice":                     {args: "wait", file: "last: 1\nlast: 2\n", code: 2, want: "already defined"},
		"wrong value":                     {args: "wait", file: "timeout: soon\n", code: 2, want: "timeout"},
		"wrong value, of a hook":          {args: hook, file: "stop: perhaps\n", code: 1, want: "stop"},
		"no word of a list":               {args: hook, file: "log-level: loud\n", code: 1, want: "--log-level"},
		"wrong type":                      {args: "wait", file: "severity: {a: b}\n", code: 2, want: "severity must be a text"},
		"wait for another client":         {args: hook, file: "wait: 1s\n", code: 1, want: "--wait"},
		"a required flag":                 {args: "hook", file: "client: codex\n"},
		"no required flag":                {args: "hook", file: "log-level: info\n", code: 2, want: "--client"},
		"an unknown flag":                 {args: hook + " --colour", file: "log-level: info\n", code: 2, want: "--colour"},
		"too many words":                  {args: hook + " up", file: "log-level: info\n", code: 2, want: "up"},
		"help":                            {args: hook + " --help", file: "a: [", want: "Usage: tocsin hook"},
		"help with a file":                {args: "wait --help", file: "timeout: 1s\n", want: "Usage: tocsin wait"},
		"file":                            {args: "ci --status failure", file: "ingest-url: http://127.0.0.1:1\n", code: 1, want: "127.0.0.1:1/"},
		"environment wins over file":      {args: "ci --status failure", env: "TOCSIN_INGEST_URL=http://127.0.0.1:2", file: "ingest-url: http://127.0.0.1:1\n", code: 1, want: "127.0.0.1:2/"},
		"flag wins over both":             {args: "ci --status failure --ingest-url http://127.0.0.1:3", env: "TOCSIN_INGEST_URL=http://127.0.0.1:2", file: "ingest-url: http://127.0.0.1:1\n", code: 1, want: "127.0.0.1:3/"},
		"file wins over empty":            {args: "ci --status failure", env: "TOCSIN_INGEST_URL=", file: "ingest-url: http://127.0.0.1:1\n", code: 1, want: "127.0.0.1:1/"},
		"wrong in the environment":        {args: "wait", env: "TOCSIN_LOG_LEVEL=loud", file: "log-level: info\n", code: 2, want: "TOCSIN_LOG_LEVEL"},
		"wrong for others":                {args: "version", env: "TOCSIN_INGEST_ADDR=::::", file: "log-level: info\n", want: "tocsin "},
		"a variable that nothing reads":   {args: "ci --status failure", env: "TOCSIN_CONFIG=other.yaml", other: "ingest-url: http://127.0.0.1:4\n", file: "ingest-url: http://127.0.0.1:1\n", code: 1, want: "127.0.0.1:1/"},
		"flags that exclude each other":   {args: "wait --agent codex", file: "client: me\n", code: 1, want: "tocsin up"},
		"of ci":                           {args: "ci --status failure", file: "ingest-url: http://127.0.0.1:1\nlog-format: json\n", code: 1, want: "127.0.0.1:1"},
		"others can write the file":       {args: "version", file: "log-level: info\n", mode: 0o646, code: 2, want: "chmod go-w"},
		"others can write that of a hook": {args: hook, file: "log-level: info\n", mode: 0o620, code: 1, want: "chmod go-w"},
		"a named file":                    {args: "ci --status failure --config other.yaml", file: "a: [", other: "ingest-url: http://127.0.0.1:4\nlast: 3\n", code: 1, want: "127.0.0.1:4/"},
		"a broken named file":             {args: "wait --config=other.yaml", other: "a: [", code: 2, want: "other.yaml"},
		"an unknown key in a named file":  {args: hook + " --config=other.yaml", other: "colour: x\n", code: 1, want: `"colour" is no setting`},
		"a wrong value in a named file":   {args: hook + " --config=other.yaml", other: "log-level: loud\n", code: 1, want: "--log-level"},
		"a named file must exist":         {args: "version --config none.yaml", file: "log-level: info\n", code: 2, want: "none.yaml"},
		"a hook's named file must exist":  {args: hook + " --config none.yaml", code: 2, want: "none.yaml"},
		"a flag without its file":         {args: hook + " --config", code: 2, want: "--config"},
		"a file that lies here":           {args: "ci --status failure", here: "ingest-url: http://127.0.0.1:5\n", file: "ingest-url: http://127.0.0.1:1\n", code: 1, want: "./tocsin.yaml is not read"},
		"a broken one that lies here":     {args: "version", here: "a: [", want: "./tocsin.yaml is not read"},
		"silent about it":                 {args: hook, here: "a: [", file: "log-level: info\n"},
		"without a file":                  {args: "version", want: "tocsin "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, config := t.TempDir(), t.TempDir()
			own := filepath.Join(config, "tocsin", "tocsin.yaml")
			err := os.Mkdir(filepath.Dir(own), 0o700)
			for path, text := range map[string]string{own: tt.file, filepath.Join(dir, "tocsin.yaml"): tt.here, filepath.Join(dir, "other.yaml"): tt.other} {
				if text != "" {
					err = errors.Join(err, os.WriteFile(path, []byte(text), 0o600))
				}
			}
			if tt.mode != 0 {
				err = errors.Join(err, os.Chmod(own, tt.mode))
			}
			if err != nil {
				t.Fatal(err)
			}
			run := func(program string) string {
				cmd := exec.CommandContext(t.Context(), os.Args[0], strings.Fields(tt.args)...)
				cmd.Dir, cmd.Stdin = dir, strings.NewReader("{}")
				cmd.Env = []string{runAs + "=" + program, "XDG_CONFIG_HOME=" + config, "HOME=" + config, "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
				if tt.env != "" {
					cmd.Env = append(cmd.Env, tt.env)
				}
				var stdout, stderr bytes.Buffer
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
					t.Fatal(err)
				}
				times := regexp.MustCompile(`time=\S+|"time":"[^"]*"`)
				return fmt.Sprintf("exit status %d\nstdout:\n%s\nstderr:\n%s", cmd.ProcessState.ExitCode(), &stdout, times.ReplaceAllString(stderr.String(), "time"))
			}
			want, got := run("whole"), run("quick")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("package quick differs from the whole program (-whole +quick):\n%s", diff)
			}
			if prefix := fmt.Sprintf("exit status %d\n", tt.code); !strings.HasPrefix(got, prefix) || !strings.Contains(got, tt.want) {
				t.Errorf("got %s\nwant %sand %q", got, prefix, tt.want)
			}
		})
	}
}
