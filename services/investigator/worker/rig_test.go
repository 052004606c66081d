package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const testID = "01JD3ZK9Q2W4X6Y8Z0A1B2C3D4"

func testProvider(name string) session.Provider {
	return session.Provider{Name: name, Model: name + "-1", ContextWindow: 200_000, MaxOutput: 16_000, Price: &model.Price{Input: 3, Output: 15}}
}

func testPlan() session.Plan {
	return session.Plan{
		Chain: "kubernetes",
		Stages: []session.Stage{{Name: "investigation", Policy: session.Any, Agents: []session.Agent{{
			Name: "triage", Agent: "triage", Provider: testProvider("claude"), Fallbacks: []session.Provider{testProvider("gemini")},
			MaxIterations: 5, Servers: []session.Server{{Name: "kubernetes"}},
		}}}},
		Summary: testProvider("gemini"), Fallbacks: []session.Provider{testProvider("claude")},
		Timeout: 40 * time.Minute, IterationTimeout: 6 * time.Minute, ToolTimeout: time.Minute,
	}
}

func submitted(id string, plan session.Plan) session.Fact {
	return session.Fact{Time: now(), Submitted: &session.Submitted{
		ID: id, AlertType: "kubernetes", Author: "test", Data: session.Text{Inline: "pod shop/web crashes"}, Plan: plan,
	}}
}

// world is what workers act upon: models, tools, hooks. It counts what it is asked.
type world struct {
	// moreTools is how many tools the server has beside the one that is called.
	moreTools int
	mu        sync.Mutex
	asked     map[string]int // by session and content of the request
	called    map[string]int // by session and arguments
	open      int
	opened    int
	started   []string
	ended     []string
	running   int
	observed  map[string]int

	// answer is that of a model; turn is the number of its own answers in the conversation.
	answer func(ctx context.Context, r model.Request, turn int, onChunk func(int, model.Chunk)) (model.Answer, error)
	tool   func(ctx context.Context, arguments string) ToolResult
	list   func(ctx context.Context)
	gather func(ctx context.Context)
	hook   func(name string) error
	known  func(provider string) bool
	mask   func(string) string
	// unreadable means that the session can't be read, and has no plan.
	unreadable bool
}

const toolName = "kubernetes__pods_list"

func newWorld() *world {
	return &world{
		asked: map[string]int{}, called: map[string]int{}, observed: map[string]int{},
		answer: script,
		tool:   func(context.Context, string) ToolResult { return ToolResult{Text: "3 pods, 1 of them restarts"} },
		list:   func(context.Context) {}, gather: func(context.Context) {},
		hook: func(string) error { return nil }, known: func(string) bool { return true },
		mask: func(s string) string { return strings.ReplaceAll(s, "hunter2", "[MASKED]") },
	}
}

// script calls the tool twice, and then answers.
func script(_ context.Context, r model.Request, turn int, _ func(int, model.Chunk)) (model.Answer, error) {
	usage := model.Usage{Input: 100, Output: 10}
	if len(r.Tools) == 0 || turn >= 2 {
		return model.Answer{Text: "The pod runs out of memory.", Stop: model.StopEnd, Usage: usage}, nil
	}
	return model.Answer{
		Text: "I look at the pods.", Stop: model.StopEnd, Usage: usage,
		Calls: []model.Call{{ID: fmt.Sprintf("call_%d", turn+1), Name: toolName, Arguments: fmt.Sprintf(`{"page":%d}`, turn+1)}},
	}, nil
}

// Model implements [Models].
func (w *world) Model(provider session.Provider, _ bool) (Model, bool) {
	return w, w.known(provider.Name)
}

// Ask implements [Model].
func (w *world) Ask(ctx context.Context, r model.Request, onChunk func(int, model.Chunk)) (model.Answer, error) {
	turn := 0
	for _, m := range r.Messages {
		if m.Role == model.RoleAssistant {
			turn++
		}
	}
	key, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	w.asked[string(key)]++
	w.mu.Unlock()
	return w.answer(ctx, r, turn, onChunk)
}

// requests returns how often models were asked.
func (w *world) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, times := range w.asked {
		n += times
	}
	return n
}

// Open implements [Tools].
func (w *world) Open(session.Submitted, []session.Server) ToolSet {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open++
	w.opened++
	return worldSet{w}
}

type worldSet struct{ w *world }

func (s worldSet) List(ctx context.Context) []session.Listed {
	s.w.list(ctx)
	s.w.mu.Lock()
	s.w.called["list"]++
	s.w.mu.Unlock()
	tools := []session.ListedTool{{
		Name: "pods_list", Tool: model.Tool{Name: toolName, Schema: json.RawMessage(`{"type":"object"}`)}, Repeatable: true, Digest: "1",
	}}
	for i := range s.w.moreTools {
		name := fmt.Sprintf("more_%d", i)
		tools = append(tools, session.ListedTool{Name: name, Tool: model.Tool{Name: "kubernetes__" + name, Schema: json.RawMessage(`{"type":"object"}`)}, Digest: "1"})
	}
	return []session.Listed{{Server: "kubernetes", Tools: tools}}
}

