package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/kube"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	shared "github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

const (
	// patience bounds waits for what happens within moments. A busy machine takes
	// longer.
	patience = time.Minute
	// sharedCluster is the context of the server that most tests share.
	sharedCluster = "shared"
	// node is the node of the shared server's pods, whose kubelet has their logs.
	node = "node-of-all"
)

// suite is what the tests share. Each part is made when the first test needs it.
var suite struct {
	dir    string
	binary func() (string, error)
	server func() (*kube.Server, error)
	world  func() (*world, error)
	// ends undo what was made.
	mu   sync.Mutex
	ends []func() error
}

func TestMain(m *testing.M) { os.Exit(runTests(m)) }

func runTests(m *testing.M) (code int) {
	flag.Parse()
	// Tests mostly wait, some of them for half a minute: more of them run at once than
	// there are processors, unless -parallel is given.
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		if err := flag.Set("test.parallel", "8"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	var err error
	if suite.dir, err = os.MkdirTemp("", "tocsin-kubernetes-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	suite.binary = sync.OnceValues(func() (string, error) { return harness.Build(context.Background(), harness.Tocsin) })
	suite.server = sync.OnceValues(startServer)
	suite.world = sync.OnceValues(startWorld)
	defer func() {
		for i := len(suite.ends) - 1; i >= 0; i-- {
			if err := suite.ends[i](); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}
		if err := os.RemoveAll(suite.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	return m.Run()
}

// atEnd registers a function to call after all tests, the last one first.
func atEnd(undo func() error) {
	suite.mu.Lock()
	defer suite.mu.Unlock()
	suite.ends = append(suite.ends, undo)
}

func subdir(name string) (string, error) {
	dir := filepath.Join(suite.dir, name)
	return dir, os.Mkdir(dir, 0o700)
}

func startServer() (*kube.Server, error) {
	dir, err := subdir("server")
	if err != nil {
		return nil, err
	}
	s, err := kube.Run(dir, kube.Options{Context: sharedCluster})
	if err == nil {
		atEnd(s.Close)
	}
	return s, err
}

// server returns the API server of tests that neither kill nor compact it, each in a
// namespace of its own.
func server(t *testing.T) *kube.Server {
	t.Helper()
	s, err := suite.server()
	if errors.Is(err, kube.ErrNotBuilt) {
		t.Skip(err)
	}
	return must(s, err)(t)
}

// binary returns the tocsin under test, with the race detector.
func binary(t *testing.T) string {
	t.Helper()
	return must(suite.binary())(t)
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// world is a bus, a cluster, and the kubewatch that connects them.
type world struct {
	server  *kube.Server
	kubelet *kube.Kubelet
	bus     *harness.Bus
	watch   *harness.Process
	cluster string
}

func startWorld() (*world, error) {
	bin, err := suite.binary()
	if err != nil {
		return nil, err
	}
	w := &world{cluster: sharedCluster}
	if w.server, err = suite.server(); err != nil {
		return nil, err
	}
	if w.kubelet, err = w.server.Kubelet(context.Background(), node); err != nil {
		return nil, err
	}
	atEnd(w.kubelet.Close)
	dir, err := subdir("bus")
	if err != nil {
		return nil, err
	}
	if w.bus, err = harness.Up(context.Background(), bin, dir); err != nil {
		return nil, err
	}
	atEnd(func() error { return ended(w.bus.Process) })
	if w.watch, err = harness.Start(bin, w.bus.StateDir, nil, "kubewatch", "--kubeconfig="+w.server.Kubeconfig(), "--context="+w.cluster); err != nil {
		return nil, err
	}
	atEnd(func() error { return ended(w.watch) })
	return w, w.watched(context.Background(), bin)
}

// together returns the world that most tests share.
func together(t *testing.T) *world {
	t.Helper()
	server(t) // or it is skipped
	return must(suite.world())(t)
}

// ended stops a process, which has to succeed.
func ended(p *harness.Process) error {
	err := p.Stop()
	if text := p.Log.String(); err != nil || strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic:") {
		return fmt.Errorf("a tocsin ended with an error, a panic or a data race: %w\n%s", err, text)
	}
	return nil
}

// up runs a bus for one test.
func up(t *testing.T) *harness.Bus {
	t.Helper()
	b := must(harness.Up(t.Context(), binary(t), t.TempDir()))(t)
	t.Cleanup(func() {
		if err := ended(b.Process); err != nil {
			t.Error(err)
		}
	})
	return b
}

// process runs a tocsin command until the end of the test, unless it has ended before.
func process(t *testing.T, b *harness.Bus, args ...string) *harness.Process {
	t.Helper()
	p := must(harness.Start(binary(t), b.StateDir, nil, args...))(t)
	t.Cleanup(func() {
		select {
		case <-p.Done(): // it was killed
		default:
			if err := ended(p); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			t.Logf("tocsin %v:\n%s", args, p.Log)
		}
	})
	return p
}

// kubewatch runs kubewatch on the current context of a kubeconfig.
func kubewatch(t *testing.T, b *harness.Bus, kubeconfig string, args ...string) *harness.Process {
	t.Helper()
	return process(t, b, append([]string{"kubewatch", "--kubeconfig=" + kubeconfig}, args...)...)
}

// watched returns once the world's cluster is watched: later events are seen.
func (w *world) watched(ctx context.Context, bin string) error {
	a, err := harness.StartAgent(ctx, bin, w.bus.StateDir, "probe", "--client=probe-"+w.cluster)
	if err != nil {
		return err
	}
	probe := func() error {
		var last error
		subscribed := harness.Poll(ctx, patience, func() bool {
			_, last = a.Call(ctx, "events_subscribe", map[string]any{"cluster": w.cluster, "namespaces": []string{"default"}, "reason": "Probe"})
			return last == nil
		})
		if !subscribed {
			return fmt.Errorf("subscribe to %s: %w\n%s", w.cluster, last, w.watch.Log)
		}
		heard := harness.Poll(ctx, patience, func() bool {
			if _, last = w.server.Event(ctx, "default", corev1.ObjectReference{Kind: "ConfigMap", Name: "probe", Namespace: "default"}, corev1.EventTypeNormal, "Probe", "is the cluster watched?"); last != nil {
				return false
			}
			_, last = a.Next(ctx, 300*time.Millisecond)
			return last == nil
		})
		if !heard {
			return fmt.Errorf("no event of %s came: %w\n%s", w.cluster, last, w.watch.Log)
		}
		return nil
	}
	return errors.Join(probe(), a.Close())
}

func (w *world) mustBeWatched(t *testing.T) {
	t.Helper()
	if err := w.watched(t.Context(), binary(t)); err != nil {
		t.Fatal(err)
	}
}

// event creates an event about an object, which may be a reference to one.
func (w *world) event(t *testing.T, namespace string, about runtime.Object, eventType, reason, message string) *corev1.Event {
	t.Helper()
	ref, ok := about.(*corev1.ObjectReference)
	if !ok {
		made := must(kube.Ref(about))(t)
		ref = &made
	}
	return must(w.server.Event(t.Context(), namespace, *ref, eventType, reason, message))(t)
}

// thing is a reference to an object that need not exist.
func thing(namespace, name string) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: name}
}

// pod creates a pod whose containers run.
func (w *world) pod(t *testing.T, namespace, name string, labels map[string]string, containers ...string) *corev1.Pod {
	t.Helper()
	return must(w.server.Pod(t.Context(), namespace, name, labels, containers...))(t)
}

// published returns what the stream KUBERNETES has of the world's cluster and a
// namespace.
func (w *world) published(t *testing.T, namespace string) []shared.Message {
	t.Helper()
	c := must(bus.Connect(t.Context(), bus.Config{Name: t.Name(), Role: bus.RoleGateway, Dir: statedir.At(w.bus.StateDir), Logger: slog.New(slog.DiscardHandler)}))(t)
	defer c.Close()
	if !harness.Poll(t.Context(), patience, c.Connected) {
		t.Fatalf("no connection to the bus within %s, want one", patience)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var all []shared.Message
	read := errors.New("all is read")
	cfg := bus.FollowConfig{
		Stream: bus.StreamKubernetes, Subjects: []string{bus.KubernetesFilter{Cluster: w.cluster}.Everything()}, Logger: slog.New(slog.DiscardHandler),
	}
	err := bustest.Follow(ctx, c, cfg, func(m bus.Message) error {
		var output shared.Message
		if err := json.Unmarshal(m.Data, &output); err != nil {
			return err
		}
		if e := output.Event; e != nil && e.InvolvedObject.Namespace == namespace || e == nil && namespace == "" {
			all = append(all, output)
		}
		if m.Pending == 0 {
			return read
		}
		return nil
	})
	if !errors.Is(err, read) {
		t.Fatal(err)
	}
	return all
}

// note is a notification about Kubernetes.
type note struct {
	Level, Logger string
	Data          noteData
	Raw           string
}

type noteData struct {
	ID         string     `json:"subscriptionId"`
	Cluster    string     `json:"cluster"`
	Event      *noteEvent `json:"event"`
	FaultID    string     `json:"faultId"`
	LogsFollow bool       `json:"logsFollow"`
	Logs       []noteLog  `json:"logs"`
	Error      string     `json:"error"`
	Degraded   *bool      `json:"degraded"`
}

type noteEvent struct {
	Namespace string            `json:"namespace"`
	Timestamp time.Time         `json:"timestamp"`
	Type      string            `json:"type"`
	Reason    string            `json:"reason"`
	Message   string            `json:"message"`
	Labels    map[string]string `json:"labels"`
	Involved  struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Name       string `json:"name"`
		Namespace  string `json:"namespace"`
	} `json:"involvedObject"`
}

type noteLog struct {
	Container string `json:"container"`
	Previous  bool   `json:"previous"`
	HasPanic  bool   `json:"hasPanic"`
	Sample    string `json:"sample"`
	Error     string `json:"error"`
}

// client is an agent that keeps all of its notifications.
type client struct {
	*harness.Agent
	mu    sync.Mutex
	notes []note
}

// attend keeps an agent's notifications until the test ends, and closes the agent then
// unless the test has.
func attend(t *testing.T, a *harness.Agent) *client {
	t.Helper()
	c := &client{Agent: a}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case n := <-a.Notes:
				c.take(n)
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
		if t.Failed() {
			t.Logf("%s", a.Log)
		}
	})
	return c
}

