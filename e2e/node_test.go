package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// installTimeout bounds npm ci.
const installTimeout = 5 * time.Minute

// installs are the folders below node whose packages were asked for, each once.
var installs sync.Map

// install is the one try to install a folder's packages.
type install struct {
	once sync.Once
	out  []byte
	err  error
}

// nodeModules gives a folder below node with its packages installed as its lock
// file says. Without Node, npm or a registry the test is skipped.
func nodeModules(t *testing.T, name string) string {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("there is no %s here", tool)
		}
	}
	dir, err := filepath.Abs(filepath.Join("node", name))
	if err != nil {
		t.Fatal(err)
	}
	known, _ := installs.LoadOrStore(dir, &install{})
	i := known.(*install)
	i.once.Do(func() {
		if upToDate(dir) {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), installTimeout) // for all tests of the folder
		defer cancel()
		cmd := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
		cmd.Dir = dir
		i.out, i.err = cmd.CombinedOutput()
	})
	if i.err != nil {
		t.Skipf("the packages of %s can't be installed: %v\n%s", dir, i.err, i.out)
	}
	return dir
}

// upToDate says whether what is installed is younger than what is wanted.
func upToDate(dir string) bool {
	have, err := os.Stat(filepath.Join(dir, "node_modules", ".package-lock.json"))
	if err != nil {
		return false
	}
	want, err := os.Stat(filepath.Join(dir, "package-lock.json"))
	return err == nil && have.ModTime().After(want.ModTime())
}
