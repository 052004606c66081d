package kubernetes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tocsin-bus/tocsin/e2e/harness/kube"
)

// quiet returns a log of n bytes without any sign of a panic, in lines of about this
// length.
func quiet(size, line int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		begin := fmt.Sprintf("level=info n=%d non-fatal error: retrying, no panic ", i)
		b.WriteString(begin + strings.Repeat("x", max(0, line-len(begin)-1)) + "\n")
	}
	return b.String()
}

const (
	panicked = "panic: runtime error: index out of range [3] with length 3\n\ngoroutine 1 [running]:\nmain.main()\n\t/app/main.go:7 +0x1d\nexit status 2\n"
	secret   = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
)

// TestFaultWithLogs has logs that are larger than what is read of them, of more
// containers than are reported.
func TestFaultWithLogs(t *testing.T) {
	t.Parallel()
	w := together(t)
	c := w.stdio(t)
	ns := w.server.Namespace(t)
	id := c.subscribe(t, filters{"cluster": w.cluster, "namespaces": []string{ns}, "mode": "faults"})
	containers := []string{"web", "wide", "calm", "proxy", "side", "sixth", "seventh"}
	pod := w.pod(t, ns, "web-0", map[string]string{"app": "web"}, containers...)
	for _, name := range containers {
		w.kubelet.SetLog(pod, name, kube.Log{Current: "this is " + name + "\n"})
	}
	w.kubelet.SetLog(pod, "web", kube.Log{
		Previous: quiet(4<<20, 120) + "Authorization: Bearer " + secret + "\ntoken is " + secret + "\n" + panicked,
		Current:  quiet(2<<20, 120) + "started again €\n",
	})
	// 200 lines of it are more than a server sends at once.
	w.kubelet.SetLog(pod, "wide", kube.Log{Current: quiet(3<<20, 12<<10) + panicked})
	w.kubelet.SetLog(pod, "calm", kube.Log{Current: "non-fatal error: try again\nno panic: ok\n"})
	must(w.server.CrashLoop(t.Context(), pod, "web", 2, 3))(t)

	first := c.await(t, id, "the fault", func(n note) bool { return n.Data.FaultID != "" })
	if first.Level != "warning" || first.Logger != "kubernetes/faults" || len(first.Data.Logs) > 0 || !first.Data.LogsFollow {
		t.Errorf("at first: %s, want Level \"warning\", Logger \"kubernetes/faults\", no entry in Logs and LogsFollow", first.Raw)
	}
	n := c.await(t, id, "its logs", func(n note) bool { return len(n.Data.Logs) > 0 })
	if n.Level != "warning" || n.Logger != "kubernetes/faults" || n.Data.FaultID != first.Data.FaultID || n.Data.Event.Involved.Name != "web-0" || n.Data.LogsFollow {
		t.Errorf("with logs: %.500s, want Level \"warning\", Logger \"kubernetes/faults\", FaultID %v, Name \"web-0\" and no LogsFollow", n.Raw, first.Data.FaultID)
	}
	var of []string
	for _, l := range n.Data.Logs {
		of = append(of, fmt.Sprintf("%s %t %t", l.Container, l.Previous, l.HasPanic))
		if l.Error != "" || l.Sample == "" || len(l.Sample) > 10<<10 {
			t.Errorf("%s: %d bytes, %s, want no Error, a Sample and at most %v entries in Sample", l.Container, len(l.Sample), l.Error, 10<<10)
		}
	}
	if want := []string{"web true true", "web false false", "wide false true", "calm false false", "proxy false false", "side false false"}; !slices.Equal(of, want) {
		t.Fatalf("there are the logs %q, want %q", of, want)
	}
	previous, current, wide := n.Data.Logs[0].Sample, n.Data.Logs[1].Sample, n.Data.Logs[2].Sample
	for _, l := range []struct{ name, sample, end string }{{"previous", previous, panicked}, {"wide", wide, panicked}, {"current", current, "started again €\n"}} {
		if !strings.HasSuffix(l.sample, l.end) {
			t.Errorf("end of the log %s = %q, want %q", l.name, last(l.sample), l.end)
		}
	}
	const least = 9 << 10
	if len(previous) < least || len(current) < least {
		t.Errorf("the logs of web have %d and %d bytes, want at least %d", len(previous), len(current), least)
	}
	if strings.Contains(n.Raw, secret) {
		t.Errorf("the notification has the secret, want it masked: %q", last(previous))
	}
	if !strings.Contains(previous, "[REDACTED") {
		t.Errorf("end of the previous log = %q, want a mask in the log", last(previous))
	}
	for _, r := range w.kubelet.Requests() {
		if r.Namespace == ns && (r.TailLines < 0 || r.LimitBytes < 0) {
			t.Errorf("request to the kubelet = %+v, want limits of lines and bytes", r)
		}
	}
	for _, stored := range w.published(t, ns) {
		for _, l := range stored.Logs {
			if strings.Contains(l.Sample, secret) {
				t.Errorf("the log of %s on the bus has the secret, want it masked", l.Container)
			}
		}
	}
}