func (c *client) take(n harness.Notification) {
	got := note{Level: n.Level, Logger: n.Logger, Raw: n.Raw}
	if err := json.Unmarshal([]byte(n.Raw), &got.Data); err != nil {
		got.Data.Error = err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notes = append(c.notes, got)
}

// stdio connects an agent over stdio.
func (w *world) stdio(t *testing.T, args ...string) *client {
	t.Helper()
	// Each agent has an inbox of its own.
	a := must(harness.StartAgent(t.Context(), binary(t), w.bus.StateDir, "e2e", append([]string{"--client=" + strings.ReplaceAll(t.Name(), "/", "-")}, args...)...))(t)
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("tocsin gateway: %v\n%s", err, a.Log)
		}
		if text := a.Log.String(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic:") {
			t.Errorf("got %s, want no \"DATA RACE\" in it and no \"panic:\" in it", text)
		}
	})
	return attend(t, a)
}

// overHTTP runs a gateway that serves HTTP, and returns its URL.
func (w *world) overHTTP(t *testing.T, args ...string) string {
	t.Helper()
	p := process(t, w.bus, append([]string{"gateway", "--http=127.0.0.1:0", "--autostart=false"}, args...)...)
	var url string
	if !harness.Poll(t.Context(), patience, func() bool {
		url = regexp.MustCompile(`http://127\.0\.0\.1:\d+/mcp`).FindString(p.Stdout.String())
		return url != ""
	}) {
		t.Fatalf("output of the gateway = %q, want its URL\n%s", p.Stdout, p.Log)
	}
	return url
}