func (s worldSet) Call(ctx context.Context, _ string, _ session.ListedTool, arguments []byte) ToolResult {
	s.w.mu.Lock()
	s.w.called[string(arguments)]++
	s.w.mu.Unlock()
	return s.w.tool(ctx, string(arguments))
}

func (s worldSet) Close() {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.open--
}

// Gather implements [Gatherer].
func (w *world) Gather(ctx context.Context, _ session.Submitted) session.Gathered {
	w.gather(ctx)
	return session.Gathered{Known: []session.Known{{ID: "K1", Title: "Alert", Text: "password hunter2"}}}
}

func (w *world) startedHook(_ context.Context, s *session.Session) error {
	if err := w.hook("started"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started = append(w.started, s.ID()+" "+string(s.Status()))
	return nil
}

func (w *world) endedHook(_ context.Context, s *session.Session) error {
	if err := w.hook("ended"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, s.ID()+" "+string(s.Status()))
	return nil
}

// ends returns the sessions whose end was reported.
func (w *world) ends() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.ended)
}

func (w *world) count(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.observed[name]++
}

func (w *world) Active(delta int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running += delta
}
func (w *world) SessionEnded(s session.Status, _ time.Duration) { w.count("session " + string(s)) }
func (w *world) StageEnded(s session.Status, _ time.Duration)   { w.count("stage " + string(s)) }
func (w *world) ModelAsked(_, _, outcome string, _ time.Duration, _ model.Usage, _ float64) {
	w.count("model " + outcome)
}
func (w *world) ToolCalled(_ string, isError bool, _ time.Duration) {
	w.count(fmt.Sprintf("tool error=%t", isError))
}
func (w *world) FellBack(from, to string) { w.count("fallback " + from + " " + to) }
func (w *world) TakenOver()               { w.count("takeover") }
func (w *world) Conflict()                { w.count("conflict") }

func (w *world) config(name string, j Journal, texts Texts, q Queue) Config {
	return Config{
		Name: name, Limits: Limits{Workers: 5, Sessions: 5}, Journal: j, Texts: texts, Queue: q,
		Models: w, Tools: w, Known: w,
		Mask: func(p session.Plan, s string) string {
			if p.Chain != testPlan().Chain && !w.unreadable { // then the text is withheld
				panic("a text is masked without its session's plan")
			}
			return w.mask(s)
		},
		Started: w.startedHook, Ended: w.endedHook, Observer: w, Logger: bustest.Quiet(),
	}
}

// worker runs a worker on a memory, until the returned function is called.
func (w *world) worker(m *memory, name string) (worker *Worker, stop func()) {
	worker = New(w.config(name, m, m, m))
	m.mu.Lock()
	m.workers = append(m.workers, worker)
	m.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := worker.Run(ctx); err != nil {
			panic(err)
		}
	}()
	return worker, func() { cancel(); <-done }
}

func (m *memory) submit(id string, plan session.Plan) {
	m.foreign(id, submitted(id, plan))
	m.enqueue(id, 1)
}

func (m *memory) fold(t testing.TB, id string) *session.Session {
	t.Helper()
	m.mu.Lock()
	messages := slices.Clone(m.logs[id])
	m.mu.Unlock()
	s, err := foldAll(messages)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// once fails the test where a finished call has two outcomes, or was made more than allowed.
func once(t testing.TB, facts []session.Fact) {
	t.Helper()
	outcomes := map[string]int{}
	for _, f := range facts {
		switch {
		case f.Gathered != nil:
			outcomes["gathered"]++
		case f.ToolsListed != nil:
			outcomes["listed "+f.ToolsListed.Execution]++
		case f.ModelAnswered != nil:
			outcomes["model "+f.ModelAnswered.ID]++
		case f.ModelFailed != nil:
			outcomes["model "+f.ModelFailed.ID]++
		case f.ToolAnswered != nil:
			outcomes["tool "+f.ToolAnswered.Execution+f.ToolAnswered.CallID]++
		case f.StageStarted != nil:
			outcomes["stage started "+f.StageStarted.ID]++
		case f.StageEnded != nil:
			outcomes["stage ended "+f.StageEnded.ID]++
		case f.ExecutionEnded != nil:
			outcomes["execution ended "+f.ExecutionEnded.Execution]++
		case f.Ended != nil:
			outcomes["ended"]++
		}
	}
	for what, n := range outcomes {
		if n != 1 {
			t.Errorf("%s: stored %d times, want once", what, n)
		}
	}
}
