package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const small = "-seeds frozen -hours 20 -pages 5 -chatter 1"

// TestSameBytes checks that the same flags write the same files, also over existing ones, and
// that these do not name the folder.
func TestSameBytes(t *testing.T) {
	dir := t.TempDir()
	write := func() (files [2][]byte) {
		t.Helper()
		if err := eval(append(strings.Fields(small), "-only", "s 0.1", "-out", dir), io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"RESULTS.md", "results.svg"} {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			files[i] = data
		}
		return files
	}
	first, again := write(), write()
	for i := range first {
		if !bytes.Equal(first[i], again[i]) {
			t.Errorf("the second time got\n%s\nwant\n%s", again[i], first[i])
		}
		if bytes.Contains(first[i], []byte(dir)) {
			t.Errorf("got the folder in the file, want it without:\n%s", first[i])
		}
	}
	text := string(first[0])
	for _, want := range []string{"go run ./e2e/cmd/eval -only 's 0.1' -hours 20 -pages 5 -chatter 1 -seeds frozen", "| bursts 0.1/s | rate-tail |"} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q in it", text, want)
		}
	}
}

func TestPrints(t *testing.T) {
	var out, progress bytes.Buffer
	if err := eval(append(strings.Fields(small), "-only", "unchanged cv 0.25"), &out, &progress); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "confirmed") || !strings.Contains(progress.String(), "unchanged cv 0.25") {
		t.Errorf("got output\n%s\nand progress\n%s\nwant \"confirmed\" in the output and \"unchanged cv 0.25\" in the progress", out.String(), progress.String())
	}
}

// TestCorpora reads corpora of one series each.
func TestCorpora(t *testing.T) {
	var out bytes.Buffer
	err := eval(append(strings.Fields(small), "-only", "unchanged cv 0.25", "-nab", "testdata/nab", "-tcpd", "testdata/tcpd"), &out, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"page loads  spec       1      100.00", // found in the window's first row, nothing else
		"page loads  spec       1       1.000  1.000",
		"errors      ratio3x    1",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got\n%s\nwant %q in it", out.String(), want)
		}
	}
}

func TestRefuses(t *testing.T) {
	for args, say := range map[string]string{
		"-seeds lucky":             "tuning, frozen",
		"-hours 1":                 "-hours",
		"-pages 0":                 "-pages",
		"frozen":                   "frozen",
		"-only nothing -chatter 1": "nothing",
		"-unknown":                 "unknown",
	} {
		err := eval(strings.Fields(args), io.Discard, io.Discard)
		if !errors.As(err, new(usage)) || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: error = %v, want an error in the arguments with %q", args, err, say)
		}
	}
	var progress bytes.Buffer
	if err := eval([]string{"-out", "testdata/nowhere"}, io.Discard, &progress); err == nil || progress.Len() > 0 {
		t.Errorf("without the folder of -out: error = %v, progress %q; want an error before anything is measured", err, progress.String())
	}
	for _, args := range []string{"-nab testdata", "-tcpd testdata/nab"} {
		if err := eval(append(strings.Fields(small), append(strings.Fields(args), "-only", "steady 0.02")...), io.Discard, io.Discard); err == nil {
			t.Errorf("%s: got no error, want one", args)
		}
	}
}
