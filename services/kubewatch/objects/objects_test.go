package objects_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/tocsin-bus/tocsin/services/kubewatch/api"
	"github.com/tocsin-bus/tocsin/services/kubewatch/fault"
	"github.com/tocsin-bus/tocsin/services/kubewatch/objects"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is an API server with lists in pages and watches. With streams its watches can start
// with a streamed list.
type server struct {
	streams bool

	mu      sync.Mutex
	version int
	objects map[string]map[string]metav1.Object // by resource and name
	watches map[chan string]string
	sent    []sentFrame
	refused map[string]bool
	lists   []string // the queries of lists
}

// sentFrame is a frame sent to watches, kept for those that start at an older version.
type sentFrame struct {
	version         int
	resource, frame string
}

var resources = map[string]string{"pods": "v1/Pod", "nodes": "v1/Node", "deployments": "apps/v1/Deployment", "jobs": "batch/v1/Job"}

func serve(t testing.TB, streams bool) (*server, *api.Client) {
	t.Helper()
	s := &server{streams: streams, objects: map[string]map[string]metav1.Object{}, watches: map[chan string]string{}, refused: map[string]bool{}}
	for r := range resources {
		s.objects[r] = map[string]metav1.Object{}
	}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	t.Cleanup(s.cut)
	c, err := api.Connect(&rest.Config{Host: h.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return s, c
}

func (s *server) frame(kind, resource string, o any) string {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	apiKind := resources[resource]
	cut := strings.LastIndexByte(apiKind, '/')
	return fmt.Sprintf(`{"type":%q,"object":{"apiVersion":%q,"kind":%q,%s}`, kind, apiKind[:cut], apiKind[cut+1:], strings.TrimPrefix(string(data), "{")) + "\n"
}

// put adds or changes an object, remove deletes one.
func (s *server) put(resource string, o metav1.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	o.SetResourceVersion(strconv.Itoa(s.version))
	kind := "ADDED"
	if s.objects[resource][o.GetName()] != nil {
		kind = "MODIFIED"
	}
	s.objects[resource][o.GetName()] = o
	s.send(resource, s.frame(kind, resource, o))
}

func (s *server) remove(resource, name string, silently bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	o := s.objects[resource][name]
	delete(s.objects[resource], name)
	if !silently {
		s.send(resource, s.frame("DELETED", resource, o))
	}
}

func (s *server) send(resource, frame string) {
	s.sent = append(s.sent, sentFrame{s.version, resource, frame})
	for w, watched := range s.watches {
		if watched == resource {
			w <- frame
		}
	}
}

// cut ends all watches.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.watches {
		close(w)
		delete(s.watches, w)
	}
}

// expire ends the watches with the error that their version is too old.
func (s *server) expire() {
	s.mu.Lock()
	for w := range s.watches {
		w <- `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}}` + "\n"
	}
	s.mu.Unlock()
	s.cut()
}

func (s *server) refuse(resource string, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[resource] = refused
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	q := r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	s.mu.Lock()
	switch {
	case s.refused[resource]:
		s.mu.Unlock()
		status(w, http.StatusForbidden, "Forbidden", resource+" is forbidden")
	case q.Get("watch") == "":
		defer s.mu.Unlock()
		s.lists = append(s.lists, resource+"?"+r.URL.RawQuery)
		_, _ = io.WriteString(w, s.page(resource, q.Get("limit"), q.Get("continue")))
	case q.Get("sendInitialEvents") == "true" && !s.streams:
		s.mu.Unlock()
		status(w, http.StatusUnprocessableEntity, "Invalid", "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled")
	default:
		events := make(chan string, 100_000)
		s.watches[events] = resource
		since, err := strconv.Atoi(q.Get("resourceVersion"))
		for _, e := range s.sent {
			if err == nil && q.Get("sendInitialEvents") == "" && e.resource == resource && e.version > since {
				events <- e.frame
			}
		}
		if q.Get("sendInitialEvents") == "true" {
			for _, name := range slices.Sorted(maps.Keys(s.objects[resource])) {
				events <- s.frame("ADDED", resource, s.objects[resource][name])
			}
			events <- s.frame("BOOKMARK", resource, map[string]any{"metadata": map[string]any{
				"resourceVersion": strconv.Itoa(s.version), "annotations": map[string]string{"k8s.io/initial-events-end": "true"},
			}})
		}
		s.mu.Unlock()
		w.(http.Flusher).Flush()
		for {
			select {
			case e, open := <-events:
				if !open {
					return
				}
				_, _ = io.WriteString(w, e)
				if len(events) == 0 {
					w.(http.Flusher).Flush()
				}
			case <-r.Context().Done():
				s.mu.Lock()
				delete(s.watches, events)
				s.mu.Unlock()
				return
			}
		}
	}
}

