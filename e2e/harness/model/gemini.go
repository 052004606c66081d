package model

import (
	"net/http"
	"strings"
)

// gemini answers models/{model}:generateContent and :streamGenerateContent of the
// Gemini API. For countTokens it returns a small number.
func (s *Server) gemini(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Tools []struct {
			FunctionDeclarations []struct {
				Name string `json:"name"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
	}
	body, ok := readRequest(w, r, &q)
	if !ok {
		return
	}
	_, method, _ := strings.Cut(r.PathValue("call"), ":")
	if method == "countTokens" {
		s.record(Request{Path: r.URL.RequestURI(), Body: string(body), Turn: -1})
		_, _ = w.Write([]byte(`{"totalTokens":100}`))
		return
	}
	var tools []string
	for _, t := range q.Tools {
		for _, f := range t.FunctionDeclarations {
			tools = append(tools, f.Name)
		}
	}
	turn := s.turn(r, body, tools)
	part := map[string]any{"text": turn.Text}
	if turn.Tool != "" {
		part = map[string]any{"functionCall": map[string]any{"name": turn.Tool, "args": turn.Args}}
	}
	answer := map[string]any{
		"candidates": []any{map[string]any{
			"content":      map[string]any{"role": "model", "parts": []any{part}},
			"finishReason": "STOP",
			"index":        0,
		}},
		"usageMetadata": map[string]any{"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
		"modelVersion":  "scripted",
	}
	if method == "streamGenerateContent" {
		stream(w, false, answer)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(encoded(answer)))
}
