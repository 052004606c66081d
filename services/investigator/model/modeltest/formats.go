package modeltest

import (
	"encoding/json"
	"strings"
)

// text returns the text of a content, which is a string or a list of parts.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(raw, &parts) // else there is no text
	var out []string
	for _, p := range parts {
		if p.Text != "" {
			out = append(out, p.Text)
		}
	}
	return strings.Join(out, "\n")
}

func parseChat(body []byte, r *Request) error {
	var q struct {
		Model    string `json:"model"`
		Messages []struct {
			Role       string          `json:"role"`
			Content    json.RawMessage `json:"content"`
			ToolCallID string          `json:"tool_call_id"`
			ToolCalls  []struct {
				ID       string `json:"id"`
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		} `json:"messages"`
		Tools []struct{ Function struct{ Name string } }
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	r.Model = q.Model
	for _, m := range q.Messages {
		if m.Role == "system" {
			r.System = text(m.Content)
			continue
		}
		out := Message{Role: m.Role, Text: text(m.Content), CallID: m.ToolCallID}
		for _, c := range m.ToolCalls {
			out.Calls = append(out.Calls, Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
		}
		r.Messages = append(r.Messages, out)
	}
	for _, t := range q.Tools {
		r.Tools = append(r.Tools, t.Function.Name)
	}
	return nil
}

func chatEvents(a Answer, send func(event) bool) {
	chunk := func(delta object, finish any) bool {
		return send(event{data: object{
			"id": "chat", "object": "chat.completion.chunk", "created": 0, "model": "scripted",
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}},
		}})
	}
	ok := a.pieces(a.Thinking, func(s string) bool { return chunk(object{"reasoning_content": s}, nil) }) &&
		a.written(func(s string) bool {
			if a.Stop == "refused" {
				return chunk(object{"refusal": s}, nil)
			}
			return chunk(object{"content": s}, nil)
		})
	for i, c := range a.Calls {
		call := func(fields object) object {
			fields["index"] = i
			return object{"tool_calls": []any{fields}}
		}
		ok = ok && chunk(call(object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": ""}}), nil) &&
			a.pieces(c.Arguments, func(s string) bool { return chunk(call(object{"function": object{"arguments": s}}), nil) })
	}
	finish := map[string]string{"length": "length", "refused": "stop"}[a.Stop]
	if finish == "" {
		finish = "stop"
		if len(a.Calls) > 0 {
			finish = "tool_calls"
		}
	}
	if !ok || !chunk(object{}, finish) {
		return
	}
	u := a.usage()
	if !a.NoUsage && !send(event{data: object{
		"id": "chat", "object": "chat.completion.chunk", "created": 0, "model": "scripted", "choices": []any{},
		"usage": object{
			"prompt_tokens": u.Input, "completion_tokens": u.Output, "total_tokens": u.Input + u.Output,
			"prompt_tokens_details":     object{"cached_tokens": u.Cached},
			"completion_tokens_details": object{"reasoning_tokens": u.Thinking},
		},
	}}) {
		return
	}
	send(event{data: "[DONE]"})
}

func parseResponses(body []byte, r *Request) error {
	var q struct {
		Model        string `json:"model"`
		Instructions string `json:"instructions"`
		Input        []struct {
			Type      string          `json:"type"`
			Role      string          `json:"role"`
			Content   json.RawMessage `json:"content"`
			CallID    string          `json:"call_id"`
			Name      string          `json:"name"`
			Arguments string          `json:"arguments"`
			Output    json.RawMessage `json:"output"`
		} `json:"input"`
		Tools []struct{ Name string }
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	r.Model, r.System = q.Model, q.Instructions
	for _, m := range q.Input {
		switch m.Type {
		case "function_call":
			r.Messages = append(r.Messages, Message{Role: "assistant", Calls: []Call{{ID: m.CallID, Name: m.Name, Arguments: m.Arguments}}})
		case "function_call_output":
			r.Messages = append(r.Messages, Message{Role: "tool", Text: text(m.Output), CallID: m.CallID})
		case "", "message":
			r.Messages = append(r.Messages, Message{Role: m.Role, Text: text(m.Content)})
		}
	}
	for _, t := range q.Tools {
		r.Tools = append(r.Tools, t.Name)
	}
	return nil
}

func responsesEvents(a Answer, send func(event) bool) {
	sequence := 0
	emit := func(fields object) bool {
		fields["sequence_number"] = sequence
		sequence++
		return send(event{name: fields["type"].(string), data: fields})
	}
	response := func(status string) object {
		return object{"id": "resp", "object": "response", "status": status, "model": "scripted"}
	}
	ok := emit(object{"type": "response.created", "response": response("in_progress")})
	index := 0
	item := func(whole object, middle func() bool) {
		ok = ok && emit(object{"type": "response.output_item.added", "output_index": index, "item": whole}) && middle() &&
			emit(object{"type": "response.output_item.done", "output_index": index, "item": whole})
		index++
	}
	if a.Thinking != "" {
		item(object{"type": "reasoning", "id": "rs", "summary": []any{object{"type": "summary_text", "text": a.Thinking}}, "encrypted_content": "sealed:" + a.Thinking}, func() bool {
			return a.pieces(a.Thinking, func(s string) bool {
				return emit(object{"type": "response.reasoning_summary_text.delta", "item_id": "rs", "output_index": index, "summary_index": 0, "delta": s})
			})
		})
	}
	if a.Text != "" {
		kind := "response.output_text.delta"
		if a.Stop == "refused" {
			kind = "response.refusal.delta"
		}
		item(object{"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": []any{object{"type": "output_text", "text": a.Text, "annotations": []any{}}}}, func() bool {
			return a.written(func(s string) bool {
				return emit(object{"type": kind, "item_id": "msg", "output_index": index, "content_index": 0, "delta": s})
			})
		})
	}
	for _, c := range a.Calls {
		item(object{"type": "function_call", "id": "fc", "call_id": c.ID, "name": c.Name, "arguments": c.Arguments, "status": "completed"}, func() bool {
			return a.pieces(c.Arguments, func(s string) bool {
				return emit(object{"type": "response.function_call_arguments.delta", "item_id": "fc", "output_index": index, "delta": s})
			})
		})
	}
	if !ok {
		return
	}
	status := "completed"
	end := response(status)
	if a.Stop == "length" {
		status = "incomplete"
		end = response(status)
		end["incomplete_details"] = object{"reason": "max_output_tokens"}
	}
	if u := a.usage(); !a.NoUsage {
		end["usage"] = object{
			"input_tokens": u.Input, "output_tokens": u.Output, "total_tokens": u.Input + u.Output,
			"input_tokens_details": object{"cached_tokens": u.Cached}, "output_tokens_details": object{"reasoning_tokens": u.Thinking},
		}
	}
	emit(object{"type": "response." + status, "response": end})
}

func parseMessages(body []byte, r *Request) error {
	var q struct {
		Model    string          `json:"model"`
		System   json.RawMessage `json:"system"`
		Messages []struct {
			Role    string `json:"role"`
			Content []struct {
				Type      string          `json:"type"`
				Text      string          `json:"text"`
				ID        string          `json:"id"`
				Name      string          `json:"name"`
				Input     json.RawMessage `json:"input"`
				ToolUseID string          `json:"tool_use_id"`
				Content   json.RawMessage `json:"content"`
			} `json:"content"`
		} `json:"messages"`
		Tools []struct{ Name string }
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return err
	}
	r.Model, r.System = q.Model, text(q.System)
	for _, m := range q.Messages {
		out := Message{Role: m.Role}
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				out.Text += b.Text
			case "tool_use":
				out.Calls = append(out.Calls, Call{ID: b.ID, Name: b.Name, Arguments: string(b.Input)})
			case "tool_result":
				r.Messages = append(r.Messages, Message{Role: "tool", Text: text(b.Content), CallID: b.ToolUseID})
			}
		}
		if out.Text != "" || len(out.Calls) > 0 {
			r.Messages = append(r.Messages, out)
		}
	}
	for _, t := range q.Tools {
		r.Tools = append(r.Tools, t.Name)
	}
	return nil
}

func messagesEvents(a Answer, send func(event) bool) {
	emit := func(fields object) bool { return send(event{name: fields["type"].(string), data: fields}) }
	u := a.usage()
	usage, final := object{"input_tokens": 0, "output_tokens": 0}, object{"output_tokens": 0}
	if !a.NoUsage {
		usage = object{"input_tokens": u.Input - u.Cached, "cache_read_input_tokens": u.Cached, "cache_creation_input_tokens": 0, "output_tokens": 1}
		final = object{"output_tokens": u.Output, "output_tokens_details": object{"thinking_tokens": u.Thinking}}
	}
	ok := emit(object{"type": "message_start", "message": object{"id": "msg", "type": "message", "role": "assistant", "model": "scripted", "content": []any{}, "stop_reason": nil, "usage": usage}})
	index := 0
	block := func(start object, deltas func(delta func(object) bool) bool) {
		ok = ok && emit(object{"type": "content_block_start", "index": index, "content_block": start}) &&
			deltas(func(d object) bool { return emit(object{"type": "content_block_delta", "index": index, "delta": d}) }) &&
			emit(object{"type": "content_block_stop", "index": index})
		index++
	}
	if a.Thinking != "" {
		block(object{"type": "thinking", "thinking": "", "signature": ""}, func(delta func(object) bool) bool {
			return a.pieces(a.Thinking, func(s string) bool { return delta(object{"type": "thinking_delta", "thinking": s}) }) &&
				delta(object{"type": "signature_delta", "signature": "signed:" + a.Thinking})
		})
	}
	if a.Text != "" {
		block(object{"type": "text", "text": ""}, func(delta func(object) bool) bool {
			return a.written(func(s string) bool { return delta(object{"type": "text_delta", "text": s}) })
		})
	}
	for _, c := range a.Calls {
		block(object{"type": "tool_use", "id": c.ID, "name": c.Name, "input": object{}}, func(delta func(object) bool) bool {
			return a.pieces(c.Arguments, func(s string) bool { return delta(object{"type": "input_json_delta", "partial_json": s}) })
		})
	}
	stop := map[string]string{"length": "max_tokens", "refused": "refusal"}[a.Stop]
	if stop == "" {
		stop = "end_turn"
		if len(a.Calls) > 0 {
			stop = "tool_use"
		}
	}
	_ = ok && emit(object{"type": "message_delta", "delta": object{"stop_reason": stop}, "usage": final}) && emit(object{"type": "message_stop"})
}
