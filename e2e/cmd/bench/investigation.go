package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

const (
	// iterations is the number of tool calls of a session whose iterations are measured.
	iterations = 4
	// sessionPatience bounds the wait for one session, and for an investigator to be ready.
	sessionPatience = 2 * time.Minute

	// crowd is the number of sessions that run at once, with crowdCalls tool calls each.
	// crowdDelay is the time of each answer of the model.
	crowd         = 500
	crowdCalls    = 2
	crowdDelay    = 2 * time.Second
	crowdPatience = 5 * time.Minute
	// crowdCores is the number of cores that the process of the crowd may use at once.
	crowdCores = 2
	// triggerRate is how many sessions triggers may start in an hour: more than are measured.
	triggerRate = 100_000
	// submitters is the number of sessions that are submitted side by side.
	submitters = 8
)

// investigations measures an investigator with a scripted model and a scripted tool on loopback: one
// session after the other, many at once, and sessions whose workers are killed.
func investigations(ctx context.Context, bin string, samples int) (all []harness.Figure, err error) {
	for _, measure := range []func(context.Context, string, int) ([]harness.Figure, error){iterationTimes, triggeredSessions, manySessions, killedWorkers} {
		more, err := measure(ctx, bin, samples)
		if err != nil {
			return nil, fmt.Errorf("investigations: %w", err)
		}
		all = append(all, more...)
	}
	return all, nil
}

// testbed is a bus and investigators on it, each a process of its own.
type testbed struct {
	bin    string
	dir    string
	bus    *harness.Bus
	script *script
	// workers is the number of sessions of each process, limit that of all.
	workers, limit int
	// env is more environment for the processes.
	env       []string
	models    []*modeltest.Server
	processes []*worker
}

// worker is an investigator.
type worker struct {
	*harness.Process
	url, file string
}

func newTestbed(ctx context.Context, bin string, s *script, workers, limit int) (b *testbed, err error) {
	b = &testbed{bin: bin, script: s, workers: workers, limit: limit}
	if b.dir, err = os.MkdirTemp("", "tocsin-bench-"); err != nil {
		return nil, err
	}
	if b.bus, err = harness.Up(ctx, bin, b.dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(b.dir))
	}
	return b, nil
}

// close stops all processes, and removes their files.
func (b *testbed) close() error {
	var failed []error
	for _, w := range b.processes {
		failed = append(failed, w.Stop())
	}
	for _, m := range b.models {
		m.Close()
	}
	b.script.Close()
	return errors.Join(append(failed, b.bus.Stop(), os.RemoveAll(b.dir))...)
}

// add starts an investigator with a model server of its own, so that its requests are known.
func (b *testbed) add(ctx context.Context) error {
	n := len(b.processes)
	model := b.script.model(n)
	b.models = append(b.models, model)
	w := &worker{file: filepath.Join(b.dir, fmt.Sprintf("investigator-%d.yaml", n))}
	text := fmt.Sprintf(`
llm_providers:
  scripted: { type: openai, model: scripted, base_url: "%s/v1", api_key_env: "" }
mcp_servers:
  bench: { transport: { type: http, url: "%s" } }
agents:
  bench: { mcp_servers: [bench] }
agent_chains:
  bench: { alert_types: [bench], stages: [{ name: look, agents: [{ name: bench }] }] }
defaults: { llm_provider: scripted, alert_type: bench, max_iterations: 200 }
triggers: [{ match: { app: "bench-*" }, chain: bench }]
queue: { worker_count: %d, max_concurrent_sessions: %d, max_per_hour: %d }
`, model.URL, b.script.web.URL, b.workers, b.limit, triggerRate)
	if err := os.WriteFile(w.file, []byte(text), 0o600); err != nil {
		return err
	}
	if err := b.start(w); err != nil {
		return err
	}
	b.processes = append(b.processes, w)
	if err := w.ready(ctx); err != nil {
		return err
	}
	return w.hasTools(ctx)
}

var listening = regexp.MustCompile(`investigator  (http://\S+)`)

// start starts the process of an investigator, also again.
func (b *testbed) start(w *worker) (err error) {
	w.url = ""
	w.Process, err = harness.Start(b.bin, b.dir, b.env, "investigator", "--investigator="+w.file, "--investigator-addr=127.0.0.1:0")
	return err
}

