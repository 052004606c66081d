package investigator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/services/investigator/worker"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// running is an investigator that runs.
type running struct {
	t    *testing.T
	url  string
	file string
	stop func()
	// monitor is that of the investigator.
	monitor Monitor
}

// configFile writes a configuration whose models are at url.
func configFile(t *testing.T, url, more string) string {
	t.Helper()
	text := `
llm_providers:
  local: { type: openai, model: m, base_url: "` + url + `/v1", api_key_env: "", price: { input: 1, output: 2 } }
agents:
  triage: { custom_instructions: "Look closely." }
agent_chains:
  crash: { alert_types: [crash], stages: [{ name: look, agents: [{ name: triage }] }] }
defaults: { llm_provider: local, alert_type: crash }
` + more
	file := filepath.Join(t.TempDir(), "investigator.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// start runs an investigator on a bus until the end of the test, or stop.
func start(t *testing.T, joins bus.Config, file string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended := make(chan string, 1), make(chan error, 1)
	stopped := false
	r := &running{t: t, file: file, stop: func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run ended with %v, want nil", err)
		}
	}}
	go func() {
		ended <- Run(ctx, Config{
			Bus: joins, File: file, Addr: "127.0.0.1:0", Version: "v1", Logger: bustest.Quiet(), Monitor: &r.monitor,
			Ready: func(url string) { listening <- url },
		})
	}()
	t.Cleanup(r.stop)
	select {
	case r.url = <-listening:
	case err := <-ended:
		stopped = true
		cancel()
		t.Fatalf("Run ended with %v before it was ready", err)
	}
	bustest.Eventually(t, "the investigator to be ready", func() bool {
		status, _ := r.send("GET", "/readyz", "")
		return status == http.StatusOK
	})
	return r
}

func (r *running) send(method, path, body string) (status int, answer string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	got, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return got.StatusCode, strings.TrimSpace(string(text))
}

func (r *running) post(body string) string {
	r.t.Helper()
	status, text := r.send("POST", "/api/v1/alerts", body)
	var a Answer
	if err := json.Unmarshal([]byte(text), &a); err != nil || status != http.StatusAccepted {
		r.t.Fatalf("POST %s: %d %s, want 202", body, status, text)
	}
	return a.SessionID
}

func (r *running) get(path string, into any) {
	r.t.Helper()
	status, text := r.send("GET", path, "")
	if err := json.Unmarshal([]byte(text), into); err != nil || status != http.StatusOK {
		r.t.Fatalf("GET %s: %d %s, want 200", path, status, text)
	}
}

func (r *running) await(id string, want session.Status) session.Outcome {
	r.t.Helper()
	var o session.Outcome
	bustest.Eventually(r.t, "session "+id+" to be "+string(want), func() bool {
		r.get("/api/v1/sessions/"+id+"/summary", &o)
		return o.Status == want
	})
	return o
}

// scripted answers as the agent and the executive summary.
func scripted(t *testing.T, before func(modeltest.Request)) *modeltest.Server {
	t.Helper()
	s := modeltest.Serve(modeltest.Rule{Respond: func(r modeltest.Request) modeltest.Answer {
		if len(r.Tools) == 0 {
			return modeltest.Say("In short: the disk is full.")
		}
		return modeltest.Answer{
			Before: before, Thinking: "hmm", Usage: modeltest.Usage{Input: 100, Output: 10},
			Calls: []modeltest.Call{{ID: "c1", Name: conclusion.ToolName, Arguments: `{"cause":"the disk is full","confidence":"likely"}`}},
		}
	}})
	t.Cleanup(s.Close)
	return s
}

