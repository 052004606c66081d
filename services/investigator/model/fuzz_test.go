package model_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
)

// FuzzStream gives the bytes of a stream to each adapter: it ends with one Done or one error
// and does not panic.
func FuzzStream(f *testing.F) {
	var raw string
	s := modeltest.Serve(modeltest.Rule{Respond: func(modeltest.Request) modeltest.Answer { return modeltest.Answer{Raw: raw} }})
	f.Cleanup(s.Close)
	for _, p := range providers() {
		seed := modeltest.Answers(modeltest.Answer{Thinking: "t", Text: "text", Calls: []modeltest.Call{{ID: "a", Name: "get", Arguments: `{"a":1}`}}})
		path := map[string]string{"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages"}[p.name]
		answer, err := http.Post(seed.URL+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			f.Fatal(err)
		}
		var text strings.Builder
		if err := answer.Write(&text); err != nil {
			f.Fatal(err)
		}
		_ = answer.Body.Close()
		seed.Close()
		_, stream, _ := strings.Cut(text.String(), "\r\n\r\n")
		f.Add(stream)
		f.Add(stream[:len(stream)/2])
	}
	f.Add("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":-1,\"delta\":{}}\n\n")
	f.Add("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-5}]},\"finish_reason\":\"stop\"}]}\n\n")
	// New clients for each stream would keep their idle connections, up to the limit of open files.
	var models []model.Model
	for _, p := range providers() {
		m, err := p.new(s.URL)
		if err != nil {
			f.Fatal(err)
		}
		models = append(models, m)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		if raw = stream; raw == "" {
			raw = "\n"
		}
		for _, m := range models {
			collect(t, m, model.Request{})
		}
	})
}

// BenchmarkRequest measures a whole request with a conversation of 200 messages, the server's
// part included.
func BenchmarkRequest(b *testing.B) {
	r := conversation()
	turn := r.Messages[1:4]
	for len(r.Messages) < 200 {
		r.Messages = append(r.Messages, turn...)
	}
	for i := range r.Messages {
		r.Messages[i].State = nil
		r.Messages[i].Text += strings.Repeat(fmt.Sprintf(" line %d of a log;", i), 100)
	}
	for _, p := range providers() {
		b.Run(p.name, func(b *testing.B) {
			s := modeltest.Answers(modeltest.Say("ok"))
			defer s.Close()
			m, err := p.new(s.URL)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if got := collect(b, m, r); got.err != nil {
					b.Fatal(got.err)
				}
			}
		})
	}
}
