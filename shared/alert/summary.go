package alert

import (
	"fmt"
	"slices"
	"strings"
)

// summaryThreshold is the number of alerts above which a block has a summary line.
const summaryThreshold = 3

// Summary counts alerts by category in one line, such as
// "4 alerts: 1 regression, 1 anomaly, 2 ci". Each alert counts as one, also with a higher Count.
// Categories are in the order of [Categories], unknown ones after them by name.
func Summary(alerts []Alert) string {
	counts := make(map[Category]int)
	for _, a := range alerts {
		counts[a.Category]++
	}
	order := Categories()
	var unknown []Category
	for c := range counts {
		if !slices.Contains(order, c) {
			unknown = append(unknown, c)
		}
	}
	slices.Sort(unknown)

	var parts []string
	for _, c := range slices.Concat(order, unknown) {
		if n := counts[c]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, c))
		}
	}
	switch len(alerts) {
	case 0:
		return "0 alerts"
	case 1:
		return "1 alert: " + parts[0]
	default:
		return fmt.Sprintf("%d alerts: %s", len(alerts), strings.Join(parts, ", "))
	}
}

// Block returns the text with which a tool's answer carries alerts: a heading, a summary line
// where there are more than three, and the alerts as a JSON array in the order given. It is
// empty without alerts. It fails only where a context can't be encoded as JSON.
func Block(alerts []Alert) (string, error) {
	list, err := encode(alerts)
	if err != nil {
		return "", err
	}
	return BlockOf(alerts, list), nil
}

// BlockOf is [Block] with alerts that are encoded already, and notes in the summary line,
// which is then always there.
func BlockOf(alerts []Alert, list []byte, notes ...string) string {
	if len(alerts) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "--- ALERTS (%d) ---\n", len(alerts))
	if len(alerts) > summaryThreshold || len(notes) > 0 {
		b.WriteString(strings.Join(append([]string{Summary(alerts)}, notes...), "; ") + "\n")
	}
	b.Write(list)
	return b.String()
}
