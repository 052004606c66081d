package sentry

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

var update = flag.Bool("update", false, "write the golden files")

// book is a Memory without a bound.
type book map[Key]string

func (b book) Keep(key Key, text string) bool {
	if _, known := b[key]; known {
		return false
	}
	b[key] = text
	return true
}

func (b book) Lookup(key Key) (string, bool) {
	text, known := b[key]
	return text, known
}

// TestSDKs decodes recordings of SDKs, in the order in which they sent the envelopes:
// @sentry/node and @sentry/browser 11.12.0 (also with traceLifecycle static),
// @sentry/browser 9.47.2, and sentry-go 0.50.0.
func TestSDKs(t *testing.T) {
	for _, sdk := range []string{"node", "browser", "browser-static", "browser-9", "go"} {
		t.Run(sdk, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join("testdata", sdk, "*.envelope"))
			if err != nil || len(files) == 0 {
				t.Fatalf("%d recordings, error %v, want at least one", len(files), err)
			}
			var got bytes.Buffer
			out := json.NewEncoder(&got)
			out.SetEscapeHTML(false)
			out.SetIndent("", "  ")
			sender := Sender{Project: "1", Memory: book{}}
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				d, err := sender.Envelope(data)
				if err != nil {
					t.Fatalf("%s: error %v, want none", file, err)
				}
				if err := out.Encode(struct {
					File    string            `json:"file"`
					ID      string            `json:"id,omitempty"`
					Events  []telemetry.Event `json:"events,omitempty"`
					Ignored map[string]int    `json:"ignored,omitempty"`
				}{filepath.Base(file), d.ID, d.Events, d.Ignored}); err != nil {
					t.Fatal(err)
				}
			}
			golden := filepath.Join("testdata", sdk+".golden")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("events differ from %s (-want +got):\n%s", golden, cmp.Diff(string(want), got.String()))
			}
		})
	}
}
