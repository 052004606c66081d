// Package investigation runs the real binary with an investigator, against scripted models and MCP
// servers of the test, and reads its API as a client does. Its functions end the test if they
// fail.
//
// A test begins with a script for the models, whose subject stands in the alert:
//
//	sys := investigation.Start(t, config)
//	subject := sys.Models.Script(func(turn investigation.Turn) modeltest.Answer { return turn.Say("done") })
//	id := sys.Submit(t, "chain", subject)
//	session := sys.Await(t, id, "completed")
package investigation

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
)

// patience bounds every wait. It is reached only by what never comes.
const patience = time.Minute

// API is the path of the API.
const API = "/api/v1"

// System is a running tocsin up with an investigator, its models and its MCP servers.
type System struct {
	// Bus is the process that runs now.
	Bus    *harness.Bus
	Models *Models
	Tools  *Tools
	// Token, if set, is sent with every request.
	Token string
	// File is the configuration, StateDir the state directory.
	File, StateDir string

	env  []string
	logs []*harness.Log
}

// Start runs tocsin up with a configuration and more environment on a new state directory, and
// stops it at the end of the test. In the configuration $MODELS is the address of the model
// server, $TOOLS that of the MCP server over HTTP, $PROGRAM and $DIR are for MCP servers that
// are processes: see [Tools].
func Start(t *testing.T, config string, env ...string) *System {
	t.Helper()
	s := Prepare(t, config, env...)
	s.Up(t)
	t.Cleanup(func() {
		if err := s.Bus.Stop(); err != nil {
			t.Errorf("stop tocsin up: %v\n%s", err, s.Bus.Log)
		}
		e2etest.CheckLog(t, s.Bus.Log)
	})
	return s
}

// Prepare is Start without running the process.
func Prepare(t *testing.T, config string, env ...string) *System {
	t.Helper()
	s := &System{Models: NewModels(t), Tools: NewTools(t), StateDir: t.TempDir(), env: env}
	s.File = filepath.Join(t.TempDir(), "investigator.yaml")
	s.Configure(t, config)
	return s
}

