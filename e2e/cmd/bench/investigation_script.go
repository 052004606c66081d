package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
)

// script answers as the model and the tool of investigation sessions, and records when it was
// asked. Each session calls the tool a number of times and then concludes.
type script struct {
	// calls is the number of tool calls of a session, delay that of each answer of the model.
	calls int
	delay time.Duration

	web *httptest.Server

	mu       sync.Mutex
	sessions map[int]*scripted
	// own has the investigator's own time in each iteration.
	own []time.Duration
	// summarized gets the number of a session that is asked for its executive summary, its last
	// request. It is never full: no session is asked so often.
	summarized chan int
}

// scripted is what the script knows of a session.
type scripted struct {
	// turns is the number of the newest turn that the model was asked for, from 1, and tools that
	// of the newest call of the tool.
	turns, tools int
	// first is when the model was asked first, last when anything was asked last, and process who
	// asked that.
	first, last time.Time
	process     int
	// answered is when the answer to the newest turn was sent, called when the tool was called, and
	// returned when it answered. They are zero where the next request was not awaited.
	answered, called, returned time.Time
	summaries                  int
	// again counts requests whose results are known to be stored, because the session went on from
	// there; underWay those that were repeated while they were not.
	again, underWay int
}

// maxSummaries is how many requests for an executive summary the script keeps.
const maxSummaries = 10_000

func newScript(calls int, delay time.Duration) *script {
	s := &script{calls: calls, delay: delay, sessions: map[int]*scripted{}, summarized: make(chan int, maxSummaries)}
	s.web = httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s.server() }, nil))
	return s
}

// Close stops the tool's server.
func (s *script) Close() {
	s.web.CloseClientConnections()
	s.web.Close()
}

// scriptedTool is the name of the tool on its server.
const scriptedTool = "look"

// arguments are those of the tool.
type arguments struct {
	Session int `json:"session"`
	Turn    int `json:"turn"`
}

func (s *script) server() *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	tool := &mcp.Tool{Name: scriptedTool, Description: "Looks at a turn.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}
	mcp.AddTool(server, tool, func(_ context.Context, _ *mcp.CallToolRequest, a arguments) (*mcp.CallToolResult, any, error) {
		s.call(a, time.Now())
		text := &mcp.TextContent{Text: fmt.Sprintf("web-1 restarts with exit code 137, turn %d of session %d", a.Turn, a.Session)}
		defer s.returned(a)
		return &mcp.CallToolResult{Content: []mcp.Content{text}}, nil, nil
	})
	return server
}

// of returns what is known of a session. The caller holds the lock.
func (s *script) of(session int) *scripted {
	if s.sessions[session] == nil {
		s.sessions[session] = &scripted{}
	}
	return s.sessions[session]
}

func (s *script) call(a arguments, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.of(a.Session)
	switch {
	case one.turns > a.Turn: // the model has seen its result
		one.again++
	case one.tools >= a.Turn:
		one.underWay++
	}
	one.tools = max(one.tools, a.Turn)
	one.called, one.last = now, now
}

func (s *script) returned(a arguments) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of(a.Session).returned = time.Now()
}

// marker finds the number of a session: in the text of its alert, and in its conclusion.
var marker = regexp.MustCompile(`bench session (\d+)\.`)

func sessionText(session int) string {
	return fmt.Sprintf("The bench session %d. web-1 restarts", session)
}

// sessionOf returns the number of the session of a request, or -1.
func sessionOf(r modeltest.Request) int {
	for _, m := range r.Messages {
		if found := marker.FindStringSubmatch(m.Text); found != nil {
			n, err := strconv.Atoi(found[1])
			if err != nil {
				return -1
			}
			return n
		}
	}
	return -1
}

// model serves the model for the requests of one process. The caller closes it.
func (s *script) model(process int) *modeltest.Server {
	return modeltest.Serve(modeltest.Rule{
		Match:      func(r modeltest.Request) bool { return sessionOf(r) >= 0 },
		Unrecorded: true,
		Respond:    func(r modeltest.Request) modeltest.Answer { return s.answer(r, process, time.Now()) },
	})
}

// answer answers a request to the model.
func (s *script) answer(r modeltest.Request, process int, now time.Time) modeltest.Answer {
	session := sessionOf(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.of(session)
	one.last, one.process = now, process
	if len(r.Tools) == 0 {
		one.summaries++
		s.summarized <- session
		a := modeltest.Say("web-1 has too little memory.")
		a.Before = func(modeltest.Request) { time.Sleep(s.delay) }
		return a
	}
	turn := 1
	for _, m := range r.Messages {
		if m.Role == "assistant" {
			turn++
		}
	}
	if one.turns == 0 {
		one.first = now
	}
	switch {
	case turn < one.turns: // a later request had its answer
		one.again++
	case turn == one.turns:
		one.underWay++
	case !one.answered.IsZero() && !one.called.Before(one.answered) && !one.returned.Before(one.called):
		s.own = append(s.own, one.called.Sub(one.answered)+now.Sub(one.returned))
	}
	one.turns = max(one.turns, turn)
	one.answered = time.Time{}
	a := modeltest.Use(fmt.Sprintf("call_%d", turn), "bench__"+scriptedTool, fmt.Sprintf(`{"session":%d,"turn":%d}`, session, turn))
	if turn > s.calls {
		a = modeltest.Use("end", conclusion.ToolName, fmt.Sprintf(`{"cause":"%s: too little memory","confidence":"likely"}`, sessionText(session)))
	}
	a.Before = func(modeltest.Request) {
		time.Sleep(s.delay)
		s.mu.Lock()
		defer s.mu.Unlock()
		one.answered = time.Now()
	}
	return a
}

// ownTimes returns the investigator's own time in each iteration so far.
func (s *script) ownTimes() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.own)
}

// view calls f with a session.
func (s *script) view(session int, f func(*scripted)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.of(session))
}

// open returns the sessions whose newest request to the model came from a process, but for those
// whose summary was asked for.
func (s *script) open(process int) map[int]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := map[int]bool{}
	for n, one := range s.sessions {
		if one.turns > 0 && one.process == process && one.summaries == 0 {
			open[n] = true
		}
	}
	return open
}
