package fault

import (
	"container/heap"
	"time"
)

// timer records when an item of a timeQueue is due.
type timer struct {
	at     time.Time
	queued bool
	index  int // position in the queue, while queued
}

// dueItem is an item of a timeQueue. Items that are due at the same time are ordered by key.
type dueItem interface {
	timer() *timer
	orderKey() string
}

// timeQueue contains items in the order in which they are due.
type timeQueue[T dueItem] struct{ items timeHeap[T] }

// schedule adds an item, or moves it to another time.
func (q *timeQueue[T]) schedule(item T, at time.Time) {
	t := item.timer()
	t.at = at
	if t.queued {
		heap.Fix(&q.items, t.index)
		return
	}
	t.queued = true
	heap.Push(&q.items, item)
}

// cancel removes an item if it is queued.
func (q *timeQueue[T]) cancel(item T) {
	if t := item.timer(); t.queued {
		heap.Remove(&q.items, t.index)
		t.queued = false
	}
}

// next returns when the first item is due, zero if there is none.
func (q *timeQueue[T]) next() time.Time {
	if len(q.items) == 0 {
		return time.Time{}
	}
	return q.items[0].timer().at
}

// due returns the first item, without removing it, if it is due at now.
func (q *timeQueue[T]) due(now time.Time) (item T, ok bool) {
	if len(q.items) == 0 || q.items[0].timer().at.After(now) {
		return item, false
	}
	return q.items[0], true
}

// timeHeap implements heap.Interface.
type timeHeap[T dueItem] []T

func (h timeHeap[T]) Len() int { return len(h) }

func (h timeHeap[T]) Less(i, j int) bool {
	a, b := h[i].timer().at, h[j].timer().at
	if !a.Equal(b) {
		return a.Before(b)
	}
	return h[i].orderKey() < h[j].orderKey()
}

func (h timeHeap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timer().index, h[j].timer().index = i, j
}

func (h *timeHeap[T]) Push(x any) {
	item := x.(T)
	item.timer().index = len(*h)
	*h = append(*h, item)
}

func (h *timeHeap[T]) Pop() any {
	var none T
	last := len(*h) - 1
	item := (*h)[last]
	(*h)[last] = none
	*h = (*h)[:last]
	return item
}