// A session from the request to its conclusion, through the bus, a worker and a model server.
func TestInvestigation(t *testing.T) {
	b := bustest.Start(t)
	models := scripted(t, nil)
	r := start(t, b.Config(bus.RoleInvestigator), configFile(t, models.URL, ""))
	id := r.post(`{"data":"pod web-1 crashes, password=hunter2secret","dedup_key":"k"}`)
	o := r.await(id, session.StatusCompleted)
	if o.FinalAnalysis == nil || !strings.Contains(*o.FinalAnalysis, "the disk is full") || o.ExecutiveSummary == nil || *o.ExecutiveSummary != "In short: the disk is full." {
		t.Errorf("the outcome is %+v, want the cause and the summary", o)
	}
	var d session.Detail
	r.get("/api/v1/sessions/"+id, &d)
	if len(d.Stages) != 1 || d.Stages[0].Status != session.StatusCompleted || d.LLMInteractionCount != 2 || d.InputTokens == 0 || d.EstimatedCostUSD == nil {
		t.Errorf("the session is %+v, want one completed stage, two model calls, tokens and their cost", d)
	}
	var trace session.TraceView
	r.get("/api/v1/sessions/"+id+"/trace", &trace)
	if len(trace.Stages) != 1 || len(trace.SessionInteractions) != 1 {
		t.Fatalf("the trace is %+v, want one stage and the executive summary", trace)
	}
	var llm session.LLMDetail
	r.get("/api/v1/sessions/"+id+"/trace/llm/"+trace.Stages[0].Executions[0].LLMInteractions[0].ID, &llm)
	if len(llm.Conversation) < 3 {
		t.Errorf("the conversation has %d messages, want instructions, question and answer", len(llm.Conversation))
	}
	other := r.post(`{"data":"another","dedup_key":"k"}`)
	if other == id {
		t.Error("the dedup_key of an ended session was not freed")
	}
	if status, text := r.send("GET", "/api/v1/sessions/"+other+"/trace/llm/"+llm.ID, ""); status != http.StatusNotFound {
		t.Errorf("the interaction of another session: %d %s, want 404", status, text)
	}
	r.await(other, session.StatusCompleted)
	for _, q := range models.Requests() {
		if strings.Contains(q.Body, "hunter2secret") {
			t.Errorf("a request to the model has the secret: %.500s", q.Body)
		}
	}
	status, metrics := r.send("GET", "/metrics", "")
	for _, want := range []string{"tocsin_investigator_sessions_indexed 2", "tocsin_investigator_requests_total"} {
		if status != http.StatusOK || !strings.Contains(metrics, want) {
			t.Errorf("/metrics: %d without %s", status, want)
		}
	}
	bustest.Eventually(t, "the queue to be empty", func() bool {
		queued, err := journal.New(b.Connect(bus.RoleInvestigator), bustest.Quiet()).Queued(t.Context())
		return err == nil && len(queued) == 0
	})
}

// A running session is cancelled while its model thinks, and started again.
func TestCancelAndRetryRunning(t *testing.T) {
	b := bustest.Start(t)
	hold, asked := make(chan struct{}), make(chan struct{}, 10)
	models := scripted(t, func(modeltest.Request) { asked <- struct{}{}; <-hold })
	r := start(t, b.Config(bus.RoleInvestigator), configFile(t, models.URL, ""))
	id := r.post(`{"data":"x"}`)
	<-asked
	if status, text := r.send("POST", "/api/v1/sessions/"+id+"/cancel", ""); status != http.StatusOK {
		t.Errorf("cancel: %d %s, want 200", status, text)
	}
	r.await(id, session.StatusCancelled)
	close(hold)
	if status, text := r.send("POST", "/api/v1/sessions/"+id+"/retry", ""); status != http.StatusAccepted {
		t.Errorf("retry: %d %s, want 202", status, text)
	}
	r.await(id, session.StatusCompleted)
}

// A second process goes on with what the first one leaves.
func TestRestart(t *testing.T) {
	b := bustest.Start(t)
	hold, asked := make(chan struct{}), make(chan struct{}, 10)
	models := scripted(t, func(modeltest.Request) { asked <- struct{}{}; <-hold })
	file := configFile(t, models.URL, "")
	first := start(t, b.Config(bus.RoleInvestigator), file)
	id := first.post(`{"data":"x"}`)
	<-asked
	first.stop()
	close(hold)
	second := start(t, b.Config(bus.RoleInvestigator), file)
	second.await(id, session.StatusCompleted)
}

