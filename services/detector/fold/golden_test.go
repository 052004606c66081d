package fold_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

var update = flag.Bool("update", false, "write the golden files")

// sets are the rules that the golden files hold the alerts of.
var sets = map[string]ruleset.Set{
	"auto":        ruleset.Default(),
	"spec":        {},
	"statistical": {Anomaly: ruleset.RateTail, Regression: ruleset.Confirmed, Noise: ruleset.Mined},
}

// applied returns the alerts of messages.
func applied(f *fold.Fold, messages []fold.Message) (all []alert.Alert) {
	for _, m := range messages {
		all = append(all, f.Apply(m).Alerts...)
	}
	return all
}

// digest summarizes alerts: how many there are of each category and outcome, and the
// hash of all of them as they are published.
func digest(t *testing.T, alerts []alert.Alert) string {
	t.Helper()
	sum, counts := sha256.New(), map[string]int{}
	for i := range alerts {
		a := &alerts[i]
		data, err := a.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(append(data, '\n'))
		kind := string(a.Category)
		switch {
		case a.Resolves != "":
			kind += " resolved"
		case a.Revises != "":
			kind += " revised"
		}
		counts[kind]++
	}
	var b bytes.Buffer
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(&b, "%s: %d\n", kind, counts[kind])
	}
	fmt.Fprintf(&b, "sha256: %s\n", hex.EncodeToString(sum.Sum(nil)))
	return b.String()
}

// TestFixedStream compares the alerts of a fixed stream, whole and with a restart in
// the middle, with those of earlier revisions. A change of the rules or of the texts of
// alerts changes the golden files; nothing else does.
func TestFixedStream(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the last digits of floating point numbers differ between processors")
	}
	messages := fixedStream()
	half := slices.IndexFunc(messages, func(m fold.Message) bool { return !m.Time.Before(start.Add(streamHalf)) })
	for name, set := range sets {
		cfg := fold.Config{Rules: ruleset.Table{Default: set}}
		t.Run(name, func(t *testing.T) {
			first := fold.New(cfg)
			before := applied(first, messages[:half])
			state, err := first.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			after := applied(first, messages[half:])
			golden(t, "stream-"+name, digest(t, slices.Concat(before, after)))

			second := fold.New(cfg)
			if err := second.Restore(state); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(digest(t, after), digest(t, applied(second, messages[half:]))); diff != "" {
				t.Errorf("alerts after a restart (-without +with):\n%s", diff)
			}
		})
		for _, version := range []int{7, 8} {
			t.Run(fmt.Sprintf("%s from version %d", name, version), func(t *testing.T) {
				f := fold.New(cfg)
				if err := f.Restore(oldSnapshot(t, fmt.Sprintf("stream-%s-version%d.snapshot.gz", name, version))); err != nil {
					t.Fatal(err)
				}
				golden(t, fmt.Sprintf("stream-%s-from-version%d", name, version), digest(t, applied(f, messages[half:])))
			})
		}
	}
}

// oldSnapshot reads a snapshot that an earlier revision wrote after the first half of
// the fixed stream.
func oldSnapshot(t *testing.T, name string) []byte {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// golden compares text with a golden file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}