// ready waits until an investigator accepts requests.
func (w *worker) ready(ctx context.Context) error {
	ok := harness.Poll(ctx, sessionPatience, func() bool {
		found := listening.FindStringSubmatch(w.Stdout.String())
		if found == nil {
			return false
		}
		w.url = found[1]
		return w.get(ctx, "/readyz", nil) == nil
	})
	if !ok {
		return fmt.Errorf("the investigator is not ready after %s:\n%s", sessionPatience, w.Log)
	}
	return nil
}

// hasTools waits until an investigator has read the definitions of the tool.
func (w *worker) hasTools(ctx context.Context) error {
	ok := harness.Poll(ctx, sessionPatience, func() bool {
		var answer struct {
			Servers []struct {
				Healthy bool
				Tools   []struct{ Offered bool }
			}
		}
		err := w.get(ctx, "/api/v1/system/mcp-servers", &answer)
		// The built-in server comes first.
		return err == nil && len(answer.Servers) == 2 && answer.Servers[1].Healthy && len(answer.Servers[1].Tools) == 1
	})
	if !ok {
		return fmt.Errorf("the investigator has no tools after %s:\n%s", sessionPatience, w.Log)
	}
	return nil
}

// get reads JSON into an answer, which may be nil.
func (w *worker) get(ctx context.Context, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+path, http.NoBody)
	if err != nil {
		return err
	}
	a, err := harness.DoWith(poster, req)
	switch {
	case err != nil:
		return err
	case a.Status != http.StatusOK:
		return fmt.Errorf("GET %s: %d %s", path, a.Status, a.Body)
	case into == nil:
		return nil
	}
	return a.JSON(into)
}

// submit submits a session, and returns how long that took.
func (w *worker) submit(ctx context.Context, session int) (time.Duration, error) {
	body, err := json.Marshal(map[string]any{"data": sessionText(session)})
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/api/v1/alerts", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	begin := time.Now()
	a, err := harness.DoWith(poster, req)
	took := time.Since(begin)
	if err == nil && a.Status != http.StatusAccepted {
		err = fmt.Errorf("POST /api/v1/alerts: %d %s", a.Status, a.Body)
	}
	return took, err
}

// count returns the number of sessions with a status.
func (w *worker) count(ctx context.Context, status string) (int, error) {
	var answer struct {
		Pagination struct {
			TotalItems int `json:"total_items"`
		}
	}
	err := w.get(ctx, "/api/v1/sessions?page_size=1&status="+status, &answer)
	return answer.Pagination.TotalItems, err
}

// listPause is the pause between two requests for the number of sessions, which load the investigator.
const listPause = time.Second

// ended waits until a number of sessions have ended, and returns how many of them completed.
func (w *worker) ended(ctx context.Context, all int) (completed int, err error) {
	ctx, cancel := context.WithTimeout(ctx, sessionPatience)
	defer cancel()
	tick := time.NewTicker(listPause)
	defer tick.Stop()
	for {
		ended, err := w.count(ctx, "completed,failed,timed_out,cancelled")
		if err == nil && ended == all {
			return w.count(ctx, "completed")
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%d of %d sessions ended within %s (%w)\n%s", ended, all, sessionPatience, errors.Join(err, ctx.Err()), w.Log)
		case <-tick.C:
		}
	}
}

