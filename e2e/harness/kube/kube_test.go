package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// within bounds what a test waits for.
const within = 30 * time.Second

var shared struct {
	once   sync.Once
	server *Server
	err    error
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "kube")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	shared.server, shared.err = Run(dir, Options{Context: "cluster-a"})
	code := m.Run()
	if shared.server != nil {
		if err := shared.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// server returns the API server that tests share which neither kill nor compact it.
func server(t *testing.T) *Server {
	t.Helper()
	if errors.Is(shared.err, ErrNotBuilt) {
		t.Skip(shared.err)
	}
	if shared.err != nil {
		t.Fatalf("got %s, want nil", shared.err)
	}
	return shared.server
}

func must[T any](t *testing.T) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// next returns the next object of a watch that is not a bookmark.
func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				t.Fatal("the watch was closed, want an object")
			}
			if e.Type != watch.Bookmark {
				return e
			}
		case <-time.After(within):
			t.Fatalf("nothing was watched within %s", within)
		}
	}
}

func TestEventIsWatched(t *testing.T) {
	s := server(t)
	ns := s.Namespace(t)
	w := must[watch.Interface](t)(s.Client().CoreV1().Events(ns).Watch(t.Context(), metav1.ListOptions{}))
	defer w.Stop()
	pod := must[*corev1.Pod](t)(s.Pod(t.Context(), ns, "web-0", map[string]string{"app": "web"}))
	made := must[*corev1.Event](t)(s.Event(t.Context(), ns, must[corev1.ObjectReference](t)(Ref(pod)), corev1.EventTypeWarning, "BackOff", "back-off restarting"))

	first := next(t, w)
	seen := first.Object.(*corev1.Event)
	if first.Type != watch.Added || seen.UID != made.UID || seen.InvolvedObject.UID != pod.UID || seen.Reason != "BackOff" {
		t.Fatalf("watched %s %+v, made %+v, want Type %v, UID %v, UID %v and Reason \"BackOff\"", first.Type, seen, made, watch.Added, made.UID, pod.UID)
	}
	must[*corev1.Event](t)(s.EventAgain(t.Context(), made))
	second := next(t, w)
	if seen := second.Object.(*corev1.Event); second.Type != watch.Modified || seen.Count != 2 {
		t.Fatalf("watched %s, count %d; want a modification, 2", second.Type, seen.Count)
	}
}

func TestContextIsNamed(t *testing.T) {
	s := server(t)
	c, err := clientcmd.LoadFromFile(s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Contexts) != 1 || c.CurrentContext != "cluster-a" || c.Contexts["cluster-a"] == nil {
		t.Fatalf("contexts %v, current %q, want 1 entry in Contexts, CurrentContext \"cluster-a\" and a Contexts[\"cluster-a\"]", c.Contexts, c.CurrentContext)
	}
	info, err := os.Stat(s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Fatalf("mode of the kubeconfig = %s, want 0600: it has a key", info.Mode())
	}
}

// A watch sees the deletion of an event that expires, and the server closes a watch
// without a timeout of its own.
func TestExpiryAndClosure(t *testing.T) {
	s := Start(t, Options{EventTTL: time.Second, MinRequestTimeout: time.Second})
	ns := s.Namespace(t)
	events := s.Client().CoreV1().Events(ns)
	minute := int64(60)
	w := must[watch.Interface](t)(events.Watch(t.Context(), metav1.ListOptions{TimeoutSeconds: &minute}))
	defer w.Stop()
	made := must[*corev1.Event](t)(s.Event(t.Context(), ns, corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "web-0"}, corev1.EventTypeNormal, "Started", "it runs"))
	for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
		if e := next(t, w); e.Type != want || e.Object.(*corev1.Event).UID != made.UID {
			t.Fatalf("watched %s %+v; want %s of %s", e.Type, e.Object, want, made.UID)
		}
	}

	began := time.Now()
	short := must[watch.Interface](t)(events.Watch(t.Context(), metav1.ListOptions{}))
	defer short.Stop()
	select {
	case e, open := <-short.ResultChan():
		if open {
			t.Fatalf("watched %+v; want the end", e)
		}
		// The server counts in whole seconds.
		if d := time.Since(began); d < 900*time.Millisecond {
			t.Fatalf("the watch was closed after %s; want 1 s to 2 s", d)
		}
	case <-time.After(within):
		t.Fatalf("the watch is open after %s, want it closed within 2 s", within)
	}
}

