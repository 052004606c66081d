// Package kubernetes tests Tocsin on a real Kubernetes API server, with the real binary
// and the manifests of deploy/kubernetes.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tocsin-bus/tocsin/e2e/harness/kube"
)

// access has the manifests that deploy/kubernetes installs for kubewatch.
const access = "../../deploy/kubernetes/kubewatch/access/access.yaml"

// within bounds how long a server takes to learn of a binding.
const within = 30 * time.Second

// verbs are all verbs of the server's own authorizers.
var verbs = []string{
	"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "bind", "escalate", "approve", "sign", "proxy", "use",
}

// asKubewatch returns a client with a token of the account of deploy/kubernetes.
func asKubewatch(t *testing.T, s *kube.Server) *kubernetes.Clientset {
	t.Helper()
	file, err := s.ServiceAccount(t.Context(), "tocsin", "kubewatch", access)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1 // without a limit: there is a request for each resource and verb
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(within); ; {
		_, err := client.CoreV1().Events("").List(t.Context(), metav1.ListOptions{Limit: 1})
		if err == nil {
			return client
		}
		if !apierrors.IsForbidden(err) || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestRightsSuffice does all that kubewatch does with kubewatch's account.
func TestRightsSuffice(t *testing.T) {
	t.Parallel()
	w := together(t)
	s, kubelet := w.server, w.kubelet
	client, ctx := asKubewatch(t, s), t.Context()
	ns := s.Namespace(t)
	pod, err := s.Pod(ctx, ns, "web", nil, "app")
	if err != nil {
		t.Fatal(err)
	}
	kubelet.SetLog(pod, "app", kube.Log{Current: "panic: test\n", Previous: "before\n"})
	list := metav1.ListOptions{}
	for what, do := range map[string]func() error{
		"list events":       func() error { _, err := client.CoreV1().Events("").List(ctx, list); return err },
		"list pods":         func() error { _, err := client.CoreV1().Pods("").List(ctx, list); return err },
		"list nodes":        func() error { _, err := client.CoreV1().Nodes().List(ctx, list); return err },
		"list deployments":  func() error { _, err := client.AppsV1().Deployments("").List(ctx, list); return err },
		"list jobs":         func() error { _, err := client.BatchV1().Jobs("").List(ctx, list); return err },
		"watch events":      func() error { return watches(client.CoreV1().Events("").Watch(ctx, list)) },
		"watch pods":        func() error { return watches(client.CoreV1().Pods("").Watch(ctx, list)) },
		"watch nodes":       func() error { return watches(client.CoreV1().Nodes().Watch(ctx, list)) },
		"watch deployments": func() error { return watches(client.AppsV1().Deployments("").Watch(ctx, list)) },
		"watch jobs":        func() error { return watches(client.BatchV1().Jobs("").Watch(ctx, list)) },
		"read the uid": func() error {
			_, err := client.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
			return err
		},
		"read logs":             func() error { return reads(ctx, client, pod, false, "panic: test\n") },
		"read logs of the last": func() error { return reads(ctx, client, pod, true, "before\n") },
	} {
		if err := do(); err != nil {
			t.Errorf("%s = error %v, want none", what, err)
		}
	}
}

// watches ends a watch that has started.
func watches(w watch.Interface, err error) error {
	if err == nil {
		w.Stop()
	}
	return err
}

// reads checks a container's log.
func reads(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, previous bool, want string) error {
	stream, err := client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: "app", Previous: previous}).Stream(ctx)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(stream)
	if err = errors.Join(err, stream.Close()); err != nil {
		return err
	}
	if string(got) != want {
		return fmt.Errorf("%q; want %q", got, want)
	}
	return nil
}

// TestRightsAreMinimal asks the server for every resource and verb whether kubewatch's
// account may use it: only what TestRightsSuffice does, and what every authenticated
// user may.
func TestRightsAreMinimal(t *testing.T) {
	t.Parallel()
	s := server(t)
	client := asKubewatch(t, s)
	_, groups, err := s.Client().Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	may := func(of authorizationv1.ResourceAttributes) bool {
		t.Helper()
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &of}}
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return review.Status.Allowed
	}
	var got []string
	asked := map[string]bool{}
	for _, group := range groups {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range group.APIResources {
			resource, sub, _ := strings.Cut(r.Name, "/")
			if asked[version.Group+" "+r.Name] {
				continue // the same in another version
			}
			asked[version.Group+" "+r.Name] = true
			for _, verb := range verbs {
				if may(authorizationv1.ResourceAttributes{Group: version.Group, Resource: resource, Subresource: sub, Verb: verb}) {
					got = append(got, strings.TrimSpace(version.Group+" "+r.Name+" "+verb))
				}
			}
		}
	}
	for _, r := range []string{" secrets", " configmaps", " pods/exec", " pods/attach", " pods/portforward", " nodes/proxy", " serviceaccounts/token", "rbac.authorization.k8s.io clusterroles"} {
		if !asked[r] {
			t.Errorf("the right to use%s was not asked for, want it asked: the server should have that resource", r)
		}
	}
	want := []string{
		"apps deployments list", "apps deployments watch",
		"authentication.k8s.io selfsubjectreviews create",
		"authorization.k8s.io selfsubjectaccessreviews create", "authorization.k8s.io selfsubjectrulesreviews create",
		"batch jobs list", "batch jobs watch",
		"events list", "events watch", "nodes list", "nodes watch", "pods list", "pods watch", "pods/log get",
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("rights of kubewatch (-want +got):\n%s", cmp.Diff(want, got))
	}
	for name, want := range map[string]bool{"kube-system": true, "default": false, "tocsin": false} {
		if got := may(authorizationv1.ResourceAttributes{Resource: "namespaces", Name: name, Verb: "get"}); got != want {
			t.Errorf("it may read the namespace %s: %v, want %v", name, got, want)
		}
	}
	// The rights that were reported are those that are enforced.
	ctx := t.Context()
	for what, do := range map[string]func() error{
		"read secrets":    func() error { _, err := client.CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); return err },
		"read configmaps": func() error { _, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{}); return err },
		"list namespaces": func() error { _, err := client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{}); return err },
		"delete a pod":    func() error { return client.CoreV1().Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}) },
		"run in a pod": func() error {
			return client.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("web").SubResource("exec").Do(ctx).Error()
		},
	} {
		if err := do(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v; want that it is refused", what, err)
		}
	}
}
