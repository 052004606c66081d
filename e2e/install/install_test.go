package install

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// account is a user's home with a project in it, separate from the one who runs the
// test.
type account struct{ home, project, state string }

func newAccount(t *testing.T) *account {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &account{home, filepath.Join(home, "my project"), filepath.Join(home, "state")}
	d.write(t, filepath.Join(d.project, "README.md"), "x")
	return d
}

func (d *account) write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

// run runs a program in the project, with a minimal environment.
func (d *account) run(t *testing.T, program string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = d.project, &out, &log
	cmd.Env = []string{"HOME=" + d.home, "PATH=/usr/bin:/bin", "TOCSIN_STATE_DIR=" + d.state, "GORACE=atexit_sleep_ms=0"}
	if err := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), log.String()
}

// must runs tocsin, which has to succeed, and returns its output.
func (d *account) must(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := d.run(t, e2etest.Binary(t), args...)
	if code != 0 || stderr != "" {
		t.Fatalf("%v: exit %d, want 0 and no stderr\n%s%s", args, code, stdout, stderr)
	}
	return stdout
}

// files returns all files of the home without the state directory.
func (d *account) files(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(d.home, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, d.home+"/")] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// installable has the clients that can be set up, with their files in both scopes.
var installable = []struct {
	name          string
	hooks         bool
	project, user []string
}{
	{"claude-code", true, []string{".mcp.json", ".claude/settings.json"}, []string{".claude.json", ".claude/settings.json"}},
	{"codex", true, []string{".codex/config.toml", ".codex/hooks.json"}, []string{".codex/config.toml", ".codex/hooks.json"}},
	{"gemini-cli", true, []string{".gemini/settings.json"}, []string{".gemini/settings.json"}},
	{"cursor", true, []string{".cursor/mcp.json", ".cursor/hooks.json"}, []string{".cursor/mcp.json", ".cursor/hooks.json"}},
	{"vscode", false, []string{".vscode/mcp.json"}, []string{".config/Code/User/mcp.json"}},
}

// TestInstall shows the change, writes it, finds it with doctor, has nothing to do the
// second time, and removes it, for each client and scope.
func TestInstall(t *testing.T) {
	t.Parallel()
	for _, c := range installable {
		for scope, files := range map[string][]string{"project": c.project, "user": c.user} {
			t.Run(c.name+"/"+scope, func(t *testing.T) {
				t.Parallel()
				d := newAccount(t)
				if scope == "project" {
					files = slices.Clone(files)
					for i := range files {
						files[i] = "my project/" + files[i]
					}
				}
				args := []string{c.name, "--scope=" + scope}
				empty := d.files(t)
				shown := d.must(t, append([]string{"install", "--dry-run"}, args...)...)
				if now := d.files(t); len(now) != len(empty) {
					t.Fatalf("a dry run wrote: %v, want %d of them", now, len(empty))
				}
				output := d.must(t, append([]string{"install"}, args...)...)
				now := d.files(t)
				if len(now) != len(empty)+len(files) {
					t.Errorf("got %v, want %v of them", now, len(empty)+len(files))
				}
				for _, f := range files {
					if now[f] == "" || !strings.Contains(output, "wrote "+filepath.Join(d.home, f)) || !strings.Contains(shown, "+++ "+filepath.Join(d.home, f)) {
						t.Errorf("%s, want a now, %q in output and %q in shown\n%s\nsaid:\n%s\nshown:\n%s", f, "wrote "+filepath.Join(d.home, f), "+++ "+filepath.Join(d.home, f), now[f], output, shown)
					}
					for line := range strings.Lines(now[f]) {
						if !strings.Contains(shown, "+"+line) {
							t.Errorf("dry run of %s = %s, want %q in it", f, shown, "+"+line)
						}
					}
				}
				if again := d.must(t, append([]string{"install"}, args...)...); !strings.Contains(again, "nothing to do") {
					t.Errorf("second install = %s, want nothing to do", again)
				}
				_, report, _ := d.run(t, e2etest.Binary(t), "doctor")
				way := "alerts reach its model when it calls observe"
				if c.hooks {
					way = "alerts reach its model by hooks and by observe"
				}
				if !strings.Contains(report, "ok   "+c.name) || !strings.Contains(report, scope+" in "+filepath.Join(d.home, files[0])) || !strings.Contains(report, way) {
					t.Errorf("doctor, want %q in report, %q in report and %q in report\n%s", "ok   "+c.name, scope+" in "+filepath.Join(d.home, files[0]), way, report)
				}
				d.must(t, append([]string{"uninstall"}, args...)...)
				if now := d.files(t); len(now) != len(empty) {
					t.Errorf("files after uninstall = %v, want those from before: %v", now, empty)
				}
				if again := d.must(t, append([]string{"uninstall"}, args...)...); !strings.Contains(again, "nothing to do") {
					t.Errorf("second uninstall = %s, want nothing to do", again)
				}
			})
		}
	}
}

