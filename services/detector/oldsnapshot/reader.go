package oldsnapshot

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// reader reads a sequence of numbers and strings, which has neither names nor types. On
// damaged input it does not panic, refuses lengths that exceed the input, and returns zero
// values after the first error.
type reader struct {
	rest    []byte
	err     error
	version uint32
}

// has reports whether the snapshot is of a version or a later one.
func (r *reader) has(version uint32) bool { return r.version >= version }

// close returns the first error. Bytes that were not read are an error, too.
func (r *reader) close() error {
	if r.err == nil && len(r.rest) > 0 {
		r.fail("%d bytes too many", len(r.rest))
	}
	return r.err
}

// fail records an error, unless there was one before.
func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", snapshot.ErrDamaged, fmt.Sprintf(format, args...))
	}
	r.rest = nil
}

// uint reads an unsigned number.
func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if !r.advance(n) {
		return 0
	}
	return v
}

// int reads a signed number.
func (r *reader) int() int64 {
	v, n := binary.Varint(r.rest)
	if !r.advance(n) {
		return 0
	}
	return v
}

// count reads how many values follow. It refuses more than most, and more than
// the rest of the input could hold at one byte each.
func (r *reader) count(most int) int {
	n := r.uint()
	if n > uint64(max(most, 0)) || n > uint64(len(r.rest)) {
		r.fail("%d values where %d are allowed and %d bytes are left", n, most, len(r.rest))
		return 0
	}
	return int(n)
}

// upTo reads a number that is no count of values that follow. It refuses more than most.
func (r *reader) upTo(most int) int {
	n := r.uint()
	if n > uint64(max(most, 0)) {
		r.fail("%d where %d are allowed", n, most)
		return 0
	}
	return int(n)
}

// positive reads a signed number that must not be negative.
func (r *reader) positive() uint64 {
	v := r.int()
	if v < 0 {
		r.fail("a value of %d", v)
		return 0
	}
	return uint64(v)
}

// float reads a floating point number.
func (r *reader) float() float64 {
	if len(r.rest) < 8 {
		r.fail("ends within a floating point number")
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(r.rest))
	r.rest = r.rest[8:]
	return v
}

// bool reads a boolean.
func (r *reader) bool() bool {
	if len(r.rest) == 0 || r.rest[0] > 1 {
		r.fail("not a boolean")
		return false
	}
	v := r.rest[0] == 1
	r.rest = r.rest[1:]
	return v
}

// text reads text of at most maxText bytes.
func (r *reader) text() string { return string(r.raw(maxText)) }

// raw reads at most most bytes. They alias the input.
func (r *reader) raw(most int) []byte {
	n := r.count(most)
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

// advance skips the n bytes of a number. n is not positive if the number is damaged.
func (r *reader) advance(n int) bool {
	if n <= 0 {
		r.fail("ends within a number, or the number is too large")
		return false
	}
	r.rest = r.rest[n:]
	return true
}
