// Package snapshot is the codec of the detector's state.
//
// A type describes its fields in one function with a [Codec], which both writes and reads
// them. Each field has a number, which never gets another meaning, and bounds, which are
// checked on reading. The format is that of protocol buffers: integers are varints,
// floating point numbers and hashes 64 bits, everything else has a length. Zero values are
// left out, so a field that a snapshot lacks reads as zero. Unknown fields are skipped.
//
// Within a function the numbers ascend. Values are preserved bit for bit, also text that is
// not valid UTF-8. Only negative zero becomes zero.
//
// On damaged input reading does not panic, refuses lengths that exceed the input, and
// returns zero values after the first error, so a caller checks the error once. A state
// that was cut off between two fields reads without an error: its container must detect
// that (the fold's checksum, the length of a nested message).
package snapshot

import (
	"errors"
	"fmt"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrDamaged is wrapped by every error of [Read].
var ErrDamaged = errors.New("damaged snapshot")

// Codec writes or reads one snapshot.
type Codec struct {
	// buf is the output so far, or the input, which is read from pos to end.
	buf      []byte
	pos, end int
	reading  bool
	err      error
}

// Append appends fields to buf and returns the extended buffer.
func Append(buf []byte, fields func(*Codec)) []byte {
	c := Codec{buf: buf}
	fields(&c)
	return c.buf
}

// Read reads what Append wrote. Its error wraps [ErrDamaged].
func Read(data []byte, fields func(*Codec)) error {
	c := Codec{buf: data, end: len(data), reading: true}
	fields(&c)
	c.skip()
	return c.err
}

// Reading reports whether the state is being read.
func (c *Codec) Reading() bool { return c.reading }

// Fail records that a value is invalid, unless there was an error before.
func (c *Codec) Fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
	}
}

// OK reports whether there was no error.
func (c *Codec) OK() bool { return c.err == nil }

// find moves to the value of the next field if it has that number. It skips fields with
// lower numbers.
func (c *Codec) find(number protowire.Number, kind protowire.Type) bool {
	for c.err == nil && c.pos < c.end {
		got, as, size := protowire.ConsumeTag(c.buf[c.pos:c.end])
		switch {
		case size < 0:
			c.Fail("no field number where field %d is expected", number)
			return false
		case got > number:
			return false
		case got == number && as != kind:
			c.Fail("field %d has another type", number)
			return false
		}
		c.pos += size
		if got == number {
			return true
		}
		c.skipValue(got, as)
	}
	return false
}

func (c *Codec) skipValue(number protowire.Number, kind protowire.Type) {
	size := protowire.ConsumeFieldValue(number, kind, c.buf[c.pos:c.end])
	if size < 0 {
		c.Fail("field %d ends early", number)
		return
	}
	c.pos += size
}

// skip moves to the end of the message.
func (c *Codec) skip() {
	for c.err == nil && c.pos < c.end {
		number, kind, size := protowire.ConsumeTag(c.buf[c.pos:c.end])
		if size < 0 {
			c.Fail("bytes without a field")
			return
		}
		c.pos += size
		c.skipValue(number, kind)
	}
}

func (c *Codec) varint() uint64 {
	v, size := protowire.ConsumeVarint(c.buf[c.pos:c.end])
	if size < 0 {
		c.Fail("an integer ends early or is too large")
		return 0
	}
	c.pos += size
	return v
}

func (c *Codec) fixed64() uint64 {
	v, size := protowire.ConsumeFixed64(c.buf[c.pos:c.end])
	if size < 0 {
		c.Fail("a 64-bit value ends early")
		return 0
	}
	c.pos += size
	return v
}

// length reads a length and returns the end of the value that follows.
func (c *Codec) length() (end int) {
	n := c.varint()
	if c.err == nil && n > uint64(c.end-c.pos) {
		c.Fail("a length of %d with %d bytes left", n, c.end-c.pos)
	}
	if c.err != nil {
		return c.pos
	}
	return c.pos + int(n)
}

func (c *Codec) tag(number protowire.Number, kind protowire.Type) {
	c.buf = protowire.AppendTag(c.buf, number, kind)
}