// TestInstallIntoAFile checks that what the user wrote stays, that a backup is beside
// the file, and that uninstall restores the very text, also from another path of the
// program.
func TestInstallIntoAFile(t *testing.T) {
	t.Parallel()
	texts := map[string]string{
		".json": "// my own\n{\n\t\"other\": [1, 2], // two\n\t\"hooks\": {}\n}\n",
		".toml": "# my own\nmodel = \"m\" # why\n\n[tui]\ntheme = \"t\"",
	}
	for _, c := range installable {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := newAccount(t)
			var paths []string
			for _, f := range c.project {
				paths = append(paths, filepath.Join(d.project, f))
				d.write(t, paths[len(paths)-1], texts[filepath.Ext(f)])
			}
			output := d.must(t, "install", c.name)
			for _, p := range paths {
				if backup, err := os.ReadFile(p + ".tocsin-backup-1"); err != nil || string(backup) != texts[filepath.Ext(p)] || !strings.Contains(output, p+".tocsin-backup-1") {
					t.Errorf("%s: got %v, want backup %v and %q in output\n%s\n%s", p, err, texts[filepath.Ext(p)], p+".tocsin-backup-1", backup, output)
				}
				now, err := os.ReadFile(p)
				info, statErr := os.Stat(p)
				if err != nil || statErr != nil || info.Mode().Perm() != 0o640 {
					t.Fatalf("got %v, %v, %v, want Perm 0o640", info.Mode(), err, statErr)
				}
				for line := range strings.Lines(texts[filepath.Ext(p)]) {
					if kept, _, _ := strings.Cut(line, "{}"); !strings.Contains(string(now), strings.TrimSuffix(kept, "\n")) {
						t.Errorf("%s after install = %s, want it to keep %q", p, now, line)
					}
				}
			}
			moved := filepath.Join(d.home, "moved", "tocsin")
			if err := os.MkdirAll(filepath.Dir(moved), 0o755); err != nil {
				t.Fatal(err)
			}
			putBinary(t, moved)
			if code, stdout, stderr := d.run(t, moved, "uninstall", c.name); code != 0 {
				t.Fatalf("exit %d, want 0\n%s%s", code, stdout, stderr)
			}
			for _, p := range paths {
				if now, err := os.ReadFile(p); err != nil || string(now) != texts[filepath.Ext(p)] {
					t.Errorf("%s: got %v, want now %v\n%q", p, err, texts[filepath.Ext(p)], now)
				}
			}
		})
	}
}

// TestInstallByALink checks that the link by which tocsin was started is written.
func TestInstallByALink(t *testing.T) {
	t.Parallel()
	d := newAccount(t)
	link := filepath.Join(d.home, "bin", "tocsin")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(e2etest.Binary(t), link); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := d.run(t, link, "install", "claude-code", "--rewake"); code != 0 {
		t.Fatalf("exit %d, want 0\n%s%s", code, stdout, stderr)
	}
	files := d.files(t)
	if got := files["my project/.mcp.json"]; !strings.Contains(got, `"`+link+`"`) {
		t.Errorf("got %s, want %q in it", got, `"`+link+`"`)
	}
	if got := files["my project/.claude/settings.json"]; !strings.Contains(got, `"`+link+` hook --client claude-code --wait 30m"`) {
		t.Errorf("got %s, want %q in it", got, `"`+link+` hook --client claude-code --wait 30m"`)
	}
}

