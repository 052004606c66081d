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

// versionTimeout bounds the run of a program that a client's configuration
// names.
const versionTimeout = time.Second

// broken says what is wrong with the programs that a client is to run, and the
// mend; empty when nothing is.
func (d *doctor) broken(ctx context.Context, s clientState) (is, mend string) {
	seen := map[string]bool{}
	for _, program := range s.programs {
		if seen[program] {
			continue
		}
		seen[program] = true
		path, err := exec.LookPath(program)
		if err != nil && !errors.Is(err, exec.ErrDot) {
			return fmt.Sprintf("runs %s, which is not there or can't be run", program), s.mend()
		}
		if itself, err := os.Executable(); err == nil && sameFile(path, itself) {
			continue
		}
		if s.scope == setup.Project && inside(s.place.Project, path) {
			continue // what a project brings is not run only to be asked for its version
		}
		version, err := versionOf(ctx, path)
		switch {
		case err != nil:
			return fmt.Sprintf("runs %s, which does not say its version: %v", program, err), s.mend()
		case newer(version, d.env.Version.Version):
			return fmt.Sprintf("runs %s, version %s; this is %s", program, version, d.env.Version.Version), "use that one here, too: this one is older"
		case version != d.env.Version.Version:
			return fmt.Sprintf("runs %s, version %s; this is %s", program, version, d.env.Version.Version), s.mend()
		}
	}
	return "", ""
}

// newer says whether a version is of a later release than another. What is no
// version of a release is not.
func newer(version, than string) bool {
	a, okA := release(version)
	b, okB := release(than)
	return okA && okB && slices.Compare(a, b) > 0
}

// release are the numbers of a version such as v1.2.3 or v1.2.3-4-gabcdef.
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

// inside says whether a path lies in a directory, links followed.
func inside(dir, path string) bool {
	for _, p := range []*string{&dir, &path} {
		if real, err := filepath.EvalSymlinks(*p); err == nil {
			*p = real
		}
	}
	rel, err := filepath.Rel(dir, path)
	return err != nil || filepath.IsLocal(rel)
}

// versionOf asks a tocsin for its version. The client runs that program anyway.
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
		return "", errors.New("it is another program")
	}
	return words[1], nil
}
