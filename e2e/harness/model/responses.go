package model

import (
	"fmt"
	"net/http"
)

// responses answers the Responses API, with an event stream.
func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	type tool struct {
		Type string `json:"type"`
		Name string `json:"name"`
	}
	var q struct {
		Tools []struct {
			tool
			// Tools are those of a namespace, which is an MCP server.
			Tools []tool `json:"tools"`
		} `json:"tools"`
	}
	body, ok := readRequest(w, r, &q)
	if !ok {
		return
	}
	var names []string
	namespaces := map[string]string{}
	for _, t := range q.Tools {
		if t.Type != "namespace" {
			names = append(names, t.Name)
			continue
		}
		for _, inner := range t.Tools {
			name := t.Name + "." + inner.Name
			names = append(names, name)
			namespaces[name] = t.Name
		}
	}
	turn := s.turn(r, body, names)
	n := len(s.Requests())
	id := fmt.Sprintf("resp_%d", n)
	item := map[string]any{
		"type": "message", "id": fmt.Sprintf("msg_%d", n), "role": "assistant", "status": "completed",
		"content": []any{map[string]any{"type": "output_text", "text": turn.Text, "annotations": []any{}}},
	}
	if turn.Tool != "" {
		item = map[string]any{
			"type": "function_call", "id": fmt.Sprintf("fc_%d", n), "call_id": fmt.Sprintf("call_%d", n), "status": "completed",
			"name": turn.Tool, "arguments": encoded(turn.Args),
		}
		if space, ok := namespaces[turn.Tool]; ok {
			item["namespace"] = space
			item["name"] = turn.Tool[len(space)+1:]
		}
	}
	response := func(status string, output ...any) map[string]any {
		return map[string]any{
			"id": id, "object": "response", "status": status, "model": "scripted", "output": output,
			"usage": map[string]any{
				"input_tokens": 10, "output_tokens": 5, "total_tokens": 15,
				"input_tokens_details": map[string]any{"cached_tokens": 0}, "output_tokens_details": map[string]any{"reasoning_tokens": 0},
			},
		}
	}
	stream(w, true,
		map[string]any{"type": "response.created", "response": response("in_progress")},
		map[string]any{"type": "response.output_item.added", "output_index": 0, "item": item},
		map[string]any{"type": "response.output_item.done", "output_index": 0, "item": item},
		map[string]any{"type": "response.completed", "response": response("completed", item)},
	)
}
