package model

import "unicode"

// The rule of [Repetition].
const (
	// MinRepeated and MaxRepeated bound the length of the repeated block, in characters.
	MinRepeated = 30
	MaxRepeated = 500
	// Repeats is the number of blocks in a row.
	Repeats = 5
	// MaxSigns is how many characters in a row may be neither a letter nor a digit: far more than
	// tables, rulers and drawings have.
	MaxSigns = 16 << 10
)

// Repetition detects that a stream of text repeats itself: its end is one block of
// [MinRepeated] to [MaxRepeated] characters, [Repeats] times in a row, and the block has a
// letter or a digit. So rulers and the lines of tables that are drawn with signs don't count,
// and rows that differ in one character don't either. A shorter block counts once its
// repetitions make up a longer one. [MaxSigns] signs in a row count too, repeated or not.
//
// Its time is linear in the text, and its memory constant. The zero value is ready for use.
type Repetition struct {
	n int // characters so far
	// text has the last characters, at their number modulo its length.
	text [Repeats * MaxRepeated]rune
	// hash is that of the last MinRepeated characters; hashes has those before it.
	hash   uint64
	hashes [ring]uint64
	// last is the number of the newest character at which a hash stood, and before the one
	// before it with the same hash, or -1.
	last   map[uint64]int
	before [ring]int
	// matched and since are, for each length of a block, the last character that is equal to the
	// one a block earlier, and the first character of that run.
	matched, since [MaxRepeated + 1]int
	// word is the number of the last letter or digit.
	word  int
	found bool
}

const (
	// ring is over MaxRepeated and a power of 2.
	ring = 512
	// base of the rolling hash.
	base = 0x9E3779B97F4A7C15
)

// leading is base to the power of MinRepeated.
var leading = func() uint64 {
	p := uint64(1)
	for range MinRepeated {
		p *= base
	}
	return p
}()

// Add takes the next part of the text and reports whether the text repeats itself. Once it
// does, it stays so.
func (r *Repetition) Add(delta string) bool {
	if r.last == nil {
		r.last = make(map[uint64]int, ring)
		r.word = -1
	}
	for _, c := range delta {
		if r.found {
			break
		}
		r.found = r.add(c)
	}
	return r.found
}

func (r *Repetition) add(c rune) bool {
	i := r.n
	r.n++
	r.text[i%len(r.text)] = c
	if unicode.IsLetter(c) || unicode.IsDigit(c) {
		r.word = i
	}
	if i-r.word >= MaxSigns {
		return true
	}
	r.hash = r.hash*base + uint64(c) + 1
	if i >= MinRepeated {
		r.hash -= (uint64(r.at(i-MinRepeated)) + 1) * leading
	}
	if i < MinRepeated-1 {
		return false
	}
	// The hash that leaves the window leaves the map, unless it stands again in the window.
	if old := i - ring; old >= MinRepeated-1 && r.last[r.hashes[old%ring]] == old {
		delete(r.last, r.hashes[old%ring])
	}
	r.hashes[i%ring] = r.hash
	j, ok := r.last[r.hash]
	if !ok {
		j = -1
	}
	r.before[i%ring] = j
	r.last[r.hash] = i
	if i-r.word >= MaxRepeated { // a ruler: the block of a repetition has a letter or a digit
		return false
	}
	for ; j >= 0 && i-j <= MaxRepeated; j = r.before[j%ring] {
		length := i - j
		if length < MinRepeated {
			continue
		}
		if r.matched[length] != i-1 {
			r.since[length] = i - MinRepeated + 1
		}
		r.matched[length] = i
		if i-r.since[length]+1 >= (Repeats-1)*length && r.word > i-length && r.repeats(length) {
			return true
		}
	}
	return false
}

// at returns the character with a number.
func (r *Repetition) at(i int) rune { return r.text[i%len(r.text)] }

// repeats compares the characters themselves, because hashes may be equal by chance.
func (r *Repetition) repeats(length int) bool {
	for i := r.n - (Repeats-1)*length; i < r.n; i++ {
		if r.at(i) != r.at(i-length) {
			return false
		}
	}
	return true
}
