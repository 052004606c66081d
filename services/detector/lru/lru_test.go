package lru_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
)

func keys(m *lru.Map[string, int]) []string {
	var out []string
	for k := range m.All() {
		out = append(out, k)
	}
	return out
}

func TestMap(t *testing.T) {
	m := lru.New[string, int](3)
	for i, k := range []string{"a", "b", "c"} {
		if _, evicted := m.Add(k, i); evicted != nil {
			t.Fatalf("Add(%s) evicted %v, want no eviction", k, *evicted)
		}
	}
	steps := []struct {
		name string
		do   func() any
		want any
		keys []string
	}{
		{"get marks as used", func() any { return *m.Get("a") }, 0, []string{"b", "c", "a"}},
		{"peek does not", func() any { return *m.Peek("b") }, 1, []string{"b", "c", "a"}},
		{"a full map evicts the least recently used", func() any { _, e := m.Add("d", 3); return *e }, lru.Entry[string, int]{Key: "b", Value: 1}, []string{"c", "a", "d"}},
		{"an evicted key is gone", func() any { return m.Get("b") == nil && m.Peek("b") == nil }, true, []string{"c", "a", "d"}},
		{"adding again replaces and marks as used", func() any { v, e := m.Add("c", 9); return *v == 9 && e == nil }, true, []string{"a", "d", "c"}},
		{"bytes find strings", func() any { return *lru.GetBytes(m, []byte("a")) }, 0, []string{"d", "c", "a"}},
		{"oldest does not mark as used", func() any { return m.Oldest().Key }, "d", []string{"d", "c", "a"}},
		{"delete", func() any { return m.Delete("c") }, true, []string{"d", "a"}},
		{"delete what is not there", func() any { return m.Delete("c") }, false, []string{"d", "a"}},
	}
	for _, s := range steps {
		if got := s.do(); got != s.want {
			t.Errorf("%s: got %v, want %v", s.name, got, s.want)
		}
		if got := keys(m); !slices.Equal(got, s.keys) {
			t.Errorf("%s: keys %v, want %v", s.name, got, s.keys)
		}
	}
}

func TestMapKeepsAtLeastOne(t *testing.T) {
	m := lru.New[string, int](0)
	m.Add("a", 1)
	if _, evicted := m.Add("b", 2); evicted == nil || evicted.Key != "a" {
		t.Errorf("evicted %v, want a", evicted)
	}
	if m.Oldest().Key != "b" || m.Cap() != 1 {
		t.Errorf("oldest = %v, capacity %d, want b, capacity 1", m.Oldest(), m.Cap())
	}
}

// TestMapAgainstModel compares a map with a slice in the order of use. A copy that is filled
// in the order of All must continue like the original: that is how snapshots are restored.
func TestMapAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 5).Draw(t, "capacity")
		m := lru.New[string, int](capacity)
		var model []string
		steps := rapid.IntRange(1, 60).Draw(t, "steps")
		for range steps {
			key := fmt.Sprint(rapid.IntRange(0, 7).Draw(t, "key"))
			at := slices.Index(model, key)
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0:
				_, evicted := m.Add(key, len(key))
				if at >= 0 {
					model = slices.Delete(model, at, at+1)
				} else if len(model) == capacity {
					if evicted == nil || evicted.Key != model[0] {
						t.Fatalf("evicted %v, want %s", evicted, model[0])
					}
					model = model[1:]
				}
				model = append(model, key)
			case 1:
				if found := m.Get(key) != nil; found != (at >= 0) {
					t.Fatalf("Get(%s) finds it: %v, want %v", key, found, at >= 0)
				}
				if at >= 0 {
					model = append(slices.Delete(model, at, at+1), key)
				}
			case 2:
				if found := m.Delete(key); found != (at >= 0) {
					t.Fatalf("Delete(%s) = %v, want %v", key, found, at >= 0)
				}
				if at >= 0 {
					model = slices.Delete(model, at, at+1)
				}
			case 3:
				refilled := lru.New[string, int](capacity)
				for k, v := range m.All() {
					refilled.Add(k, *v)
				}
				m = refilled
			}
			if got := keys(m); !slices.Equal(got, model) || m.Len() != len(model) {
				t.Fatalf("keys = %v, length %d, want %v", got, m.Len(), model)
			}
		}
	})
}

func TestGetBytesMakesNoString(t *testing.T) {
	m := lru.New[string, int](2)
	key := []byte("a key that is longer than what fits on the stack for free, by far")
	m.Add(string(key), 1)
	if n := testing.AllocsPerRun(100, func() { lru.GetBytes(m, key) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkGet(b *testing.B) {
	m := lru.New[string, int](2000)
	var list [][]byte
	for i := range 2000 {
		list = append(list, fmt.Appendf(nil, "template %d of some ordinary length", i))
		m.Add(string(list[i]), i)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		lru.GetBytes(m, list[i%len(list)])
		i += 7
	}
}

// TestBackward checks that Backward is the reverse of All, and that a loop may end early.
func TestBackward(t *testing.T) {
	m := lru.New[int, int](3)
	var got []int
	walk := func(most int) []int {
		got = nil
		for k := range m.Backward() {
			if got = append(got, k); len(got) == most {
				break
			}
		}
		return got
	}
	if walk(9); got != nil {
		t.Errorf("keys of an empty map = %v, want none", got)
	}
	for i := range 4 {
		m.Add(i, i)
	}
	m.Get(2)
	if walk(9); !slices.Equal(got, []int{2, 3, 1}) {
		t.Errorf("got %v, want 2 3 1", got)
	}
	if walk(1); !slices.Equal(got, []int{2}) {
		t.Errorf("got %v, want 2", got)
	}
}
