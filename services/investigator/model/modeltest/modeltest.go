// Package modeltest is a scripted model server for tests. It speaks the wire formats of OpenAI's
// Chat Completions and Responses and of Anthropic's Messages over HTTP on loopback, so that the
// providers' SDKs run against it as they are. Rules select the answer to a request, so that
// agents may ask side by side.
package modeltest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
)

// maxRequest bounds a request.
const maxRequest = 64 << 20

// Request is a request that the server received.
type Request struct {
	// API is chat, responses or messages.
	API    string
	Path   string
	Header http.Header
	Body   string
	// Model and System are those of the body.
	Model, System string
	// Tools has the names of the offered tools.
	Tools []string
	// Messages has the conversation.
	Messages []Message
	// Rule is the name of the rule that answered, or empty.
	Rule string
}

// Message is a message of a conversation.
type Message struct {
	// Role is user, assistant or tool.
	Role, Text string
	// Calls are those of an assistant's message.
	Calls []Call
	// CallID is that of a tool's result.
	CallID string
}

// Last returns the newest message with a role, or an empty one.
func (r Request) Last(role string) Message {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == role {
			return m
		}
	}
	return Message{}
}

// Call is a tool call.
type Call struct {
	ID, Name string
	// Arguments is sent as it is.
	Arguments string
}

// Usage is what an answer reports. The zero value is 10 tokens in and 5 out.
type Usage struct{ Input, Cached, Output, Thinking int }

// Answer is one answer of the model.
type Answer struct {
	Thinking string
	Text     string
	Calls    []Call
	// Stop is end, length or refused. Empty means end.
	Stop  string
	Usage Usage
	// NoUsage leaves the usage out.
	NoUsage bool
	// Piece is the number of bytes of each delta; 0 means one delta.
	Piece int
	// Status, if not 0, is the status of a failure with Body and Header.
	Status int
	Body   string
	Header map[string]string
	// Raw, if set, is the whole stream.
	Raw string
	// CutAfter, if over 0, ends the connection after that number of events.
	CutAfter int
	// StallAfter, if over 0, sends nothing more after that number of events, until the client
	// leaves. Stall sends nothing at all.
	StallAfter int
	Stall      bool
	// Endless repeats Text until the client leaves.
	Endless bool
	// Before, if set, runs before the answer, while the client waits.
	Before func(Request)
}

// Say is an answer with a text.
func Say(text string) Answer { return Answer{Text: text} }

// Use is an answer that calls a tool.
func Use(id, name, arguments string) Answer {
	return Answer{Calls: []Call{{ID: id, Name: name, Arguments: arguments}}}
}

// Fail is a failure with a status and a message in the form that all three APIs share.
func Fail(status int, message string) Answer {
	return Answer{Status: status, Body: encoded(object{"error": object{"type": "test", "message": message}})}
}

// Rule answers the requests that it matches.
type Rule struct {
	Name string
	// System, if set, must be a part of the instructions.
	System string
	// Match, if set, must be true.
	Match func(Request) bool
	// Answers are given in order, the last one again and again.
	Answers []Answer
	// Respond, if set, is asked instead of Answers.
	Respond func(Request) Answer
	// Unrecorded leaves its requests out of Requests, where there are very many.
	Unrecorded bool
}

// Server is a running server.
type Server struct {
	// URL is its address without a path. The APIs are at /v1.
	URL string

	http  *httptest.Server
	done  chan struct{}
	mu    sync.Mutex
	rules []*rule
	asked []Request
}

type rule struct {
	Rule
	next int
}

