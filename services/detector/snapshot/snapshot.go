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
	s := Codec{buf: buf}
	fields(&s)
	return s.buf
}

// Read reads what Append wrote. Its error wraps [ErrDamaged].
func Read(data []byte, fields func(*Codec)) error {
	s := Codec{buf: data, end: len(data), reading: true}
	fields(&s)
	s.skip()
	return s.err
}

// Reading reports whether the state is being read.
func (s *Codec) Reading() bool { return s.reading }

// Fail records that a value is invalid, unless there was an error before.
func (s *Codec) Fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
	}
}

// OK reports whether there was no error.
func (s *Codec) OK() bool { return s.err == nil }

// find moves to the value of the next field if it has that number. It skips fields with
// lower numbers.
func (s *Codec) find(number protowire.Number, kind protowire.Type) bool {
	for s.err == nil && s.pos < s.end {
		got, as, size := protowire.ConsumeTag(s.buf[s.pos:s.end])
		switch {
		case size < 0:
			s.Fail("no field number where field %d is expected", number)
			return false
		case got > number:
			return false
		case got == number && as != kind:
			s.Fail("field %d has another type", number)
			return false
		}
		s.pos += size
		if got == number {
			return true
		}
		s.skipValue(got, as)
	}
	return false
}

func (s *Codec) skipValue(number protowire.Number, kind protowire.Type) {
	size := protowire.ConsumeFieldValue(number, kind, s.buf[s.pos:s.end])
	if size < 0 {
		s.Fail("field %d ends early", number)
		return
	}
	s.pos += size
}

// skip moves to the end of the message.
func (s *Codec) skip() {
	for s.err == nil && s.pos < s.end {
		number, kind, size := protowire.ConsumeTag(s.buf[s.pos:s.end])
		if size < 0 {
			s.Fail("bytes without a field")
			return
		}
		s.pos += size
		s.skipValue(number, kind)
	}
}

func (s *Codec) varint() uint64 {
	v, size := protowire.ConsumeVarint(s.buf[s.pos:s.end])
	if size < 0 {
		s.Fail("an integer ends early or is too large")
		return 0
	}
	s.pos += size
	return v
}

func (s *Codec) fixed64() uint64 {
	v, size := protowire.ConsumeFixed64(s.buf[s.pos:s.end])
	if size < 0 {
		s.Fail("a 64-bit value ends early")
		return 0
	}
	s.pos += size
	return v
}

// length reads a length and returns the end of the value that follows.
func (s *Codec) length() (end int) {
	n := s.varint()
	if s.err == nil && n > uint64(s.end-s.pos) {
		s.Fail("a length of %d with %d bytes left", n, s.end-s.pos)
	}
	if s.err != nil {
		return s.pos
	}
	return s.pos + int(n)
}

func (s *Codec) tag(number protowire.Number, kind protowire.Type) {
	s.buf = protowire.AppendTag(s.buf, number, kind)
}

// Integer is any type of integer.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Uint is a field with an integer from 0 to most.
func Uint[T Integer](s *Codec, number protowire.Number, v *T, most uint64) {
	if !s.reading {
		if *v != 0 {
			s.tag(number, protowire.VarintType)
			s.buf = protowire.AppendVarint(s.buf, uint64(*v))
		}
		return
	}
	*v = 0
	if !s.find(number, protowire.VarintType) {
		return
	}
	if read := s.varint(); read <= most {
		*v = T(read)
	} else {
		s.Fail("field %d is %d, and at most %d is allowed", number, read, most)
	}
}

// Int is a field with an integer from -most to most.
func Int[T Integer](s *Codec, number protowire.Number, v *T, most int64) {
	if !s.reading {
		if *v != 0 {
			s.tag(number, protowire.VarintType)
			s.buf = protowire.AppendVarint(s.buf, protowire.EncodeZigZag(int64(*v)))
		}
		return
	}
	*v = 0
	if !s.find(number, protowire.VarintType) {
		return
	}
	if read := protowire.DecodeZigZag(s.varint()); most == AnyInt || -most <= read && read <= most {
		*v = T(read)
	} else {
		s.Fail("field %d is %d, and at most %d in either direction is allowed", number, read, most)
	}
}

// AnyInt is the bound of an [Int] that needs none.
const AnyInt = math.MaxInt64

// Bool is a field with a truth value.
func (s *Codec) Bool(number protowire.Number, v *bool) {
	if !s.reading {
		if *v {
			s.tag(number, protowire.VarintType)
			s.buf = append(s.buf, 1)
		}
		return
	}
	*v = false
	if !s.find(number, protowire.VarintType) {
		return
	}
	read := s.varint()
	if read > 1 {
		s.Fail("field %d is no truth value", number)
	}
	*v = read == 1
}

// Float is a field with a number from least to most.
func (s *Codec) Float(number protowire.Number, v *float64, least, most float64) {
	if !s.reading {
		if *v != 0 {
			s.tag(number, protowire.Fixed64Type)
			s.buf = protowire.AppendFixed64(s.buf, math.Float64bits(*v))
		}
		return
	}
	*v = 0
	if !s.find(number, protowire.Fixed64Type) {
		return
	}
	if read := math.Float64frombits(s.fixed64()); read >= least && read <= most {
		*v = read
	} else {
		s.Fail("field %d is %g, and %g to %g is allowed", number, read, least, most)
	}
}

// Hash is a field with 64 bits, for values too large for a varint to be shorter.
func (s *Codec) Hash(number protowire.Number, v *uint64) {
	if !s.reading {
		if *v != 0 {
			s.tag(number, protowire.Fixed64Type)
			s.buf = protowire.AppendFixed64(s.buf, *v)
		}
		return
	}
	*v = 0
	if s.find(number, protowire.Fixed64Type) {
		*v = s.fixed64()
	}
}

