package conclusion

import "encoding/json"

// ToolName is the name of the tool that ends an investigation.
const ToolName = "conclude"

// ToolDescription explains the tool to the model.
const ToolDescription = `Ends the investigation with its conclusion. Call it alone, once, when you are done. ` +
	`State the cause and how sure you are: "proven" if every step from cause to symptom is in the results, "likely" if the evidence points to it, "unproven" otherwise. ` +
	`Support each claim with a quote that you copy letter by letter from one result, and with the id of that result or fact. ` +
	`The quotes are looked up: a quote that is not there lowers the confidence. ` +
	`Suggest a change only if you know the file and the change that removes the cause; describe it in words, without code.`

// Schema is the JSON schema of the tool's arguments. It is shared and must not be changed.
var Schema = json.RawMessage(`{
  "type": "object",
  "additionalProperties": false,
  "required": ["cause", "confidence"],
  "properties": {
    "cause": {"type": "string", "minLength": 1, "maxLength": 4000, "description": "The root cause, in one to three sentences."},
    "confidence": {"type": "string", "enum": ["proven", "likely", "unproven"]},
    "evidence": {
      "type": "array", "maxItems": 20,
      "items": {
        "type": "object", "additionalProperties": false, "required": ["claim", "call_id", "quote"],
        "properties": {
          "claim": {"type": "string", "minLength": 1, "maxLength": 4000, "description": "What the quote shows."},
          "call_id": {"type": "string", "minLength": 1, "maxLength": 200, "description": "The id of the tool result or of the fact that the quote is copied from."},
          "quote": {"type": "string", "minLength": 8, "maxLength": 500, "description": "Copied from that result without any change."}
        }
      }
    },
    "ruled_out": {
      "type": "array", "maxItems": 20,
      "items": {
        "type": "object", "additionalProperties": false, "required": ["hypothesis"],
        "properties": {
          "hypothesis": {"type": "string", "minLength": 1, "maxLength": 4000},
          "call_id": {"type": "string", "maxLength": 200, "description": "The id of the result that contradicts the hypothesis."}
        }
      }
    },
    "impact": {"type": "string", "maxLength": 4000, "description": "Who or what is affected, and how much."},
    "next_steps": {"type": "array", "maxItems": 20, "items": {"type": "string", "minLength": 1, "maxLength": 4000}},
    "suggested_change": {
      "type": "object", "additionalProperties": false, "required": ["file", "description"],
      "properties": {
        "file": {"type": "string", "minLength": 1, "maxLength": 4000, "description": "Path relative to the repository, at most 200 characters."},
        "description": {"type": "string", "minLength": 1, "maxLength": 4000, "description": "At most 500 characters of prose without code blocks."}
      }
    }
  }
}`)
