package rule

import (
	"crypto/sha256"
	"encoding/hex"
	"unicode/utf8"
)

// MaxKey bounds a dedup key, in bytes.
const MaxKey = 400

// Bounded shortens a dedup key that is too long, in place. A hash at the end distinguishes it
// from others with the same beginning. Bounded does not change a key that it has returned.
func Bounded(key []byte) []byte {
	if len(key) <= MaxKey {
		return key
	}
	sum := sha256.Sum256(key)
	const hash = 8
	end := MaxKey - 1 - 2*hash
	for end > 0 && !utf8.RuneStart(key[end]) {
		end--
	}
	return hex.AppendEncode(append(key[:end], '~'), sum[:hash])
}
