// Package nab reads the corpus of the Numenta Anomaly Benchmark and scores detections by
// its rules.
//
// The corpus is that of github.com/numenta/NAB: data/DIR/FILE.csv with a column of
// timestamps and one of values, and labels/combined_windows.json, with the windows of each
// file that contain an anomaly. The rules are those of Lavin and Ahmad,
// "Evaluating Real-time Anomaly Detection Algorithms - the Numenta Anomaly Benchmark"
// (2015), as the benchmark's own program computes them since its version 1.1. The package
// knows no detector.
package nab

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"time"
)

// Series is one file of the corpus.
type Series struct {
	// Name is the file's path below data.
	Name   string
	Values []float64
	// Windows are in order and don't overlap.
	Windows []Window
}

// Window is a range of rows that contains an anomaly. Both indexes are included.
type Window struct{ First, Last int }

// Read reads the labelled files of a corpus, sorted by name.
func Read(corpus fs.FS) ([]Series, error) {
	const labels = "labels/combined_windows.json"
	data, err := fs.ReadFile(corpus, labels)
	if err != nil {
		return nil, fmt.Errorf("read the windows of the NAB corpus: %w", err)
	}
	windows, err := parseWindows(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", labels, err)
	}
	var all []Series
	for _, name := range slices.Sorted(maps.Keys(windows)) {
		s, err := readSeries(corpus, name, windows[name])
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func readSeries(corpus fs.FS, name string, windows []span) (Series, error) {
	f, err := corpus.Open(path.Join("data", name))
	if err != nil {
		return Series{}, err
	}
	defer func() { _ = f.Close() }() // it was only read
	times, values, err := parseRows(f)
	if err != nil {
		return Series{}, err
	}
	s := Series{Name: name, Values: values}
	last := -1
	for _, w := range windows {
		first := slices.IndexFunc(times, w.from.Equal)
		until := slices.IndexFunc(times, w.to.Equal)
		if first <= last || until < first {
			return Series{}, fmt.Errorf("no rows for the window from %s to %s, after row %d", w.from.Format(layout), w.to.Format(layout), last)
		}
		s.Windows = append(s.Windows, Window{First: first, Last: until})
		last = until
	}
	return s, nil
}

// layout is the format of timestamps. A fraction of the second may follow.
const layout = "2006-01-02 15:04:05"

type span struct{ from, to time.Time }

// parseWindows reads the windows of each file, sorted.
func parseWindows(data []byte) (map[string][]span, error) {
	var raw map[string][][]string
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, err
	}
	all := make(map[string][]span, len(raw))
	for name, windows := range raw {
		if !fs.ValidPath(name) {
			return nil, fmt.Errorf("%q is no path of a file", name)
		}
		spans := make([]span, 0, len(windows))
		for _, w := range windows {
			if len(w) != 2 {
				return nil, fmt.Errorf("%s: a window of %d times, not 2", name, len(w))
			}
			from, err := time.Parse(layout, w[0])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			to, err := time.Parse(layout, w[1])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if to.Before(from) {
				return nil, fmt.Errorf("%s: a window from %s back to %s", name, w[0], w[1])
			}
			spans = append(spans, span{from, to})
		}
		slices.SortFunc(spans, func(a, b span) int { return a.from.Compare(b.from) })
		all[name] = spans
	}
	return all, nil
}

// parseRows reads a file of data: a header, and rows that begin with a timestamp
// and a number.
func parseRows(r io.Reader) (times []time.Time, values []float64, err error) {
	rows := csv.NewReader(r)
	rows.FieldsPerRecord = -1
	rows.ReuseRecord = true
	header, err := rows.Read()
	if err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	if len(header) < 2 || header[0] != "timestamp" || header[1] != "value" {
		return nil, nil, fmt.Errorf("header %q, want timestamp,value", header)
	}
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return times, values, nil
		}
		if err != nil {
			return nil, nil, err
		}
		line, _ := rows.FieldPos(0)
		if len(row) < 2 {
			return nil, nil, fmt.Errorf("line %d: no value", line)
		}
		at, err := time.Parse(layout, row[0])
		if err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", line, err)
		}
		value, err := strconv.ParseFloat(row[1], 64)
		if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
			return nil, nil, fmt.Errorf("line %d: value %q is not a number", line, row[1])
		}
		times, values = append(times, at), append(values, value)
	}
}
