package detector

import (
	"testing"

	"pgregory.net/rapid"
)

func TestUnread(t *testing.T) {
	type step struct {
		read, behind uint64 // a message, and how many are to come
		first        uint64 // or a look, with the stream's beginning
		lost         uint64
	}
	tests := []struct {
		name  string
		start unread
		steps []step
	}{
		{"gaps of its own are no loss", unread{}, []step{{read: 2}, {read: 9}, {read: 30}, {first: 1}, {first: 2}}},
		{"dropped behind the reader", unread{}, []step{{read: 2}, {read: 30}, {first: 1}, {first: 31}}},
		{"dropped before it was read", unread{last: 10, counted: 5}, []step{{first: 21, lost: 10}, {first: 21}, {read: 25}, {first: 21}}},
		{"dropped within a gap", unread{}, []step{{read: 10}, {first: 1}, {read: 40}, {first: 31, lost: 20}, {first: 35}}},
		{"each counted once", unread{last: 10}, []step{{first: 21, lost: 10}, {first: 31, lost: 10}, {read: 40}, {first: 41, lost: 10}, {first: 41}}},
		{"history before the state is no gap", unread{last: 100, counted: 9}, []step{{read: 20}, {read: 60}, {read: 101}, {first: 90}}},
		{"nothing was read yet", unread{counted: 6}, []step{{first: 7}, {first: 17, lost: 10}}},
		{"an empty stream", unread{}, []step{{first: 0}, {first: 1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u := tt.start
			for i, s := range tt.steps {
				if s.read > 0 {
					u.read(s.read, s.behind)
				} else if got := u.look(s.first); got != s.lost {
					t.Errorf("step %d: %d lost, want %d", i, got, s.lost)
				}
			}
		})
	}
	var u unread
	for i, want := range []bool{false, false, true, false, true, false} {
		switch i {
		case 1:
			u.read(1, 0)
		case 2:
			u.read(2, 5)
		case 3, 5:
			u.look(1)
		case 4:
			u.began()
		}
		if u.suspect != want {
			t.Errorf("step %d: to be looked at: %v", i, u.suspect)
		}
	}
}

// TestUnreadIsAnUpperBound: whatever is dropped, no more of ours is lost than is
// said, and nothing is said while only what was read at the look before is dropped.
func TestUnreadIsAnUpperBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var u unread
		ours := map[uint64]bool{}
		first, last, next := uint64(1), uint64(0), uint64(1)
		var lost, said, read uint64
		look := func() {
			n := u.look(first)
			if n > 0 && first <= read+1 {
				t.Fatalf("%d said to be lost, and all up to %d was read long ago", n, read)
			}
			said, read = said+n, u.last
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0: // a message arrives
				last++
				ours[last] = rapid.Bool().Draw(t, "ours")
			case 1: // the oldest ones are dropped
				for range rapid.IntRange(0, 5).Draw(t, "dropped") {
					if first > last {
						break
					}
					if first >= next && ours[first] {
						lost++
					}
					first++
				}
			case 2: // ours are read
				for next = max(next, first); next <= last; next++ {
					if ours[next] {
						u.read(next, 1)
						next++
						break
					}
				}
			case 3:
				look()
			}
		}
		look()
		if said < lost {
			t.Fatalf("%d lost, %d said", lost, said)
		}
	})
}