// TestDoctorOnClients checks that a client that is not set up is fine, one whose
// program is gone is not, and that doctor does not run programs that a project brings.
func TestDoctorOnClients(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	d := newAccount(t)
	d.state = b.StateDir
	if _, report, _ := d.run(t, e2etest.Binary(t), "doctor"); strings.Contains(report, "claude-code") || strings.Contains(report, "codex") {
		t.Errorf("doctor without clients = %s, want none named", report)
	}
	d.write(t, filepath.Join(d.home, ".claude", "x"), "")
	d.write(t, filepath.Join(d.home, ".codex", "config.toml"), "[features]\nhooks = false\n")
	code, report, _ := d.run(t, e2etest.Binary(t), "doctor")
	if code != 0 || !strings.Contains(report, "--   claude-code      not set up") || !strings.Contains(report, "tocsin install codex") {
		t.Errorf("exit %d, want 0, \"--   claude-code      not set up\" in report and \"tocsin install codex\" in report\n%s", code, report)
	}
	d.must(t, "install", "codex", "--scope=user")
	if output := d.must(t, "uninstall", "codex"); !strings.Contains(output, "nothing to do") || !strings.Contains(output, "tocsin uninstall codex --scope user") {
		t.Errorf("uninstall = %s, want nothing to do and the command for the other scope", output)
	}
	d.must(t, "install", "claude-code", "--hooks=false")
	code, report, _ = d.run(t, e2etest.Binary(t), "doctor")
	if code != 0 || !strings.Contains(report, "turned off by features.hooks in "+d.home) || !strings.Contains(report, "only when it calls observe; to deliver them by hooks") {
		t.Errorf("exit %d, want 0, %q in report and \"only when it calls observe; to deliver them by hooks\" in report\n%s", code, "turned off by features.hooks in "+d.home, report)
	}

	ran := filepath.Join(d.home, "ran")
	trap := filepath.Join(d.project, "bin", "tocsin")
	d.write(t, trap, "#!/bin/sh\ntouch "+ran+"\n")
	if err := os.Chmod(trap, 0o755); err != nil {
		t.Fatal(err)
	}
	mcp := filepath.Join(d.project, ".mcp.json")
	entry := func(program string) {
		d.write(t, mcp, `{"mcpServers":{"tocsin":{"command":"`+program+`","args":["gateway"]}}}`)
	}
	entry(trap)
	if code, report, _ = d.run(t, e2etest.Binary(t), "doctor"); code != 0 {
		t.Errorf("exit %d, want 0\n%s", code, report)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("doctor ran a program of the project, want it not run")
	}
	entry(filepath.Join(d.home, "gone", "tocsin"))
	code, report, _ = d.run(t, e2etest.Binary(t), "doctor")
	if code != 1 || !strings.Contains(report, "FAIL claude-code") || !strings.Contains(report, "fix: tocsin install claude-code --scope project --no-hooks") {
		t.Errorf("exit %d, want 1, \"FAIL claude-code\" in report and \"fix: tocsin install claude-code --scope project --no-hooks\" in report\n%s", code, report)
	}
	d.must(t, "install", "claude-code", "--scope", "project", "--no-hooks")
	if code, report, _ = d.run(t, e2etest.Binary(t), "doctor"); code != 0 {
		t.Errorf("fixed: exit %d, want 0\n%s", code, report)
	}
}

