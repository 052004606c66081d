package model

import (
	"fmt"
	"io"
	"net/http"
)

// chat answers OpenAI's chat completions, as a stream or in one piece.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Stream bool `json:"stream"`
		Tools  []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
	}
	body, ok := readRequest(w, r, &q)
	if !ok {
		return
	}
	var names []string
	for _, t := range q.Tools {
		names = append(names, t.Function.Name)
	}
	turn := s.turn(r, body, names)
	message, why := map[string]any{"role": "assistant", "content": turn.Text}, "stop"
	if turn.Tool != "" {
		why = "tool_calls"
		message = map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
			"index": 0, "id": fmt.Sprintf("call_%d", len(s.Requests())), "type": "function",
			"function": map[string]any{"name": turn.Tool, "arguments": encoded(turn.Args)},
		}}}
	}
	usage := map[string]any{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, encoded(map[string]any{
			"id": "chat", "object": "chat.completion", "created": 0, "model": "scripted", "usage": usage,
			"choices": []any{map[string]any{"index": 0, "message": message, "finish_reason": why}},
		}))
		return
	}
	chunk := func(delta map[string]any, why any) map[string]any {
		return map[string]any{
			"id": "chat", "object": "chat.completion.chunk", "created": 0, "model": "scripted", "usage": usage,
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": why}},
		}
	}
	stream(w, false, chunk(message, nil), chunk(map[string]any{}, why))
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}
