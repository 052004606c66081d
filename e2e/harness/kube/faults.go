package kube

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// runTime is how long a container ran before it ended.
const runTime = 2 * time.Second

// Crash ends a container with an exit code, and does not start it again yet: the status
// that a kubelet writes first, during its back-off.
func (s *Server) Crash(ctx context.Context, pod *corev1.Pod, container string, exitCode int32) (*corev1.Pod, error) {
	return s.endContainer(ctx, pod, container, "Error", exitCode)
}

// OOMKilled ends a container as the kernel does when memory is short.
func (s *Server) OOMKilled(ctx context.Context, pod *corev1.Pod, container string) (*corev1.Pod, error) {
	return s.endContainer(ctx, pod, container, "OOMKilled", 137)
}

// endContainer ends a container with a reason and an exit code.
func (s *Server) endContainer(ctx context.Context, pod *corev1.Pod, container, reason string, exitCode int32) (*corev1.Pod, error) {
	return s.containerStatus(ctx, pod, container, func(p *corev1.Pod, st *corev1.ContainerStatus) {
		st.LastTerminationState = corev1.ContainerState{Terminated: st.State.Terminated}
		st.State = corev1.ContainerState{Terminated: terminated(p, container, reason, exitCode, st.RestartCount)}
		st.ContainerID, st.Ready = containerID(p, container, st.RestartCount), false
	})
}

// CrashLoop makes a container wait for its next start, which a kubelet delays, after it
// ended with the exit code and was restarted so many times.
func (s *Server) CrashLoop(ctx context.Context, pod *corev1.Pod, container string, exitCode, restarts int32) (*corev1.Pod, error) {
	return s.containerStatus(ctx, pod, container, func(p *corev1.Pod, st *corev1.ContainerStatus) {
		st.RestartCount, st.Ready = restarts, false
		st.ContainerID = containerID(p, container, restarts)
		st.LastTerminationState = corev1.ContainerState{Terminated: terminated(p, container, "Error", exitCode, restarts)}
		st.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason:  "CrashLoopBackOff",
			Message: fmt.Sprintf("back-off 5m0s restarting failed container=%s pod=%s_%s(%s)", container, p.Name, p.Namespace, p.UID),
		}}
	})
}

// Restarted makes a container run again after it ended.
func (s *Server) Restarted(ctx context.Context, pod *corev1.Pod, container string) (*corev1.Pod, error) {
	return s.containerStatus(ctx, pod, container, func(p *corev1.Pod, st *corev1.ContainerStatus) {
		if st.State.Terminated != nil {
			st.LastTerminationState = corev1.ContainerState{Terminated: st.State.Terminated}
		}
		st.RestartCount++
		st.ContainerID, st.Ready = containerID(p, container, st.RestartCount), true
		st.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}
	})
}

// ImagePull makes a container wait for an image that cannot be pulled. A kubelet
// reports ErrImagePull after a try and ImagePullBackOff until the next.
func (s *Server) ImagePull(ctx context.Context, pod *corev1.Pod, container, reason string) (*corev1.Pod, error) {
	return s.containerStatus(ctx, pod, container, func(p *corev1.Pod, st *corev1.ContainerStatus) {
		p.Status.Phase = corev1.PodPending
		st.ContainerID, st.Ready = "", false
		st.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
			Reason: reason, Message: fmt.Sprintf("Back-off pulling image %q", st.Image),
		}}
	})
}

func terminated(p *corev1.Pod, container, reason string, exitCode, restarts int32) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{
		Reason: reason, ExitCode: exitCode, StartedAt: ago(runTime), FinishedAt: metav1.Now(),
		ContainerID: containerID(p, container, restarts),
	}
}

// Node creates a node that is ready and has no kubelet.
func (s *Server) Node(ctx context.Context, name string) (*corev1.Node, error) {
	return s.makeNode(ctx, name)
}

func (s *Server) makeNode(ctx context.Context, name string) (*corev1.Node, error) {
	node, err := s.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		node, err = s.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("make node %s: %w", name, err)
	}
	return s.NodeReady(ctx, node)
}

// NodeReady makes a node ready.
func (s *Server) NodeReady(ctx context.Context, node *corev1.Node) (*corev1.Node, error) {
	return s.nodeCondition(ctx, node, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status")
}

// NodeNotReady makes a node not ready, as the node controller does after 40 s without a
// heartbeat.
func (s *Server) NodeNotReady(ctx context.Context, node *corev1.Node) (*corev1.Node, error) {
	return s.nodeCondition(ctx, node, corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status.")
}

func (s *Server) nodeCondition(ctx context.Context, node *corev1.Node, status corev1.ConditionStatus, reason, message string) (*corev1.Node, error) {
	return s.nodeStatus(ctx, node, func(st *corev1.NodeStatus) {
		now := metav1.Now()
		st.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: status, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now,
		}}
	})
}

