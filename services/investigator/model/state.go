package model

import (
	"encoding/json"
	"strconv"
)

// Part is one part of an assistant's message in the order in which the model wrote it. State of
// the providers' adapters is a list of parts. Texts and calls stand in the message itself, so
// that State has only what the provider alone understands.
type Part struct {
	// Raw is sent back exactly: thinking with its signature, encrypted reasoning.
	Raw json.RawMessage `json:"raw,omitempty"`
	// Text stands for the text of the message.
	Text bool `json:"text,omitempty"`
	// Call stands for the call with this index.
	Call *int `json:"call,omitempty"`
	// Extra is what the provider wants back with a text or a call.
	Extra json.RawMessage `json:"extra,omitempty"`
}

// Parts returns the parts of an assistant's message for an entry of llm_providers. State of
// another entry, and such that can't be read, is ignored: then the text comes first. Every call
// is in the list once, and so is a text that is not empty.
func Parts(m Message, provider string) []Part {
	var stored []Part
	if m.Provider == provider && len(m.State) > 0 && json.Unmarshal(m.State, &stored) != nil {
		stored = nil
	}
	parts := make([]Part, 0, len(stored)+1+len(m.Calls))
	text, seen := m.Text == "", make([]bool, len(m.Calls))
	for _, p := range stored {
		switch {
		case p.Call != nil:
			if i := *p.Call; i >= 0 && i < len(seen) && !seen[i] {
				if !text { // a model writes before it calls
					text = true
					parts = append(parts, Part{Text: true})
				}
				seen[i] = true
				parts = append(parts, p)
			}
		case p.Text:
			if !text {
				text = true
				parts = append(parts, p)
			}
		case len(p.Raw) > 0:
			parts = append(parts, p)
		}
	}
	if !text {
		parts = append(parts, Part{Text: true})
	}
	for i := range m.Calls {
		if !seen[i] {
			parts = append(parts, Part{Call: &i})
		}
	}
	return parts
}

// HasRaw reports whether one of the parts is for the provider alone.
func HasRaw(parts []Part) bool {
	for _, p := range parts {
		if len(p.Raw) > 0 {
			return true
		}
	}
	return false
}

// State returns parts as the State of a message, or nil where they say nothing.
func State(parts []Part) json.RawMessage {
	hasState := false
	for _, p := range parts {
		hasState = hasState || len(p.Raw) > 0 || len(p.Extra) > 0
	}
	if !hasState {
		return nil
	}
	data, err := json.Marshal(parts)
	if err != nil {
		return nil // a raw part is no JSON
	}
	return data
}

// Arguments returns the arguments of a call as a JSON object. Other text becomes the value of
// "input", for a provider that accepts nothing but objects.
func Arguments(text string) json.RawMessage {
	var object map[string]json.RawMessage
	if text == "" || text == "null" {
		return json.RawMessage("{}")
	}
	if json.Unmarshal([]byte(text), &object) == nil {
		return json.RawMessage(text)
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		quoted = []byte(strconv.Quote("")) // strings always encode
	}
	return json.RawMessage(`{"input":` + string(quoted) + `}`)
}
