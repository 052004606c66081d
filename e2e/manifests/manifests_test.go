// Package manifests checks the files in deploy/: that the programs that read them accept
// them, and that every container is restricted.
package manifests

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// deploy returns the path of a file below deploy/.
func deploy(t *testing.T, path ...string) string {
	t.Helper()
	root, err := filepath.Abs("../../deploy")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(append([]string{root}, path...)...)
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// program returns the path of a program, or skips the test if it is not installed.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed", name)
	}
	return path
}

// must runs a program that has to succeed, and returns its output.
func must(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: got %v, want success\n%s", name, args, err, out)
	}
	return string(out)
}
