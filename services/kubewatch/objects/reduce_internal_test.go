package objects

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// TestReduce checks what is kept of objects.
func TestReduce(t *testing.T) {
	mask := redact.New()
	for _, tt := range []struct {
		name   string
		reduce func(*redact.Engine, runtime.Object) *item
		object runtime.Object
		yaml   string
		want   string
	}{
		{"a pod with all states", reducePod, &corev1.Pod{}, `
metadata: {namespace: shop, name: web-1, uid: u-1, labels: {app: web, password: hunter2hunter2}, deletionTimestamp: "2026-01-28T14:30:00Z"}
spec: {nodeName: n1, initContainers: [{name: init}], containers: [{name: web}, {name: proxy}, {name: new}]}
status:
  phase: Running
  initContainerStatuses: [{name: init, state: {terminated: {exitCode: 0, reason: Completed, containerID: "containerd://1", finishedAt: "2026-01-28T14:30:00Z"}}}]
  containerStatuses:
  - {name: proxy, restartCount: 2, state: {running: {startedAt: "2026-01-28T14:31:00+01:00"}}, lastState: {terminated: {exitCode: 137, signal: 9, reason: OOMKilled, message: m}}}
  - {name: web, state: {waiting: {reason: ErrImagePull, message: not found}}}
  - {name: gone, state: {waiting: {reason: x}}}
  ephemeralContainerStatuses: [{name: debug, state: {terminated: {exitCode: 1}}}]`,
			`{"Namespace":"shop","Name":"web-1","UID":"u-1","Alias":"","Labels":{"app":"web","password":"[REDACTED]"},"Initial":false,"Workload":"","Node":"n1","Deleting":true,"Disrupted":false,"Done":false,"Containers":[` +
				`{"Name":"init","Init":true,"Waiting":"","Message":"","Running":false,"Started":"0001-01-01T00:00:00Z","Restarts":0,"Ended":{"ExitCode":0,"Signal":0,"Reason":"Completed","Message":"","At":"2026-01-28T14:30:00Z","ID":"containerd://1"},"Last":null},` +
				`{"Name":"web","Init":false,"Waiting":"ErrImagePull","Message":"not found","Running":false,"Started":"0001-01-01T00:00:00Z","Restarts":0,"Ended":null,"Last":null},` +
				`{"Name":"proxy","Init":false,"Waiting":"","Message":"","Running":true,"Started":"2026-01-28T13:31:00Z","Restarts":2,"Ended":null,"Last":{"ExitCode":137,"Signal":9,"Reason":"OOMKilled","Message":"m","At":"0001-01-01T00:00:00Z","ID":""}},` +
				`{"Name":"new","Init":false,"Waiting":"","Message":"","Running":false,"Started":"0001-01-01T00:00:00Z","Restarts":0,"Ended":null,"Last":null}]}`},
		{"evicted, of a manifest", reducePod, &corev1.Pod{}, `
metadata: {name: p, annotations: {kubernetes.io/config.hash: manifest}}
status: {phase: Failed, reason: Evicted}`,
			`{"Namespace":"","Name":"p","UID":"","Alias":"manifest","Labels":null,"Initial":false,"Workload":"","Node":"","Deleting":false,"Disrupted":true,"Done":true,"Containers":[]}`},
		{"preempted", reducePod, &corev1.Pod{}, `
metadata: {name: p}
status: {phase: Succeeded, conditions: [{type: Ready, status: "True"}, {type: DisruptionTarget, status: "True"}]}`,
			`{"Namespace":"","Name":"p","UID":"","Alias":"","Labels":null,"Initial":false,"Workload":"","Node":"","Deleting":false,"Disrupted":true,"Done":true,"Containers":[]}`},
		{"a node", reduceNode, &corev1.Node{}, `
metadata: {name: n1}
status: {conditions: [{type: DiskPressure, status: "True"}, {type: Ready, status: Unknown, reason: NodeStatusUnknown, message: Kubelet stopped, lastTransitionTime: "2026-01-28T14:30:00Z"}]}`,
			`{"Namespace":"","Name":"n1","UID":"","Alias":"","Labels":null,"Initial":false,"Ready":{"Status":"Unknown","Reason":"NodeStatusUnknown","Message":"Kubelet stopped","Since":"2026-01-28T14:30:00Z"}}`},
		{"a deployment", reduceDeployment, &appsv1.Deployment{}, `
metadata: {name: d}
status: {conditions: [{type: Available, status: "False"}, {type: Progressing, status: "False", reason: ProgressDeadlineExceeded}, {type: ReplicaFailure, status: "True", reason: FailedCreate}]}`,
			`{"Namespace":"","Name":"d","UID":"","Alias":"","Labels":null,"Initial":false,"Progressing":{"Status":"False","Reason":"ProgressDeadlineExceeded","Message":"","Since":"0001-01-01T00:00:00Z"},"ReplicaFailure":{"Status":"True","Reason":"FailedCreate","Message":"","Since":"0001-01-01T00:00:00Z"}}`},
		{"a job", reduceJob, &batchv1.Job{}, `
metadata: {name: j}
status: {conditions: [{type: Complete, status: "False"}, {type: Failed, status: "True", reason: BackoffLimitExceeded}]}`,
			`{"Namespace":"","Name":"j","UID":"","Alias":"","Labels":null,"Initial":false,"Failed":{"Status":"True","Reason":"BackoffLimitExceeded","Message":"","Since":"0001-01-01T00:00:00Z"}}`},
	} {
		if err := yaml.UnmarshalStrict([]byte(tt.yaml), tt.object); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		u := tt.reduce(mask, tt.object).update
		var kept any
		switch {
		case u.Pod != nil:
			kept = u.Pod
		case u.Node != nil:
			kept = u.Node
		case u.Deployment != nil:
			kept = u.Deployment
		default:
			kept = u.Job
		}
		got, err := json.Marshal(kept)
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: kept %s, error %v; want %s", tt.name, got, err, tt.want)
		}
	}
}