// dial connects an agent over HTTP. leave ends its session.
func dial(t *testing.T, url, name string) (c *client, leave func()) {
	t.Helper()
	a := must(harness.DialAgent(t.Context(), url, name))(t)
	leave = sync.OnceFunc(func() {
		if err := a.Close(); err != nil {
			t.Errorf("end the session: %v", err)
		}
	})
	t.Cleanup(leave)
	return attend(t, a), leave
}

// ask calls a tool, which has to answer with one block of JSON.
func ask[T any](t *testing.T, c *client, tool string, args map[string]any) (answer T) {
	t.Helper()
	blocks, err := c.Call(t.Context(), tool, args)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(blocks[0]), &answer); err != nil {
		t.Fatalf("answer of %s = %s, error %v; want one block of JSON", tool, blocks[0], err)
	}
	return answer
}

// refused calls a tool, which has to refuse, and returns the text.
func refused(t *testing.T, c *client, tool string, args map[string]any) string {
	t.Helper()
	blocks, err := c.Call(t.Context(), tool, args)
	var refusal *harness.ToolError
	if !errors.As(err, &refusal) {
		t.Fatalf("%s %v = %v, error %v; want a refusal", tool, args, blocks, err)
	}
	return refusal.Text
}

// filters are the arguments of events_subscribe.
type filters = map[string]any

// subscribe starts a subscription.
func (c *client) subscribe(t *testing.T, args filters) string {
	t.Helper()
	answer := ask[struct {
		ID string `json:"subscriptionId"`
	}](t, c, "events_subscribe", args)
	if answer.ID == "" {
		t.Fatal("subscriptionId is empty, want one")
	}
	return answer.ID
}

// notesOf returns the notifications of a subscription so far.
func (c *client) notesOf(id string) []note {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []note
	for _, n := range c.notes {
		if n.Data.ID == id {
			all = append(all, n)
		}
	}
	return all
}

// await waits for the first notification of a subscription that fulfils a condition.
func (c *client) await(t *testing.T, id, what string, is func(note) bool) note {
	t.Helper()
	return c.awaitWithin(t, patience, id, what, is)
}

func (c *client) awaitWithin(t *testing.T, within time.Duration, id, what string, is func(note) bool) (found note) {
	t.Helper()
	if !harness.Poll(t.Context(), within, func() bool {
		for _, n := range c.notesOf(id) {
			if is(n) {
				found = n
				return true
			}
		}
		return false
	}) {
		var got strings.Builder
		for _, n := range c.notesOf(id) {
			fmt.Fprintf(&got, "%.300s\n", n.Raw)
		}
		t.Fatalf("no notification within %s, want %s. There are\n%s", within, what, got.String())
	}
	return found
}

// says matches a notification of an event with a message.
func says(message string) func(note) bool {
	return func(n note) bool { return n.Data.Event != nil && n.Data.Event.Message == message }
}

// messages returns those of the events of a subscription, in order.
func (c *client) messages(id string) (all []string) {
	for _, n := range c.notesOf(id) {
		if n.Data.Event != nil {
			all = append(all, n.Data.Event.Message)
		}
	}
	return all
}
