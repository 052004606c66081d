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
// second while alerts of a storm are held back. After the last line it passes until no
// incident is open, but at most for the duration given by --after (1h by default).
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
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
		return s, usageError{fmt.Errorf("unexpected argument %q: the events are read from the standard input", flags.Arg(0))}
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

// maxLine is the longest line in bytes: ingest takes bodies of at most 1 MiB.
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
	p := &player{fold: fold.New(fold.Config{Rules: s.rules}), out: written}
	masker := redact.New()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	number := 0
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
		for i := range events {
			masker.Event(&events[i])
		}
		if err := p.apply(at, events); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read line %d: %w", number+1, err)
	}
	return p.finish(s.after)
}

// arrival is one line of the input.
type arrival struct {
	Time  jsontext.Value `json:"time"`
	Event jsontext.Value `json:"event"`
}

const form = `{"time":"2026-01-28T14:30:00.000Z","event":{...}}`

func decode(line []byte) (at time.Time, events []telemetry.Event, err error) {
	var a arrival
	if err := json.Unmarshal(line, &a, jsontext.AllowInvalidUTF8(true)); err != nil {
		return at, nil, fmt.Errorf("malformed JSON, want %s: %w", form, err)
	}
	if at, err = arrivalTime(a.Time); err != nil {
		return at, nil, err
	}
	if len(a.Event) == 0 || a.Event.Kind() == 'n' {
		return at, nil, fmt.Errorf("event is missing, want %s", form)
	}
	if events, err = telemetry.Decode(telemetry.FormJSON, a.Event); err != nil {
		var field *telemetry.FieldError
		if errors.As(err, &field) && a.Event.Kind() == '[' {
			return at, nil, fmt.Errorf("event %d: %w", field.Index, err)
		}
		return at, nil, fmt.Errorf("event: %w", err)
	}
	if slices.ContainsFunc(events, func(e telemetry.Event) bool { return telemetry.IsReserved(sanitize.Strip(e.App)) }) {
		return at, nil, fmt.Errorf("event: app must not be %q, which is reserved for what Tocsin reports about itself", telemetry.ReservedApp)
	}
	return at, events, nil
}

func arrivalTime(value jsontext.Value) (time.Time, error) {
	switch {
	case len(value) == 0:
		return time.Time{}, fmt.Errorf("time is missing, want %s", form)
	case value.Kind() == '0':
		var ms float64
		if err := json.Unmarshal(value, &ms); err == nil && ms >= 0 && ms <= 1e14 {
			return time.UnixMilli(int64(ms)).UTC(), nil
		}
	case value.Kind() == '"':
		var at time.Time
		if err := json.Unmarshal(value, &at); err == nil {
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("time must be RFC 3339, such as \"2026-01-28T14:30:00.000Z\", or milliseconds since 1970; got %s", value)
}
