package e2etest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

// installTimeout bounds npm ci.
const installTimeout = 5 * time.Minute

// installs has an installation for each folder that a test asked for.
var installs sync.Map

type installation struct {
	once sync.Once
	err  error
}

// NodeModules returns the path of a folder below e2e/node, with the packages of its
// lock file installed. It skips the test without Node, npm or a registry.
func NodeModules(t *testing.T, name string) string {
	t.Helper()
	NeedCommands(t, "node", "npm")
	dir := Path(t, "e2e/node/"+name)
	known, _ := installs.LoadOrStore(dir, &installation{})
	i := known.(*installation)
	i.once.Do(func() { i.err = npmInstall(dir) })
	if i.err != nil {
		t.Skipf("npm cannot install the packages of %s: %v", dir, i.err)
	}
	return dir
}

// npmInstall installs the packages of a folder, once even if several test processes ask.
func npmInstall(dir string) error {
	lock := flock.New(filepath.Join(dir, "package-lock.json"), flock.SetFlag(os.O_RDONLY))
	if err := lock.Lock(); err != nil {
		return err
	}
	defer func() { _ = lock.Close() }() // nothing was written
	if npmUpToDate(dir) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), installTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return nil
}

// npmUpToDate reports whether the installed packages are newer than the lock file.
func npmUpToDate(dir string) bool {
	installed, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json"))
	if err != nil {
		return false
	}
	wanted, err := os.Stat(filepath.Join(dir, "package-lock.json"))
	return err == nil && installed.ModTime().After(wanted.ModTime())
}

// NeedNode skips the test if Node is older than a major version.
func NeedNode(t *testing.T, atLeast int) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	NoError(t, err)
	major, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(string(out)), "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < atLeast {
		t.Skipf("the packages need Node %d, this is %s", atLeast, out)
	}
}
