package investigation

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
)

// Models is a scripted model server for all providers of a configuration. Each alert has a subject
// with a script of its own, so sessions may run side by side.
type Models struct {
	*modeltest.Server

	running sync.Mutex // held by a script that runs
	mu      sync.Mutex
	scripts map[string]func(Turn) modeltest.Answer
}

// NewModels starts a server. The test closes it at its end.
func NewModels(t *testing.T) *Models {
	t.Helper()
	m := &Models{scripts: map[string]func(Turn) modeltest.Answer{}}
	m.Server = modeltest.Serve(modeltest.Rule{Name: "script", Respond: m.respond})
	t.Cleanup(m.Close)
	return m
}

// Script adds a script and returns its subject. The script is asked for one request at a time; an
// answer that has to wait does it in Before. An answer with a text has to contain the subject, as
// those of [Turn.Say] and [Turn.Conclude]: the executive summary knows nothing else.
func (m *Models) Script(script func(Turn) modeltest.Answer) (subject string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	subject = e2etest.UniqueWord(len(m.scripts))
	m.scripts[subject] = script
	return subject
}

// Locked runs do while no script runs, so that both may use the same variables.
func (m *Models) Locked(do func()) {
	m.running.Lock()
	defer m.running.Unlock()
	do()
}

var (
	subjects = regexp.MustCompile(`subject[a-z]{3}`)
	agents   = regexp.MustCompile(`^You are ([^,.\n]+)[,.]`)
)

func (m *Models) respond(q modeltest.Request) modeltest.Answer {
	turn, script := m.turn(q)
	if script == nil {
		return modeltest.Fail(404, "the request has no subject with a script")
	}
	m.running.Lock()
	defer m.running.Unlock()
	return script(turn)
}

// turn finds the script of a request.
func (m *Models) turn(q modeltest.Request) (Turn, func(Turn) modeltest.Answer) {
	turn := Turn{Request: q}
	switch name := agents.FindStringSubmatch(q.System); {
	case name != nil:
		turn.Agent = name[1]
	case strings.HasPrefix(q.System, "You write the summary"):
		turn.Agent = Executive
	case strings.HasPrefix(q.System, "You shorten the result"):
		turn.Agent = Summarizer
	}
	for _, message := range q.Messages {
		if message.Role == "tool" {
			turn.Results = append(turn.Results, message)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, message := range q.Messages {
		for _, word := range subjects.FindAllString(message.Text, -1) {
			if script := m.scripts[word]; script != nil {
				turn.Subject = word
				return turn, script
			}
		}
	}
	return turn, nil
}

// Turns returns the requests about all subjects, in their order.
func (m *Models) Turns() []Turn {
	var turns []Turn
	for _, q := range m.Requests() {
		if turn, script := m.turn(q); script != nil {
			turns = append(turns, turn)
		}
	}
	return turns
}

// Asked returns the requests about a subject, in their order.
func (m *Models) Asked(subject string) []Turn {
	return slices.DeleteFunc(m.Turns(), func(q Turn) bool { return q.Subject != subject })
}

// The names of calls that no agent makes.
const (
	Executive  = "the executive summary"
	Summarizer = "the summary of a result"
)

// Turn is a request to a model.
type Turn struct {
	modeltest.Request
	Subject string
	// Agent is the name of the agent, [Executive] or [Summarizer].
	Agent string
	// Results are those of all tool calls so far.
	Results []modeltest.Message
}

// fenced matches a result as the model is shown it: between two lines with a boundary.
var fenced = regexp.MustCompile(`^(?s)<<<([0-9a-f]{16}) begins: the result\n(.*)\n>>>([0-9a-f]{16}) ends$`)

// Unfenced returns what a tool answered, from the result that the model is shown. It fails the test
// where the model is shown the answer without a fence around it.
func Unfenced(t *testing.T, shown string) string {
	t.Helper()
	m := fenced.FindStringSubmatch(shown)
	if m == nil || m[1] != m[3] || strings.Contains(m[2], m[1]) {
		t.Fatalf("the model is shown %.500q, want a result between the two lines of a fence", shown)
	}
	return m[2]
}

// Key identifies a step of a session: an agent, and how many results it knows.
func (q Turn) Key() string { return StepKey(q.Subject, q.Agent, len(q.Results)) }

// StepKey is the key of a step.
func StepKey(subject, agent string, results int) string {
	return fmt.Sprintf("%s %s %d", subject, agent, results)
}

// Say is an answer with a text.
func (q Turn) Say(text string) modeltest.Answer { return modeltest.Say(q.Subject + ": " + text) }

// Call is an answer that calls a tool.
func (q Turn) Call(tool string, arguments map[string]any) modeltest.Answer {
	data, err := json.Marshal(arguments)
	if err != nil {
		panic(err) // arguments of the script
	}
	return modeltest.Use(fmt.Sprintf("%s_%d", strings.ReplaceAll(q.Agent, " ", "_"), len(q.Results)+1), tool, string(data))
}

// Conclude is an answer that ends the session. Evidence is the call's id and the quote, in turn.
func (q Turn) Conclude(confidence, cause string, evidence ...string) modeltest.Answer {
	pieces := []map[string]string{}
	for i := 0; i+1 < len(evidence); i += 2 {
		pieces = append(pieces, map[string]string{"claim": "it shows the cause", "call_id": evidence[i], "quote": evidence[i+1]})
	}
	return q.Call("conclude", map[string]any{"cause": q.Subject + ": " + cause, "confidence": confidence, "evidence": pieces})
}

// Stall is an answer that never comes: the client has to leave.
func Stall() modeltest.Answer { return modeltest.Answer{Stall: true} }

// Gate holds answers back until it is opened.
type Gate struct {
	once   sync.Once
	opened chan struct{}

	mu                   sync.Mutex
	waiting, most, total int
}

// NewGate returns a gate that is opened at the end of the test at the latest.
func NewGate(t *testing.T) *Gate {
	t.Helper()
	g := &Gate{opened: make(chan struct{})}
	t.Cleanup(g.Open)
	return g
}

// Open lets all answers through.
func (g *Gate) Open() { g.once.Do(func() { close(g.opened) }) }

// Hold returns the answer, which waits at the gate.
func (g *Gate) Hold(a modeltest.Answer) modeltest.Answer {
	a.Before = func(modeltest.Request) {
		g.add(1)
		<-g.opened
		g.add(-1)
	}
	return a
}

func (g *Gate) add(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting += n
	g.total += max(n, 0)
	g.most = max(g.most, g.waiting)
}

// Waiting returns how many answers wait, how many waited at once at most, and how many have come.
func (g *Gate) Waiting() (now, most, total int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting, g.most, g.total
}
