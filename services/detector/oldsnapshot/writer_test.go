package oldsnapshot

import (
	"encoding/binary"
	"math"
)

// writer writes the sequence of values of versions 4 to 8.
type writer struct{ buf []byte }

func (w *writer) uint(v uint64) { w.buf = binary.AppendUvarint(w.buf, v) }
func (w *writer) int(v int64)   { w.buf = binary.AppendVarint(w.buf, v) }
func (w *writer) len(n int)     { w.uint(uint64(n)) }

func (w *writer) float(v float64) {
	w.buf = binary.LittleEndian.AppendUint64(w.buf, math.Float64bits(v))
}

func (w *writer) bool(v bool) {
	if v {
		w.buf = append(w.buf, 1)
	} else {
		w.buf = append(w.buf, 0)
	}
}

func (w *writer) string(s string) {
	w.len(len(s))
	w.buf = append(w.buf, s...)
}
