// Package snapshot is the form in which the rules write down what they
// remember: a flat run of numbers and strings, without names or types.
//
// It is exact (what is read is bit for bit what was written, also text that is
// not valid UTF-8), small and fast, and says nothing of its version: package fold
// puts that in front and decides which ones are read. A rule asks Has before it
// reads what an older version lacks. It knows nothing of what the values mean.
//
// The reader is made for input that may be damaged. It never panics, believes
// no length that the input can't hold, and once it met something wrong it
// gives zero values until the end, so that a decoder checks Err once.
package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// The versions that brought something.
const (
	// Resolutions is the version from which on a snapshot holds which alerts are
	// open, that is, how their ends are found.
	Resolutions = 6
	// Trust is the one from which on it holds what the rules know that an app can be
	// judged by in place of the contract's (package rules).
	Trust = 7
	// Lifecycle is the version that adds the age of apps, frozen baselines, the quiet
	// period that ends a spike, and the storm bound of each app.
	Lifecycle = 8
)

// ErrDamaged is wrapped by every error of a Reader.
var ErrDamaged = errors.New("damaged snapshot")

// Writer appends values to a buffer. The zero value is ready to use.
type Writer struct{ buf []byte }

// NewWriter appends to what buf holds, in its memory as far as that goes.
func NewWriter(buf []byte) *Writer { return &Writer{buf: buf} }

// Bytes is what was written so far.
func (w *Writer) Bytes() []byte { return w.buf }

// Reset forgets what was written and keeps the buffer's memory.
func (w *Writer) Reset() { w.buf = w.buf[:0] }

// Uint writes an unsigned number.
func (w *Writer) Uint(v uint64) { w.buf = binary.AppendUvarint(w.buf, v) }

// Int writes a signed number.
func (w *Writer) Int(v int64) { w.buf = binary.AppendVarint(w.buf, v) }

// Len writes how many values follow.
func (w *Writer) Len(n int) { w.Uint(uint64(n)) }

// Float writes a floating point number.
func (w *Writer) Float(v float64) {
	w.buf = binary.LittleEndian.AppendUint64(w.buf, math.Float64bits(v))
}

// Bool writes a truth value.
func (w *Writer) Bool(v bool) {
	if v {
		w.buf = append(w.buf, 1)
	} else {
		w.buf = append(w.buf, 0)
	}
}

// String writes text.
func (w *Writer) String(s string) {
	w.Len(len(s))
	w.buf = append(w.buf, s...)
}

// Raw writes bytes with their length, such as a part that was encoded apart.
func (w *Writer) Raw(b []byte) {
	w.Len(len(b))
	w.buf = append(w.buf, b...)
}

// Reader reads what a Writer wrote, in the same order.
type Reader struct {
	rest []byte
	err  error
	// version is that of the snapshot, or 0 for the newest.
	version uint32
}

// NewReader reads from data, which it doesn't change or keep, and which is of the
// newest version.
func NewReader(data []byte) *Reader { return &Reader{rest: data} }

// NewReaderOf reads data of a version from 1 on, as NewReader does.
func NewReaderOf(version uint32, data []byte) *Reader { return &Reader{rest: data, version: version} }

// Has says whether what came with a version is in the data.
func (r *Reader) Has(version uint32) bool { return r.version == 0 || r.version >= version }

// Err is the first thing that was wrong, or nil. It wraps ErrDamaged.
func (r *Reader) Err() error { return r.err }

// Close returns the first thing that was wrong, which may be that something is
// left over.
func (r *Reader) Close() error {
	if r.err == nil && len(r.rest) > 0 {
		r.Fail("%d bytes too many", len(r.rest))
	}
	return r.err
}

// Fail records that a value makes no sense, unless something was wrong before.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
	}
	r.rest = nil
}

// Uint reads an unsigned number.
func (r *Reader) Uint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if !r.advance(n, "number") {
		return 0
	}
	return v
}

// Int reads a signed number.
func (r *Reader) Int() int64 {
	v, n := binary.Varint(r.rest)
	if !r.advance(n, "number") {
		return 0
	}
	return v
}

// Len reads how many values follow. It refuses more than most, and more than
// the rest of the input could hold at one byte each.
func (r *Reader) Len(most int) int {
	n := r.Uint()
	if n > uint64(max(most, 0)) || n > uint64(len(r.rest)) {
		r.Fail("%d values where %d are allowed and %d bytes are left", n, most, len(r.rest))
		return 0
	}
	return int(n)
}

// UpTo reads a count that says nothing of what follows. It refuses more than
// most.
func (r *Reader) UpTo(most int) int {
	n := r.Uint()
	if n > uint64(max(most, 0)) {
		r.Fail("%d where %d are allowed", n, most)
		return 0
	}
	return int(n)
}

// Float reads a floating point number.
func (r *Reader) Float() float64 {
	if len(r.rest) < 8 {
		r.Fail("ends within a floating point number")
		return 0
	}
	v := math.Float64frombits(binary.LittleEndian.Uint64(r.rest))
	r.rest = r.rest[8:]
	return v
}

// Bool reads a truth value.
func (r *Reader) Bool() bool {
	if len(r.rest) == 0 || r.rest[0] > 1 {
		r.Fail("no truth value")
		return false
	}
	v := r.rest[0] == 1
	r.rest = r.rest[1:]
	return v
}

// String reads text of at most most bytes.
func (r *Reader) String(most int) string { return string(r.Raw(most)) }

// Raw reads at most most bytes. They are part of the input, not a copy.
func (r *Reader) Raw(most int) []byte {
	n := r.Len(most)
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *Reader) advance(n int, what string) bool {
	if n <= 0 {
		r.Fail("ends within a %s or it is too large", what)
		return false
	}
	r.rest = r.rest[n:]
	return true
}
