package snapshot

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
)

// Message is a field with a nested value that has fields of its own. It is left out if all
// of them are zero.
func Message[T any](c *Codec, number protowire.Number, v *T, fields func(*T, *Codec)) {
	if !c.reading {
		before := len(c.buf)
		mark := c.begin(number)
		if fields(v, c); len(c.buf) == mark {
			c.buf = c.buf[:before]
			return
		}
		c.finish(mark)
		return
	}
	around := c.enter(number)
	fields(v, c)
	c.leave(around)
}

// Optional is a field with a nested value that is nil if the field is missing.
func Optional[T any](c *Codec, number protowire.Number, v **T, fields func(*T, *Codec)) {
	if !c.reading {
		if *v != nil {
			mark := c.begin(number)
			fields(*v, c)
			c.finish(mark)
		}
		return
	}
	*v = nil
	if c.find(number, protowire.BytesType) {
		around := c.end
		c.end = c.length()
		*v = new(T)
		fields(*v, c)
		c.leave(around)
	}
}

// List is a repeated field with at most most nested values. It reads into the memory of the
// list if they fit.
func List[T any](c *Codec, number protowire.Number, list *[]T, most int, fields func(*T, *Codec)) {
	if !c.reading {
		for i := range *list {
			mark := c.begin(number)
			fields(&(*list)[i], c)
			c.finish(mark)
		}
		return
	}
	*list = (*list)[:0]
	for c.find(number, protowire.BytesType) {
		if len(*list) == most {
			c.Fail("field %d has more than %d values", number, most)
			return
		}
		around := c.end
		c.end = c.length()
		var zero T
		*list = append(*list, zero)
		fields(&(*list)[len(*list)-1], c)
		c.leave(around)
	}
}

// Strings is a repeated field with at most most strings of at most size bytes each.
func Strings(c *Codec, number protowire.Number, list *[]string, most, size int) {
	if !c.reading {
		for _, text := range *list {
			c.tag(number, protowire.BytesType)
			c.buf = protowire.AppendString(c.buf, text)
		}
		return
	}
	*list = (*list)[:0]
	for c.find(number, protowire.BytesType) {
		end := c.length()
		begin := c.pos
		c.pos = end
		if len(*list) == most || end-begin > size {
			c.Fail("field %d has more than %d values, or one of more than %d bytes", number, most, size)
			return
		}
		*list = append(*list, string(c.buf[begin:end]))
	}
}

// Entries is a repeated field with the entries of a map, the least recently used first, at
// most as many as its capacity. entry describes the fields of one, and add adds one that
// was read, or drops it.
func Entries[K comparable, V any](c *Codec, number protowire.Number, m *lru.Map[K, V], entry func(*Codec, *K, *V), add func(K, V)) {
	var key K
	if !c.reading {
		for k, v := range m.All() {
			key = k
			mark := c.begin(number)
			entry(c, &key, v)
			c.finish(mark)
		}
		return
	}
	var value V
	for n := 0; c.find(number, protowire.BytesType); n++ {
		if n == m.Cap() {
			c.Fail("field %d has more than %d entries", number, n)
			return
		}
		around := c.end
		c.end = c.length()
		var noKey K
		var noValue V
		key, value = noKey, noValue
		if entry(c, &key, &value); c.err == nil {
			add(key, value)
		}
		c.leave(around)
	}
}
