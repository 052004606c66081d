package spike

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

func TestOutcomesFailing(t *testing.T) {
	type requests struct{ second, succeeded, failed int }
	for _, tt := range []struct {
		name   string
		events []requests
		second int // of the query
		want   bool
	}{
		{"no requests", nil, 0, false},
		{"only successes", []requests{{0, 10, 0}}, 0, false},
		{"3 of 10", []requests{{0, 7, 3}}, 0, false},
		{"4 of 10", []requests{{0, 6, 4}}, 0, true},
		{"4 of 4 are too few", []requests{{0, 0, 4}}, 0, false},
		{"5 of 5", []requests{{0, 0, 5}}, 0, true},
		{"over several seconds", []requests{{0, 2, 1}, {3, 2, 1}, {9, 2, 2}}, 9, true},
		{"9 s later", []requests{{0, 0, 5}}, 9, true},
		{"10 s later", []requests{{0, 0, 5}}, 10, false},
		{"the oldest of several have expired", []requests{{0, 0, 5}, {5, 0, 4}}, 10, false},
		{"a clock that was set back", []requests{{100, 0, 5}, {50, 0, 4}}, 50, false},
		{"before 1970", []requests{{-1_770_000_005, 0, 5}}, -1_770_000_001, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			second := func(n int) time.Time { return time.Unix(1_770_000_000+int64(n), 0) }
			var o outcomes
			for _, r := range tt.events {
				for range r.succeeded {
					o.add(second(r.second), false)
				}
				for range r.failed {
					o.add(second(r.second), true)
				}
			}
			var restored outcomes
			if err := snapshot.Read(snapshot.Append(nil, o.state), restored.state); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(o, restored, cmp.AllowUnexported(outcomes{}, outcome{})); diff != "" {
				t.Errorf("restored outcomes (-want +got):\n%s", diff)
			}
			if got := o.failing(second(tt.second)); got != tt.want {
				t.Errorf("failing() = %v with %d of %d failed, want %v", got, o.failed, o.all, tt.want)
			}
		})
	}
}
