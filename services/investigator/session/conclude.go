package session

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

func concludeTool() model.Tool {
	return model.Tool{Name: conclusion.ToolName, Description: conclusion.ToolDescription, Schema: conclusion.Schema}
}

// proseConclusion is the conclusion of an agent that answered in prose.
func proseConclusion() json.RawMessage { return encodeConclusion(conclusion.Prose()) }

func encodeConclusion(c conclusion.Conclusion) json.RawMessage {
	b, err := json.Marshal(c)
	if err != nil { // it has texts, lists and booleans
		panic(fmt.Sprintf("encoding a conclusion: %v", err))
	}
	return b
}

// Check returns the fact that ends the effect. It reads those of the cited texts that are objects
// with load, which tries again where that can help. Where load fails for good, quotes are looked up
// in the head and in the tail of the text, which the fact has. Such a quote may be missed, but
// none is found that is not there. [Concluded.Unread] names these texts, and the conclusion's
// Markdown and the timeline show it.
func (c *CheckConclusion) Check(load Load, at time.Time) Fact {
	f := &Concluded{Execution: c.Execution, CallID: c.CallID}
	parsed, err := conclusion.Parse(c.Arguments)
	if err != nil {
		f.Error = fmt.Sprintf("Not accepted: %v. Call %s again, alone, with arguments that follow its schema.", err, conclusion.ToolName)
		return Fact{Time: at, Concluded: f}
	}
	checked := conclusion.Check(parsed, func(callID string) []string {
		var texts []string
		for _, t := range c.Sources[callID] {
			whole, err := load.whole(t)
			if err == nil {
				texts = append(texts, whole)
				continue
			}
			head, tail, isWhole := t.ends()
			if isWhole {
				texts = append(texts, head)
				continue
			}
			texts = append(texts, head, tail)
			if !slices.Contains(f.Unread, callID) {
				f.Unread = append(f.Unread, callID)
			}
		}
		return texts
	})
	f.Conclusion, f.Markdown = encodeConclusion(checked), conclusion.Markdown(checked)
	if len(f.Unread) > 0 {
		f.Markdown += "\n_" + unreadNote(f.Unread) + "_\n"
	}
	return Fact{Time: at, Concluded: f}
}

// unreadNote explains that stored texts of evidence could not be read.
func unreadNote(ids []string) string {
	return "The stored result of " + strings.Join(ids, ", ") + " could not be read. Quotes from it were looked up in its head and tail alone."
}
