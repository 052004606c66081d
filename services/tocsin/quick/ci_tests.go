package quick

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/services/ingest/gotest"
	"github.com/tocsin-bus/tocsin/services/ingest/junit"
	"github.com/tocsin-bus/tocsin/services/ingest/testrun"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// maxReports is the largest total size of reports, in bytes.
const maxReports = 64 << 20

// tests reads the outcome of a run of tests, or returns nil if no flag names one.
func (c *CI) tests(ctx context.Context, env service.Env) (*testrun.Outcome, error) {
	switch {
	case len(c.JUnit) > 0:
		return reports(slices.Concat(c.JUnit, c.Files))
	case c.GoTest:
		return goTest(ctx, env)
	default:
		return nil, nil
	}
}

// goTest reads a run of go test until it ends or ctx does.
func goTest(ctx context.Context, env service.Env) (*testrun.Outcome, error) {
	if f, ok := env.Stdin.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return nil, service.Usagef("--gotest reads stdin: go test -json ./... | tocsin ci --gotest")
		}
	}
	type read struct {
		run testrun.Outcome
		err error
	}
	done := make(chan read, 1) // after an interrupt, the reader ends with the process
	go func() {
		run, err := gotest.Read(env.Stdin, env.Stdout)
		done <- read{run, err}
	}()
	select {
	case r := <-done:
		return &r.run, r.err
	case <-ctx.Done():
		return nil, errors.New("interrupted before the tests ended: nothing was posted")
	}
}

// reports reads the JUnit XML files that match the patterns.
func reports(patterns []string) (*testrun.Outcome, error) {
	var files []string
	for _, pattern := range patterns {
		found, err := expand(pattern)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	slices.Sort(files)
	var all testrun.Outcome
	left := int64(maxReports)
	for _, name := range slices.Compact(files) {
		run, n, err := report(name, left)
		if err != nil {
			return nil, err
		}
		left -= n
		all.Add(run)
	}
	return &all, nil
}

// expand returns the files that match a pattern, sorted, or a name without wildcards itself.
func expand(pattern string) ([]string, error) {
	if _, err := os.Stat(pattern); err == nil || !strings.ContainsAny(pattern, `*?[\`) {
		return []string{filepath.Clean(pattern)}, nil // opening it reports a missing file
	}
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil, service.Usagef("--junit %s: %s", pattern, err)
	}
	found = slices.DeleteFunc(found, func(name string) bool {
		info, err := os.Stat(name)
		return err != nil || info.IsDir()
	})
	if len(found) == 0 {
		return nil, service.Usagef("--junit %s: no file matches; check that the tests wrote their report", pattern)
	}
	return found, nil
}

// report reads one file of at most left bytes, and returns its size.
func report(name string, left int64) (testrun.Outcome, int64, error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return testrun.Outcome{}, 0, service.Usagef("--junit %s: no such file; check that the tests wrote their report", name)
	}
	if err != nil {
		return testrun.Outcome{}, 0, fmt.Errorf("--junit: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(f, left+1))
	if err := errors.Join(err, f.Close()); err != nil {
		return testrun.Outcome{}, 0, fmt.Errorf("--junit: %w", err)
	}
	if int64(len(data)) > left {
		return testrun.Outcome{}, 0, fmt.Errorf("--junit %s: the reports exceed %d MiB in total: give fewer files", name, maxReports>>20)
	}
	run, err := junit.Decode(data)
	if err != nil {
		return testrun.Outcome{}, 0, fmt.Errorf("--junit %s: %w", name, err)
	}
	return run, int64(len(data)), nil
}
