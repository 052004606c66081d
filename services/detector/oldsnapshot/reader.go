package oldsnapshot

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// reader reads a flat run of numbers and strings, which has neither names nor types. It
// is made for input that may be damaged: it never panics, believes no length that the
// input cannot hold, and gives zero values after the first error.
type reader struct {
	rest    []byte
	err     error
	version uint32
}

// has reports whether the snapshot is of a version or a later one.
func (r *reader) has(version uint32) bool { return r.version >= version }

// close returns the first thing that was wrong, which may be that something is
// left over.
func (r *reader) close() error {
	if r.err == nil && len(r.rest) > 0 {
		r.fail("%d bytes too many", len(r.rest))
	}
	return r.err
}

// fail records that a value makes no sense, unless something was wrong before.
func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", snapshot.ErrDamaged, fmt.Sprintf(format, args...))
	}
	r.rest = nil
}

// uint reads an unsigned number.
func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if !r.advance(n, "number") {
		return 0
	}
	return v
}

// int reads a signed number.
func (r *reader) int() int64 {
	v, n := binary.Varint(r.rest)
	if !r.advance(n, "number") {
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

// upTo reads a count that says nothing of what follows. It refuses more than
// most.
func (r *reader) upTo(most int) int {
	n := r.uint()
	if n > uint64(max(most, 0)) {
		r.fail("%d where %d are allowed", n, most)
		return 0
	}
	return int(n)
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

// bool reads a truth value.
func (r *reader) bool() bool {
	if len(r.rest) == 0 || r.rest[0] > 1 {
		r.fail("no truth value")
		return false
	}
	v := r.rest[0] == 1
	r.rest = r.rest[1:]
	return v
}

// text reads text of at most most bytes.
func (r *reader) text(most int) string { return string(r.raw(most)) }

// raw reads at most most bytes. They are part of the input, not a copy.
func (r *reader) raw(most int) []byte {
	n := r.count(most)
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) advance(n int, what string) bool {
	if n <= 0 {
		r.fail("ends within a %s or it is too large", what)
		return false
	}
	r.rest = r.rest[n:]
	return true
}