// last returns the end of a text.
func last(s string) string { return s[max(0, len(s)-300):] }

// role returns a manifest of a user's rights.
func role(t *testing.T, name string, rules ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".yaml")
	text := "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: " + name + "\nrules:\n"
	for _, r := range append(rules, `apiGroups: [""], resources: [namespaces], resourceNames: [kube-system], verbs: [get]`) {
		text += "  - {" + r + "}\n"
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestLogsAreRefused checks that the fault has the error if the cluster refuses the
// logs.
func TestLogsAreRefused(t *testing.T) {
	t.Parallel()
	shared := together(t)
	file := must(shared.server.User(t.Context(), "without-logs", role(t, "without-logs",
		`apiGroups: [""], resources: [events, pods, nodes], verbs: [list, watch]`,
		`apiGroups: [apps], resources: [deployments], verbs: [list, watch]`, `apiGroups: [batch], resources: [jobs], verbs: [list, watch]`)))(t)
	w := shared.as(t, file)
	c := w.stdio(t)
	ns := w.server.Namespace(t)
	id := c.subscribe(t, filters{"namespaces": []string{ns}, "mode": "faults"})
	pod := w.pod(t, ns, "web-0", nil)
	w.kubelet.SetLog(pod, "app", kube.Log{Current: panicked})
	must(w.server.Crash(t.Context(), pod, "app", 2))(t)
	n := c.await(t, id, "the fault", func(n note) bool { return len(n.Data.Logs) > 0 })
	for _, l := range n.Data.Logs {
		if !strings.Contains(l.Error, "pods/log") || l.Sample != "" || l.HasPanic {
			t.Errorf("got %+v, want \"pods/log\" in Error, no Sample and no HasPanic", l)
		}
	}
}

// TestEventsAlone checks that with the right to read events and nothing else, events
// and the faults in them are reported.
func TestEventsAlone(t *testing.T) {
	t.Parallel()
	shared := together(t)
	w := shared.as(t, must(shared.server.User(t.Context(), "events-alone", role(t, "events-alone", `apiGroups: [""], resources: [events], verbs: [list, watch]`)))(t))
	c := w.stdio(t)
	ns := w.server.Namespace(t)
	events := c.subscribe(t, filters{"namespaces": []string{ns}})
	faults := c.subscribe(t, filters{"namespaces": []string{ns}, "mode": "faults"})
	w.event(t, ns, w.pod(t, ns, "web-0", nil), corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container app in pod web-0")
	c.await(t, events, "the event", func(n note) bool { return n.Data.Event != nil })
	c.await(t, faults, "the fault", func(n note) bool { return n.Data.FaultID != "" })
	for _, kind := range []string{"pods", "nodes", "deployments", "jobs"} {
		if !strings.Contains(w.watch.Log.String(), kind) {
			t.Errorf("log of kubewatch, want the refused %s in it:\n%s", kind, w.watch.Log)
		}
	}
}

// as returns a world of this cluster, watched with another kubeconfig.
func (w *world) as(t *testing.T, kubeconfig string) *world {
	t.Helper()
	own := &world{server: w.server, kubelet: w.kubelet, cluster: w.cluster, bus: up(t)}
	own.watch = kubewatch(t, own.bus, kubeconfig)
	own.mustBeWatched(t)
	return own
}
