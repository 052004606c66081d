package kubernetes

import (
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/kube"
)

// TestWalkThrough follows docs/kubernetes.md, except for kind: the server is that of
// the tests, under the name that kind would give it, and the test does what a kubelet
// does with the pod.
func TestWalkThrough(t *testing.T) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("kubectl is not here")
	}
	readme, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sh\n(kind create cluster.*?)```").FindSubmatch(readme)
	if block == nil {
		t.Fatal("docs/kubernetes.md has no sh block with \"kind create cluster\", want the walk-through")
	}
	delivered := map[string]string{} // by its first words
	for _, line := range strings.Split(strings.TrimSpace(string(block[1])), "\n") {
		line = strings.TrimSpace(regexp.MustCompile(` #.*`).ReplaceAllString(line, ""))
		delivered[strings.Join(strings.Fields(line)[:2], " ")] = line
	}
	if want := "kind create cluster --name shop"; delivered["kind create"] != want || len(delivered) != 5 {
		t.Fatalf("got %q, want delivered[\"kind create\"] %v and 5 of them", delivered, want)
	}

	t.Parallel()
	s := kube.Start(t, kube.Options{Context: "kind-shop"})
	ctx := t.Context()
	kubelet, err := s.Kubelet(ctx, "shop-control-plane")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kubelet.Close(); err != nil {
			t.Error(err)
		}
	})
	tocsin := binary(t)
	bus, err := harness.Up(ctx, tocsin, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bus.Stop(); err != nil {
			t.Errorf("tocsin up: %v\n%s", err, bus.Log)
		}
	})
	begin := func(words string) *harness.Process {
		t.Helper()
		args := strings.Fields(delivered[words])
		if len(args) < 2 {
			t.Fatalf("the walk-through has no command %q, want one: %q", words, delivered)
		}
		p, err := harness.Start(tocsin, bus.StateDir, []string{"KUBECONFIG=" + s.Kubeconfig()}, args[1:]...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := p.Stop(); err != nil {
				t.Errorf("%s: %v\n%s", words, err, p.Log)
			}
		})
		return p
	}
	begin("tocsin kubewatch")
	tail := begin("tocsin tail")
	agent, err := harness.StartAgent(ctx, tocsin, bus.StateDir, "reader")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := agent.Close(); err != nil {
			t.Errorf("tocsin gateway: %v\n%s", err, agent.Log)
		}
	})
	calls := regexp.MustCompile("(?m)^\\| `(events_subscribe|observe) (\\{.*?\\})`").FindAllStringSubmatch(string(readme), -1)
	if len(calls) != 3 {
		t.Fatalf("docs/kubernetes.md has the calls %q, want 3", calls)
	}
	for _, c := range calls[:2] {
		call(t, agent, c[1], c[2], `"subscriptionId":`)
	}

	cmd := exec.CommandContext(ctx, "sh", "-c", delivered["kubectl --context"])
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	crash(t, s, kubelet)
	for deadline := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		output := tail.Stdout.String()
		if strings.Contains(output, "Crash: default/crasher") && strings.Contains(output, "panic: test") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("output of tocsin tail, want the crash of crasher and its panic:\n%s", output)
		}
	}
	for logs := false; !logs; {
		n, err := agent.Next(ctx, within)
		if err != nil {
			t.Fatal(err)
		}
		logs = n.Logger == "kubernetes/faults" && strings.Contains(n.Raw, `"sample":"panic: test\n"`) && strings.Contains(n.Raw, `"hasPanic":true`)
	}
	call(t, agent, calls[2][1], calls[2][2], "panic: test")
}

// call calls a tool as the page does, until its answer contains a word: the tools are
// there a moment after kubewatch.
func call(t *testing.T, agent *harness.Agent, tool, arguments, want string) {
	t.Helper()
	var args map[string]any
	if err := json.Unmarshal([]byte(arguments), &args); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		blocks, err := agent.Call(t.Context(), tool, args)
		if err == nil && strings.Contains(blocks[0], want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s %s = %q, error %v; want %q", tool, arguments, blocks, err, want)
		}
	}
}

// crash writes what a kubelet makes of the pod crasher.
func crash(t *testing.T, s *kube.Server, kubelet *kube.Kubelet) {
	t.Helper()
	ctx, pods := t.Context(), s.Client().CoreV1().Pods("default")
	if err := pods.Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "crasher"}, Target: corev1.ObjectReference{Kind: "Node", Name: "shop-control-plane"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod, err := pods.Get(ctx, "crasher", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	container := pod.Spec.Containers[0]
	if got := strings.Join(container.Args, " "); got != `/bin/sh -c echo 'panic: test'; exit 1` {
		t.Errorf("it runs %q, want \"/bin/sh -c echo 'panic: test'; exit 1\"", got)
	}
	kubelet.SetLog(pod, container.Name, kube.Log{Current: "panic: test\n"})
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: container.Name, Image: container.Image, ContainerID: "containerd://1", Ready: true,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}
	if pod, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Crash(ctx, pod, container.Name, 1); err != nil {
		t.Fatal(err)
	}
}
