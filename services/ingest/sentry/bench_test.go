package sentry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func benchmark(b *testing.B, data []byte, events int) {
	sender := Sender{Project: "1"}
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		d, err := sender.Envelope(data)
		if err != nil || len(d.Events) != events {
			b.Fatalf("%d events, %v", len(d.Events), err)
		}
	}
}

func recorded(b *testing.B, name string) []byte {
	b.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// BenchmarkError decodes one error of @sentry/node with its breadcrumbs.
func BenchmarkError(b *testing.B) { benchmark(b, recorded(b, "node/04-event.envelope"), 2) }

// BenchmarkPageload decodes the spans of one page of @sentry/browser.
func BenchmarkPageload(b *testing.B) { benchmark(b, recorded(b, "browser/03-span.envelope"), 3) }

// BenchmarkLogs decodes 100 structured logs of @sentry/node.
func BenchmarkLogs(b *testing.B) {
	lines := strings.SplitN(string(recorded(b, "node/03-log.envelope")), "\n", 3)
	_, list, _ := strings.Cut(lines[2], `"items":[`)
	list = strings.TrimSuffix(strings.TrimSpace(list), "]}")
	all := strings.TrimSuffix(strings.Repeat(list+",", 50), ",")
	benchmark(b, []byte(lines[0]+"\n"+lines[1]+"\n{\"items\":["+all+"]}"), 100)
}
