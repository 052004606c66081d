// Package junit reads JUnit XML, which the test runners of most languages can write, and
// sums up the run. There is no standard: it uses what all dialects share, testcase elements
// that contain failure, error or skipped, and ignores the counts in the attributes of
// suites.
//
// It uses the standard library's XML decoder and keeps only failures. The package
// joshdk/go-junit keeps the text of an element once for every level above it, and drops
// cases outside of a testsuite, as Node's own reporter writes them.
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

// Decode reads one report. Errors describe the mistake in the report; they wrap
// [decoding.ErrTooMany] if it is too large.
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
	return fmt.Errorf("the encoding %s is not supported: write the report as UTF-8", encoding)
}

func read(data []byte) (testrun.Outcome, error) {
	encoding := declaredEncoding(data)
	switch strings.ToLower(encoding) {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
	default:
		return testrun.Outcome{}, encodingError(encoding)
	}
	d := xml.NewDecoder(bytes.NewReader(clean(data)))
	d.CharsetReader = func(_ string, in io.Reader) (io.Reader, error) { return in, nil } // UTF-8, as checked above
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

// declaredEncoding returns the encoding in the XML declaration, or "".
func declaredEncoding(data []byte) string {
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
