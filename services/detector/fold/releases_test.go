package fold

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// firstRelease is when the tests see their first release.
var firstRelease = time.UnixMilli(1_770_000_000_000).UTC()

func TestIsDeploy(t *testing.T) {
	const m = time.Minute
	long := strings.Repeat("x", maxReleaseName+1)
	for _, tt := range []struct {
		name  string
		seen  []string // each a minute after the one before
		query string
		after time.Duration // since the first
		want  bool
	}{
		{"the first release, which may be old", []string{"1"}, "1", 0, false},
		{"the next one", []string{"1", "2"}, "2", m, true},
		{"just under 10 minutes later", []string{"1", "2"}, "2", 11*m - time.Millisecond, true},
		{"10 minutes later", []string{"1", "2"}, "2", 11 * m, false},
		{"10 minutes later, seen ever since", []string{"1", "2", "2", "2"}, "2", 11 * m, false},
		{"the one before it", []string{"1", "2"}, "1", 10 * m, false},
		{"back to the one before", []string{"1", "2", "1"}, "1", 10 * m, false},
		{"a clock that was set back", []string{"1", "2"}, "2", -time.Hour, true},
		{"no release", []string{""}, "", 0, false},
		{"a release that was never seen", []string{"1"}, "2", 0, false},
		{"a name that is too long", []string{long}, long, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r releases
			for i, name := range tt.seen {
				r.observe(name, firstRelease.Add(time.Duration(i)*m))
			}
			if got := r.isDeploy(tt.query, firstRelease.Add(tt.after)); got != tt.want {
				t.Errorf("isDeploy(%.9q) after %v = %v, want %v", tt.query, tt.after, got, tt.want)
			}
		})
	}
}

func TestReleasesBound(t *testing.T) {
	var r releases
	name := func(i int) string { return fmt.Sprintf("web@%02d", i) }
	r.observe("web@first", firstRelease)
	for i := range 20 {
		r.observe(name(i), firstRelease)
		r.observe(name(0), firstRelease) // seen all the time: it stays
	}
	if got := r.firstSeen.Len(); got != maxReleases {
		t.Errorf("%d releases are remembered, want %d", got, maxReleases)
	}
	if want := uint64(21 - maxReleases); r.evicted != want {
		t.Errorf("evicted = %d, want %d", r.evicted, want)
	}
	for i, want := range map[int]bool{0: true, 19: true, 1: false} {
		if got := r.isDeploy(name(i), firstRelease); got != want {
			t.Errorf("isDeploy(%q) = %v, want %v", name(i), got, want)
		}
	}
	size := r.size
	for i := range 20 {
		r.observe(name(i), firstRelease)
	}
	if r.size != size {
		t.Errorf("%d other releases take %d bytes, want %d", maxReleases, r.size, size)
	}
}

// TestReleasesSnapshot checks that releases go on after a restore as without one.
func TestReleasesSnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var one, other releases
		for i := range rapid.IntRange(1, 40).Draw(t, "events") {
			now := firstRelease.Add(time.Duration(i) * time.Minute)
			name := fmt.Sprint(rapid.IntRange(0, 11).Draw(t, "release"))
			one.observe(name, now)
			other.observe(name, now)
			if got, want := other.isDeploy(name, now), one.isDeploy(name, now); got != want {
				t.Fatalf("event %d: isDeploy(%q) = %v after a restore, want %v", i, name, got, want)
			}
			if other.size != one.size {
				t.Fatalf("event %d: %d bytes after a restore, want %d", i, other.size, one.size)
			}
			if got, want := other.firstSeen.Len(), one.firstSeen.Len(); got != want {
				t.Fatalf("event %d: %d releases after a restore, want %d", i, got, want)
			}
			if rapid.Bool().Draw(t, "restore") {
				other = restoredReleases(t, &other)
			}
		}
	})
}

// restoredReleases writes releases and reads them into new ones, which must write the same.
func restoredReleases(t *rapid.T, r *releases) (restored releases) {
	data := snapshot.Append(nil, r.state)
	if err := snapshot.Read(data, restored.state); err != nil {
		t.Fatal(err)
	}
	if again := snapshot.Append(nil, restored.state); !bytes.Equal(again, data) {
		t.Fatalf("restored releases write %x, want %x", again, data)
	}
	return restored
}

func BenchmarkObserveRelease(b *testing.B) {
	var r releases
	names := []string{"web@1.2.3", "web@1.2.4"}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.observe(names[i/16%2], firstRelease)
	}
}