func status(w http.ResponseWriter, code int, reason, message string) {
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":%q}`, reason, code, message)
}

func (s *server) page(resource, limit, after string) string {
	names := slices.Sorted(maps.Keys(s.objects[resource]))
	if i, found := slices.BinarySearch(names, after); after != "" && found {
		names = names[i+1:]
	}
	next := ""
	if n, _ := strconv.Atoi(limit); n > 0 && len(names) > n {
		names = names[:n]
		next = names[n-1]
	}
	items := make([]metav1.Object, 0, len(names))
	for _, name := range names {
		items = append(items, s.objects[resource][name])
	}
	data, _ := json.Marshal(items)
	apiKind := resources[resource]
	cut := strings.LastIndexByte(apiKind, '/')
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d","continue":%q},"items":%s}`, apiKind[:cut], apiKind[cut+1:]+"List", s.version, next, data)
}

func meta(name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(uid), Labels: map[string]string{"app": "web", "token": "hunter2hunter2"}}
}

// text returns an update as one line.
func text(u objects.Update) string {
	initial := func(m fault.Meta) string {
		if m.Initial {
			return m.Name + " (initial)"
		}
		return m.Name
	}
	switch {
	case u.Pod != nil:
		s := "pod " + initial(u.Pod.Meta)
		for _, c := range u.Pod.Containers {
			s += " " + c.Name + ":" + c.Waiting
		}
		return s
	case u.Node != nil:
		return "node " + initial(u.Node.Meta) + " " + u.Node.Ready.Status
	case u.Deployment != nil:
		return "deployment " + initial(u.Deployment.Meta)
	case u.Job != nil:
		return "job " + initial(u.Job.Meta)
	case u.Gone != nil:
		return "gone " + u.Gone.Kind + " " + u.Gone.Name + " " + u.Gone.UID
	default:
		return "synced " + u.Synced
	}
}

// watch runs a watcher until the test ends.
func watch(t testing.TB, c *api.Client, log io.Writer) (*objects.Watcher, chan objects.Update) {
	updates := make(chan objects.Update)
	w := objects.New(objects.Config{Client: c, Updates: updates, Logger: slog.New(slog.NewTextHandler(log, nil))})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.Run(ctx) // it ends with its context
	}()
	t.Cleanup(func() { cancel(); <-done })
	return w, updates
}

// next receives n updates and sorts them: the kinds are watched concurrently.
func next(t testing.TB, updates chan objects.Update, n int) []string {
	t.Helper()
	var got []string
	late := time.After(30 * time.Second)
	for len(got) < n {
		select {
		case u := <-updates:
			got = append(got, text(u))
		case <-late:
			t.Fatalf("updates = %q, want %d", got, n)
		}
	}
	slices.Sort(got)
	return got
}

func expect(t testing.TB, updates chan objects.Update, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := next(t, updates, len(want)); !slices.Equal(got, want) {
		t.Fatalf("updates = %q, want %q", got, want)
	}
}

func waitingPod(name, uid, reason string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: meta(name, uid), Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "web"}}}}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
	return p
}

