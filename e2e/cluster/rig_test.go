package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/containers"
	"github.com/tocsin-bus/tocsin/e2e/harness/traffic"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

const (
	partitions = 8
	// readyIn bounds how long a container may take to be ready, and settledIn how long
	// after that until everything that was accepted has arrived.
	readyIn, settledIn = 60 * time.Second, 30 * time.Second
	// maxTail is how much of a container's log is shown, in bytes.
	maxTail = 48 << 10
	// silencedApp is the app whose alerts are silenced.
	silencedApp = "silencedApp"
)

// apps is large enough that every partition has some.
func apps() []string {
	return []string{"alder", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pear", "rowan", silencedApp}
}

// rig is a cluster under load, and the readers of its alerts.
type rig struct {
	*containers.Cluster
	traffic *traffic.Traffic
	conn    *bus.Session
	alerts  *stored
	reader  *harness.Reader
	agent   *agent
}

// start runs a cluster and its readers.
func start(t *testing.T) *rig {
	t.Helper()
	if testing.Short() {
		t.Skip("a cluster of nine containers is too long for -short")
	}
	testcontainers.SkipIfProviderIsNotHealthy(t)
	ctx := t.Context()
	built, err := containers.Build(ctx)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "tocsin")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/tocsin-bus/tocsin/services/tocsin").CombinedOutput(); err != nil {
		t.Fatalf("build tocsin: %v\n%s", err, out)
	}
	n, err := containers.NewNet(ctx)
	if errors.Is(err, containers.ErrNoReaper) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	r := &rig{}
	r.Cluster, err = containers.StartCluster(ctx, n, built, containers.Layout{Partitions: partitions, Program: program, Keys: filepath.Join(t.TempDir(), "keys")})
	if errors.Is(err, containers.ErrNoReaper) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			r.showLogs(context.WithoutCancel(ctx), t)
		}
	})
	r.ready(t)
	r.follow(t)
	return r
}

func (r *rig) showLogs(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, c := range r.All() {
		text := c.Logs(ctx)
		t.Logf("==== %s\n%s", c.Name, text[max(0, len(text)-maxTail):])
	}
}

// follow starts the readers: of the stream of alerts, of the dashboard, and an agent.
// They end before the test does.
func (r *rig) follow(t *testing.T) {
	t.Helper()
	var err error
	r.conn, err = bus.Connect(t.Context(), bus.Config{
		Name: "the test", Role: bus.RoleProvisioner, URL: r.URLs(), Creds: filepath.Join(r.Keys, "provisioner.nk"), Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.conn.Close)
	life, end := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	t.Cleanup(func() { end(); all.Wait() })

	r.alerts = &stored{}
	all.Go(func() { r.alerts.follow(life, r.conn) })
	r.reader = harness.NewReader(r.Dashboard.URL(containers.PortDashboard), r.Token, 0)
	all.Go(func() { r.reader.Run(life) })
	r.agent = &agent{url: r.Gateway.URL(containers.PortGateway) + "/mcp?client=e2e", token: r.Token}
	if err := r.agent.dial(life); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.agent.close)
	all.Go(func() { r.agent.run(life) })

	r.traffic = traffic.New(traffic.Config{
		Ingest: []string{r.Ingest[0].URL(containers.PortIngest), r.Ingest[1].URL(containers.PortIngest)}, Token: r.Token,
		Apps: apps(), Every: time.Second, Results: 8 * time.Second,
	})
}

// ready waits until all services are ready.
func (r *rig) ready(t *testing.T) {
	t.Helper()
	for _, c := range r.All() {
		r.readyAt(t, c)
	}
}

// readyAt waits until a container is ready.
func (r *rig) readyAt(t *testing.T, c *containers.Container) {
	t.Helper()
	output := ""
	if !poll(t, readyIn, func() bool {
		a, err := get(t.Context(), r.Ready(c), "")
		output = fmt.Sprintf("%d %s %v", a.Status, a.Body, err)
		return err == nil && a.Status == http.StatusOK
	}) {
		t.Fatalf("%s is not ready after %s: %s, want 200", c.Name, readyIn, output)
	}
}

// poll calls ok every 50 ms, which is often enough for requests to containers.
func poll(t *testing.T, within time.Duration, ok func() bool) bool {
	t.Helper()
	next := time.Now()
	return harness.Poll(t.Context(), within, func() bool {
		if time.Now().Before(next) {
			return false
		}
		defer func() { next = time.Now().Add(50 * time.Millisecond) }()
		return ok()
	})
}

// quick is for requests that are answered at once or never. It keeps no connections,
// since they end with a container.
func quick() *http.Client {
	return &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
}

// get sends a GET request, with the token if one is given.
func get(ctx context.Context, url, token string) (harness.Answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return harness.Answer{}, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return harness.DoWith(quick(), req)
}

