// Package model is a model endpoint on loopback that plays a script, for coding
// agents that are pointed at it: it speaks Google's Gemini API, OpenAI's
// Responses API and OpenAI's chat completions, as far as the agents' own loops
// need them.
//
// It knows nothing of alerts, and judges nothing: it keeps what it was asked.
package model

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
)

// maxRequest bounds a request that is read: agents send their whole prompt and
// all tools, some 200 KiB.
const maxRequest = 8 << 20

// Turn is one answer of the model: it calls a tool, or says a text, which ends
// the agent's turn.
type Turn struct {
	// Tool is the end of the tool's name: each agent names the tools of MCP
	// servers in its own way. The first name that the agent offered and that
	// ends so is called.
	Tool string
	// Args are the tool's arguments.
	Args map[string]any
	// Text is what it says when it calls no tool.
	Text string
	// Before, when there, is run before the turn is answered: what happens while
	// the model thinks.
	Before func() `json:"-"`
}

// Call is a turn that calls a tool without arguments.
func Call(tool string) Turn { return Turn{Tool: tool, Args: map[string]any{}} }

// Say is a turn that says a text.
func Say(text string) Turn { return Turn{Text: text} }

// Request is one question that an agent asked its model.
type Request struct {
	// Path is the request's path and query.
	Path string
	// Body is the JSON as sent.
	Body string
	// Tools are the names of the tools that the agent offered.
	Tools []string
	// Turn is the number of the script's turn that answered it, from 0, or -1
	// for a question beside the script: a title, a summary, a classification.
	Turn int
}

// Server is the endpoint.
type Server struct {
	// URL is where it listens, without a path.
	URL string

	http  *httptest.Server
	turns []Turn

	mu       sync.Mutex
	next     int
	requests []Request
}

// Serve starts an endpoint that plays turns, one for each question that offers
// the turn's tool. Past the last turn it says "done". The caller closes it.
func Serve(turns ...Turn) *Server {
	s := &Server{turns: turns}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1beta/models/{call}", s.gemini)
	mux.HandleFunc("POST /v1/responses", s.responses)
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.keep(Request{Path: r.URL.RequestURI(), Turn: -1})
		http.NotFound(w, r)
	})
	s.http = httptest.NewServer(mux)
	s.URL = s.http.URL
	return s
}

// Close ends the endpoint, and the questions that are still being answered.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Requests are all questions so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Asked are the questions that the script answered, in its order.
func (s *Server) Asked() []Request {
	return slices.DeleteFunc(s.Requests(), func(r Request) bool { return r.Turn < 0 })
}

func (s *Server) keep(r Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
}

// turn picks the answer to a question that offers tools, and keeps the
// question. A question that offers no tool at all is beside the script. One
// question is answered at a time.
func (s *Server) turn(r *http.Request, body []byte, tools []string) Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := Request{Path: r.URL.RequestURI(), Body: string(body), Tools: tools, Turn: -1}
	answer := Say("done")
	switch {
	case len(tools) == 0:
	case s.next >= len(s.turns):
		kept.Turn = s.next
		s.next++
	default:
		want := s.turns[s.next]
		i := slices.IndexFunc(tools, func(name string) bool { return strings.HasSuffix(name, want.Tool) })
		if want.Tool != "" && i < 0 {
			break
		}
		answer = want
		if want.Tool != "" {
			answer.Tool = tools[i]
		}
		kept.Turn = s.next
		s.next++
		if want.Before != nil {
			want.Before()
		}
	}
	s.requests = append(s.requests, kept)
	return answer
}

// question reads a request's body into v.
func question(w http.ResponseWriter, r *http.Request, v any) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return nil, false
	}
	return body, true
}

// stream sends an event stream of JSON documents. With named, each event has
// the document's type as its name, as the Responses API has it.
func stream(w http.ResponseWriter, named bool, events ...map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		data, err := json.Marshal(e)
		if err != nil {
			panic(err) // maps of the script
		}
		if kind, ok := e["type"].(string); named && ok {
			_, _ = io.WriteString(w, "event: "+kind+"\n")
		}
		_, _ = io.WriteString(w, "data: "+string(data)+"\n\n")
	}
}

// encoded is a value as JSON text.
func encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of the script
	}
	return string(data)
}