// gone watches events and pods from a resource version and reports which of them gets
// 410.
func gone(t *testing.T, s *Server, ns, from string) (events, pods bool) {
	t.Helper()
	delivered := func(w watch.Interface, err error) bool {
		t.Helper()
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return true
		}
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		e := next(t, w)
		if e.Type != watch.Error {
			return false
		}
		if err := apierrors.FromObject(e.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			t.Fatalf("the watch ended with %v; want 410", err)
		}
		return true
	}
	core, options := s.Client().CoreV1(), metav1.ListOptions{ResourceVersion: from}
	return delivered(core.Events(ns).Watch(t.Context(), options)), delivered(core.Pods(ns).Watch(t.Context(), options))
}

// The effect of a compaction is the table in the comment on Compact.
func TestCompactionIsFelt(t *testing.T) {
	for _, c := range []struct {
		name         string
		opts         Options
		restart      bool
		events, pods bool
	}{
		{name: "with the watch cache", events: true, pods: false},
		{name: "with the watch cache and a restart", restart: true, events: true, pods: true},
		{name: "without the watch cache", opts: Options{NoWatchCache: true}, events: true, pods: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Start(t, c.opts)
			ns := s.Namespace(t)
			about := corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "web-0"}
			before := must[*corev1.EventList](t)(s.Client().CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{})).ResourceVersion
			must[*corev1.Event](t)(s.Event(t.Context(), ns, about, corev1.EventTypeNormal, "Started", "it runs"))
			must[*corev1.Pod](t)(s.Pod(t.Context(), ns, "web-0", nil))
			if events, pods := gone(t, s, ns, before); events || pods {
				t.Fatalf("410 Gone before a compaction: events %t, pods %t; want neither", events, pods)
			}
			if err := s.Compact(); err != nil {
				t.Fatal(err)
			}
			if c.restart {
				if err := s.Restart(); err != nil {
					t.Fatal(err)
				}
			}
			if events, pods := gone(t, s, ns, before); events != c.events || pods != c.pods {
				t.Fatalf("delivered 410: events %t, pods %t; want %t, %t", events, pods, c.events, c.pods)
			}
		})
	}
}

