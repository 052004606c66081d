package fault

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

type queueItem struct {
	key   string
	timed timer
}

func (i *queueItem) timer() *timer    { return &i.timed }
func (i *queueItem) orderKey() string { return i.key }

// TestTimeQueue compares a queue with a map of times.
func TestTimeQueue(t *testing.T) {
	start := time.Unix(1000, 0)
	rapid.Check(t, func(t *rapid.T) {
		var q timeQueue[*queueItem]
		items := []*queueItem{{key: "a"}, {key: "b"}, {key: "c"}, {key: "d"}}
		model := map[*queueItem]time.Time{}
		first := func() (first *queueItem) {
			for _, i := range items {
				at, ok := model[i]
				if ok && (first == nil || at.Before(model[first])) { // the items are in the order of their keys
					first = i
				}
			}
			return first
		}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			item := rapid.SampledFrom(items).Draw(t, "item")
			if rapid.Bool().Draw(t, "schedule") {
				at := start.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "seconds")) * time.Second)
				q.schedule(item, at)
				model[item] = at
			} else {
				q.cancel(item)
				delete(model, item)
			}
			want := first()
			if want == nil {
				if next := q.next(); !next.IsZero() {
					t.Fatalf("next of an empty queue = %s, want zero", next)
				}
				continue
			}
			if next := q.next(); !next.Equal(model[want]) {
				t.Fatalf("next = %s, want %s", next, model[want])
			}
			if got, ok := q.due(start.Add(3 * time.Second)); !ok || got != want {
				t.Fatalf("due = %v, %t; want %s", got, ok, want.key)
			}
			if got, ok := q.due(model[want].Add(-1)); ok {
				t.Fatalf("due before its time = %s, want none", got.key)
			}
		}
	})
}
