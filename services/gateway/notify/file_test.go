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

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, f *file, message string) {
	t.Helper()
	if err := f.deliver(t.Context(), delivery{Notice: Notice{Message: message}}); err != nil {
		t.Fatal(err)
	}
}

// messages returns the messages in a file. Each line must be a JSON object.
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
			t.Fatalf("decode the line %q: %v", line, err)
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
	if diff := cmp.Diff([]string{sample().Message, "two"}, messages(t, path)); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.Mode().Perm(), os.FileMode(0o600); runtime.GOOS != "windows" && got != want {
		t.Errorf("mode = %v, want %v", got, want)
	}
}

// TestFileRotates: a full file is renamed, and only the newest old files are kept.
func TestFileRotates(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "notices.jsonl")
	f := newFile(path)
	f.maxMiB = 1
	full := append(bytes.Repeat([]byte("x"), 1<<20-10), '\n')
	const rotations = maxOldFiles + 2
	for i := range rotations {
		if err := os.WriteFile(path, full, 0o600); err != nil {
			t.Fatal(err)
		}
		// The names of rotated files have milliseconds.
		for begun := time.Now().UnixMilli(); time.Now().UnixMilli() == begun; {
			runtime.Gosched()
		}
		write(t, f, fmt.Sprint(i))
		if got := messages(t, path); len(got) != 1 || got[0] != fmt.Sprint(i) {
			t.Fatalf("messages after rotation %d = %q, want the new one only", i, got)
		}
	}
	old, err := filepath.Glob(filepath.Join(dir, "notices-*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(old) != maxOldFiles {
		t.Errorf("%d old files are kept, want %d", len(old), maxOldFiles)
	}
}

// TestFileOfManyGateways: several gateways write the same file while it rotates. No line is
// lost or broken.
func TestFileOfManyGateways(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "notices.jsonl")
	if err := os.WriteFile(path, append(bytes.Repeat([]byte(`{"message":"old"}`+"\n"), 58250), `{"message":"broken`...), 0o600); err != nil {
		t.Fatal(err)
	}
	const writers, lines = 4, 25
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			f := newFile(path)
			f.maxMiB = 1
			for i := range lines {
				if err := f.deliver(t.Context(), delivery{Notice: Notice{Message: fmt.Sprint(w, i)}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 2 {
		t.Fatalf("files = %v, want 2", files)
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
				if line != `{"message":"broken`+"\n" {
					t.Errorf("line = %q, want JSON", line)
				}
				continue
			}
			seen[d.Message]++
		}
	}
	delete(seen, "old")
	for message, n := range seen {
		if n != 1 {
			t.Errorf("message %s is written %d times, want once", message, n)
		}
	}
	if len(seen) != writers*lines {
		t.Errorf("%d messages are written, want %d", len(seen), writers*lines)
	}
}

func TestFileFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "notices.jsonl")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := newFile(path).deliver(t.Context(), sample()); err == nil {
		t.Error("deliver to a directory: no error, want one")
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