// TestWorkload checks the workload of a pod and its version.
func TestWorkload(t *testing.T) {
	const uid = "12345678-1234-1234-1234-123456789012"
	for _, tt := range []struct {
		kind, name, hash string
		controls         bool
		want             string
	}{
		{"ReplicaSet", "web-7d9f", "7d9f", true, "Deployment/web/7d9f"},
		{"ReplicaSet", "my-web-app-7d9f", "7d9f", true, "Deployment/my-web-app/7d9f"},
		{"ReplicaSet", "web-7d9f", "", true, "ReplicaSet/web-7d9f"},
		{"ReplicaSet", "web", "7d9f", true, "ReplicaSet/web"},
		{"ReplicaSet", "-7d9f", "7d9f", true, "ReplicaSet/-7d9f"},
		{"StatefulSet", "db-7d9f", "7d9f", true, "StatefulSet/db-7d9f"},
		{"Job", "backup-29384", "", true, "Job/backup-29384"},
		{"Node", "n1", "", true, ""},
		{"ReplicaSet", "web-7d9f", "7d9f", false, ""},
		{"", "web", "", true, ""}, {"Job", "", "", true, ""},
	} {
		pod := &corev1.Pod{}
		pod.Labels = map[string]string{"pod-template-hash": tt.hash}
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Other", Name: "o", UID: uid}, {Kind: tt.kind, Name: tt.name, UID: uid, Controller: &tt.controls}}
		if got := reducePod(redact.New(), pod).update.Pod.Workload; got != tt.want {
			t.Errorf("workload of a pod of %s %s, hash %q, controller %t = %q, want %q", tt.kind, tt.name, tt.hash, tt.controls, got, tt.want)
		}
	}
	yes, replica := true, &corev1.Pod{}
	replica.Labels = map[string]string{"controller-revision-hash": "db-5c"}
	replica.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "db", UID: uid, Controller: &yes}}
	if got := reducePod(redact.New(), replica).update.Pod.Workload; got != "StatefulSet/db/db-5c" {
		t.Errorf("workload of a pod of a stateful set = %q, want %q", got, "StatefulSet/db/db-5c")
	}
	if got := reducePod(redact.New(), &corev1.Pod{}).update.Pod.Workload; got != "" {
		t.Errorf("workload of a pod without an owner = %q, want none", got)
	}
}

// TestReduceBounds checks that texts of any length are cut.
func TestReduceBounds(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}}}}
	pod.Labels = map[string]string{}
	for i := range 500 {
		pod.Labels[strings.Repeat("a", i+1)] = strings.Repeat("ä", 1000)
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: strings.Repeat("ä", 5000)}}}}
	p := reducePod(redact.New(), pod).update.Pod
	got := [3]int{len(p.Labels), utf8.RuneCountInString(p.Labels["aa"]), utf8.RuneCountInString(p.Containers[0].Ended.Message)}
	if want := [3]int{64, 253, maxText}; got != want {
		t.Errorf("labels, characters of a label and of a message = %d, want %d", got, want)
	}
	if !p.Containers[0].Ended.At.Equal(time.Time{}) {
		t.Errorf("end = %v, want the zero time", p.Containers[0].Ended.At)
	}
}

// TestHostileWorkload checks that the name of an owner, which the creator of a pod may choose, is
// bounded, masked and visible.
func TestHostileWorkload(t *testing.T) {
	yes := true
	for _, name := range []string{strings.Repeat("ä", 1<<20), "AKIAIOSFODNN7EXAMPLE", "web\x1b[2J\u202e\nweb"} {
		pod := &corev1.Pod{}
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: name, Controller: &yes}}
		got := reducePod(redact.New(), pod).update.Pod.Workload
		if !strings.HasPrefix(got, "Job/") || utf8.RuneCountInString(got) > kube.MaxName || strings.Contains(got, "AKIA") || strings.ContainsAny(got, "\x1b\u202e\n") {
			t.Errorf("workload of the owner %.20q = %q, want a bounded one without secrets or control characters", name, got)
		}
	}
}

// TestReduceSecretAcrossTheCut checks that a secret at the end of a cut text is masked.
func TestReduceSecretAcrossTheCut(t *testing.T) {
	const secret = "AKIAIOSFODNN7EXAMPLE"
	mask := redact.New()
	for at := maxText - len(secret); at < maxText; at++ {
		text := strings.Repeat("x", at-1) + " " + secret + " " + strings.Repeat("y", maxText)
		pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}}}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Message: text}, Terminated: &corev1.ContainerStateTerminated{Message: text},
		}}}
		node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Message: text}}}}
		c := reducePod(mask, pod).update.Pod.Containers[0]
		for _, kept := range []string{c.Message, c.Ended.Message, reduceNode(mask, node).update.Node.Ready.Message} {
			if strings.Contains(kept, secret[:4]) {
				t.Fatalf("secret at %d: kept …%s, want it masked", at, kept[at-10:])
			}
		}
	}
}
