package commands

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// TestStateDirectoryOfOthers checks that tocsin up removes other users' rights from its
// state directory. It refuses a directory of another user, and the doctor warns of one
// that its group can write.
func TestStateDirectoryOfOthers(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	if err := os.Chmod(state, 0o777); err != nil {
		t.Fatal(err)
	}
	_, stdout, _ := e2etest.Tocsin(t, state, "doctor")
	if !strings.Contains(stdout, "WARN state directory") {
		t.Errorf("doctor on a directory that everybody can write: %s; want a warning", stdout)
	}
	b, err := harness.Up(t.Context(), e2etest.Binary(t), state)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stop the bus: %v\n%s", err, b.Log)
		}
	})
	if info, err := os.Stat(state); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the state directory has mode %v, %v; want 0700", info.Mode(), err)
	}
	if code, stdout, _ := e2etest.Tocsin(t, state, "doctor"); code != 0 || strings.Contains(stdout, "WARN") {
		t.Errorf("doctor: exit %d: %s, want 0 and no \"WARN\" in it", code, stdout)
	}
	if os.Geteuid() != 0 {
		t.Skip("not root: a directory can't be given to another user")
	}
	for mode, want := range map[fs.FileMode]string{0o777: "FAIL state directory", 0o775: "WARN state directory"} {
		theirs := t.TempDir()
		if err := os.Chmod(theirs, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(theirs, 12345, 12345); err != nil {
			t.Fatal(err)
		}
		if _, stdout, _ := e2etest.Tocsin(t, theirs, "doctor"); !strings.Contains(stdout, want) {
			t.Errorf("doctor on another user's of mode %04o: %s; want %q", mode, stdout, want)
		}
		if mode == 0o777 {
			code, _, stderr := e2etest.Tocsin(t, theirs, "up", "--ingest-addr=127.0.0.1:0", "--nats-addr=127.0.0.1:0", "--nats-ws-addr=")
			if code != 1 || !strings.Contains(stderr, "another user") {
				t.Errorf("up on another user's of mode %04o: exit %d: %s; want it refused", mode, code, stderr)
			}
		}
	}
}