// A process is ready once its lists have all that is stored, the deleted messages at the end of the
// log aside.
func TestListRightAfterAStart(t *testing.T) {
	b := bustest.Start(t)
	j := journal.New(b.Connect(bus.RoleInvestigator), bustest.Quiet())
	const stored = 2000
	add := func() string {
		t.Helper()
		id := journal.NewSession()
		facts := []session.Fact{
			{Time: time.Now(), Submitted: &session.Submitted{ID: id, AlertType: "crash", Author: AuthorAPI, Data: session.Text{Inline: strings.Repeat("x", 4000)}}},
			{Time: time.Now(), Ended: &session.Ended{Status: session.StatusCancelled}},
		}
		data, err := session.Encode(facts)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.Append(t.Context(), id, 0, data); err != nil {
			t.Fatal(err)
		}
		return id
	}
	for range stored {
		add()
	}
	if err := j.Delete(t.Context(), add()); err != nil {
		t.Fatal(err)
	}
	r := start(t, b.Config(bus.RoleInvestigator), configFile(t, scripted(t, nil).URL, ""))
	if got := r.monitor.backend.Load().index.size(); got != stored { // a list would wait a moment
		t.Errorf("the index has %d sessions when the process is ready, want %d", got, stored)
	}
	var list listed
	r.get("/api/v1/sessions", &list)
	if got := list.Pagination.TotalItems; got != stored {
		t.Errorf("a list right after /readyz has %d sessions, want %d", got, stored)
	}
}

// A session that lost its place in the queue is queued again by the sweep, and one whose
// cancellation no worker sees comes to its end.
func TestForgottenSessions(t *testing.T) {
	b := bustest.Start(t)
	models := scripted(t, nil)
	file := configFile(t, models.URL, "")
	first := start(t, b.Config(bus.RoleInvestigator), file)
	template := first.post(`{"data":"x"}`)
	first.await(template, session.StatusCompleted)
	first.stop()
	j := journal.New(b.Connect(bus.RoleInvestigator), bustest.Quiet())
	messages, err := j.Read(t.Context(), template, 0)
	if err != nil {
		t.Fatal(err)
	}
	submitted, err := session.Decode(messages[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	forget := func(more ...session.Fact) string {
		t.Helper()
		copied := *submitted[0].Submitted
		copied.ID = journal.NewSession()
		data, err := session.Encode(append([]session.Fact{{Time: time.Now(), Submitted: &copied}}, more...))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := j.Append(t.Context(), copied.ID, 0, data); err != nil {
			t.Fatal(err)
		}
		return copied.ID
	}
	pending := forget()
	cancelling := forget(
		session.Fact{Time: time.Now(), Claimed: &session.Claimed{Worker: "gone", Epoch: 1}},
		session.Fact{Time: time.Now(), CancelRequested: &session.CancelRequested{By: "ann"}},
	)
	second := start(t, b.Config(bus.RoleInvestigator), file)
	second.await(pending, session.StatusCompleted)
	second.await(cancelling, session.StatusCancelled)
}

func TestReload(t *testing.T) {
	b := bustest.Start(t)
	models := scripted(t, nil)
	r := start(t, b.Config(bus.RoleInvestigator), configFile(t, models.URL, ""))
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(r.file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	write(string(good) + "nonsense: 1\n")
	warned := func() (categories []string) {
		var list struct {
			Warnings []struct{ Category string }
		}
		r.get("/api/v1/system/warnings", &list)
		for _, w := range list.Warnings {
			categories = append(categories, w.Category)
		}
		return categories
	}
	bustest.Eventually(t, "the warning about the file", func() bool { return cmp.Equal(warned(), []string{categoryReload}) })
	r.await(r.post(`{"data":"still works"}`), session.StatusCompleted)
	write(strings.Replace(string(good), "[crash]", "[crash, boom]", 1))
	bustest.Eventually(t, "the new alert type", func() bool {
		_, text := r.send("GET", "/api/v1/alert-types", "")
		return strings.Contains(text, "boom")
	})
	if got := warned(); len(got) > 0 {
		t.Errorf("warnings after a good file: %v, want none", got)
	}
}

// TestReloadKeepsRunningSessions: a session goes on with the provider that its plan names, after a
// change of the entry.
func TestReloadKeepsRunningSessions(t *testing.T) {
	b := bustest.Start(t)
	asked, goOn := make(chan struct{}, 1), make(chan struct{})
	first := scripted(t, func(modeltest.Request) { asked <- struct{}{}; <-goOn })
	second := scripted(t, nil)
	r := start(t, b.Config(bus.RoleInvestigator), configFile(t, first.URL, ""))
	id := r.post(`{"data":"before"}`)
	<-asked
	bustest.Eventually(t, "one open session in the index", func() bool { return r.monitor.OpenSessions() == 1 })
	text, err := os.ReadFile(r.file)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), first.URL, second.URL, 1)
	changed = strings.Replace(changed, "[crash]", "[crash, boom]", 1)
	if err := os.WriteFile(r.file, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the new configuration", func() bool {
		_, text := r.send("GET", "/api/v1/alert-types", "")
		return strings.Contains(text, "boom")
	})
	close(goOn)
	r.await(id, session.StatusCompleted)
	if n := len(second.Requests()); n != 0 {
		t.Errorf("the session asked the new provider %d times, want never", n)
	}
	kept := len(first.Requests())
	r.await(r.post(`{"data":"after"}`), session.StatusCompleted)
	if n, more := len(second.Requests()), len(first.Requests())-kept; n == 0 || more != 0 {
		t.Errorf("a new session asked the new provider %d times and the old one %d times, want the new one alone", n, more)
	}
	bustest.Eventually(t, "no session to be open", func() bool { return r.monitor.OpenSessions() == 0 })
}

