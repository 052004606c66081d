package conclusion

import (
	"fmt"
	"strings"
)

// Markdown returns a structured conclusion as text for people: the final analysis of its session.
// For prose it returns an empty text, because the prose is the analysis.
func Markdown(c Conclusion) string {
	if !c.Structured {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## Cause\n\n%s\n\nConfidence: %s\n", strings.TrimSpace(c.Cause), c.Confidence)
	if len(c.Evidence) > 0 {
		b.WriteString("\n## Evidence\n\n")
		for _, e := range c.Evidence {
			source := "quoted from " + oneLine(e.CallID)
			if !e.Supported {
				source = "**not found** in " + oneLine(e.CallID)
			}
			fmt.Fprintf(&b, "- %s (%s)\n  > %s\n", oneLine(e.Claim), source, oneLine(e.Quote))
		}
	}
	if len(c.RuledOut) > 0 {
		b.WriteString("\n## Ruled out\n\n")
		for _, r := range c.RuledOut {
			fmt.Fprintf(&b, "- %s", oneLine(r.Hypothesis))
			if r.CallID != "" {
				fmt.Fprintf(&b, " (%s)", oneLine(r.CallID))
			}
			b.WriteByte('\n')
		}
	}
	if strings.TrimSpace(c.Impact) != "" {
		fmt.Fprintf(&b, "\n## Impact\n\n%s\n", strings.TrimSpace(c.Impact))
	}
	if len(c.NextSteps) > 0 {
		b.WriteString("\n## Next steps\n\n")
		for i, step := range c.NextSteps {
			fmt.Fprintf(&b, "%d. %s\n", i+1, oneLine(step))
		}
	}
	if s := c.SuggestedChange; s != nil {
		fmt.Fprintf(&b, "\n## Suggested change\n\n%s: %s\n", oneLine(s.File), strings.TrimSpace(s.Description))
	}
	return b.String()
}
