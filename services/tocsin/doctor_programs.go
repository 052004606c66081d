package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/tocsin/setup"
)

// versionTimeout bounds the run of a program that a client's configuration names.
const versionTimeout = time.Second

// programProblem returns what is wrong with the programs that a client runs, and its fix; both
// are empty where nothing is.
func (d *doctor) programProblem(ctx context.Context, s clientState) (problem, fix string) {
	seen := map[string]bool{}
	for _, program := range s.programs {
		if seen[program] {
			continue
		}
		seen[program] = true
		path, err := exec.LookPath(program)
		if err != nil && !errors.Is(err, exec.ErrDot) {
			return fmt.Sprintf("runs %s, which does not exist or is not executable", program), s.fix()
		}
		if itself, err := os.Executable(); err == nil && sameFile(path, itself) {
			continue
		}
		if s.scope == setup.Project && inside(s.dirs.Project, path) {
			continue // a program of the repository is not run just to learn its version
		}
		version, err := versionOf(ctx, path)
		switch {
		case err != nil:
			return fmt.Sprintf("runs %s, whose version can't be determined: %v", program, err), s.fix()
		case newer(version, d.env.Version.Version):
			return fmt.Sprintf("runs %s, version %s; this is %s", program, version, d.env.Version.Version), "use that version here, too: this one is older"
		case version != d.env.Version.Version:
			return fmt.Sprintf("runs %s, version %s; this is %s", program, version, d.env.Version.Version), s.fix()
		}
	}
	return "", ""
}

// newer reports whether a version is of a later release than another. It is false for
// what is not the version of a release.
func newer(version, than string) bool {
	a, okA := release(version)
	b, okB := release(than)
	return okA && okB && slices.Compare(a, b) > 0
}

// release returns the numbers of a version such as v1.2.3 or v1.2.3-4-gabcdef.
func release(version string) ([]int, bool) {
	version, _, _ = strings.Cut(strings.TrimPrefix(version, "v"), "-")
	version, _, _ = strings.Cut(version, "+")
	var out []int
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		out = append(out, n)
	}
	return out, len(out) == 3
}

// inside reports whether a path is in a directory, with symbolic links resolved.
func inside(dir, path string) bool {
	for _, p := range []*string{&dir, &path} {
		if real, err := filepath.EvalSymlinks(*p); err == nil {
			*p = real
		}
	}
	rel, err := filepath.Rel(dir, path)
	return err != nil || filepath.IsLocal(rel)
}

// versionOf returns the version of a tocsin. It runs the program, as the client does.
func versionOf(ctx context.Context, program string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "version")
	cmd.WaitDelay = versionTimeout
	out, err := cmd.Output()
	if err != nil {
		return "", err
	}
	words := strings.Fields(string(out))
	if len(words) < 2 || words[0] != "tocsin" {
		return "", errors.New("it is not tocsin")
	}
	return words[1], nil
}
