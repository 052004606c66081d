package snapshot

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
)

// Message is a field with a nested value that has fields of its own. It is left out if all
// of them are zero.
func Message[T any](s *Codec, number protowire.Number, v *T, fields func(*T, *Codec)) {
	if !s.reading {
		before := len(s.buf)
		mark := s.begin(number)
		if fields(v, s); len(s.buf) == mark {
			s.buf = s.buf[:before]
			return
		}
		s.finish(mark)
		return
	}
	around := s.enter(number)
	fields(v, s)
	s.leave(around)
}

// Optional is a field with a nested value that is nil if the field is missing.
func Optional[T any](s *Codec, number protowire.Number, v **T, fields func(*T, *Codec)) {
	if !s.reading {
		if *v != nil {
			mark := s.begin(number)
			fields(*v, s)
			s.finish(mark)
		}
		return
	}
	*v = nil
	if s.find(number, protowire.BytesType) {
		around := s.end
		s.end = s.length()
		*v = new(T)
		fields(*v, s)
		s.leave(around)
	}
}

// List is a repeated field with at most most nested values. It reads into the memory of the
// list if they fit.
func List[T any](s *Codec, number protowire.Number, list *[]T, most int, fields func(*T, *Codec)) {
	if !s.reading {
		for i := range *list {
			mark := s.begin(number)
			fields(&(*list)[i], s)
			s.finish(mark)
		}
		return
	}
	*list = (*list)[:0]
	for s.find(number, protowire.BytesType) {
		if len(*list) == most {
			s.Fail("field %d has more than %d values", number, most)
			return
		}
		around := s.end
		s.end = s.length()
		var zero T
		*list = append(*list, zero)
		fields(&(*list)[len(*list)-1], s)
		s.leave(around)
	}
}

// Strings is a repeated field with at most most strings of at most size bytes each.
func Strings(s *Codec, number protowire.Number, list *[]string, most, size int) {
	if !s.reading {
		for _, text := range *list {
			s.tag(number, protowire.BytesType)
			s.buf = protowire.AppendString(s.buf, text)
		}
		return
	}
	*list = (*list)[:0]
	for s.find(number, protowire.BytesType) {
		end := s.length()
		begin := s.pos
		s.pos = end
		if len(*list) == most || end-begin > size {
			s.Fail("field %d has more than %d values, or one of more than %d bytes", number, most, size)
			return
		}
		*list = append(*list, string(s.buf[begin:end]))
	}
}

// Entries is a repeated field with the entries of a map, the least recently used first, at
// most as many as its capacity. entry describes the fields of one, and add adds one that
// was read, or drops it.
func Entries[K comparable, V any](s *Codec, number protowire.Number, m *lru.Map[K, V], entry func(*Codec, *K, *V), add func(K, V)) {
	var key K
	if !s.reading {
		for k, v := range m.All() {
			key = k
			mark := s.begin(number)
			entry(s, &key, v)
			s.finish(mark)
		}
		return
	}
	var value V
	for n := 0; s.find(number, protowire.BytesType); n++ {
		if n == m.Cap() {
			s.Fail("field %d has more than %d entries", number, n)
			return
		}
		around := s.end
		s.end = s.length()
		var noKey K
		var noValue V
		key, value = noKey, noValue
		if entry(s, &key, &value); s.err == nil {
			add(key, value)
		}
		s.leave(around)
	}
}
