// Package model is a model endpoint on loopback that answers coding agents from a script. It
// supports Google's Gemini API, OpenAI's Responses API and OpenAI's chat completions, as far
// as the agents' own loops need them.
//
// It knows nothing of alerts and checks nothing: it records the requests.
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

// maxRequest bounds a request: agents send their whole prompt and all tools, about 200
// KiB.
const maxRequest = 8 << 20

// Turn is one answer of the model: it calls a tool, or has a text, which ends the
// agent's turn.
type Turn struct {
	// Tool is the end of the tool's name, because each agent adds its own prefix to the
	// tools of MCP servers. The first offered tool whose name ends with it is called.
	Tool string
	// Args are the tool's arguments.
	Args map[string]any
	// Text is the answer if no tool is called.
	Text string
	// Before, if set, runs before the turn is answered, while the agent waits for the
	// model.
	Before func() `json:"-"`
}

// Call is a turn that calls a tool without arguments.
func Call(tool string) Turn { return Turn{Tool: tool, Args: map[string]any{}} }

// Say is a turn with a text.
func Say(text string) Turn { return Turn{Text: text} }

// Request is a request of an agent to its model.
type Request struct {
	// Path is the request's path and query.
	Path string
	// Body is the JSON as sent.
	Body string
	// Tools has the names of the tools that the agent offered.
	Tools []string
	// Turn is the number of the script's turn that answered it, from 0, or -1 for a request
	// outside of the script: a title, a summary, a classification.
	Turn int
}

// Server is the endpoint.
type Server struct {
	// URL is its address, without a path.
	URL string

	http  *httptest.Server
	turns []Turn

	mu       sync.Mutex
	next     int
	requests []Request
}

// Serve starts an endpoint that answers with turns, one for each request that offers the
// turn's tool. After the last turn it answers "done". The caller closes it.
func Serve(turns ...Turn) *Server {
	s := &Server{turns: turns}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1beta/models/{call}", s.gemini)
	mux.HandleFunc("POST /v1/responses", s.responses)
	mux.HandleFunc("POST /v1/chat/completions", s.chat)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.record(Request{Path: r.URL.RequestURI(), Turn: -1})
		http.NotFound(w, r)
	})
	s.http = httptest.NewServer(mux)
	s.URL = s.http.URL
	return s
}

// Close stops the endpoint and ends open requests.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Requests returns all requests so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Asked returns the requests that the script answered, in its order.
func (s *Server) Asked() []Request {
	return slices.DeleteFunc(s.Requests(), func(r Request) bool { return r.Turn < 0 })
}

func (s *Server) record(r Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r)
}

// turn selects the answer to a request and records the request. A request that offers no tool
// is outside of the script. It answers one request at a time.
func (s *Server) turn(r *http.Request, body []byte, tools []string) Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	recorded := Request{Path: r.URL.RequestURI(), Body: string(body), Tools: tools, Turn: -1}
	answer := Say("done")
	switch {
	case len(tools) == 0:
	case s.next >= len(s.turns):
		recorded.Turn = s.next
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
		recorded.Turn = s.next
		s.next++
		if want.Before != nil {
			want.Before()
		}
	}
	s.requests = append(s.requests, recorded)
	return answer
}

// readRequest reads a request's body into v.
func readRequest(w http.ResponseWriter, r *http.Request, v any) ([]byte, bool) {
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

// stream sends an event stream of JSON documents. With named, each event has the
// document's type as its name, as in the Responses API.
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

// encoded returns a value as JSON.
func encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of the script
	}
	return string(data)
}