// DeploymentStalled sets the condition that a deployment made no progress within its
// deadline, as the deployment controller does.
func (s *Server) DeploymentStalled(ctx context.Context, d *appsv1.Deployment) (*appsv1.Deployment, error) {
	return s.deploymentStatus(ctx, d, func(st *appsv1.DeploymentStatus) {
		st.ReadyReplicas, st.AvailableReplicas, st.UnavailableReplicas = 0, 0, st.Replicas
		st.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded",
			Message: fmt.Sprintf("ReplicaSet %q has timed out progressing.", d.Name), LastUpdateTime: metav1.Now(), LastTransitionTime: metav1.Now(),
		}}
	})
}

// JobFailed sets the condition that a job's pods failed too often, as the job
// controller does.
func (s *Server) JobFailed(ctx context.Context, job *batchv1.Job) (*batchv1.Job, error) {
	return s.jobStatus(ctx, job, func(st *batchv1.JobStatus) {
		st.Active, st.Failed = 0, 7
		for _, condition := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
			st.Conditions = append(st.Conditions, batchv1.JobCondition{
				Type: condition, Status: corev1.ConditionTrue, Reason: batchv1.JobReasonBackoffLimitExceeded,
				Message: "Job has reached the specified backoff limit", LastProbeTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			})
		}
	})
}

// containerStatus changes the status of one container of a pod, and the pod's readiness
// with it.
func (s *Server) containerStatus(ctx context.Context, pod *corev1.Pod, container string, change func(*corev1.Pod, *corev1.ContainerStatus)) (*corev1.Pod, error) {
	return s.podStatus(ctx, pod, func(p *corev1.Pod) error {
		for i := range p.Status.ContainerStatuses {
			if st := &p.Status.ContainerStatuses[i]; st.Name == container {
				change(p, st)
				return nil
			}
		}
		return fmt.Errorf("pod %s/%s has no container %s", p.Namespace, p.Name, container)
	})
}

// podStatus changes the newest status of a pod. Its condition Ready follows from its
// containers.
func (s *Server) podStatus(ctx context.Context, pod *corev1.Pod, change func(*corev1.Pod) error) (*corev1.Pod, error) {
	pods := s.client.CoreV1().Pods(pod.Namespace)
	var now *corev1.Pod
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		p, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := change(p); err != nil {
			return err
		}
		ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}
		for _, c := range p.Status.ContainerStatuses {
			if !c.Ready {
				ready.Status, ready.Reason = corev1.ConditionFalse, "ContainersNotReady"
				ready.Message = fmt.Sprintf("containers with unready status: [%s]", c.Name)
			}
		}
		p.Status.Conditions = []corev1.PodCondition{ready}
		now, err = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("write the status of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return now, nil
}

func (s *Server) nodeStatus(ctx context.Context, node *corev1.Node, change func(*corev1.NodeStatus)) (*corev1.Node, error) {
	nodes := s.client.CoreV1().Nodes()
	var now *corev1.Node
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		n, err := nodes.Get(ctx, node.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&n.Status)
		now, err = nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("write the status of node %s: %w", node.Name, err)
	}
	return now, nil
}

func (s *Server) deploymentStatus(ctx context.Context, deployment *appsv1.Deployment, change func(*appsv1.DeploymentStatus)) (*appsv1.Deployment, error) {
	deployments := s.client.AppsV1().Deployments(deployment.Namespace)
	var now *appsv1.Deployment
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		d, err := deployments.Get(ctx, deployment.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&d.Status)
		now, err = deployments.UpdateStatus(ctx, d, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("write the status of deployment %s/%s: %w", deployment.Namespace, deployment.Name, err)
	}
	return now, nil
}

func (s *Server) jobStatus(ctx context.Context, job *batchv1.Job, change func(*batchv1.JobStatus)) (*batchv1.Job, error) {
	jobs := s.client.BatchV1().Jobs(job.Namespace)
	var now *batchv1.Job
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		j, err := jobs.Get(ctx, job.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&j.Status)
		now, err = jobs.UpdateStatus(ctx, j, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("write the status of job %s/%s: %w", job.Namespace, job.Name, err)
	}
	return now, nil
}