// Serve starts a server. The first rule that matches a request answers it; without one the
// answer is the status 404. The caller closes it.
func Serve(rules ...Rule) *Server {
	s := &Server{done: make(chan struct{})}
	for _, r := range rules {
		s.rules = append(s.rules, &rule{Rule: r})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", s.handle("chat", parseChat, chatEvents))
	mux.HandleFunc("POST /v1/responses", s.handle("responses", parseResponses, responsesEvents))
	mux.HandleFunc("POST /v1/messages", s.handle("messages", parseMessages, messagesEvents))
	s.http = httptest.NewServer(mux)
	s.URL = s.http.URL
	return s
}

// Answers starts a server with one rule, which gives these answers.
func Answers(answers ...Answer) *Server { return Serve(Rule{Answers: answers}) }

// Close ends open requests and stops the server.
func (s *Server) Close() {
	close(s.done)
	s.http.CloseClientConnections()
	s.http.Close()
}

// Requests returns all requests so far, in order, but for those of unrecorded rules.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// answer selects the answer to a request and records the request.
func (s *Server) answer(q *Request) (Answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, found, record := Answer{}, false, true
	for _, r := range s.rules {
		if !strings.Contains(q.System, r.System) || (r.Match != nil && !r.Match(*q)) || (r.Respond == nil && len(r.Answers) == 0) {
			continue
		}
		q.Rule, found, record = r.Name, true, !r.Unrecorded
		if r.Respond != nil {
			answer = r.Respond(*q)
		} else {
			answer = r.Answers[min(r.next, len(r.Answers)-1)]
			r.next++
		}
		break
	}
	if record {
		s.asked = append(s.asked, *q)
	}
	return answer, found
}

// object is a JSON object.
type object = map[string]any

// event is one event of a stream. Its name is empty in Chat Completions.
type event struct {
	name string
	data any
}

func (s *Server) handle(api string, parse func([]byte, *Request) error, events func(Answer, func(event) bool)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		q := Request{API: api, Path: r.URL.RequestURI(), Header: r.Header.Clone(), Body: string(body)}
		if err == nil {
			err = parse(body, &q)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a, found := s.answer(&q)
		if !found {
			a = Fail(http.StatusNotFound, "modeltest: no rule matches the request")
		}
		if a.Before != nil {
			a.Before(q)
		}
		s.send(w, r, a, events)
	}
}

func (s *Server) send(w http.ResponseWriter, r *http.Request, a Answer, events func(Answer, func(event) bool)) {
	for k, v := range a.Header {
		w.Header().Set(k, v)
	}
	if a.Status != 0 {
		if w.Header().Get("Content-Type") == "" {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(a.Status)
		_, _ = io.WriteString(w, a.Body)
		return
	}
	if a.Stall {
		s.stall(r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	if a.Raw != "" {
		_, _ = io.WriteString(w, a.Raw)
		return
	}
	n := 0
	events(a, func(e event) bool {
		line := ""
		if e.name != "" {
			line = "event: " + e.name + "\n"
		}
		data, ok := e.data.(string)
		if !ok {
			data = encoded(e.data)
		}
		if _, err := io.WriteString(w, line+"data: "+data+"\n\n"); err != nil || r.Context().Err() != nil {
			return false
		}
		if a.Piece > 0 || a.Endless || a.StallAfter > 0 || a.CutAfter > 0 {
			_ = flush.Flush()
		}
		n++
		switch n {
		case a.CutAfter:
			panic(http.ErrAbortHandler)
		case a.StallAfter:
			s.stall(r)
			return false
		}
		return true
	})
}

// stall waits until the client leaves or the server ends.
func (s *Server) stall(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-s.done:
	}
}

// pieces yields the deltas of a text.
func (a Answer) pieces(text string, send func(string) bool) bool {
	for text != "" {
		n := len(text)
		if a.Piece > 0 {
			n = min(n, a.Piece)
		}
		for n < len(text) && text[n]&0xC0 == 0x80 { // whole characters
			n++
		}
		if !send(text[:n]) {
			return false
		}
		text = text[n:]
	}
	return true
}

// written yields the deltas of the answer's text.
func (a Answer) written(send func(string) bool) bool {
	for a.pieces(a.Text, send) {
		if !a.Endless || a.Text == "" {
			return true
		}
	}
	return false
}

func (a Answer) usage() Usage {
	if a.Usage == (Usage{}) {
		return Usage{Input: 10, Output: 5}
	}
	return a.Usage
}

// encoded returns a value as JSON.
func encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // values of the script
	}
	return string(data)
}
