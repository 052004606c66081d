package objects

import (
	"fmt"
	"strings"
	"unique"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/tocsin-bus/tocsin/services/kubewatch/api"
	"github.com/tocsin-bus/tocsin/services/kubewatch/convert"
	"github.com/tocsin-bus/tocsin/services/kubewatch/fault"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/redact"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// maxText bounds what is kept of a message, in characters. It is kept only of what is
// wrong with an object.
const maxText = 1000

// maxRaw bounds how much of a message is looked at, in bytes: a node gives at most 4 KiB
// of what a container left, but whoever may write states may write more.
const maxRaw = 16 << 10

// configHash is the annotation of a pod that its node runs by itself: the uid by which
// the kubelet's events name it.
const configHash = "kubernetes.io/config.hash"

// kind is one that is watched.
type kind struct {
	name, plural string
	object       runtime.Object
	resource     func(*api.Client) api.Resource
	// page visits the objects of a list.
	page   func(list runtime.Object, visit func(runtime.Object)) (metav1.ListMeta, error)
	reduce func(mask *redact.Engine, o runtime.Object) *item
}

// Kinds is how many kinds of objects are watched.
func Kinds() int { return len(kinds) }

var kinds = []*kind{
	{fault.KindPod, "pods", &corev1.Pod{}, (*api.Client).Pods, func(l runtime.Object, visit func(runtime.Object)) (metav1.ListMeta, error) {
		return page(l, func(l *corev1.PodList) ([]corev1.Pod, metav1.ListMeta) { return l.Items, l.ListMeta }, func(o *corev1.Pod) { visit(o) })
	}, reducePod},
	{fault.KindNode, "nodes", &corev1.Node{}, (*api.Client).Nodes, func(l runtime.Object, visit func(runtime.Object)) (metav1.ListMeta, error) {
		return page(l, func(l *corev1.NodeList) ([]corev1.Node, metav1.ListMeta) { return l.Items, l.ListMeta }, func(o *corev1.Node) { visit(o) })
	}, reduceNode},
	{fault.KindDeployment, "deployments", &appsv1.Deployment{}, (*api.Client).Deployments, func(l runtime.Object, visit func(runtime.Object)) (metav1.ListMeta, error) {
		return page(l, func(l *appsv1.DeploymentList) ([]appsv1.Deployment, metav1.ListMeta) { return l.Items, l.ListMeta }, func(o *appsv1.Deployment) { visit(o) })
	}, reduceDeployment},
	{fault.KindJob, "jobs", &batchv1.Job{}, (*api.Client).Jobs, func(l runtime.Object, visit func(runtime.Object)) (metav1.ListMeta, error) {
		return page(l, func(l *batchv1.JobList) ([]batchv1.Job, metav1.ListMeta) { return l.Items, l.ListMeta }, func(o *batchv1.Job) { visit(o) })
	}, reduceJob},
}

func page[L runtime.Object, T any](list runtime.Object, of func(L) ([]T, metav1.ListMeta), visit func(*T)) (metav1.ListMeta, error) {
	l, ok := list.(L)
	if !ok {
		return metav1.ListMeta{}, fmt.Errorf("a list of type %T", list)
	}
	objects, meta := of(l)
	for i := range objects {
		visit(&objects[i])
	}
	return meta, nil
}

// item is what is kept of an object.
type item struct {
	version string
	update  Update
	// meta is that of the object in update.
	meta *fault.Meta
}

func (i *item) key() string { return i.meta.Namespace + "/" + i.meta.Name }

// GetObjectKind and DeepCopyObject make it what a list may hold.
func (i *item) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject gives the same: nobody changes it.
func (i *item) DeepCopyObject() runtime.Object { return i }

// items is a list of what is kept.
type items struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

// DeepCopyObject gives the same: nobody changes it.
func (l *items) DeepCopyObject() runtime.Object { return l }

// same is text that many objects have, once.
func same(s string) string {
	if s == "" {
		return ""
	}
	return unique.Make(s).Value()
}

func meta(mask *redact.Engine, o *metav1.ObjectMeta) fault.Meta {
	m := fault.Meta{Namespace: same(o.Namespace), Name: o.Name, UID: string(o.UID), Alias: o.Annotations[configHash]}
	if len(o.Labels) == 0 {
		return m
	}
	labels := convert.New(mask).Labels(o.Labels)
	m.Labels = make(map[string]string, len(labels))
	for name, value := range labels {
		m.Labels[same(name)] = same(value)
	}
	return m
}

// cut masks first: half a secret is no longer seen to be one. What a node says is the
// end of a log where its container asks for that.
func cut(mask *redact.Engine, s string) string {
	if s == "" {
		return ""
	}
	if len(s) > maxRaw {
		s = strings.ToValidUTF8(s[:maxRaw], "")
	}
	return sanitize.Cut(mask.String(s), maxText)
}

func reducePod(mask *redact.Engine, o runtime.Object) *item {
	pod := o.(*corev1.Pod)
	p := &fault.Pod{
		Meta: meta(mask, &pod.ObjectMeta), Workload: workload(mask, &pod.ObjectMeta), Node: same(pod.Spec.NodeName), Deleting: pod.DeletionTimestamp != nil,
		Disrupted: disrupted(&pod.Status), Done: pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
	}
	p.Containers = make([]fault.Container, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	add := func(spec []corev1.Container, statuses []corev1.ContainerStatus, isInit bool) {
		for i := range spec {
			c := fault.Container{Name: same(spec[i].Name), Init: isInit}
			for j := range statuses {
				if statuses[j].Name == spec[i].Name {
					fill(mask, &c, &statuses[j])
				}
			}
			p.Containers = append(p.Containers, c)
		}
	}
	add(pod.Spec.InitContainers, pod.Status.InitContainerStatuses, true)
	add(pod.Spec.Containers, pod.Status.ContainerStatuses, false)
	return &item{version: pod.ResourceVersion, update: Update{Pod: p}, meta: &p.Meta}
}

// The labels that say of which version of its workload a pod is. The name of a
// deployment's replica set is the deployment's, a hyphen and the label's value.
const (
	hashLabel     = appsv1.DefaultDeploymentUniqueLabelKey
	revisionLabel = appsv1.ControllerRevisionHashLabelKey
)

// workload is what controls a pod, as kind, name and version. What only stands between the
// two, a deployment's replica set, is left out. The version is part of it: what goes
// wrong in the next release is news, also while the one before still fails. A job is one
// of its own, also where a cron job makes it: each run may fail in another way. A pod that
// its node runs by itself is none's. Who makes a pod may write anything there, at any
// length.
func workload(mask *redact.Engine, pod *metav1.ObjectMeta) string {
	of := metav1.GetControllerOfNoCopy(pod)
	if of == nil || of.Kind == "" || of.Name == "" || of.Kind == fault.KindNode {
		return ""
	}
	kind, name, version := of.Kind, of.Name, pod.Labels[revisionLabel]
	if hash := pod.Labels[hashLabel]; kind == "ReplicaSet" && hash != "" {
		if deployment, is := strings.CutSuffix(name, "-"+hash); is && deployment != "" {
			kind, name, version = fault.KindDeployment, deployment, hash
		}
	}
	whole := kind + "/" + name
	if version != "" {
		whole += "/" + version
	}
	return same(sanitize.Cut(sanitize.Visible(cut(mask, whole)), kube.MaxName))
}

// disruptions are the reasons that a pod is given where the cluster puts it away.
var disruptions = map[string]bool{"Evicted": true, "Preempting": true, "Terminated": true, "NodeShutdown": true, "Shutdown": true, "NodeLost": true}

func disrupted(s *corev1.PodStatus) bool {
	if disruptions[s.Reason] {
		return true
	}
	for _, c := range s.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func fill(mask *redact.Engine, c *fault.Container, s *corev1.ContainerStatus) {
	c.Restarts = int(s.RestartCount)
	if w := s.State.Waiting; w != nil {
		c.Waiting, c.Message = same(w.Reason), cut(mask, w.Message)
	}
	if r := s.State.Running; r != nil {
		c.Running, c.Started = true, r.StartedAt.UTC()
	}
	c.Ended, c.Last = ended(mask, s.State.Terminated), ended(mask, s.LastTerminationState.Terminated)
}

func ended(mask *redact.Engine, t *corev1.ContainerStateTerminated) *fault.Ended {
	if t == nil {
		return nil
	}
	return &fault.Ended{
		ExitCode: int(t.ExitCode), Signal: int(t.Signal), Reason: same(t.Reason), Message: cut(mask, t.Message), At: t.FinishedAt.UTC(), ID: t.ContainerID,
	}
}

func reduceNode(mask *redact.Engine, o runtime.Object) *item {
	node := o.(*corev1.Node)
	n := &fault.Node{Meta: meta(mask, &node.ObjectMeta)}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			n.Ready = condition(mask, string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
		}
	}
	return &item{version: node.ResourceVersion, update: Update{Node: n}, meta: &n.Meta}
}

func reduceDeployment(mask *redact.Engine, o runtime.Object) *item {
	deployment := o.(*appsv1.Deployment)
	d := &fault.Deployment{Meta: meta(mask, &deployment.ObjectMeta)}
	for _, c := range deployment.Status.Conditions {
		switch c.Type {
		case appsv1.DeploymentProgressing:
			d.Progressing = condition(mask, string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
		case appsv1.DeploymentReplicaFailure:
			d.ReplicaFailure = condition(mask, string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
		default: // whether enough of it runs is no fault of its own
		}
	}
	return &item{version: deployment.ResourceVersion, update: Update{Deployment: d}, meta: &d.Meta}
}

func reduceJob(mask *redact.Engine, o runtime.Object) *item {
	job := o.(*batchv1.Job)
	j := &fault.Job{Meta: meta(mask, &job.ObjectMeta)}
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobFailed {
			j.Failed = condition(mask, string(c.Status), c.Reason, c.Message, c.LastTransitionTime)
		}
	}
	return &item{version: job.ResourceVersion, update: Update{Job: j}, meta: &j.Meta}
}

func condition(mask *redact.Engine, status, reason, message string, since metav1.Time) fault.Condition {
	return fault.Condition{Status: same(status), Reason: same(reason), Message: same(cut(mask, message)), Since: since.UTC()}
}
