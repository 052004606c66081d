package notify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

func write(t *testing.T, f *file, message string) {
	t.Helper()
	if err := f.deliver(t.Context(), delivery{Notice: Notice{Message: message}}); err != nil {
		t.Fatal(err)
	}
}

// messages are those of a file's lines, all of which must be JSON objects.
func messages(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(data)) {
		var d delivery
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		all = append(all, d.Message)
	}
	return all
}

func TestFileLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notices.jsonl")
	f := newFile(path)
	if err := f.deliver(t.Context(), sample()); err != nil {
		t.Fatal(err)
	}
	write(t, f, "two")
	got := messages(t, path)
	if len(got) != 2 || got[0] != sample().Message || got[1] != "two" {
		t.Errorf("%q", got)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

// TestFileRotates: what is in the way is renamed, and the oldest of those goes.
func TestFileRotates(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "notices.jsonl")
	f := newFile(path)
	f.mib = 1
	full := append(bytes.Repeat([]byte("x"), 1<<20-10), '\n')
	const rotations = fileOld + 2
	for i := range rotations {
		if err := os.WriteFile(path, full, 0o600); err != nil {
			t.Fatal(err)
		}
		// Of what is rotated within a millisecond, all is kept or none.
		for begun := time.Now().UnixMilli(); time.Now().UnixMilli() == begun; {
			runtime.Gosched()
		}
		write(t, f, fmt.Sprint(i))
		if got := messages(t, path); len(got) != 1 || got[0] != fmt.Sprint(i) {
			t.Fatalf("%d: %q", i, got)
		}
	}
	old, err := filepath.Glob(filepath.Join(dir, "notices-*.jsonl"))
	if err != nil || len(old) != fileOld {
		t.Errorf("%d old files are kept: %v", len(old), err)
	}
}

// TestFileOfManyGateways: every agent has a gateway, and all write the same file
// while it rotates. No line is lost or torn.
func TestFileOfManyGateways(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "notices.jsonl")
	if err := os.WriteFile(path, append(bytes.Repeat([]byte(`{"message":"old"}`+"\n"), 58250), `{"message":"torn`...), 0o600); err != nil {
		t.Fatal(err)
	}
	const writers, lines = 4, 25
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			f := newFile(path)
			f.mib = 1
			for i := range lines {
				if err := f.deliver(t.Context(), delivery{Notice: Notice{Message: fmt.Sprint(w, i)}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v %v", files, err)
	}
	seen := map[string]int{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(data)) {
			var d delivery
			if err := json.Unmarshal([]byte(line), &d); err != nil {
				if line != `{"message":"torn`+"\n" {
					t.Errorf("%q", line)
				}
				continue
			}
			seen[d.Message]++
		}
	}
	delete(seen, "old")
	for message, n := range seen {
		if n != 1 {
			t.Errorf("%s is there %d times", message, n)
		}
	}
	if len(seen) != writers*lines {
		t.Errorf("%d of %d lines", len(seen), writers*lines)
	}
}

// TestFileFails: and says why.
func TestFileFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "notices.jsonl")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := newFile(path).deliver(t.Context(), sample()); err == nil {
		t.Error("a directory was written to")
	}
}

func BenchmarkFile(b *testing.B) {
	f := newFile(filepath.Join(b.TempDir(), "notices.jsonl"))
	b.ReportAllocs()
	for b.Loop() {
		if err := f.deliver(b.Context(), sample()); err != nil {
			b.Fatal(err)
		}
	}
}