func TestCompactionLeavesOpenWatches(t *testing.T) {
	s := Start(t, Options{})
	ns := s.Namespace(t)
	about := corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "web-0"}
	w := must[watch.Interface](t)(s.Client().CoreV1().Events(ns).Watch(t.Context(), metav1.ListOptions{}))
	defer w.Stop()
	for _, reason := range []string{"Before", "After"} {
		must[*corev1.Event](t)(s.Event(t.Context(), ns, about, corev1.EventTypeNormal, reason, ""))
		if e := next(t, w); e.Type != watch.Added || e.Object.(*corev1.Event).Reason != reason {
			t.Fatalf("watched %s %+v; want %s", e.Type, e.Object, reason)
		}
		if err := s.Compact(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKillAndRestart(t *testing.T) {
	s := Start(t, Options{Context: "cluster-b"})
	ns := s.Namespace(t)
	made := must[*corev1.Pod](t)(s.Pod(t.Context(), ns, "web-0", nil))
	pid, address, kubeconfig := s.PID(), s.Config().Host, s.Kubeconfig()
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Client().CoreV1().Pods(ns).Get(t.Context(), "web-0", metav1.GetOptions{}); err == nil {
		t.Fatal("Get from a killed server = nil, want an error")
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if s.PID() == pid || s.Config().Host != address || s.Kubeconfig() != kubeconfig {
		t.Fatalf("pid %d and %d, address %s and %s, kubeconfig %s and %s, want PID other than %v, Host %v and Kubeconfig %v", pid, s.PID(), address, s.Config().Host, kubeconfig, s.Kubeconfig(), pid, address, kubeconfig)
	}
	kept := must[*corev1.Pod](t)(s.Client().CoreV1().Pods(ns).Get(t.Context(), "web-0", metav1.GetOptions{}))
	if kept.UID != made.UID || kept.ResourceVersion != made.ResourceVersion {
		t.Fatalf("after the kill the pod is %s at %s, want %s at %s as before", kept.UID, kept.ResourceVersion, made.UID, made.ResourceVersion)
	}
}

// A test that is killed leaves no server behind.
func TestEndsWithItsOwner(t *testing.T) {
	s := Start(t, Options{})
	if err := s.process.stdin.Close(); err != nil { // as the kernel does
		t.Fatal(err)
	}
	select {
	case <-s.process.done:
	case <-time.After(within):
		t.Fatalf("the server runs %s after the test that owns it ended, want it to have ended", within)
	}
}

func TestFaults(t *testing.T) {
	s := server(t)
	ns, ctx := s.Namespace(t), t.Context()
	pod := must[*corev1.Pod](t)(s.Pod(ctx, ns, "web-0", nil, "app", "side"))
	if st := pod.Status; st.Phase != corev1.PodRunning || len(st.ContainerStatuses) != 2 || st.Conditions[0].Status != corev1.ConditionTrue {
		t.Fatalf("status of a new pod = %+v, want it running and ready with 2 containers", st)
	}
	sideOf := func(pod *corev1.Pod, err error) corev1.ContainerStatus {
		t.Helper()
		p := must[*corev1.Pod](t)(pod, err)
		if p.Status.Conditions[0].Status == corev1.ConditionTrue {
			t.Errorf("the pod is ready, want it not ready with the container %+v", p.Status.ContainerStatuses[1])
		}
		if !p.Status.ContainerStatuses[0].Ready {
			t.Errorf("status of the other container = %+v, want it ready", p.Status.ContainerStatuses[0])
		}
		return p.Status.ContainerStatuses[1]
	}
	if st := sideOf(s.Crash(ctx, pod, "side", 2)); st.State.Terminated == nil || st.State.Terminated.ExitCode != 2 || st.RestartCount != 0 {
		t.Errorf("crashed: %+v, want a Terminated, ExitCode 2 and RestartCount 0", st)
	}
	again := must[*corev1.Pod](t)(s.Restarted(ctx, pod, "side")).Status.ContainerStatuses[1]
	if again.State.Running == nil || again.RestartCount != 1 || again.LastTerminationState.Terminated.ExitCode != 2 ||
		again.ContainerID == again.LastTerminationState.Terminated.ContainerID {
		t.Errorf("restarted: %+v, want a Running, RestartCount 1, ExitCode 2 and ContainerID other than %v", again, again.LastTerminationState.Terminated.ContainerID)
	}
	if st := sideOf(s.OOMKilled(ctx, pod, "side")); st.State.Terminated == nil || st.State.Terminated.Reason != "OOMKilled" || st.State.Terminated.ExitCode != 137 {
		t.Errorf("killed for memory: %+v, want a Terminated, Reason \"OOMKilled\" and ExitCode 137", st)
	}
	if st := sideOf(s.CrashLoop(ctx, pod, "side", 1, 5)); st.State.Waiting == nil || st.State.Waiting.Reason != "CrashLoopBackOff" || st.RestartCount != 5 || st.LastTerminationState.Terminated.ExitCode != 1 {
		t.Errorf("in a crash loop: %+v, want a Waiting, Reason \"CrashLoopBackOff\", RestartCount 5 and ExitCode 1", st)
	}
	if st := sideOf(s.ImagePull(ctx, pod, "side", "ImagePullBackOff")); st.State.Waiting == nil || st.State.Waiting.Reason != "ImagePullBackOff" {
		t.Errorf("without its image: %+v, want it waiting with the reason ImagePullBackOff", st)
	}
	if _, err := s.Crash(ctx, pod, "none", 1); err == nil {
		t.Error("Crash of a container that does not exist = nil, want an error")
	}

	node := must[*corev1.Node](t)(s.Node(ctx, ns))
	node = must[*corev1.Node](t)(s.NodeNotReady(ctx, node))
	if c := node.Status.Conditions[0]; c.Type != corev1.NodeReady || c.Status != corev1.ConditionUnknown {
		t.Errorf("condition of the node = %+v, want Ready Unknown", c)
	}
	deployment, err := s.Deployment(ctx, ns, "web", nil, 3)
	if err != nil {
		t.Fatal(err)
	}
	if deployment, err = s.DeploymentStalled(ctx, deployment); err != nil {
		t.Fatal(err)
	}
	if c := deployment.Status.Conditions[0]; c.Reason != "ProgressDeadlineExceeded" || deployment.Status.ReadyReplicas != 0 {
		t.Errorf("status of the deployment = %+v, want ProgressDeadlineExceeded and no ready replica", deployment.Status)
	}
	job, err := s.Job(ctx, ns, "nightly", nil)
	if err != nil {
		t.Fatal(err)
	}
	if job, err = s.JobFailed(ctx, job); err != nil {
		t.Fatal(err)
	}
	if len(job.Status.Conditions) != 2 || job.Status.Conditions[1].Type != "Failed" {
		t.Errorf("status of the job = %+v, want 2 conditions, the second Failed", job.Status)
	}
}

func logs(ctx context.Context, s *Server, pod *corev1.Pod, options *corev1.PodLogOptions) (string, error) {
	// Not DoRaw, which drops the text of a refusal.
	stream, err := s.Client().CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	data, err := io.ReadAll(stream)
	return string(data), err
}

func TestLogs(t *testing.T) {
	s := Start(t, Options{})
	ctx, ns := t.Context(), s.Namespace(t)
	k := must[*Kubelet](t)(s.Kubelet(ctx, "node-a"))
	t.Cleanup(func() {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	pod := must[*corev1.Pod](t)(s.Pod(ctx, ns, "web-0", nil, "app", "fresh", "broken", "slow"))
	k.SetLog(pod, "app", Log{Current: "one\ntwo\nthree\n", Previous: "panic: gone\n"})
	k.SetLog(pod, "fresh", Log{NotThere: true})
	k.SetLog(pod, "broken", Log{Status: 500, Body: "the disk is gone"})
	two, five := int64(2), int64(5)
	for _, c := range []struct {
		name    string
		options corev1.PodLogOptions
		want    string
		code    int32
		word    string
	}{
		{name: "all", options: corev1.PodLogOptions{Container: "app"}, want: "one\ntwo\nthree\n"},
		{name: "previous", options: corev1.PodLogOptions{Container: "app", Previous: true}, want: "panic: gone\n"},
		{name: "tail", options: corev1.PodLogOptions{Container: "app", TailLines: &two}, want: "two\nthree\n"},
		{name: "tail, and its first bytes", options: corev1.PodLogOptions{Container: "app", TailLines: &two, LimitBytes: &five}, want: "two\nt"},
		{name: "not restarted", options: corev1.PodLogOptions{Container: "fresh", Previous: true}, code: 400, word: "previous terminated container"},
		{name: "not started", options: corev1.PodLogOptions{Container: "fresh"}, code: 400, word: "waiting to start"},
		{name: "broken", options: corev1.PodLogOptions{Container: "broken"}, code: 500, word: "the disk is gone"},
		{name: "unknown to the kubelet", options: corev1.PodLogOptions{Container: "slow"}, code: 404, word: "could not find"},
		{name: "unknown to the server", options: corev1.PodLogOptions{Container: "none"}, code: 400, word: "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := logs(t.Context(), s, pod, &c.options)
			if c.code == 0 {
				if err != nil || got != c.want {
					t.Fatalf("%q, %v; want %q", got, err, c.want)
				}
				return
			}
			status := apierrors.APIStatus(nil)
			if !errors.As(err, &status) || status.Status().Code != c.code || !strings.Contains(err.Error(), c.word) {
				t.Fatalf("%q, %v (%+v); want %d %q", got, err, status, c.code, c.word)
			}
		})
	}

	k.SetLog(pod, "slow", Log{Current: "late\n", Delay: 200 * time.Millisecond})
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if got, err := logs(ctx, s, pod, &corev1.PodLogOptions{Container: "slow"}); err != nil || got != "late\n" {
				t.Errorf("got %q, %v, want \"late\\n\"", got, err)
			}
		})
	}
	group.Wait()
	if most := k.MostAtOnce(); most < 2 || most > 3 {
		t.Errorf("MostAtOnce = %d, want 2 or 3: three requests wait at the same time", most)
	}
	requests := k.Requests()
	if len(requests) != 11 {
		t.Fatalf("%d requests, want 11: %+v", len(requests), requests)
	}
	if want := (LogRequest{Namespace: ns, Pod: "web-0", Container: "app", TailLines: 2, LimitBytes: 5}); requests[3] != want {
		t.Errorf("fourth request = %+v, want %+v", requests[3], want)
	}
}

func TestCut(t *testing.T) {
	long := strings.Repeat("x", lineBytes)
	for _, c := range []struct {
		name        string
		log         string
		tail, limit int64
		want        string
	}{
		{"nothing output", "a\nb\n", -1, -1, "a\nb\n"},
		{"no lines", "a\nb\n", 0, -1, ""},
		{"one line", "a\nb\n", 1, -1, "b\n"},
		{"more lines than there are", "a\nb\n", 5, -1, "a\nb\n"},
		{"an unfinished line is one", "a\nb", 1, -1, "b"},
		{"the first bytes", "a\nb\n", -1, 3, "a\nb"},
		{"the first bytes of the tail", "a\nbcd\nefg\n", 2, 5, "bcd\ne"},
		{"an empty line is one", "a\n\nb\n", 2, -1, "\nb\n"},
		{"as long as a line may be", "a\n" + long + "\n", 1, -1, long + "\n"},
		{"a longer line is two", "a\n" + long + "yy\n", 1, -1, "yy\n"},
		{"empty", "", 1, 1, ""},
	} {
		if got := cut([]byte(c.log), c.tail, c.limit); !bytes.Equal(got, []byte(c.want)) {
			t.Errorf("%s: %.40q, want %.40q", c.name, got, c.want)
		}
	}
}

const role = `# what the test gives
apiVersion: v1
kind: ServiceAccount
metadata:
  name: reader
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: event-reader
rules:
  - apiGroups: [""]
    resources: [events]
    verbs: [get, list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: event-reader
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: event-reader
subjects:
  - kind: ServiceAccount
    name: reader
---
apiVersion: example.org/v1
kind: Unknown
metadata:
  name: left-alone
`

func TestLeastRights(t *testing.T) {
	s := server(t)
	ns := s.Namespace(t)
	manifest := filepath.Join(t.TempDir(), "rbac.yaml")
	if err := os.WriteFile(manifest, []byte(role), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		make func() (string, error)
	}{
		{"a user", func() (string, error) { return s.User(t.Context(), "someone", manifest) }},
		{"a service account", func() (string, error) { return s.ServiceAccount(t.Context(), ns, "reader", manifest) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			config, err := clientcmd.BuildConfigFromFlags("", must[string](t)(c.make()))
			if err != nil {
				t.Fatal(err)
			}
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			// The server learns of a binding by its own watch, a moment later.
			for deadline := time.Now().Add(within); ; {
				_, err = client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{})
				if err == nil || !apierrors.IsForbidden(err) || time.Now().After(deadline) {
					break
				}
			}
			if err != nil {
				t.Fatalf("events: %v", err)
			}
			if _, err := client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
				t.Fatalf("pods: %v; want forbidden", err)
			}
		})
	}
}
