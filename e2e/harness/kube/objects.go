package kube

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/reference"
)

// Image is the image of the containers. It is never pulled.
const Image = "registry.invalid/app:1"

// Namespace creates a namespace with a unique name. It stays.
func (s *Server) Namespace(t testing.TB) string {
	t.Helper()
	ns, err := s.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("make a namespace: %v", err)
	}
	return ns.Name
}

// Ref returns a reference to an object of the server, as events hold it.
func Ref(object runtime.Object) (corev1.ObjectReference, error) {
	ref, err := reference.GetReference(scheme.Scheme, object)
	if err != nil {
		return corev1.ObjectReference{}, fmt.Errorf("refer to a %T: %w", object, err)
	}
	return *ref, nil
}

// Event creates an event as client-go's recorder does when it sees one for the first
// time. The event of an object without a namespace, such as a node, is in "default":
// namespace "" means that.
func (s *Server) Event(ctx context.Context, namespace string, about corev1.ObjectReference, eventType, reason, message string) (*corev1.Event, error) {
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	now := metav1.Now()
	event, err := s.client.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", strings.ToLower(about.Name), now.UnixNano()), Namespace: namespace},
		InvolvedObject: about, Type: eventType, Reason: reason, Message: message,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: corev1.EventSource{Component: "kubelet", Host: s.node},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("make event %s of %s: %w", reason, about.Name, err)
	}
	return event, nil
}

// EventAgain increases the count of an event, as the recorder does when it sees the
// same again.
func (s *Server) EventAgain(ctx context.Context, event *corev1.Event) (*corev1.Event, error) {
	event = event.DeepCopy()
	event.Count++
	event.LastTimestamp = metav1.Now()
	again, err := s.client.CoreV1().Events(event.Namespace).Update(ctx, event, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("count event %s once more: %w", event.Name, err)
	}
	return again, nil
}

// Pod creates a pod whose containers run, with these names or "app". It is on the node
// of the kubelet that was started last; without one it is on none, and has no logs.
func (s *Server) Pod(ctx context.Context, namespace, name string, labels map[string]string, containers ...string) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels},
		Spec:       podSpec(containers),
	}
	pod.Spec.NodeName = s.node
	pod, err := s.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("make pod %s/%s: %w", namespace, name, err)
	}
	return s.podStatus(ctx, pod, func(p *corev1.Pod) error {
		now := metav1.Now()
		p.Status.Phase, p.Status.StartTime = corev1.PodRunning, &now
		for _, c := range p.Spec.Containers {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: c.Name, Image: c.Image, ContainerID: containerID(p, c.Name, 0), Ready: true,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
			})
		}
		return nil
	})
}

func podSpec(containers []string) corev1.PodSpec {
	if len(containers) == 0 {
		containers = []string{"app"}
	}
	var spec corev1.PodSpec
	for _, name := range containers {
		spec.Containers = append(spec.Containers, corev1.Container{Name: name, Image: Image})
	}
	return spec
}

// containerID returns the id of a container after a number of restarts.
func containerID(pod *corev1.Pod, container string, restarts int32) string {
	return fmt.Sprintf("containerd://%x", sha256.Sum256(fmt.Appendf(nil, "%s %s %d", pod.UID, container, restarts)))
}

// Deployment creates a deployment, with as many pods as it wants.
func (s *Server) Deployment(ctx context.Context, namespace, name string, labels map[string]string, replicas int32) (*appsv1.Deployment, error) {
	selected := map[string]string{"app": name}
	d, err := s.client.AppsV1().Deployments(namespace).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: selected},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selected}, Spec: podSpec(nil)},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("make deployment %s/%s: %w", namespace, name, err)
	}
	return s.deploymentStatus(ctx, d, func(st *appsv1.DeploymentStatus) {
		st.ObservedGeneration = d.Generation
		st.Replicas, st.UpdatedReplicas, st.ReadyReplicas, st.AvailableReplicas = replicas, replicas, replicas, replicas
		st.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable",
			Message: fmt.Sprintf("ReplicaSet %q has successfully progressed.", name), LastUpdateTime: metav1.Now(), LastTransitionTime: metav1.Now(),
		}}
	})
}

// Job creates a job that has started.
func (s *Server) Job(ctx context.Context, namespace, name string, labels map[string]string) (*batchv1.Job, error) {
	spec := podSpec(nil)
	spec.RestartPolicy = corev1.RestartPolicyNever
	job, err := s.client.BatchV1().Jobs(namespace).Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: labels},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: spec}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("make job %s/%s: %w", namespace, name, err)
	}
	return s.jobStatus(ctx, job, func(st *batchv1.JobStatus) {
		now := metav1.Now()
		st.StartTime, st.Active = &now, 1
	})
}

// addNode creates a node whose kubelet has a port of this machine, or updates the port
// of one that exists.
func (s *Server) addNode(ctx context.Context, name string, port int32) error {
	node, err := s.makeNode(ctx, name)
	if err != nil {
		return err
	}
	_, err = s.nodeStatus(ctx, node, func(st *corev1.NodeStatus) {
		st.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
		st.DaemonEndpoints.KubeletEndpoint.Port = port
	})
	return err
}

// ago returns an earlier time, to the second, as the API stores it.
func ago(d time.Duration) metav1.Time { return metav1.NewTime(time.Now().Add(-d)) }
