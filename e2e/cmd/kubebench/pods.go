package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// replicas is how many pods an app has.
const replicas = 10

// pod returns the pod with a number, running: an app with two sidecars and what an
// admission webhook and a deployment would have added. The API server adds the managed
// fields of its creator and its kubelet.
func (s *testbed) pod(ctx context.Context, i int) (*corev1.Pod, error) {
	pods := s.client.CoreV1().Pods(namespace)
	pod, err := pods.Create(ctx, podOf(i), metav1.CreateOptions{FieldManager: "kube-controller-manager"})
	if err != nil {
		return nil, fmt.Errorf("make a pod: %w", err)
	}
	pod.Status = statusOf(pod, 0)
	return s.podStatus(ctx, pod)
}

func (s *testbed) podStatus(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	pod, err := s.client.CoreV1().Pods(namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{FieldManager: "kubelet"})
	if err != nil {
		return nil, fmt.Errorf("write the status of a pod: %w", err)
	}
	return pod, nil
}

func podOf(i int) *corev1.Pod {
	app := fmt.Sprintf("app-%d", i/replicas)
	yes, no := true, false
	spec := corev1.PodSpec{
		NodeName: fmt.Sprintf("node-%d", i%100), RestartPolicy: corev1.RestartPolicyAlways, ServiceAccountName: "default", AutomountServiceAccountToken: &no,
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes},
		Tolerations: []corev1.Toleration{
			{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
			{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		},
		Volumes: []corev1.Volume{
			{Name: "settings", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app}}}},
			{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
		InitContainers: []corev1.Container{containerOf("migrate", 0)},
	}
	for i, name := range []string{"app", "proxy", "exporter"} {
		spec.Containers = append(spec.Containers, containerOf(name, 8080+int32(i)))
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-7d9c5b8f4d-%05d", app, i), Namespace: namespace,
			Labels: map[string]string{
				"app.kubernetes.io/name": app, "app.kubernetes.io/instance": app + "-production", "app.kubernetes.io/version": "2.14.3",
				"app.kubernetes.io/component": "api", "app.kubernetes.io/part-of": "shop", "app.kubernetes.io/managed-by": "Helm",
				"helm.sh/chart": app + "-1.4.0", "pod-template-hash": "7d9c5b8f4d",
			},
			Annotations: map[string]string{
				"checksum/config":       "6f1a1b0f4f2c1f0f0bb7a1a1a5f4c2f6e6bd3df1b8d54d64a0d1d3f1f54c2a9e",
				"prometheus.io/scrape":  "true",
				"prometheus.io/port":    "9090",
				"sidecar/status":        `{"initContainers":["migrate"],"containers":["proxy"],"volumes":["scratch","settings"],"revision":"default"}`,
				"kubernetes.io/restart": "2026-11-20T08:11:42Z",
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-7d9c5b8f4d", UID: "5f8a6c4e-1d0b-4f4e-9a57-0c2d3b1e7f60", Controller: &yes, BlockOwnerDeletion: &yes,
			}},
		},
		Spec: spec,
	}
}

// containerOf returns a container with the usual fields. Without a port it is one that
// ends.
func containerOf(name string, port int32) corev1.Container {
	c := corev1.Container{
		Name: name, Image: "registry.example/shop/" + name + ":2.14.3", Args: []string{"--log-format=json", "--settings=/etc/app/settings.yaml"},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "settings", MountPath: "/etc/app", ReadOnly: true}, {Name: "scratch", MountPath: "/tmp"}},
		Env: []corev1.EnvVar{
			{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			{Name: "POD_NAMESPACE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.namespace"}}},
		},
	}
	if port > 0 {
		c.Ports = []corev1.ContainerPort{{Name: "http-" + name, ContainerPort: port}}
		probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(port)}}, PeriodSeconds: 10}
		c.LivenessProbe, c.ReadinessProbe = probe, probe
	}
	for i := range 15 {
		c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%02d", i), Value: fmt.Sprintf("https://service-%02d.shop.svc.cluster.local:8443/api/v1", i)})
	}
	return c
}

// statusOf returns a kubelet's nth status of a pod that runs: the time when it became
// ready changes.
func statusOf(pod *corev1.Pod, n int) corev1.PodStatus {
	began := metav1.NewTime(pod.CreationTimestamp.Add(time.Second))
	now := metav1.NewTime(began.Add(time.Duration(n) * time.Second))
	st := corev1.PodStatus{
		Phase: corev1.PodRunning, StartTime: &began, HostIP: "10.0.3.7", PodIP: "10.244.3.18", PodIPs: []corev1.PodIP{{IP: "10.244.3.18"}}, QOSClass: corev1.PodQOSBurstable,
	}
	for _, c := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
		st.Conditions = append(st.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	status := func(c corev1.Container) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image + "@sha256:0d17b565c37bcbd895e9d92315a05c1c3c9a29f762b011a10c54a66cd53c9b31",
			ContainerID: fmt.Sprintf("containerd://%s-%s", pod.UID, c.Name), Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}},
		}
	}
	for _, c := range pod.Spec.Containers {
		st.ContainerStatuses = append(st.ContainerStatuses, status(c))
	}
	for _, c := range pod.Spec.InitContainers {
		ended := status(c)
		ended.Started = new(false)
		ended.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: began, FinishedAt: began, ContainerID: ended.ContainerID}}
		st.InitContainerStatuses = append(st.InitContainerStatuses, ended)
	}
	return st
}
