package release_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/release"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
)

var start = time.UnixMilli(1_770_000_000_000).UTC()

func TestDeploy(t *testing.T) {
	const m = time.Minute
	long := strings.Repeat("x", release.MaxName+1)
	for _, tt := range []struct {
		name  string
		heard []string // each a minute after the one before
		ask   string
		after time.Duration // of the first
		want  bool
	}{
		{"the first one heard of, which may be old", []string{"1"}, "1", 0, false},
		{"the next one", []string{"1", "2"}, "2", m, true},
		{"a moment before it is old", []string{"1", "2"}, "2", 11*m - time.Millisecond, true},
		{"10 minutes later", []string{"1", "2"}, "2", 11 * m, false},
		{"heard of ever since", []string{"1", "2", "2", "2"}, "2", 11 * m, false},
		{"the one before it", []string{"1", "2"}, "1", 10 * m, false},
		{"back to the one before", []string{"1", "2", "1"}, "1", 10 * m, false},
		{"a clock that was set back", []string{"1", "2"}, "2", -time.Hour, true},
		{"none", []string{""}, "", 0, false},
		{"one that was never heard of", []string{"1"}, "2", 0, false},
		{"too long", []string{long}, long, 0, false},
	} {
		r := &release.Releases{}
		for i, name := range tt.heard {
			r.Observe(name, start.Add(time.Duration(i)*m))
		}
		if got := r.Deploy(tt.ask, start.Add(tt.after)); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestBound(t *testing.T) {
	r := &release.Releases{}
	name := func(i int) string { return fmt.Sprintf("web@%02d", i) }
	r.Observe("web@first", start)
	for i := range 20 {
		r.Observe(name(i), start)
		r.Observe(name(0), start) // seen all the time: it stays
	}
	size := r.Size()
	if r.Len() != release.MaxReleases || r.Evicted() != 21-release.MaxReleases || !r.Deploy(name(0), start) || !r.Deploy(name(19), start) || r.Deploy(name(1), start) {
		t.Errorf("%d are remembered", r.Len())
	}
	for i := range 20 {
		r.Observe(name(i), start)
	}
	if r.Size() != size {
		t.Errorf("as many take %d bytes and %d", size, r.Size())
	}
}

// TestSnapshot: what follows a restore is as without one.
func TestSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var one, other release.Releases
		for i := range rapid.IntRange(1, 40).Draw(t, "events") {
			now := start.Add(time.Duration(i) * time.Minute)
			name := fmt.Sprint(rapid.IntRange(0, 11).Draw(t, "release"))
			one.Observe(name, now)
			other.Observe(name, now)
			if one.Deploy(name, now) != other.Deploy(name, now) || one.Size() != other.Size() || one.Len() != other.Len() {
				t.Fatalf("event %d of release %s", i, name)
			}
			if rapid.Bool().Draw(t, "restore") {
				var restored release.Releases
				snapshottest.Copy(t, &other, &restored)
				other = restored
			}
		}
	})
}

func BenchmarkHeard(b *testing.B) {
	r := &release.Releases{}
	names := []string{"web@1.2.3", "web@1.2.4"}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.Observe(names[i/16%2], start)
	}
}
