package session

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

// concludeSchema is the schema of the arguments of conclude.
const concludeSchema = `{"type":"object","required":["cause","confidence"],"additionalProperties":false,"properties":{` +
	`"cause":{"type":"string","description":"What broke and why, in one or two sentences"},` +
	`"confidence":{"type":"string","enum":["proven","likely","unproven"]},` +
	`"evidence":{"type":"array","items":{"type":"object","required":["claim","call_id","quote"],"additionalProperties":false,"properties":{"claim":{"type":"string"},"call_id":{"type":"string","description":"Id of the tool call or of the known fact"},"quote":{"type":"string","description":"Copied word for word from there, 8 to 500 characters"}}}},` +
	`"ruled_out":{"type":"array","items":{"type":"object","required":["hypothesis","call_id"],"additionalProperties":false,"properties":{"hypothesis":{"type":"string"},"call_id":{"type":"string"}}}},` +
	`"impact":{"type":"string","description":"Who or what is affected, and since when"},` +
	`"next_steps":{"type":"array","items":{"type":"string"}},` +
	`"suggested_change":{"type":"object","required":["file","description"],"additionalProperties":false,"properties":{"file":{"type":"string","description":"Relative path"},"description":{"type":"string"}}}}}`

func concludeTool() model.Tool {
	return model.Tool{
		Name:        ToolConclude,
		Description: "Ends the investigation with its conclusion. Call it alone, as your final answer. Each quote is looked up in the stored result.",
		Schema:      json.RawMessage(concludeSchema),
	}
}

// proseConclusion is the conclusion of an analysis in prose.
func proseConclusion(string) json.RawMessage {
	return json.RawMessage(`{"confidence":"unproven","structured":false}`)
}

// Checker checks the arguments of conclude against the texts that its evidence may cite. It
// returns the conclusion as people see it, and as Markdown. An error is one that the model can
// correct. Package conclusion has one.
type Checker func(arguments json.RawMessage, sources map[string][]string) (conclusion json.RawMessage, markdown string, err error)

// Check returns the fact that ends the effect. It reads the sources that are objects with load.
func (c *CheckConclusion) Check(check Checker, load Load, at time.Time) Fact {
	sources := make(map[string][]string, len(c.Sources))
	for id, texts := range c.Sources {
		for _, t := range texts {
			sources[id] = append(sources[id], load.text(t))
		}
	}
	f := &Concluded{Execution: c.Execution, CallID: c.CallID}
	var err error
	if f.Conclusion, f.Markdown, err = check(c.Arguments, sources); err != nil {
		f.Conclusion, f.Markdown = nil, ""
		f.Error = fmt.Sprintf("Not accepted: %v. Call conclude again, alone, with arguments that follow its schema.", err)
	}
	return Fact{Time: at, Concluded: f}
}
