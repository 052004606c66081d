package mcpevents

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// TestLines compares every notification with its golden file.
func TestLines(t *testing.T) {
	p := newPush(json.RawMessage(`7`), everything(), position(41))
	write := func(name string, l []byte, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, l)
	}
	l, err := p.active(false)
	write("active.json", l, err)
	l, err = p.active(true)
	write("gap.json", l, err)
	l, err = p.heartbeat()
	write("heartbeat.json", l, err)
	l, err = p.failure(errors.New("the bus is unreachable: run tocsin doctor to see why"))
	write("error.json", l, err)

	a := testAlert("01")
	a.Seq, a.Count, a.Context = 42, 3, map[string]any{"url": "/a?b=1&c=2"}
	lines, err := p.process(Arrival{Position: position(42), Alert: a}, start)
	if len(lines) != 1 {
		t.Fatalf("%d lines, want 1", len(lines))
	}
	write("event.json", lines[0], err)
}

// TestResults compares every result with its golden file.
func TestResults(t *testing.T) {
	write := func(name string, result any) {
		t.Helper()
		data, err := json.MarshalIndent(result, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, append(data, '\n'))
	}
	l, err := list(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	write("list.json", l)
	m := newFakeSource()
	m.add(testAlert("01"), testAlert("02"))
	for name, params := range map[string]*subscription{"poll_null.json": {}, "poll.json": {Cursor: cursor(0), MaxEvents: number(1)}} {
		r, err := poll(t.Context(), m, params, everything(), start.Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		write(name, r)
	}
}

// TestAlertsWithoutAnIDGetOne: the extension wants one.
func TestAlertsWithoutAnIDGetOne(t *testing.T) {
	a := testAlert("")
	a.Seq = 5
	if o := occurrenceOf(*a); o.EventID != "seq-5" {
		t.Errorf("EventID = %q, want seq-5", o.EventID)
	}
}