// putBinary makes the binary available under another name, by a link or, on another
// file system, as a copy.
func putBinary(t *testing.T, path string) {
	t.Helper()
	if os.Link(e2etest.Binary(t), path) == nil {
		return
	}
	program, err := os.ReadFile(e2etest.Binary(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, program, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestInstallRefuses checks the exit status: 2 for a usage error, and 1 for a file that
// cannot be edited. Then no file of the client is changed.
func TestInstallRefuses(t *testing.T) {
	t.Parallel()
	d := newAccount(t)
	other := filepath.Join(d.home, "other")
	putBinary(t, other)
	d.write(t, filepath.Join(d.project, ".cursor", "hooks.json"), "{ broken")
	before := d.files(t)
	for _, tt := range []struct {
		program string
		args    []string
		code    int
		want    string
	}{
		{e2etest.Binary(t), []string{"install"}, 2, "client"},
		{e2etest.Binary(t), []string{"install", "emacs"}, 2, "must be one of"},
		{e2etest.Binary(t), []string{"install", "codex", "--scope=all"}, 2, "--scope"},
		{e2etest.Binary(t), []string{"install", "codex", "--rewake"}, 2, "claude-code"},
		{other, []string{"install", "codex"}, 2, "rename it to tocsin"},
		{e2etest.Binary(t), []string{"install", "cursor"}, 1, "run this again"},
		{e2etest.Binary(t), []string{"uninstall", "cursor"}, 1, "run this again"},
	} {
		code, stdout, stderr := d.run(t, tt.program, tt.args...)
		if code != tt.code || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: exit %d, want %v, no stdout, one line and %q in stderr\n%s%s", tt.args, code, tt.code, tt.want, stdout, stderr)
		}
	}
	if now := d.files(t); len(now) != len(before) {
		t.Errorf("got %v, want %d of them", now, len(before))
	}
	if output := d.must(t, "install", "gemini-cli", "--no-hooks"); !strings.Contains(output, "settings.json (MCP server)\n") {
		t.Errorf("got %s, want \"settings.json (MCP server)\\n\" in it", output)
	}
	if output := d.must(t, "install", "gemini-cli"); !strings.Contains(output, "settings.json (hooks)\n") {
		t.Errorf("got %s, want \"settings.json (hooks)\\n\" in it", output)
	}
	locked := filepath.Join(d.project, ".codex", "hooks.json")
	d.write(t, locked, "{}")
	if err := os.Chmod(locked, 0o444); err != nil {
		t.Fatal(err)
	}
	code, output, stderr := d.run(t, e2etest.Binary(t), "install", "codex")
	if code != 1 || !strings.Contains(output, "wrote ") || !strings.Contains(stderr, "read-only") || !strings.Contains(stderr, "config.toml is already changed, and stays so") {
		t.Errorf("exit %d: %s%s, want code 1, \"wrote \" in output, \"read-only\" in stderr and \"config.toml is already changed, and stays so\" in stderr", code, output, stderr)
	}
	d.must(t, "install", "codex", "--scope=user")
	was := d.files(t)
	d.project = d.home
	for _, args := range [][]string{{"install", "gemini-cli"}, {"uninstall", "codex"}} {
		if code, _, stderr := d.run(t, e2etest.Binary(t), args...); code != 2 || !strings.Contains(stderr, "--scope user") {
			t.Errorf("%v: exit %d: %s, want code 2 and \"--scope user\" in stderr", args, code, stderr)
		}
	}
	if now := d.files(t); len(now) != len(was) {
		t.Errorf("files = %v, want them unchanged: %v", now, was)
	}
}

// TestInstallAndLinks checks that the target of a link out of the project is not
// changed, and that a link within it stays.
func TestInstallAndLinks(t *testing.T) {
	t.Parallel()
	d := newAccount(t)
	d.write(t, filepath.Join(d.home, ".claude.json"), "{}")
	d.write(t, filepath.Join(d.project, "agents", "README"), "")
	link := func(to, from string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(d.project, from)); err != nil {
			t.Fatal(err)
		}
	}
	link("../.claude.json", ".mcp.json")
	link("agents", ".claude")
	for _, command := range []string{"install", "uninstall"} {
		code, stdout, stderr := d.run(t, e2etest.Binary(t), command, "claude-code")
		if code != 1 || stdout != "" || !strings.Contains(stderr, "points out of the project, to "+d.home+"/.claude.json") || !strings.Contains(stderr, "--scope user") {
			t.Errorf("%s: exit %d: %s%s, want code 1, no stdout, %q in stderr and \"--scope user\" in stderr", command, code, stdout, stderr, "points out of the project, to "+d.home+"/.claude.json")
		}
	}
	if err := errors.Join(os.Remove(filepath.Join(d.project, ".mcp.json")), os.Remove(filepath.Join(d.project, "agents", "README"))); err != nil {
		t.Fatal(err)
	}
	d.must(t, "install", "claude-code")
	if _, err := os.Stat(filepath.Join(d.project, "agents", "settings.json")); err != nil {
		t.Errorf("Stat of the target of the link = %v, want the settings written", err)
	}
	local := filepath.Join(d.project, ".claude", "settings.local.json")
	d.write(t, local, `{"hooks":{"Stop":[{"hooks":[{"command":"tocsin hook --client claude-code"}]}]}}`)
	if output := d.must(t, "uninstall", "claude-code"); !strings.Contains(output, "note: "+local+" has an entry of tocsin") || strings.Count(output, "note: ") != 1 {
		t.Errorf("got %s, want %q in it and \"note: \" once in it", output, "note: "+local+" has an entry of tocsin")
	}
	if err := os.Remove(local); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(d.project, ".claude")); err != nil {
		t.Errorf("Stat of the user's link = %v, want it kept", err)
	}
}
