package sentry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/ingest/decoding"
)

// sound checks that a result is valid and bounded.
func sound(t *testing.T, d Decoded, err error) {
	t.Helper()
	if err != nil && len(d.Events) > 0 {
		t.Fatalf("%d events with error %v, want none with an error", len(d.Events), err)
	}
	if len(d.Events) > decoding.MaxItems || len(d.ID) > 36 || len(d.Ignored) > len(unusedTypes)+3 {
		t.Fatalf("%d events, id %q, %d reasons, want at most %d, 36 digits and %d", len(d.Events), d.ID, len(d.Ignored), decoding.MaxItems, len(unusedTypes)+3)
	}
	for i := range d.Events {
		e := &d.Events[i]
		if err := e.Validate(); err != nil || e.App == "" {
			t.Fatalf("event %d: app %q, %v, want a valid one with an app", i, e.App, err)
		}
	}
}

func recordings(f *testing.F) [][]byte {
	f.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", "*", "*.envelope"))
	if err != nil {
		f.Fatal(err)
	}
	all := make([][]byte, 0, len(files))
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, data)
	}
	return all
}

func FuzzEnvelope(f *testing.F) {
	for _, data := range recordings(f) {
		f.Add("1", data)
	}
	f.Add("web", []byte("{}\n{\"type\":\"user_report\",\"length\":2}\n{}\n{\"type\":\"feedback\"}\n{}"))
	f.Fuzz(func(t *testing.T, project string, data []byte) {
		sender := Sender{Project: project, Memory: book{}}
		d, err := sender.Envelope(data)
		sound(t, d, err)
		again, err2 := sender.Envelope(data)
		sound(t, again, err2)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("error %v, want the same as at first: %v", err2, err)
		}
	})
}

func FuzzStore(f *testing.F) {
	for _, data := range recordings(f) {
		if lines := strings.SplitN(string(data), "\n", 3); len(lines) == 3 {
			f.Add([]byte(lines[2]))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := Sender{Project: "1"}.Store(data)
		sound(t, d, err)
	})
}
