package alert

import (
	"fmt"
	"slices"
	"strings"
)

// MaxStormExamples is how many titles the summary of a storm has.
const MaxStormExamples = 5

// The Context keys of a summary: the number of different alerts by category, and the titles
// of the first ones.
const (
	categoriesKey = "categories"
	examplesKey   = "examples"
)

// maxStormCount bounds the counts in a summary.
const maxStormCount = 1 << 40

// Storm counts the alerts that were suppressed in a storm. They are published as one alert,
// the summary.
type Storm struct {
	// Categories counts the different alerts by category.
	Categories map[Category]int
	// Examples are the titles of the first, at most MaxStormExamples.
	Examples []string
}

// Fill returns an alert with the title, detail, category, source and context of the summary.
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
	a.Detail = "Combined during a storm of alerts: " + strings.Join(parts, ", ") + ". For example: " + strings.Join(s.Examples, "; ")
	a.Context = map[string]any{categoriesKey: categories, examplesKey: examples}
	return a
}

// stormOf returns the storm of a summary, also of one that was decoded from JSON.
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
			if n > 0 && n <= maxStormCount {
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

// mergeStorms fills merged with the counts of both, where both are summaries: each counts the
// alerts since the last one.
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
