package detector

import (
	"testing"

	"pgregory.net/rapid"
)

func TestLossCounter(t *testing.T) {
	type step struct {
		read, backlog uint64 // a message and the backlog after it
		first         uint64 // or a check, with the first sequence of the stream
		lost          uint64
	}
	tests := []struct {
		name  string
		start lossCounter
		steps []step
	}{
		{"gaps of other partitions are no loss", lossCounter{}, []step{{read: 2}, {read: 9}, {read: 30}, {first: 1}, {first: 2}}},
		{"dropped after it was read", lossCounter{}, []step{{read: 2}, {read: 30}, {first: 1}, {first: 31}}},
		{"dropped before it was read", lossCounter{last: 10, checked: 5}, []step{{first: 21, lost: 10}, {first: 21}, {read: 25}, {first: 21}}},
		{"dropped within a gap", lossCounter{}, []step{{read: 10}, {first: 1}, {read: 40}, {first: 31, lost: 20}, {first: 35}}},
		{"each counted once", lossCounter{last: 10}, []step{{first: 21, lost: 10}, {first: 31, lost: 10}, {read: 40}, {first: 41, lost: 10}, {first: 41}}},
		{"history before the state is no gap", lossCounter{last: 100, checked: 9}, []step{{read: 20}, {read: 60}, {read: 101}, {first: 90}}},
		{"nothing read yet", lossCounter{checked: 6}, []step{{first: 7}, {first: 17, lost: 10}}},
		{"empty stream", lossCounter{}, []step{{first: 0}, {first: 1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := tt.start
			for i, s := range tt.steps {
				if s.read > 0 {
					c.read(s.read, s.backlog)
				} else if got := c.check(s.first); got != s.lost {
					t.Errorf("step %d: check(%d) = %d lost, want %d", i, s.first, got, s.lost)
				}
			}
		})
	}
	var c lossCounter
	for i, want := range []bool{false, false, true, false, true, false} {
		switch i {
		case 1:
			c.read(1, 0)
		case 2:
			c.read(2, 5)
		case 3, 5:
			c.check(1)
		case 4:
			c.started()
		}
		if c.due != want {
			t.Errorf("step %d: due = %v, want %v", i, c.due, want)
		}
	}
}

// TestLossIsAnUpperBound checks that the counted loss is never below the real one, and
// that a check counts nothing if all dropped messages had been read at the check before.
func TestLossIsAnUpperBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c lossCounter
		ours := map[uint64]bool{}
		first, last, next := uint64(1), uint64(0), uint64(1)
		var lost, counted, readBefore uint64
		check := func() {
			n := c.check(first)
			if n > 0 && first <= readBefore+1 {
				t.Fatalf("check(%d) = %d lost, want 0: all up to %d were read before the last check", first, n, readBefore)
			}
			counted, readBefore = counted+n, c.last
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0: // a message arrives
				last++
				ours[last] = rapid.Bool().Draw(t, "ours")
			case 1: // the oldest messages are dropped
				for range rapid.IntRange(0, 5).Draw(t, "dropped") {
					if first > last {
						break
					}
					if first >= next && ours[first] {
						lost++
					}
					first++
				}
			case 2: // the next message of ours is read
				for next = max(next, first); next <= last; next++ {
					if ours[next] {
						c.read(next, 1)
						next++
						break
					}
				}
			case 3:
				check()
			}
		}
		check()
		if counted < lost {
			t.Fatalf("counted %d lost messages, want at least %d", counted, lost)
		}
	})
}