// TestWatch checks the updates of all kinds, and the labels, over changes and new lists.
func TestWatch(t *testing.T) {
	for name, streams := range map[string]bool{"lists are streamed": true, "lists come in pages": false} {
		t.Run(name, func(t *testing.T) {
			s, c := serve(t, streams)
			s.put("pods", waitingPod("web-1", "u-1", "ContainerCreating"))
			s.put("nodes", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "un-1", Labels: map[string]string{"zone": "a"}}, Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeMemoryPressure, Status: "False"}, {Type: corev1.NodeReady, Status: "Unknown"}}}})
			s.put("deployments", &appsv1.Deployment{ObjectMeta: meta("web", "d-1")})
			s.put("jobs", &batchv1.Job{ObjectMeta: meta("backup", "j-1")})
			w, updates := watch(t, c, io.Discard)
			expect(t, updates, "pod web-1 (initial) web:ContainerCreating", "node n1 (initial) Unknown", "deployment web (initial)", "job backup (initial)", "synced Pod", "synced Node", "synced Deployment", "synced Job")

			s.put("pods", waitingPod("web-1", "u-1", "CrashLoopBackOff"))
			expect(t, updates, "pod web-1 web:CrashLoopBackOff")
			s.put("pods", waitingPod("web-2", "u-2", ""))
			expect(t, updates, "pod web-2 web:")
			s.remove("pods", "web-2", false)
			expect(t, updates, "gone Pod web-2 u-2")
			if w.Len() != 4 {
				t.Errorf("Len = %d, want 4", w.Len())
			}

			for _, tt := range []struct {
				o    kube.Object
				want string
			}{
				{kube.Object{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u-1"}, "web"},
				{kube.Object{Kind: "Pod", Namespace: "shop", Name: "web-1"}, "web"},
				{kube.Object{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u-0"}, ""},
				{kube.Object{Kind: "Pod", Namespace: "else", Name: "web-1"}, ""},
				{kube.Object{Kind: "Pod", Namespace: "shop", Name: "web-2"}, ""},
				{kube.Object{Kind: "Deployment", Namespace: "shop", Name: "web"}, "web"},
				{kube.Object{Kind: "Job", Namespace: "shop", Name: "backup"}, "web"},
				{kube.Object{Kind: "Service", Namespace: "shop", Name: "web"}, ""},
			} {
				if got := w.Labels(tt.o); got["app"] != tt.want || tt.want != "" && got["token"] != "[REDACTED]" {
					t.Errorf("Labels(%+v) = %v, want the app %q and a masked token", tt.o, got, tt.want)
				}
			}
			if got := w.Labels(kube.Object{Kind: "Node", Name: "n1", UID: "n1"}); got["zone"] != "a" {
				t.Errorf("labels of a node with the uid of its kubelet = %v, want the zone a", got)
			}

			// Labels can be read while an update waits to be received.
			named := waitingPod("web-1", "u-1", "CrashLoopBackOff")
			named.Labels = map[string]string{"app": "other"}
			s.put("pods", named)
			bustest.Eventually(t, "changed label", func() bool {
				return w.Labels(kube.Object{Kind: "Pod", Namespace: "shop", Name: "web-1"})["app"] == "other"
			})
			expect(t, updates, "pod web-1 web:CrashLoopBackOff")

			// After another list, only what has changed is passed on.
			s.remove("jobs", "backup", true)
			s.put("pods", waitingPod("web-3", "u-3", ""))
			expect(t, updates, "pod web-3 web:")
			s.expire()
			expect(t, updates, "gone Job backup j-1")
			// Another pod has taken the name.
			s.remove("pods", "web-1", true)
			s.mu.Lock()
			s.version++
			again := waitingPod("web-1", "u-9", "ContainerCreating")
			again.ResourceVersion = strconv.Itoa(s.version)
			s.objects["pods"]["web-1"] = again
			s.mu.Unlock()
			s.expire()
			expect(t, updates, "gone Pod web-1 u-1", "pod web-1 web:ContainerCreating")
			s.put("pods", waitingPod("web-3", "u-3", "ErrImagePull"))
			expect(t, updates, "pod web-3 web:ErrImagePull")
		})
	}
}

// TestRefused checks that a kind that the cluster refuses is logged once and does not stop the
// others, and that it is watched when the cluster allows it.
func TestRefused(t *testing.T) {
	s, c := serve(t, true)
	s.refuse("nodes", true)
	s.put("pods", waitingPod("web-1", "u-1", ""))
	var log lines
	w, updates := watch(t, c, &log)
	expect(t, updates, "pod web-1 (initial) web:", "synced Pod", "synced Deployment", "synced Job")
	bustest.Eventually(t, "refused kind", func() bool { return len(w.Refused()) > 0 })
	if got := w.Refused(); len(got) != 1 || !strings.HasPrefix(got[0], "Node: ") || !strings.Contains(got[0], "nodes is forbidden") {
		t.Errorf("Refused = %q, want Node with the reason", got)
	}
	s.put("pods", waitingPod("web-1", "u-1", "ErrImagePull"))
	expect(t, updates, "pod web-1 web:ErrImagePull")
	s.refuse("nodes", false)
	expect(t, updates, "synced Node")
	if got := w.Refused(); len(got) != 0 {
		t.Errorf("Refused = %q, want none", got)
	}
	if got := log.String(); strings.Count(got, "refuses to list or watch objects") != 1 || strings.Count(got, "allows reading objects again") != 1 {
		t.Errorf("log = %s, want one line when the kind is refused and one when it is not", got)
	}
}