// Time is a field with a time in whole milliseconds and UTC. The zero time stays zero.
func (s *Codec) Time(number protowire.Number, v *time.Time) {
	if !s.reading && !v.IsZero() {
		s.tag(number, protowire.VarintType)
		s.buf = protowire.AppendVarint(s.buf, protowire.EncodeZigZag(v.UnixMilli()))
	}
	if !s.reading {
		return
	}
	*v = time.Time{}
	if s.find(number, protowire.VarintType) {
		if ms := protowire.DecodeZigZag(s.varint()); s.err == nil {
			*v = time.UnixMilli(ms).UTC()
		}
	}
}

// String is a field with text of at most that many bytes.
func (s *Codec) String(number protowire.Number, v *string, most int) {
	if !s.reading {
		if *v != "" {
			s.tag(number, protowire.BytesType)
			s.buf = protowire.AppendString(s.buf, *v)
		}
		return
	}
	*v = string(s.bytes(number, most))
}

// bytes reads a field of at most that many bytes, which are part of the input.
func (s *Codec) bytes(number protowire.Number, most int) []byte {
	if !s.find(number, protowire.BytesType) {
		return nil
	}
	end := s.length()
	begin := s.pos
	s.pos = end
	if end-begin > most {
		s.Fail("field %d has %d bytes, and at most %d are allowed", number, end-begin, most)
		return nil
	}
	return s.buf[begin:end]
}

// Fixed is a field with exactly len(v) bytes.
func (s *Codec) Fixed(number protowire.Number, v []byte) {
	if !s.reading {
		s.tag(number, protowire.BytesType)
		s.buf = protowire.AppendBytes(s.buf, v)
		return
	}
	if read := s.bytes(number, len(v)); copy(v, read) != len(v) {
		s.Fail("field %d has %d bytes instead of %d", number, len(read), len(v))
	}
}

// Raw is a field with a message that [Append] wrote. On reading, *v aliases the input.
func (s *Codec) Raw(number protowire.Number, v *[]byte) {
	if !s.reading {
		s.tag(number, protowire.BytesType)
		s.buf = protowire.AppendBytes(s.buf, *v)
		return
	}
	*v = s.bytes(number, math.MaxInt)
}

// Packed is a field with at most most integers from 0 to largest. It returns values, or the
// integers that it has read, in the memory of values if they fit.
func Packed[T Integer](s *Codec, number protowire.Number, values []T, most int, largest uint64) []T {
	if !s.reading {
		if len(values) > 0 {
			mark := s.begin(number)
			for _, v := range values {
				s.buf = protowire.AppendVarint(s.buf, uint64(v))
			}
			s.finish(mark)
		}
		return values
	}
	values = values[:0]
	end := s.enter(number)
	for s.err == nil && s.pos < s.end {
		v := s.varint()
		if len(values) == most || v > largest {
			s.Fail("field %d has a value of %d behind %d others", number, v, len(values))
			break
		}
		values = append(values, T(v))
	}
	s.leave(end)
	return values
}

// PackedTimes is [Packed] for integers that differ little from the ones before them, such
// as times.
func (s *Codec) PackedTimes(number protowire.Number, values []int64, most int) []int64 {
	last := int64(0)
	if !s.reading {
		if len(values) > 0 {
			mark := s.begin(number)
			for _, v := range values {
				s.buf = protowire.AppendVarint(s.buf, protowire.EncodeZigZag(v-last))
				last = v
			}
			s.finish(mark)
		}
		return values
	}
	values = values[:0]
	end := s.enter(number)
	for s.err == nil && s.pos < s.end {
		if last += protowire.DecodeZigZag(s.varint()); len(values) == most {
			s.Fail("field %d has more than %d values", number, most)
			break
		}
		values = append(values, last)
	}
	s.leave(end)
	return values
}

// begin begins to write a message and returns its mark for finish.
func (s *Codec) begin(number protowire.Number) (mark int) {
	s.tag(number, protowire.BytesType)
	s.buf = append(s.buf, 0) // its length, which is mostly under 128
	return len(s.buf)
}

// finish writes the length of a message.
func (s *Codec) finish(mark int) {
	size := len(s.buf) - mark
	if more := protowire.SizeVarint(uint64(size)) - 1; more > 0 {
		s.buf = append(s.buf, make([]byte, more)...)
		copy(s.buf[mark+more:], s.buf[mark:mark+size])
	}
	protowire.AppendVarint(s.buf[:mark-1], uint64(size))
}

// enter begins to read a message, which is empty if the field is missing. It returns the end
// of the outer message, for leave.
func (s *Codec) enter(number protowire.Number) (around int) {
	around = s.end
	if s.find(number, protowire.BytesType) {
		s.end = s.length()
	} else {
		s.end = s.pos
	}
	return around
}

// leave ends the reading of a message.
func (s *Codec) leave(around int) {
	s.skip()
	s.pos, s.end = max(s.pos, s.end), around
}

// Hashes is [Packed] for hashes.
func (s *Codec) Hashes(number protowire.Number, values []uint64, most int) []uint64 {
	if !s.reading {
		if len(values) > 0 {
			mark := s.begin(number)
			for _, v := range values {
				s.buf = protowire.AppendFixed64(s.buf, v)
			}
			s.finish(mark)
		}
		return values
	}
	values = values[:0]
	end := s.enter(number)
	for s.err == nil && s.pos < s.end {
		if len(values) == most {
			s.Fail("field %d has more than %d values", number, most)
			break
		}
		values = append(values, s.fixed64())
	}
	s.leave(end)
	return values
}

// Append writes fields that [Append] wrote before.
func (s *Codec) Append(fields []byte) { s.buf = append(s.buf, fields...) }
