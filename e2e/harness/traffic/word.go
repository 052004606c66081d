package traffic

// wordLen is how many letters every word has.
const wordLen = 8

// Word returns a unique word for each number from 0 to 1,679,615. All have the same length,
// so none is part of another. None has digits or hexadecimal letters, which the fingerprints
// of errors ignore.
func Word(n int) string {
	const consonants, vowels = "ghjklmnprstv", "iou"
	word := make([]byte, wordLen)
	for i := wordLen - 2; i >= 0; i -= 2 {
		word[i], word[i+1] = consonants[n/len(vowels)%len(consonants)], vowels[n%len(vowels)]
		n /= len(consonants) * len(vowels)
	}
	return string(word)
}

// IsWord reports whether a text is a value of [Word].
func IsWord(text string) bool {
	if len(text) != wordLen {
		return false
	}
	n := 0
	for i := 0; i < wordLen; i += 2 {
		at := -1
		for s := range 36 {
			if syllable := Word(s)[wordLen-2:]; text[i:i+2] == syllable {
				at = s
			}
		}
		if at < 0 {
			return false
		}
		n = n*36 + at
	}
	return Word(n) == text
}
