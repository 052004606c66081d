package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/tocsin/setup"
)

// versionTimeout bounds the run of a program that a client's configuration
// names.
const versionTimeout = time.Second

// broken says what is wrong with the programs that a client is to run; empty
// when nothing is.
func (d *doctor) broken(ctx context.Context, s clientState, place setup.Place) string {
	seen := map[string]bool{}
	for _, program := range s.programs {
		if seen[program] {
			continue
		}
		seen[program] = true
		path, err := exec.LookPath(program)
		if err != nil && !errors.Is(err, exec.ErrDot) {
			return fmt.Sprintf("runs %s, which is not there or can't be run", program)
		}
		if itself, err := os.Executable(); err == nil && sameFile(path, itself) {
			continue
		}
		if s.scope == setup.Project && inside(place.Project, path) {
			continue // what a project brings is not run only to be asked for its version
		}
		version, err := versionOf(ctx, path)
		switch {
		case err != nil:
			return fmt.Sprintf("runs %s, which does not say its version: %v", program, err)
		case version != d.env.Version.Version:
			return fmt.Sprintf("runs %s, version %s; this is %s", program, version, d.env.Version.Version)
		}
	}
	return ""
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