// Integer is any type of integer.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Uint is a field with an integer from 0 to most.
func Uint[T Integer](c *Codec, number protowire.Number, v *T, most uint64) {
	if !c.reading {
		if *v != 0 {
			c.tag(number, protowire.VarintType)
			c.buf = protowire.AppendVarint(c.buf, uint64(*v))
		}
		return
	}
	*v = 0
	if !c.find(number, protowire.VarintType) {
		return
	}
	if read := c.varint(); read <= most {
		*v = T(read)
	} else {
		c.Fail("field %d is %d, and at most %d is allowed", number, read, most)
	}
}

// Int is a field with an integer from -most to most.
func Int[T Integer](c *Codec, number protowire.Number, v *T, most int64) {
	if !c.reading {
		if *v != 0 {
			c.tag(number, protowire.VarintType)
			c.buf = protowire.AppendVarint(c.buf, protowire.EncodeZigZag(int64(*v)))
		}
		return
	}
	*v = 0
	if !c.find(number, protowire.VarintType) {
		return
	}
	if read := protowire.DecodeZigZag(c.varint()); most == AnyInt || -most <= read && read <= most {
		*v = T(read)
	} else {
		c.Fail("field %d is %d, and at most %d in either direction is allowed", number, read, most)
	}
}

// AnyInt is the bound of an [Int] that needs none.
const AnyInt = math.MaxInt64

// Bool is a field with a truth value.
func (c *Codec) Bool(number protowire.Number, v *bool) {
	if !c.reading {
		if *v {
			c.tag(number, protowire.VarintType)
			c.buf = append(c.buf, 1)
		}
		return
	}
	*v = false
	if !c.find(number, protowire.VarintType) {
		return
	}
	read := c.varint()
	if read > 1 {
		c.Fail("field %d is no truth value", number)
	}
	*v = read == 1
}

// Float is a field with a number from least to most.
func (c *Codec) Float(number protowire.Number, v *float64, least, most float64) {
	if !c.reading {
		if *v != 0 {
			c.tag(number, protowire.Fixed64Type)
			c.buf = protowire.AppendFixed64(c.buf, math.Float64bits(*v))
		}
		return
	}
	*v = 0
	if !c.find(number, protowire.Fixed64Type) {
		return
	}
	if read := math.Float64frombits(c.fixed64()); read >= least && read <= most {
		*v = read
	} else {
		c.Fail("field %d is %g, and %g to %g is allowed", number, read, least, most)
	}
}

// Hash is a field with 64 bits, for values too large for a varint to be shorter.
func (c *Codec) Hash(number protowire.Number, v *uint64) {
	if !c.reading {
		if *v != 0 {
			c.tag(number, protowire.Fixed64Type)
			c.buf = protowire.AppendFixed64(c.buf, *v)
		}
		return
	}
	*v = 0
	if c.find(number, protowire.Fixed64Type) {
		*v = c.fixed64()
	}
}

// Time is a field with a time in whole milliseconds and UTC. The zero time stays zero.
func (c *Codec) Time(number protowire.Number, v *time.Time) {
	if !c.reading && !v.IsZero() {
		c.tag(number, protowire.VarintType)
		c.buf = protowire.AppendVarint(c.buf, protowire.EncodeZigZag(v.UnixMilli()))
	}
	if !c.reading {
		return
	}
	*v = time.Time{}
	if c.find(number, protowire.VarintType) {
		if ms := protowire.DecodeZigZag(c.varint()); c.err == nil {
			*v = time.UnixMilli(ms).UTC()
		}
	}
}

// String is a field with text of at most that many bytes.
func (c *Codec) String(number protowire.Number, v *string, most int) {
	if !c.reading {
		if *v != "" {
			c.tag(number, protowire.BytesType)
			c.buf = protowire.AppendString(c.buf, *v)
		}
		return
	}
	*v = string(c.bytes(number, most))
}

// bytes reads a field of at most that many bytes, which are part of the input.
func (c *Codec) bytes(number protowire.Number, most int) []byte {
	if !c.find(number, protowire.BytesType) {
		return nil
	}
	end := c.length()
	begin := c.pos
	c.pos = end
	if end-begin > most {
		c.Fail("field %d has %d bytes, and at most %d are allowed", number, end-begin, most)
		return nil
	}
	return c.buf[begin:end]
}