// TestEndsWhileItWaits checks that a watcher that waits because its cluster is overloaded or
// unreachable ends with its context.
func TestEndsWhileItWaits(t *testing.T) {
	t.Parallel()
	busy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		status(w, http.StatusTooManyRequests, "TooManyRequests", "too many requests")
	}))
	defer busy.Close()
	third := make(chan struct{})
	var watches atomic.Int32
	c, err := api.Connect(&rest.Config{Host: busy.URL, WrapTransport: func(next http.RoundTripper) http.RoundTripper {
		return answered{next, func(r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/pods") && r.URL.Query().Get("sendInitialEvents") == "true" && watches.Add(1) == 3 {
				close(third)
			}
		}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = objects.New(objects.Config{Client: c, Updates: make(chan objects.Update)}).Run(ctx) // it ends with its context
	}()
	select {
	case <-third:
	case <-time.After(30 * time.Second):
		t.Fatalf("%d watches after 30 s, want 3", watches.Load())
	}
	cancel()
	// The pause after the third one is longer than 3 s.
	select {
	case <-ended:
	case <-time.After(2 * time.Second):
		t.Error("the watcher runs 2 s after its context ended, want it to have ended")
		<-ended
	}
}

// answered calls read for each request whose answer was read.
type answered struct {
	next http.RoundTripper
	read func(*http.Request)
}

func (a answered) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := a.next.RoundTrip(r)
	if err == nil {
		resp.Body = closing{resp.Body, func() { a.read(r) }}
	}
	return resp, err
}

type closing struct {
	io.ReadCloser
	closed func()
}

func (c closing) Close() error {
	defer c.closed()
	return c.ReadCloser.Close()
}

type lines struct {
	mu  sync.Mutex
	out strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

// TestPages checks that lists are requested in pages from a server that does not stream them.
func TestPages(t *testing.T) {
	s, c := serve(t, false)
	for i := range 1200 {
		s.put("pods", waitingPod(fmt.Sprintf("web-%04d", i), fmt.Sprint("u-", i), ""))
	}
	w, updates := watch(t, c, io.Discard)
	if got := next(t, updates, 1200+4); got[1199] != "pod web-1199 (initial) web:" || w.Len() != 1200 {
		t.Errorf("last update = %q, Len = %d; want %q, 1200", got[1199], w.Len(), "pod web-1199 (initial) web:")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pages := 0
	for _, l := range s.lists {
		if strings.HasPrefix(l, "pods?") {
			pages++
			if !strings.Contains(l, "limit=500") || strings.Contains(l, "resourceVersion=") {
				t.Errorf("list request %s, want one with limit=500 and no resourceVersion", l)
			}
		}
	}
	if pages != 3 {
		t.Errorf("%d list requests for pods, want 3: %q", pages, s.lists)
	}
}

// full returns a pod of realistic size, 6 KB as JSON.
func full(i int) *corev1.Pod {
	p := waitingPod(fmt.Sprintf("checkout-7d9f8b6c5-%05d", i), fmt.Sprintf("12345678-1234-1234-1234-%012d", i), "")
	p.Labels = map[string]string{"app.kubernetes.io/name": "checkout", "app.kubernetes.io/version": "1.2.3", "app.kubernetes.io/part-of": "shop", "team": "payments", "pod-template-hash": "7d9f8b6c5"}
	p.Annotations = map[string]string{"checksum/config": strings.Repeat("0123456789abcdef", 4), "prometheus.io/scrape": "true", "kubectl.kubernetes.io/restartedAt": "2026-01-28T14:30:00Z"}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"x":"` + strings.Repeat("f:containers ", 200) + `"}}`)}}
	for j := range 2 {
		c := corev1.Container{Name: []string{"app", "proxy"}[j], Image: "registry.example/shop/checkout:1.2.3"}
		for k := range 20 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("SETTING_", k), Value: "some value of it"})
		}
		p.Spec.Containers = append(p.Spec.Containers[:j], c)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses[:j], corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: "registry.example/shop/checkout@sha256:" + strings.Repeat("ab", 32), ContainerID: fmt.Sprintf("containerd://%064d", i), RestartCount: 1,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 1, Reason: "Error", FinishedAt: metav1.Now(), ContainerID: fmt.Sprintf("containerd://%064d", i+1),
			}},
		})
	}
	return p
}

// BenchmarkPods measures the memory for 10,000 pods, with the fault tracker and the store, and
// how fast they are read.
func BenchmarkPods(b *testing.B) {
	for name, streams := range map[string]bool{"streamed": true, "paged": false} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				const many = 10_000
				s, c := serve(b, streams)
				for i := range many {
					s.put("pods", full(i))
				}
				heap := func() float64 {
					var m runtime.MemStats
					runtime.GC()
					runtime.GC()
					runtime.ReadMemStats(&m)
					return float64(m.HeapAlloc)
				}
				before := heap()
				w, updates := watch(b, c, io.Discard)
				tracker := fault.New("dev", "c-1")
				start := time.Now()
				for range many + 4 {
					(<-updates).Apply(tracker, time.Now())
				}
				b.ReportMetric(many/time.Since(start).Seconds(), "pods/s")
				b.ReportMetric((heap()-before)/many, "B/pod")
				runtime.KeepAlive(w)
				runtime.KeepAlive(tracker)
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}
