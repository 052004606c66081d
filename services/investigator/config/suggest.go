package config

import (
	"fmt"
	"strings"
)

// suggest names the known word that is nearest to a wrong one, or all of them.
func suggest(word string, known []string) string {
	const near = 2
	best, at := near+1, ""
	for _, k := range known {
		if n := distance(word, k); n < best && n < len(k) {
			best, at = n, k
		}
	}
	if at != "" {
		return fmt.Sprintf("did you mean %s?", at)
	}
	if len(known) == 0 {
		return "there is none"
	}
	return "want one of " + strings.Join(known, ", ")
}

// distance returns the number of letters to add, remove or replace between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := diagonal
			if a[i] != b[j] {
				next++
			}
			diagonal = row[j+1]
			row[j+1] = min(next, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