// post sends JSON with the token.
func (r *rig) post(t *testing.T, url, body string) harness.Answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+r.Token)
	a, err := harness.DoWith(quick(), req)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// metric returns the sum of a metric of a container over its labels, and whether the
// container answered.
func (r *rig) metric(ctx context.Context, c *containers.Container, port int, name string) (sum float64, ok bool) {
	a, err := get(ctx, c.URL(port)+"/metrics", r.Token)
	if err != nil || a.Status != http.StatusOK {
		return 0, false
	}
	for line := range strings.Lines(a.Body) {
		rest, found := strings.CutPrefix(strings.TrimSpace(line), name)
		if !found || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, false
		}
		sum, ok = sum+value, true
	}
	return sum, ok
}

// owned returns how many partitions a detector owns, 0 if it does not answer.
func (r *rig) owned(ctx context.Context, detector *containers.Container) int {
	n, _ := r.metric(ctx, detector, containers.PortDetector, "tocsin_detector_partitions_owned")
	return int(n)
}

// shared waits until each partition has one owner, and each detector has half of them.
func (r *rig) shared(t *testing.T) {
	t.Helper()
	var counts [2]int
	if !poll(t, readyIn, func() bool {
		for i, d := range r.Detector {
			counts[i] = r.owned(t.Context(), d)
		}
		return counts[0] == partitions/2 && counts[1] == partitions/2
	}) {
		t.Fatalf("the detectors own %v partitions after %s, want %d each", counts, readyIn, partitions/2)
	}
}

// home returns the server that has the telemetry.
func (r *rig) home(t *testing.T) *containers.Container {
	t.Helper()
	leader := ""
	if !poll(t, readyIn, func() bool {
		s, err := r.conn.JS.Stream(t.Context(), bus.StreamTelemetry)
		if err == nil && s.CachedInfo().Cluster != nil {
			leader = s.CachedInfo().Cluster.Leader
		}
		return leader != ""
	}) {
		t.Fatalf("no server reports within %s that it has the telemetry, want one", readyIn)
	}
	i := slices.IndexFunc(r.NATS, func(c *containers.Container) bool { return c.Name == leader })
	return r.NATS[i]
}

// stored returns the alerts of the stream with their positions.
type stored struct {
	mu  sync.Mutex
	all []harness.Heard
	bad []string
}

func (s *stored) follow(ctx context.Context, c *bus.Session) {
	_ = bustest.Follow(ctx, c, bus.FollowConfig{Stream: bus.StreamAlerts, Logger: slog.New(slog.DiscardHandler)}, func(m bus.Message) error {
		s.mu.Lock()
		defer s.mu.Unlock()
		h := harness.Heard{Seq: m.Seq, At: m.Time}
		if err := json.Unmarshal(m.Data, &h.Alert); err != nil {
			s.bad = append(s.bad, fmt.Sprintf("%d: %v: %s", m.Seq, err, m.Data))
		}
		s.all = append(s.all, h)
		return nil
	}) // it fails only if the function does
}

func (s *stored) list() (all []harness.Heard, bad []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all), slices.Clone(s.bad)
}

// agent is a client of the gateway that observes all the time. It pauses while the
// gateway is killed: an alert that was being delivered then is in the history, as
// documented.
type agent struct {
	url, token string

	calling sync.Mutex // locked during a call, and while the gateway is down
	session *harness.Agent

	mu        sync.Mutex
	delivered []alert.Alert
	failed    []string
}

func (a *agent) dial(ctx context.Context) (err error) {
	if !harness.Poll(ctx, readyIn, func() bool {
		a.session, err = harness.DialAgentAs(ctx, a.url, "e2e", a.token)
		return err == nil
	}) {
		return err
	}
	return nil
}

// pauseWhile pauses the agent while something is done to the gateway, and then connects
// again.
func (a *agent) pauseWhile(ctx context.Context, do func()) error {
	a.calling.Lock()
	defer a.calling.Unlock()
	old := a.session
	do()
	_ = old.Close() // its session ended with the gateway
	return a.dial(ctx)
}

func (a *agent) run(ctx context.Context) {
	every := time.NewTicker(500 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
		a.observe(ctx)
	}
}

func (a *agent) observe(ctx context.Context) {
	a.calling.Lock()
	defer a.calling.Unlock()
	callCtx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	o, err := a.session.Observe(callCtx, map[string]any{"what": "alerts", "limit": 1})
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		a.failed = append(a.failed, time.Now().Format(time.TimeOnly)+" "+err.Error())
	}
	a.delivered = append(a.delivered, o.Alerts...)
}

func (a *agent) close() {
	a.calling.Lock()
	defer a.calling.Unlock()
	_ = a.session.Close() // the test has what it wanted
}

func (a *agent) list() (delivered []alert.Alert, failed []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.delivered), slices.Clone(a.failed)
}