// Configure writes the configuration.
func (s *System) Configure(t *testing.T, config string) {
	t.Helper()
	text := strings.NewReplacer("$MODELS", s.Models.URL, "$TOOLS", s.Tools.URL, "$PROGRAM", s.Tools.Program, "$DIR", s.Tools.Dir).Replace(config)
	if err := os.WriteFile(s.File, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Up runs the process with more arguments, and waits until the investigator is ready.
func (s *System) Up(t *testing.T, args ...string) {
	t.Helper()
	args = append([]string{"--investigator=" + s.File, "--investigator-addr=127.0.0.1:0"}, args...)
	b, err := harness.UpEnv(t.Context(), e2etest.Binary(t), s.StateDir, s.env, args...)
	if err != nil {
		t.Fatal(err)
	}
	s.Bus, s.logs = b, append(s.logs, b.Log, b.Stdout)
	AwaitReady(t, b.InvestigatorURL, b.Process)
}

// AwaitReady waits until the investigator at an address is ready.
func AwaitReady(t *testing.T, url string, p *harness.Process) {
	t.Helper()
	var last harness.Answer
	if !harness.Poll(t.Context(), patience, func() bool { last = e2etest.Get(t, url+"/readyz"); return last.Status == http.StatusOK }) {
		t.Fatalf("/readyz of the investigator answers %d %s after %s, want 200\n%s", last.Status, last.Body, patience, p.Log)
	}
}

// Kill kills the process, as kill -9 does.
func (s *System) Kill(t *testing.T) {
	t.Helper()
	if err := s.Bus.Kill(); err != nil {
		t.Fatal(err)
	}
	e2etest.CheckLog(t, s.Bus.Log)
}

// Output returns what all processes so far wrote.
func (s *System) Output() string {
	var all strings.Builder
	for _, log := range s.logs {
		all.WriteString(log.String())
	}
	return all.String()
}

// Send sends a request to a path of the API. Body is JSON, or nothing; header has names and
// values in turn.
func (s *System) Send(t *testing.T, method, path, body string, header ...string) harness.Answer {
	t.Helper()
	if s.Token != "" {
		header = append([]string{"Authorization", "Bearer " + s.Token}, header...)
	}
	return e2etest.Send(t, method, s.Bus.InvestigatorURL+API+path, body, header...)
}

// Get reads a path of the API into a value.
func (s *System) Get(t *testing.T, path string, into any) {
	t.Helper()
	a := s.Send(t, http.MethodGet, path, "")
	if a.Status != http.StatusOK {
		t.Fatalf("GET %s answers %d %s, want 200", path, a.Status, a.Body)
	}
	if err := a.JSON(into); err != nil {
		t.Fatalf("GET %s: %v: %s", path, err, a.Body)
	}
}

// AwaitServers waits until all MCP servers but those that misbehave are healthy: an agent works
// without one that was not at its last check, which is short.
func (s *System) AwaitServers(t *testing.T) {
	t.Helper()
	var out struct {
		Servers []struct {
			ID      string `json:"id"`
			Healthy bool   `json:"healthy"`
			Error   string `json:"error"`
		} `json:"servers"`
	}
	Wait(t, "the health of the MCP servers", func() bool {
		s.Get(t, "/system/mcp-servers", &out)
		for _, server := range out.Servers {
			if !server.Healthy && !slices.Contains(misbehaving, server.ID) {
				return false
			}
		}
		return true
	})
}

// misbehaving are the servers that no test expects to work.
var misbehaving = []string{"garbage", "hang", "exit", "gone"}

// Submit submits an alert about a subject to a chain once the MCP servers are healthy, and returns
// the session's id. More has further fields of the request.
func (s *System) Submit(t *testing.T, chain, subject string, more ...map[string]any) string {
	t.Helper()
	s.AwaitServers(t)
	body := map[string]any{"chain": chain, "data": map[string]any{"title": "The service " + subject + " restarts"}}
	for _, fields := range more {
		for name, value := range fields {
			body[name] = value
		}
	}
	a := s.Send(t, http.MethodPost, "/alerts", e2etest.JSON(t, body))
	var answer struct {
		SessionID string `json:"session_id"`
		Status    string `json:"status"`
	}
	if err := a.JSON(&answer); err != nil || a.Status != http.StatusAccepted || answer.SessionID == "" || answer.Status != "queued" {
		t.Fatalf("POST /alerts answers %d %s, want 202 with a queued session", a.Status, a.Body)
	}
	return answer.SessionID
}

// Session reads a session.
func (s *System) Session(t *testing.T, id string) Session {
	t.Helper()
	var out Session
	s.Get(t, "/sessions/"+id, &out)
	return out
}

// Await waits until a session has a status. It ends the test where the session ends otherwise.
func (s *System) Await(t *testing.T, id, status string) Session {
	t.Helper()
	var last Session
	ok := harness.Poll(t.Context(), patience, func() bool {
		last = s.Session(t, id)
		return last.Status == status || last.Ended()
	})
	if !ok || last.Status != status {
		t.Fatalf("session %s is %s (%s) within %s, want %s\n%s\ntool calls: %+v\n%s", id, last.Status, Value(last.ErrorMessage), patience, status, s.outline(t, id), s.Tools.Calls(t), tail(s.Bus.Log.String()))
	}
	return last
}

// maxTail is how much of a log a failure shows, in bytes.
const maxTail = 8 << 10

func tail(text string) string { return text[max(0, len(text)-maxTail):] }

// outline shows a session's timeline for a failure.
func (s *System) outline(t *testing.T, id string) string {
	t.Helper()
	var b strings.Builder
	for _, e := range s.Timeline(t, id) {
		b.WriteString(e.EventType + " " + e.Status + ": " + e.Content[:min(len(e.Content), 200)] + "\n")
	}
	return b.String()
}

// Cancel cancels a session, which has to be accepted.
func (s *System) Cancel(t *testing.T, id string) {
	t.Helper()
	if a := s.Send(t, http.MethodPost, "/sessions/"+id+"/cancel", ""); a.Status != http.StatusOK {
		t.Fatalf("cancelling session %s answers %d %s, want 200", id, a.Status, a.Body)
	}
}

// Timeline reads the whole timeline of a session.
func (s *System) Timeline(t *testing.T, id string) []Event {
	t.Helper()
	var out struct {
		Events []Event `json:"events"`
	}
	s.Get(t, "/sessions/"+id+"/timeline?limit=1000", &out)
	return out.Events
}

// Trace reads the trace of a session.
func (s *System) Trace(t *testing.T, id string) Trace {
	t.Helper()
	var out Trace
	s.Get(t, "/sessions/"+id+"/trace", &out)
	return out
}

// Value returns the text of a value that may be null.
func Value(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// Wait waits until ok returns true, and ends the test where it does not.
func Wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !harness.Poll(t.Context(), patience, ok) {
		t.Fatalf("%s did not come within %s", what, patience)
	}
}
