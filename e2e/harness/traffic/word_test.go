package traffic

import "testing"

func TestWord(t *testing.T) {
	seen := map[string]int{}
	for _, n := range []int{0, 1, 2, 3, 35, 36, 37, 1295, 1296, 46_655, 46_656, 1_679_615} {
		word := Word(n)
		if before, known := seen[word]; known {
			t.Errorf("Word(%d) = Word(%d) = %s, want unique words", before, n, word)
		}
		seen[word] = n
		if len(word) != wordLen || !IsWord(word) {
			t.Errorf("Word(%d) = %q, want %d letters for which IsWord is true", n, word, wordLen)
		}
	}
	for _, text := range []string{"", "gigigi", "gigigigigi", "gigigiga", "Gigigigi", "cannot s", "gigigig1"} {
		if IsWord(text) {
			t.Errorf("IsWord(%q) = true, want false", text)
		}
	}
}
