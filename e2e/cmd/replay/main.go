// Command replay prints the alerts that the detector raises for recorded events.
//
//	go run ./e2e/cmd/replay [--anomaly RULE] [--regression RULE] [--noise RULE] < events.ndjson
//
// Each line of the standard input is one arrival, in the order of arrival:
//
//	{"time":"2026-01-28T14:30:00.000Z","event":{"kind":"log","app":"web","log":{"level":"error","message":"boom"}}}
//
// time is when the event arrived: RFC 3339, or milliseconds since 1970. event is what a
// sender posts to /v1/events, one event or an array of them. Empty lines are skipped.
// Secrets are masked as at ingest. Each alert is printed as one line of JSON, as it
// is published on the bus.
//
// The times of the lines are the only clock. Between two lines, and after the last one,
// time passes as for a running detector: every 5 s while an incident is open, and every
// second while a storm limit suppresses alerts. After the last line it passes until no
// incident is open, but at most for the duration given by --after (1h by default).
//
// Errors name the line and end the replay with status 1; errors in the arguments end it
// with status 2. Lines that go back in time, and an input without events, are reported as
// warnings.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

func main() {
	err := replay(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
	case errors.As(err, new(usageError)):
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "replay:", err)
		os.Exit(1)
	}
}

// usageError is an error in the arguments.
type usageError struct{ error }

// settings are the values of the flags.
type settings struct {
	rules ruleset.Table
	after time.Duration
}

func parse(args []string, stderr io.Writer) (settings, error) {
	var chosen ruleset.Flags
	s := settings{}
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	flags.SetOutput(stderr)
	for _, f := range []struct {
		name, usage string
		values      *[]string
	}{
		{"rules", "all three detection rules below: auto, spec or statistical; APP=RULE for one app (default auto)", &chosen.Rules},
		{"anomaly", "error-spike detection rule: auto, ratio3x or rate-tail; APP=RULE for one app (default auto)", &chosen.Anomaly},
		{"regression", "detection rule for slower pages: auto, spec or confirmed; APP=RULE for one app (default auto)", &chosen.Regression},
		{"noise", "detection rule for repeated messages: auto, spec or mined; APP=RULE for one app (default auto)", &chosen.Noise},
	} {
		flags.Func(f.name, f.usage, func(value string) error {
			*f.values = append(*f.values, strings.Split(value, ",")...)
			return nil
		})
	}
	flags.DurationVar(&s.after, "after", time.Hour, "longest time that passes after the last line while an incident is open")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return s, err
		}
		return s, usageError{err}
	}
	if flags.NArg() > 0 {
		return s, usageError{fmt.Errorf("unexpected argument %q: the events are read from the standard input; write replay FLAGS < %[1]s", flags.Arg(0))}
	}
	if s.after < 0 {
		return s, usageError{fmt.Errorf("--after: %s is negative", s.after)}
	}
	table, err := chosen.Table()
	if err != nil {
		return s, usageError{err}
	}
	for _, line := range chosen.Warnings() {
		fmt.Fprintln(stderr, "replay: warning:", line)
	}
	s.rules = table
	return s, nil
}

// maxLine is the maximum length of a line in bytes: ingest accepts bodies of up to
// 1 MiB.
const maxLine = 2 << 20

func replay(args []string, in io.Reader, out, stderr io.Writer) (err error) {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	written := bufio.NewWriter(out)
	defer func() {
		if flushed := written.Flush(); err == nil && flushed != nil {
			err = fmt.Errorf("write alerts: %w", flushed)
		}
	}()
	warn := func(format string, args ...any) {
		_, _ = fmt.Fprintf(stderr, "replay: warning: "+format+"\n", args...) // the result is the alerts
	}
	p := &player{fold: fold.New(fold.Config{Rules: s.rules}), out: written}
	masker := redact.New()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	number, backwards, played := 0, 0, 0
	var previous time.Time
	for lines.Scan() {
		number++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		at, events, err := decode(line)
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
		if at.Before(previous) {
			if backwards++; backwards == 1 {
				warn("line %d: its time %s is before %s, that of the previous line; sort the lines. The detector treats a time up to %s earlier as the latest one, and starts over after a larger step back",
					number, at.Format(time.RFC3339Nano), previous.Format(time.RFC3339Nano), maxSkew)
			}
		}
		previous = at
		played += len(events)
		for i := range events {
			masker.Event(&events[i])
		}
		if err := p.apply(at, events); err != nil {
			return err
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("line %d is longer than %d bytes", number+1, maxLine)
	} else if err != nil {
		return fmt.Errorf("read line %d: %w", number+1, err)
	}
	if backwards > 1 {
		warn("%d lines have an earlier time than the line before them", backwards)
	}
	if played == 0 {
		warn("the standard input has no events")
	}
	return p.finish(s.after)
}
