package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestTheLogRotates writes lines through the descriptors that a process has from its
// start: each is in one of the files, and these are few and small.
func TestTheLogRotates(t *testing.T) {
	const limit, line = 1000, 100
	path := filepath.Join(t.TempDir(), "up.log")
	if _, ok := findLog(path, os.Stderr); ok {
		t.Fatal("findLog of a missing file = true, want false")
	}
	stdout, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	stderr, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	elsewhere, err := os.Create(path + ".elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	defer elsewhere.Close()
	if _, ok := findLog(path, elsewhere, &bytes.Buffer{}); ok {
		t.Error("findLog with streams to other files = true, want false")
	}
	log, ok := findLog(path, stderr, elsewhere, stdout)
	if !ok || len(log.open) != 2 {
		t.Fatalf("got %+v, %t, want both streams", log, ok)
	}

	const lines = 45
	for n := range lines {
		text := strconv.Itoa(n) + " "
		text += strings.Repeat("x", line-1-len(text)) + "\n"
		to := stderr
		if n%2 == 1 {
			to = stdout
		}
		if _, err := to.WriteString(text); err != nil {
			t.Fatal(err)
		}
		if err := log.rotate(limit); err != nil {
			t.Fatal(err)
		}
	}
	var numbers []int
	for _, file := range []string{path + ".2", path + ".1", path} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > limit+line {
			t.Errorf("%s: got %d bytes, want at most %d", file, len(data), limit+line)
		}
		for text := range strings.Lines(string(data)) {
			n, err := strconv.Atoi(strings.Fields(text)[0])
			if err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, n)
		}
	}
	want := make([]int, 0, lines)
	for n := lines - len(numbers); n < lines; n++ {
		want = append(want, n)
	}
	if !slices.Equal(numbers, want) || len(numbers) < 2*limit/line {
		t.Errorf("got lines %v, want the last ones without a gap", numbers)
	}
	if files, err := filepath.Glob(path + "*"); err != nil || len(files) != 4 { // with the one elsewhere
		t.Errorf("got %v, %v, want three files of the log", files, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
}

// TestTheLogRotatesAtTheStart: a bus that is started does not append to a large file.
func TestTheLogRotatesAtTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "up.log")
	if err := os.WriteFile(path, make([]byte, maxLog+1), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before, err := os.Stat(path + ".1")
	if err != nil || before.Size() != maxLog+1 {
		t.Errorf("rotated log = %v, %v, want the lines from before", before, err)
	}
	if now, err := f.Stat(); err != nil || now.Size() != 0 {
		t.Errorf("the new log: got %v, %v, want it empty", now, err)
	}
}