// limitQueue records the limits that a worker sets.
type limitQueue struct{ limits chan int }

func (q limitQueue) SetLimit(_ context.Context, limit int) error { q.limits <- limit; return nil }

func (q limitQueue) Next(ctx context.Context) (worker.Claim, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// TestLimitsOfALaterConfiguration: the file was loaded again between the making of a worker and its
// use.
func TestLimitsOfALaterConfiguration(t *testing.T) {
	p := &process{}
	s, err := newSettings(parseConfig(t, strings.Replace(restConfig, "queue: {", "queue: { max_concurrent_sessions: 7,", 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	queue := limitQueue{make(chan int, 10)}
	w := worker.New(worker.Config{Name: "w", Limits: worker.Limits{Workers: 1, Sessions: 2}, Queue: queue, Logger: bustest.Quiet()})
	p.settings.Store(s)
	p.setWorker(w)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	if got := <-queue.limits; got != 7 {
		t.Errorf("the limit of the queue = %d, want 7", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v, want nil", err)
	}
}

// TestMaskingOfThePlan: the texts of a session are masked by the patterns that were configured when it
// was submitted, and those of a session of an earlier version by the patterns in force.
func TestMaskingOfThePlan(t *testing.T) {
	p := &process{}
	load := func(change string) session.Plan {
		t.Helper()
		s, err := newSettings(parseConfig(t, strings.Replace(restConfig, "defaults: {", "defaults: {"+change, 1)), p.settings.Load())
		if err != nil {
			t.Fatal(err)
		}
		p.settings.Store(s)
		plan, err := s.config.Plan(config.PlanRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return plan
	}
	const text = "ask bob@mail.com, password=hunter2hunter2"
	masked, redacted := load(" alert_masking: { pattern_group: security },"), load(" alert_masking: { enabled: false },")
	for _, in := range []string{" alert_masking: { enabled: false },", " alert_masking: { pattern_group: security },"} {
		current := load(in)
		for _, test := range []struct {
			name string
			plan session.Plan
			bob  bool
		}{
			{"with the group security", masked, false}, {"without patterns", redacted, true},
			{"of an earlier version", session.Plan{}, len(current.Masking.Groups) == 0},
			{"with an unknown group", session.Plan{Masking: &session.Masking{Groups: []string{"x"}}}, len(current.Masking.Groups) == 0},
		} {
			got := p.maskFor(test.plan, text)
			if strings.Contains(got, "bob@mail.com") != test.bob || strings.Contains(got, "hunter2") {
				t.Errorf("under%s the text of a session %s is %q, want the address shown: %t, and no password", in, test.name, got, test.bob)
			}
		}
	}
}

// TestEarlierDefinitions: plans keep the entries of their file, a bounded number of them, and a plan
// of another process has those of the same names.
func TestEarlierDefinitions(t *testing.T) {
	load := func(n int, old *settings) *settings {
		t.Helper()
		text := strings.NewReplacer("http://127.0.0.1:1/v1", fmt.Sprintf("http://127.0.0.1:%d/v1", n), "http://127.0.0.1:1/", fmt.Sprintf("http://127.0.0.1:%d/", n)).Replace(restConfig)
		s, err := newSettings(parseConfig(t, text), old)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := load(1, nil)
	plan, err := first.config.Plan(config.PlanRequest{})
	if err != nil {
		t.Fatal(err)
	}
	agent := plan.Stages[0].Agents[0]
	urlOf := func(s *settings, used session.Server) string {
		t.Helper()
		server, ok, err := s.server(used)
		if !ok || err != nil {
			t.Fatalf("server %+v: %t, %v, want one", used, ok, err)
		}
		return server.URL
	}
	second := load(2, first)
	m, _ := second.model(agent.Provider, true)
	if want, _ := first.model(agent.Provider, true); m != want {
		t.Error("a plan of the first file has another client in the second, want the same one")
	}
	if got, want := urlOf(second, agent.Servers[0]), "http://127.0.0.1:1/"; got != want {
		t.Errorf("a plan of the first file has the server at %s, want %s", got, want)
	}
	elsewhere := agent.Servers[0]
	elsewhere.Definition = "of another process"
	if got, want := urlOf(second, elsewhere), "http://127.0.0.1:2/"; got != want {
		t.Errorf("a plan of another process has the server at %s, want %s", got, want)
	}
	if same := load(1, second); len(same.earlier) != len(second.earlier) {
		t.Errorf("%d earlier entries after a change was undone, want %d", len(same.earlier), len(second.earlier))
	}
	last := second
	for n := range maxEarlier {
		last = load(n+3, last)
	}
	if len(last.earlier) != maxEarlier {
		t.Errorf("%d earlier entries are kept, want %d", len(last.earlier), maxEarlier)
	}
	if got, want := urlOf(last, agent.Servers[0]), fmt.Sprintf("http://127.0.0.1:%d/", maxEarlier+2); got != want {
		t.Errorf("a plan with a forgotten entry has the server at %s, want %s", got, want)
	}
}

// TestSharedDefinitions: investigators on one bus share the key of the definitions, also after a
// restart. So a session finds the entries of its file in another process, where that had them.
func TestSharedDefinitions(t *testing.T) {
	b := bustest.Start(t)
	load := func(key []byte, ports ...int) *settings {
		t.Helper()
		var s *settings
		for _, n := range ports {
			text := strings.ReplaceAll(restConfig, "http://127.0.0.1:1/", fmt.Sprintf("http://127.0.0.1:%d/", n))
			next, err := newSettings(parseConfig(t, text), s)
			if err != nil {
				t.Fatal(err)
			}
			s = next
		}
		return s.keyed(key)
	}
	var keys [][]byte
	for i := range 2 {
		if i > 0 {
			b.Restart()
		}
		key, err := definitionKey(t.Context(), b.Connect(bus.RoleInvestigator))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	if !bytes.Equal(keys[0], keys[1]) || len(keys[0]) != config.DefinitionKeySize {
		t.Errorf("the keys are %x and %x, want the same one of %d bytes", keys[0], keys[1], config.DefinitionKeySize)
	}
	plan, err := load(keys[0], 1).config.Plan(config.PlanRequest{})
	if err != nil {
		t.Fatal(err)
	}
	agent := plan.Stages[0].Agents[0]
	for _, test := range []struct {
		name  string
		other *settings
		want  string
	}{
		{"after a change of the file", load(keys[1], 1, 2), "http://127.0.0.1:1/"},
		{"after a change that was undone", load(keys[1], 2, 1), "http://127.0.0.1:1/"},
		{"with another file", load(keys[1], 2), "http://127.0.0.1:2/"},
		{"on another bus", load(config.NewDefinitionKey(), 1, 2), "http://127.0.0.1:2/"},
	} {
		server, _, err := test.other.server(agent.Servers[0])
		if err != nil || server.URL != test.want {
			t.Errorf("%s another process has the server at %q (error %v), want %s", test.name, server.URL, err, test.want)
		}
	}
	// A key that is damaged is replaced.
	s := b.Connect(bus.RoleInvestigator)
	doc := s.Document(bus.BucketInvestigator, definitionsKey)
	if _, err := doc.Update(t.Context(), func(bus.Entry) ([]byte, error) { return []byte("short"), nil }); err != nil {
		t.Fatal(err)
	}
	if key, err := definitionKey(t.Context(), s); err != nil || len(key) != config.DefinitionKeySize {
		t.Errorf("the key after a damage is %x (error %v), want one of %d bytes", key, err, config.DefinitionKeySize)
	}
}

// TestBreakersOfAReload: a provider with a new address is asked at once, though the one at the old
// address failed. One that did not change keeps its failures.
func TestBreakersOfAReload(t *testing.T) {
	load := func(text string, old *settings) *settings {
		t.Helper()
		s, err := newSettings(parseConfig(t, text), old)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := load(restConfig, nil)
	name := slices.Sorted(maps.Keys(first.models))[0]
	for range model.BreakerFailures {
		done, _ := first.models[name].breaker.Allow(time.Now())
		done(time.Now(), &model.Error{Kind: model.Unavailable})
	}
	address := first.config.Providers[name].BaseURL
	moved := load(strings.Replace(restConfig, address, "http://127.0.0.1:2/v1", 1), first)
	for _, test := range []struct {
		name string
		s    *settings
		open bool
	}{
		{"the first file", first, true},
		{"the same file again", load(restConfig, first), true},
		{"another limit", load(strings.Replace(restConfig, "queue: {", "queue: { max_concurrent_sessions: 7,", 1), first), true},
		{"another address", moved, false},
		{"the first address again", load(restConfig, moved), true},
	} {
		if got := test.s.models[name].breaker.Open(); got != test.open {
			t.Errorf("%s: the breaker is open: %t, want %t", test.name, got, test.open)
		}
	}
}

// TestRetriedSessionIsKept: a session that was listed to be deleted is retried before its turn.
func TestRetriedSessionIsKept(t *testing.T) {
	r := newRESTRig(t, nil)
	id := r.post(`{"data":"x"}`)
	r.claim(id, 1)
	r.end(id, session.StatusFailed)
	if got := r.send("POST", "/api/v1/sessions/"+id+"/retry", ""); got.status != http.StatusAccepted {
		t.Fatalf("retry: %d %s, want 202", got.status, got.body)
	}
	if err := (&sweeper{backend: r.backend, log: bustest.Quiet()}).deleteAll(t.Context(), []string{id}); err != nil {
		t.Fatal(err)
	}
	var o session.Outcome
	if r.get("/api/v1/sessions/"+id+"/summary", &o); o.Status != session.StatusPending {
		t.Errorf("the session is %s, want pending", o.Status)
	}
}

func TestRetention(t *testing.T) {
	r := newRESTRig(t, nil)
	old := r.post(`{"data":"old"}`)
	r.claim(old, 1)
	r.end(old, session.StatusCompleted)
	open := r.post(`{"data":"open"}`)
	bustest.Eventually(t, "the index to have both", func() bool { return r.index.has(open) && r.index.has(old) })
	cfg := parseConfig(t, restConfig+"system: { retention: { sessions: 1m } }\n")
	cfg.System.Retention.Sessions = 0
	r.config.Store(cfg)
	(&sweeper{backend: r.backend, log: bustest.Quiet()}).delete(t.Context())
	if got := r.send("GET", "/api/v1/sessions/"+old, ""); got.status != http.StatusNotFound {
		t.Errorf("the old session: %d %s, want 404", got.status, got.body)
	}
	var list listed
	r.get("/api/v1/sessions", &list)
	if diff := cmp.Diff([]string{open}, list.ids()); diff != "" {
		t.Errorf("the list (-want +got):\n%s", diff)
	}
}

func TestRunRefuses(t *testing.T) {
	for name, cfg := range map[string]Config{
		"no file":              {File: filepath.Join(t.TempDir(), "none.yaml")},
		"beyond loopback":      {File: configFile(t, "http://127.0.0.1:1", ""), Addr: "0.0.0.0:0"},
		"a file with an error": {File: configFile(t, "http://127.0.0.1:1", "nonsense: 1\n")},
	} {
		cfg.Logger = bustest.Quiet()
		if err := Run(t.Context(), cfg); err == nil {
			t.Errorf("%s: Run returned nil, want an error", name)
		}
	}
}
