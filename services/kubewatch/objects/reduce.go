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

// maxText bounds what is kept of a message, in characters.
const maxText = 1000

// maxRaw bounds the part of a message that is examined, in bytes: a node sends at most 4 KiB
// of a termination message, but a client that may write states may write more.
const maxRaw = 16 << 10

// configHash is the annotation of a static pod that contains the uid in the kubelet's events.
const configHash = "kubernetes.io/config.hash"

// kind is a watched kind of object.
type kind struct {
	name, plural string
	object       runtime.Object
	resource     func(*api.Client) api.Resource
	// page calls visit for the objects of a list.
	page   func(list runtime.Object, visit func(runtime.Object)) (metav1.ListMeta, error)
	reduce func(mask *redact.Engine, o runtime.Object) *item
}

// Kinds returns the number of watched kinds of objects.
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

// page calls visit for the objects of a list of type L, and returns its metadata.
func page[L runtime.Object, T any](list runtime.Object, split func(L) ([]T, metav1.ListMeta), visit func(*T)) (metav1.ListMeta, error) {
	l, ok := list.(L)
	if !ok {
		return metav1.ListMeta{}, fmt.Errorf("unexpected list of type %T", list)
	}
	objects, meta := split(l)
	for i := range objects {
		visit(&objects[i])
	}
	return meta, nil
}

// item is the kept part of an object. It is immutable.
type item struct {
	version string
	update  Update
	// meta points into update.
	meta *fault.Meta
}

func (i *item) key() string { return i.meta.Namespace + "/" + i.meta.Name }

// GetObjectKind implements runtime.Object.
func (i *item) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject implements runtime.Object.
func (i *item) DeepCopyObject() runtime.Object { return i }

// items is a list of kept parts.
type items struct {
	metav1.TypeMeta
	metav1.ListMeta
	Items []runtime.Object
}

// DeepCopyObject implements runtime.Object.
func (l *items) DeepCopyObject() runtime.Object { return l }

// intern returns one copy of text that many objects share.
func intern(s string) string {
	if s == "" {
		return ""
	}
	return unique.Make(s).Value()
}

// meta returns what is kept of the metadata of each object.
func meta(mask *redact.Engine, o *metav1.ObjectMeta) fault.Meta {
	m := fault.Meta{Namespace: intern(o.Namespace), Name: o.Name, UID: string(o.UID), Alias: o.Annotations[configHash]}
	if len(o.Labels) == 0 {
		return m
	}
	labels := convert.New(mask).Labels(o.Labels)
	m.Labels = make(map[string]string, len(labels))
	for name, value := range labels {
		m.Labels[intern(name)] = intern(value)
	}
	return m
}

// cut masks text and then cuts it: half a secret would not be recognized. A termination
// message may be the end of a log.
func cut(mask *redact.Engine, s string) string {
	if s == "" {
		return ""
	}
	if len(s) > maxRaw {
		s = strings.ToValidUTF8(s[:maxRaw], "")
	}
	return sanitize.Cut(mask.String(s), maxText)
}

// reducePod returns what is kept of a pod: the state of its containers and its workload.
func reducePod(mask *redact.Engine, o runtime.Object) *item {
	pod := o.(*corev1.Pod)
	p := &fault.Pod{
		Meta: meta(mask, &pod.ObjectMeta), Workload: workload(mask, &pod.ObjectMeta), Node: intern(pod.Spec.NodeName), Deleting: pod.DeletionTimestamp != nil,
		Disrupted: disrupted(&pod.Status), Done: pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed,
	}
	p.Containers = make([]fault.Container, 0, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	add := func(spec []corev1.Container, statuses []corev1.ContainerStatus, isInit bool) {
		for i := range spec {
			c := fault.Container{Name: intern(spec[i].Name), Init: isInit}
			for j := range statuses {
				if statuses[j].Name == spec[i].Name {
					fillStatus(mask, &c, &statuses[j])
				}
			}
			p.Containers = append(p.Containers, c)
		}
	}
	add(pod.Spec.InitContainers, pod.Status.InitContainerStatuses, true)
	add(pod.Spec.Containers, pod.Status.ContainerStatuses, false)
	return &item{version: pod.ResourceVersion, update: Update{Pod: p}, meta: &p.Meta}
}

// The labels with the version of a pod's workload. The name of a deployment's replica set is
// the deployment's name, a hyphen and the value of hashLabel.
const (
	hashLabel     = appsv1.DefaultDeploymentUniqueLabelKey
	revisionLabel = appsv1.ControllerRevisionHashLabelKey
)

// workload returns the controller of a pod as kind, name and version, empty for none. For a
// replica set of a deployment it is the deployment.
//
// The version is included because the faults of the next release are new, also while the
// release before still fails. A job of a cron job is a workload of its own, because each run
// may fail in another way. A static pod has none. The text is masked and cut: the creator of
// a pod may write anything.
func workload(mask *redact.Engine, pod *metav1.ObjectMeta) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind == "" || owner.Name == "" || owner.Kind == fault.KindNode {
		return ""
	}
	kind, name, version := owner.Kind, owner.Name, pod.Labels[revisionLabel]
	if hash := pod.Labels[hashLabel]; kind == "ReplicaSet" && hash != "" {
		if deployment, is := strings.CutSuffix(name, "-"+hash); is && deployment != "" {
			kind, name, version = fault.KindDeployment, deployment, hash
		}
	}
	whole := kind + "/" + name
	if version != "" {
		whole += "/" + version
	}
	return intern(sanitize.Cut(sanitize.Visible(cut(mask, whole)), kube.MaxName))
}

// disruptions are the reasons of pods that the cluster removes.
var disruptions = map[string]bool{"Evicted": true, "Preempting": true, "Terminated": true, "NodeShutdown": true, "Shutdown": true, "NodeLost": true}

// disrupted reports whether the cluster removes a pod.
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

// fillStatus copies the state of a container from its status.
func fillStatus(mask *redact.Engine, c *fault.Container, s *corev1.ContainerStatus) {
	c.Restarts = int(s.RestartCount)
	if w := s.State.Waiting; w != nil {
		c.Waiting, c.Message = intern(w.Reason), cut(mask, w.Message)
	}
	if r := s.State.Running; r != nil {
		c.Running, c.Started = true, r.StartedAt.UTC()
	}
	c.Ended, c.Last = ended(mask, s.State.Terminated), ended(mask, s.LastTerminationState.Terminated)
}

// ended returns how a container ended, or nil.
func ended(mask *redact.Engine, t *corev1.ContainerStateTerminated) *fault.Ended {
	if t == nil {
		return nil
	}
	return &fault.Ended{
		ExitCode: int(t.ExitCode), Signal: int(t.Signal), Reason: intern(t.Reason), Message: cut(mask, t.Message), At: t.FinishedAt.UTC(), ID: t.ContainerID,
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
		default: // other conditions are no faults
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
	return fault.Condition{Status: intern(status), Reason: intern(reason), Message: intern(cut(mask, message)), Since: since.UTC()}
}
