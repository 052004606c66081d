package hook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// The agents that have hooks.
const (
	claudeCode = "claude-code"
	codex      = "codex"
	geminiCLI  = "gemini-cli"
	cursor     = "cursor"
)

// answerFormat returns the JSON object that answers an event, which has the agent's
// own name.
type answerFormat func(event, text string) any

// event is a moment and the format of its answer; nil if the agent reads none.
type event struct {
	moment Moment
	format answerFormat
}

// hookFormat describes the hooks of one agent.
type hookFormat struct {
	events map[string]event
	// dirVariable is the environment variable with the project's directory, or empty.
	// Unlike the input's cwd it does not follow the agent's cd.
	dirVariable string
}

// formats lists what the agents document.
var formats = map[string]hookFormat{
	claudeCode: {
		dirVariable: "CLAUDE_PROJECT_DIR",
		events: map[string]event{
			"PostToolUse":        {AfterTool, hookContext},
			"PostToolUseFailure": {AfterTool, hookContext},
			"UserPromptSubmit":   {Prompt, hookContext},
			"Stop":               {Stop, decision("block")},
			"SessionStart":       {SessionStart, hookContext},
			"SessionEnd":         {SessionEnd, nil},
		},
	},
	codex: {
		events: map[string]event{
			"PostToolUse":      {AfterTool, hookContext},
			"UserPromptSubmit": {Prompt, hookContext},
			"Stop":             {Stop, decision("block")},
			"SessionStart":     {SessionStart, hookContext},
		},
	},
	geminiCLI: {
		dirVariable: "GEMINI_PROJECT_DIR",
		events: map[string]event{
			"AfterTool":    {AfterTool, hookContext},
			"BeforeAgent":  {Prompt, hookContext},
			"AfterAgent":   {Stop, decision("deny")},
			"SessionStart": {SessionStart, hookContext},
			"SessionEnd":   {SessionEnd, nil},
		},
	},
	cursor: {
		dirVariable: "CURSOR_PROJECT_DIR",
		events: map[string]event{
			"postToolUse": {AfterTool, additionalContext},
			// Its documented answer has no field for context: alerts sent there
			// would be lost.
			"beforeSubmitPrompt": {Prompt, nil},
			"stop":               {Stop, followup},
			"sessionStart":       {SessionStart, additionalContext},
			"sessionEnd":         {SessionEnd, nil},
		},
	},
}

// hookContext is the answer of Claude Code, Codex and Gemini CLI that adds to the
// model's context.
func hookContext(event, text string) any {
	type specific struct {
		Event   string `json:"hookEventName"`
		Context string `json:"additionalContext"`
	}
	return struct {
		Specific specific `json:"hookSpecificOutput"`
	}{specific{event, text}}
}

// decision is the answer of Claude Code, Codex and Gemini CLI that makes the agent
// continue, with the reason.
func decision(word string) answerFormat {
	return func(_, reason string) any {
		return struct {
			Decision string `json:"decision"`
			Reason   string `json:"reason"`
		}{word, reason}
	}
}

// additionalContext is Cursor's answer that adds to the model's context.
func additionalContext(_, text string) any {
	return struct {
		Context string `json:"additional_context"`
	}{text}
}

// followup is Cursor's answer that makes the agent continue, with a message in the
// user's place.
func followup(_, text string) any {
	return struct {
		Message string `json:"followup_message"`
	}{text}
}

// Agents lists the agents whose hooks are known, by name.
func Agents() []string { return slices.Sorted(maps.Keys(formats)) }

// DirVariable returns the environment variable in which an agent passes the project's
// directory to its hooks, or "".
func DirVariable(agent string) string { return formats[agent].dirVariable }

// Render returns the line that answers a call with text, or nil if text is empty or the
// agent reads no answer. At Stop the answer makes the agent continue.
func Render(c Call, text string) ([]byte, error) {
	if text == "" || !c.CanAnswer() {
		return nil, nil
	}
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false) // a title such as "a -> b" stays readable
	if err := enc.Encode(c.format(c.event, text)); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return line.Bytes(), nil
}