// Fixed is a field with exactly len(v) bytes.
func (c *Codec) Fixed(number protowire.Number, v []byte) {
	if !c.reading {
		c.tag(number, protowire.BytesType)
		c.buf = protowire.AppendBytes(c.buf, v)
		return
	}
	if read := c.bytes(number, len(v)); copy(v, read) != len(v) {
		c.Fail("field %d has %d bytes instead of %d", number, len(read), len(v))
	}
}

// Raw is a field with a message that [Append] wrote. On reading, *v aliases the input.
func (c *Codec) Raw(number protowire.Number, v *[]byte) {
	if !c.reading {
		c.tag(number, protowire.BytesType)
		c.buf = protowire.AppendBytes(c.buf, *v)
		return
	}
	*v = c.bytes(number, math.MaxInt)
}

// Packed is a field with at most most integers from 0 to largest. It returns values, or the
// integers that it has read, in the memory of values if they fit.
func Packed[T Integer](c *Codec, number protowire.Number, values []T, most int, largest uint64) []T {
	if !c.reading {
		if len(values) > 0 {
			mark := c.begin(number)
			for _, v := range values {
				c.buf = protowire.AppendVarint(c.buf, uint64(v))
			}
			c.finish(mark)
		}
		return values
	}
	values = values[:0]
	end := c.enter(number)
	for c.err == nil && c.pos < c.end {
		v := c.varint()
		if len(values) == most || v > largest {
			c.Fail("field %d has a value of %d behind %d others", number, v, len(values))
			break
		}
		values = append(values, T(v))
	}
	c.leave(end)
	return values
}

// PackedTimes is [Packed] for integers that differ little from the ones before them, such
// as times.
func (c *Codec) PackedTimes(number protowire.Number, values []int64, most int) []int64 {
	last := int64(0)
	if !c.reading {
		if len(values) > 0 {
			mark := c.begin(number)
			for _, v := range values {
				c.buf = protowire.AppendVarint(c.buf, protowire.EncodeZigZag(v-last))
				last = v
			}
			c.finish(mark)
		}
		return values
	}
	values = values[:0]
	end := c.enter(number)
	for c.err == nil && c.pos < c.end {
		if last += protowire.DecodeZigZag(c.varint()); len(values) == most {
			c.Fail("field %d has more than %d values", number, most)
			break
		}
		values = append(values, last)
	}
	c.leave(end)
	return values
}

// begin begins to write a message and returns its mark for finish.
func (c *Codec) begin(number protowire.Number) (mark int) {
	c.tag(number, protowire.BytesType)
	c.buf = append(c.buf, 0) // its length, which is mostly under 128
	return len(c.buf)
}

// finish writes the length of a message.
func (c *Codec) finish(mark int) {
	size := len(c.buf) - mark
	if more := protowire.SizeVarint(uint64(size)) - 1; more > 0 {
		c.buf = append(c.buf, make([]byte, more)...)
		copy(c.buf[mark+more:], c.buf[mark:mark+size])
	}
	protowire.AppendVarint(c.buf[:mark-1], uint64(size))
}

// enter begins to read a message, which is empty if the field is missing. It returns the end
// of the outer message, for leave.
func (c *Codec) enter(number protowire.Number) (around int) {
	around = c.end
	if c.find(number, protowire.BytesType) {
		c.end = c.length()
	} else {
		c.end = c.pos
	}
	return around
}

// leave ends the reading of a message.
func (c *Codec) leave(around int) {
	c.skip()
	c.pos, c.end = max(c.pos, c.end), around
}

// Hashes is [Packed] for hashes.
func (c *Codec) Hashes(number protowire.Number, values []uint64, most int) []uint64 {
	if !c.reading {
		if len(values) > 0 {
			mark := c.begin(number)
			for _, v := range values {
				c.buf = protowire.AppendFixed64(c.buf, v)
			}
			c.finish(mark)
		}
		return values
	}
	values = values[:0]
	end := c.enter(number)
	for c.err == nil && c.pos < c.end {
		if len(values) == most {
			c.Fail("field %d has more than %d values", number, most)
			break
		}
		values = append(values, c.fixed64())
	}
	c.leave(end)
	return values
}

// Append writes fields that [Append] wrote before.
func (c *Codec) Append(fields []byte) { c.buf = append(c.buf, fields...) }
