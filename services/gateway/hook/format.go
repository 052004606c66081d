package hook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// The clients that have hooks.
const (
	claudeCode = "claude-code"
	codex      = "codex"
	geminiCLI  = "gemini-cli"
	cursor     = "cursor"
)

// answer makes the object that a client reads, for its name of the moment.
type answer func(event, text string) any

// event is a moment, and how something is said then; nil where nothing can be.
type event struct {
	moment Moment
	answer answer
}

// dialect is how a client speaks.
type dialect struct {
	events map[string]event
	// dirVariable names the environment variable with the project's directory,
	// which unlike the input's cwd doesn't follow the agent's cd; empty for none.
	dirVariable string
}

// dialects is the table of what the clients document.
var dialects = map[string]dialect{
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
			// Its documented answer has no place for context, and what was told
			// into the void would be lost.
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

// decision is their answer that keeps the agent going, with the reason.
func decision(word string) answer {
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

// followup is Cursor's answer that keeps the agent going: with a message that
// stands for the user's.
func followup(_, text string) any {
	return struct {
		Message string `json:"followup_message"`
	}{text}
}

// Clients lists the clients whose hooks are known, by name.
func Clients() []string { return slices.Sorted(maps.Keys(dialects)) }

// DirVariable names the environment variable in which a client tells its hooks
// the project's directory, or is empty.
func DirVariable(client string) string { return dialects[client].dirVariable }

// Render is the line that says text to the client, or nil where there is nothing
// to say or no way to say it. At a Stop, it holds the agent back.
func Render(c Call, text string) ([]byte, error) {
	if text == "" || !c.Tells() {
		return nil, nil
	}
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false) // a title such as "a -> b" stays readable
	if err := enc.Encode(c.answer(c.event, text)); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return line.Bytes(), nil
}
