package alert

import (
	"fmt"
	"slices"
	"strings"
)

// MaxStormExamples is how many alerts the summary of a storm names.
const MaxStormExamples = 5

// The Context keys of a summary: how many different alerts of each category it stands
// for, and the titles of the first.
const (
	categoriesKey = "categories"
	examplesKey   = "examples"
)

// maxOfStorm bounds the counts that are read from a summary.
const maxOfStorm = 1 << 40

// Storm is the alerts that were held back and leave as one, the summary.
type Storm struct {
	// Categories is how many different alerts there were of each.
	Categories map[Category]int
	// Examples are the titles of the first ones, at most MaxStormExamples.
	Examples []string
}

// Fill returns a with the title, detail, category, source and context of the summary.
func (s Storm) Fill(a Alert) Alert {
	categories, examples := map[string]any{}, make([]any, len(s.Examples))
	var parts []string
	total, most := 0, 0
	for _, c := range Categories() {
		n := s.Categories[c]
		if n == 0 {
			continue
		}
		categories[string(c)] = n
		parts = append(parts, fmt.Sprintf("%d %s", n, c))
		if total += n; n > most {
			a.Category, most = c, n
		}
	}
	for i, title := range s.Examples {
		examples[i] = title
	}
	a.Source = SourceStorm
	a.Title = fmt.Sprintf("%d more different alerts", total)
	a.Detail = "Held back in a storm: " + strings.Join(parts, ", ") + ". For example: " + strings.Join(s.Examples, "; ")
	a.Context = map[string]any{categoriesKey: categories, examplesKey: examples}
	return a
}

// stormOf reads what Fill wrote, also after it was JSON.
func stormOf(a Alert) (s Storm, ok bool) {
	categories, _ := a.Context[categoriesKey].(map[string]any)
	if a.Source != SourceStorm || len(categories) == 0 {
		return Storm{}, false
	}
	s.Categories = map[Category]int{}
	for _, c := range Categories() {
		switch n := categories[string(c)].(type) {
		case int:
			s.Categories[c] = n
		case float64:
			if n > 0 && n <= maxOfStorm {
				s.Categories[c] = int(n)
			}
		}
	}
	examples, _ := a.Context[examplesKey].([]any)
	for _, e := range examples {
		if title, isText := e.(string); isText {
			s.Examples = append(s.Examples, title)
		}
	}
	return s, true
}

// mergeStorms makes one summary of two, where both are one: each counts what came since
// the last, so merged is to count what both do.
func mergeStorms(earlier, later, merged Alert) Alert {
	first, isFirst := stormOf(earlier)
	second, isSecond := stormOf(later)
	if !isFirst || !isSecond {
		return merged
	}
	for c, n := range second.Categories {
		first.Categories[c] += n
	}
	for _, title := range second.Examples {
		if len(first.Examples) < MaxStormExamples && !slices.Contains(first.Examples, title) {
			first.Examples = append(first.Examples, title)
		}
	}
	return first.Fill(merged)
}
