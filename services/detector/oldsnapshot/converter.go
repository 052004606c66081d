package oldsnapshot

import (
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// number is the number of a field in the current format.
type number = protowire.Number

// converter reads the values of an old snapshot in their order and writes them as numbered
// fields. The methods with copy in their name read one value for each number; those with
// put write a value that was read before.
type converter struct {
	*reader
	s *snapshot.Codec
}

func (c converter) copyUint(numbers ...number) {
	for _, n := range numbers {
		c.putUint(n, c.uint())
	}
}

func (c converter) copyInt(numbers ...number) {
	for _, n := range numbers {
		c.putInt(n, c.int())
	}
}

// copyPositive copies signed numbers that must not be negative.
func (c converter) copyPositive(numbers ...number) {
	for _, n := range numbers {
		c.putUint(n, c.positive())
	}
}

func (c converter) copyFloat(numbers ...number) {
	for _, n := range numbers {
		c.putFloat(n, c.float())
	}
}

func (c converter) copyBool(numbers ...number) {
	for _, n := range numbers {
		c.putBool(n, c.bool())
	}
}

func (c converter) copyText(numbers ...number) {
	for _, n := range numbers {
		c.putText(n, c.text())
	}
}

// copyBytes copies bytes to a field that is written also where they are empty.
func (c converter) copyBytes(n number) {
	v := c.raw(maxText)
	c.s.Raw(n, &v)
}

func (c converter) copyHash(n number) { c.putHash(n, c.uint()) }

func (c converter) copyTime(n number) { c.putTime(n, c.int()) }

// copyTexts copies a list of strings.
func (c converter) copyTexts(n number) {
	var texts []string
	for range c.count(maxItems) {
		texts = append(texts, c.text())
	}
	snapshot.Strings(c.s, n, &texts, 0, 0)
}

// message writes a nested message, unless it is empty.
func (c converter) message(n number, fields func(converter)) {
	c.putMessage(n, encode(c.reader, fields))
}

// item writes a nested message, also where it is empty.
func (c converter) item(n number, fields func(converter)) {
	v := encode(c.reader, fields)
	c.s.Raw(n, &v)
}

// items reads a count and writes so many nested messages.
func (c converter) items(n number, fields func(converter)) {
	for range c.count(maxItems) {
		c.item(n, fields)
	}
}

func (c converter) putUint(n number, v uint64) { snapshot.Uint(c.s, n, &v, math.MaxUint64) }

func (c converter) putInt(n number, v int64) { snapshot.Int(c.s, n, &v, snapshot.AnyInt) }

func (c converter) putFloat(n number, v float64) { c.s.Float(n, &v, 0, 0) }

func (c converter) putBool(n number, v bool) { c.s.Bool(n, &v) }

func (c converter) putText(n number, v string) { c.s.String(n, &v, 0) }

func (c converter) putHash(n number, v uint64) { c.s.Hash(n, &v) }

// putTime writes a time in milliseconds since 1970. Zero is a time as well.
func (c converter) putTime(n number, ms int64) {
	at := time.UnixMilli(ms).UTC()
	c.s.Time(n, &at)
}

func (c converter) putTimes(n number, times []int64) { c.s.PackedTimes(n, times, 0) }

func (c converter) putUints(n number, values []uint64) { snapshot.Packed(c.s, n, values, 0, 0) }

// putMessage writes a message, unless it is empty.
func (c converter) putMessage(n number, message []byte) {
	if len(message) > 0 {
		c.s.Raw(n, &message)
	}
}
