package spike

// cells is a queue in one block of memory, which doubles when it is full and halves when
// three quarters of it are free.
type cells struct {
	ring  []cell // its length is zero or a power of two
	first int
	n     int
}

// minRing is the length of the smallest ring, and maxRing that of the largest: the power of
// two that holds maxCells.
const (
	minRing = 16
	maxRing = 1 << 17
)

func (q *cells) len() int { return q.n }

// cap returns how many cells the ring has room for. It depends on how many there were, so
// it is part of a snapshot: which app is forgotten for lack of memory must not change with
// a restart.
func (q *cells) cap() int { return len(q.ring) }

// validRing reports whether n cells can be in a ring of a length.
func validRing(length, n int) bool {
	if length == 0 {
		return n == 0
	}
	return length >= minRing && length&(length-1) == 0 && n <= length && (length == minRing || n > length/4)
}

// at returns the i-th cell, from the oldest.
func (q *cells) at(i int) *cell { return &q.ring[(q.first+i)&(len(q.ring)-1)] }

// push adds the newest cell.
func (q *cells) push(c cell) {
	if q.n == len(q.ring) {
		q.resize(max(2*len(q.ring), minRing))
	}
	q.n++
	*q.at(q.n - 1) = c
}

// pop removes the oldest cell.
func (q *cells) pop() {
	q.first = (q.first + 1) & (len(q.ring) - 1)
	q.n--
	if len(q.ring) > minRing && q.n <= len(q.ring)/4 {
		q.resize(len(q.ring) / 2)
	}
}

func (q *cells) resize(length int) {
	ring := make([]cell, length)
	for i := range q.n {
		ring[i] = *q.at(i)
	}
	q.ring, q.first = ring, 0
}
