// Package junit reads JUnit XML, as the test runners of most languages write it, and sums
// up the run. There is no standard: it uses what all dialects share, testcase elements
// with failure, error or skipped in them, and ignores the counts in attributes of suites.
//
// It reads with the standard library's XML decoder and keeps the failures alone. Of the
// packages for the format, joshdk/go-junit keeps the text of each element once for every
// level above it, and drops cases outside of a testsuite, as Node's own reporter writes
// them.
package junit

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/tocsin-bus/tocsin/services/ingest/testrun"
)

// Decode reads one report of at most decoding.MaxParts elements. An error names what is
// wrong with the report, or wraps decoding.ErrTooMany.
func Decode(data []byte) (testrun.Outcome, error) {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return testrun.Outcome{}, encodingError("UTF-16")
	}
	data = bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff")))
	if len(data) == 0 {
		return testrun.Outcome{}, errors.New("the report is empty: send JUnit XML")
	}
	if err := check(data); err != nil {
		return testrun.Outcome{}, err
	}
	return read(data)
}

func encodingError(encoding string) error {
	return fmt.Errorf("the encoding %s is not taken: write the report as UTF-8", encoding)
}

func read(data []byte) (testrun.Outcome, error) {
	encoding := declared(data)
	switch strings.ToLower(encoding) {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
	default:
		return testrun.Outcome{}, encodingError(encoding)
	}
	d := xml.NewDecoder(bytes.NewReader(clean(data)))
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // checked above
	var r reader
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return testrun.Outcome{}, fmt.Errorf("malformed XML: %w", err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			if err := r.start(t); err != nil {
				return testrun.Outcome{}, err
			}
		case xml.CharData:
			r.text(t)
		case xml.EndElement:
			r.end(t.Name.Local)
		}
	}
	if !r.rooted {
		return testrun.Outcome{}, errors.New("malformed XML: there is no element testsuites or testsuite")
	}
	return r.outcome(), nil
}

// declared is the encoding in the XML declaration.
func declared(data []byte) string {
	if !bytes.HasPrefix(data, []byte("<?xml")) {
		return ""
	}
	head, _, _ := bytes.Cut(data[:min(len(data), 1000)], []byte("?>"))
	_, value, ok := strings.Cut(string(head), "encoding")
	if !ok {
		return ""
	}
	value = strings.TrimLeft(value, " \t\r\n=")
	if value == "" {
		return ""
	}
	value, _, _ = strings.Cut(value[1:], value[:1])
	return value
}