// iterationTimes measures sessions one after the other, whose model and tool answer at once.
func iterationTimes(ctx context.Context, bin string, samples int) (all []harness.Figure, err error) {
	s := newScript(iterations, 0)
	b, err := newTestbed(ctx, bin, s, 1, 1)
	if err != nil {
		s.Close()
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.add(ctx); err != nil {
		return nil, err
	}
	w := b.processes[0]
	var posted, first []time.Duration
	for n := range samples {
		took, err := w.submit(ctx, n)
		accepted := time.Now()
		if err != nil {
			return nil, err
		}
		posted = append(posted, took)
		if err := w.summarized(ctx, s, n); err != nil {
			return nil, err
		}
		s.view(n, func(one *scripted) { first = append(first, max(0, one.first.Sub(accepted))) })
	}
	return []harness.Figure{
		{What: "investigator: POST /api/v1/alerts answered", Asked: "p99 < 10 ms", Measured: harness.Quantiles(posted)},
		{What: "investigator: alert accepted to its first model request", Measured: harness.Quantiles(first)},
		{What: "investigator: own time in an iteration, with a tool call", Asked: "p99 < 10 ms", Measured: harness.Quantiles(s.ownTimes())},
	}, nil
}

// summarized waits until a session is asked for its executive summary.
func (w *worker) summarized(ctx context.Context, s *script, session int) error {
	select {
	case <-s.summarized:
		return nil
	case <-time.After(sessionPatience):
		return fmt.Errorf("session %d has no summary after %s:\n%s", session, sessionPatience, w.Log)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// triggeredSessions measures sessions that alerts start, one after the other: from the publication of
// the alert on. The definitions of the tool are cached.
func triggeredSessions(ctx context.Context, bin string, samples int) (all []harness.Figure, err error) {
	s := newScript(1, 0)
	b, err := newTestbed(ctx, bin, s, 1, 1)
	if err != nil {
		s.Close()
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.add(ctx); err != nil {
		return nil, err
	}
	conn, err := bus.Connect(ctx, bus.Config{Name: "bench", Role: bus.RoleDetector, Dir: statedir.At(b.dir), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var stored, first []time.Duration
	for n := range samples {
		begin := time.Now()
		if err := publishAlert(ctx, conn, n, begin); err != nil {
			return nil, err
		}
		stored = append(stored, time.Since(begin))
		if err := b.processes[0].summarized(ctx, s, n); err != nil {
			return nil, err
		}
		s.view(n, func(one *scripted) { first = append(first, one.first.Sub(begin)) })
	}
	return []harness.Figure{
		{What: "investigator: alert that a trigger matches to the first model request", Asked: "p99 < 80 ms", Measured: harness.Quantiles(first)},
		{What: "investigator: of these, the alert's publication", Measured: harness.Quantiles(stored)},
	}, nil
}

// publishAlert publishes the alert of a session as a detector does, about an app of its own.
func publishAlert(ctx context.Context, conn *bus.Session, session int, now time.Time) error {
	id := fmt.Sprintf("bench-%d", session)
	a := alert.Alert{
		ID: id, Severity: alert.Error, Category: alert.Errors, Title: sessionText(session), Timestamp: now,
		Source: alert.SourceErrors, App: id, DedupKey: id, CorrelationID: id,
	}
	data, err := json.Marshal(a)
	if err == nil {
		_, err = conn.JS.Publish(ctx, bus.AlertSubject(a), data, jetstream.WithMsgID(id))
	}
	if err != nil {
		return fmt.Errorf("publish the alert of session %d: %w", session, err)
	}
	return nil
}

// manySessions runs many sessions at once in one process.
func manySessions(ctx context.Context, bin string, _ int) (all []harness.Figure, err error) {
	s := newScript(crowdCalls, crowdDelay)
	b, err := newTestbed(ctx, bin, s, crowd, crowd)
	if err != nil {
		s.Close()
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	b.env = []string{fmt.Sprintf("GOMAXPROCS=%d", crowdCores)}
	if err := b.add(ctx); err != nil {
		return nil, err
	}
	w := b.processes[0]
	begin := time.Now()
	group, submitting := errgroup.WithContext(ctx)
	group.SetLimit(submitters)
	for n := range crowd {
		group.Go(func() error { _, err := w.submit(submitting, n); return err })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	summarized := harness.Poll(ctx, crowdPatience, func() bool { return len(s.summarized) >= crowd })
	took := time.Since(begin)
	completed, err := w.ended(ctx, crowd)
	if err != nil {
		return nil, err
	}
	if !summarized {
		return nil, fmt.Errorf("%d of %d sessions completed within %s:\n%s", completed, crowd, crowdPatience, w.Log)
	}
	memory, err := peakMemory(w.PID())
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("investigator: %d sessions at once on %d cores, the model answers after %s: ", crowd, crowdCores, crowdDelay)
	return []harness.Figure{
		{What: what + "completed", Asked: strconv.Itoa(crowd), Measured: fmt.Sprintf("%d, in %s (%d calls of the model in a row each)", completed, harness.Rounded(took), crowdCalls+2)},
		{What: what + "resident memory, at most", Asked: "< 600 MB", Measured: memory},
	}, nil
}

// peakMemory formats the largest resident memory that a process had, on Linux only.
func peakMemory(pid int) (string, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) {
		return "unknown: this system has no /proc", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the memory of a process: %w", err)
	}
	return fmt.Sprintf("%.0f MB", float64(kib(status, "VmHWM"))/1000*1.024), nil
}

// kib returns a value of /proc/PID/status, or 0.
func kib(status []byte, name string) int {
	_, rest, _ := strings.Cut(string(status), name+":")
	n, err := strconv.Atoi(strings.Fields(rest + " 0")[0])
	if err != nil {
		return 0
	}
	return n
}
