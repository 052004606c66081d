// Package api is how kubewatch talks to a cluster: lists and watches of the few
// resources that it looks at, and the logs of containers.
//
// It decides how that is said (protobuf, our name, our rate), and knows nothing of
// what is asked for, nor when to try again. It is a REST client over a scheme of its
// own: the typed clients of client-go register every type of Kubernetes while the
// program starts, and the program is also one that answers an agent's hooks within
// milliseconds.
package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
)

const (
	// requestsPerSecond and burst bound how often the server is asked. The watches
	// ask seldom; it is what logs may cost.
	requestsPerSecond = 50
	burst             = 100
	// protobuf is tried first: it is several times cheaper than JSON on both sides.
	protobuf = "application/vnd.kubernetes.protobuf"
	accepted = protobuf + ",application/json"
	// answerTimeout bounds one question that is answered at once.
	answerTimeout = 10 * time.Second
)

// Client is a connection to one cluster. It is safe for concurrent use.
type Client struct {
	core, apps, batch *rest.RESTClient
	params            runtime.ParameterCodec
	http              *http.Client
	// address is a hash of the server's URL and of who vouches for it.
	address string
	// namespace is the only one that is asked about, or empty for all.
	namespace string
}

// Connect makes a client. It asks the server nothing: its error says what is wrong
// with the settings.
func Connect(cfg *rest.Config) (*Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("register the types of Kubernetes: %w", err)
		}
	}
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType, cfg.AcceptContentTypes = protobuf, accepted
	cfg.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(scheme, serializer.NewCodecFactory(scheme)).WithoutConversion()
	cfg.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(requestsPerSecond, burst)
	if cfg.UserAgent == "" {
		cfg.UserAgent = "tocsin-kubewatch"
	}
	httpClient, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
	}
	c := &Client{params: runtime.NewParameterCodec(scheme), http: httpClient, address: address(cfg)}
	for _, group := range []struct {
		to      **rest.RESTClient
		version schema.GroupVersion
		path    string
	}{
		{&c.core, corev1.SchemeGroupVersion, "/api"},
		{&c.apps, appsv1.SchemeGroupVersion, "/apis"},
		{&c.batch, batchv1.SchemeGroupVersion, "/apis"},
	} {
		of := rest.CopyConfig(cfg)
		of.GroupVersion, of.APIPath = &group.version, group.path
		if *group.to, err = rest.RESTClientForConfigAndClient(of, httpClient); err != nil {
			return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
		}
	}
	return c, nil
}

// address tells clusters apart where they don't say who they are.
func address(cfg *rest.Config) string {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s\n%s\n%s", cfg.Host, cfg.CAData, cfg.CAFile) // a hash takes everything
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Address is a hash of the server's URL and of who vouches for it: what tells
// clusters apart that don't say who they are.
func (c *Client) Address() string { return c.address }

// In returns a client of the same cluster that asks about one namespace alone, or about
// all for the empty name. One namespace is known by a uid and an address of its own.
func (c *Client) In(namespace string) *Client {
	one := *c
	if one.namespace = namespace; namespace != "" {
		sum := sha256.Sum256([]byte(c.address + "\n" + namespace))
		one.address = hex.EncodeToString(sum[:16])
	}
	return &one
}

// Close ends connections that nothing is under way on.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// UID is what a cluster is known by, whatever it is called: the uid of its namespace
// kube-system, or of the only one that is asked about.
func (c *Client) UID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	var ns corev1.Namespace
	if err := c.core.Get().Resource("namespaces").Name(cmp.Or(c.namespace, metav1.NamespaceSystem)).Do(ctx).Into(&ns); err != nil {
		return "", fmt.Errorf("read the uid of the cluster: %w", err)
	}
	return string(ns.UID), nil
}

// Resource is one kind of object, of one namespace or of all.
type Resource struct {
	rest *rest.RESTClient
	name string
	list func() runtime.Object
	// namespace is empty for all, and for objects that are in none.
	namespace string
}

// Events are core/v1 events, as all API groups have them.
func (c *Client) Events() Resource {
	return Resource{c.core, "events", func() runtime.Object { return &corev1.EventList{} }, c.namespace}
}

// Pods of the cluster.
func (c *Client) Pods() Resource {
	return Resource{c.core, "pods", func() runtime.Object { return &corev1.PodList{} }, c.namespace}
}

// Nodes of the cluster.
func (c *Client) Nodes() Resource {
	return Resource{c.core, "nodes", func() runtime.Object { return &corev1.NodeList{} }, ""}
}

// Deployments of the cluster.
func (c *Client) Deployments() Resource {
	return Resource{c.apps, "deployments", func() runtime.Object { return &appsv1.DeploymentList{} }, c.namespace}
}

// Jobs of the cluster.
func (c *Client) Jobs() Resource {
	return Resource{c.batch, "jobs", func() runtime.Object { return &batchv1.JobList{} }, c.namespace}
}

// Name is that of the resource, as roles name it.
func (r Resource) Name() string { return r.name }

// List asks for objects, or for a page of them. What comes is a list of the
// resource's type.
func (r Resource) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	into := r.list()
	if err := r.rest.Get().NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.name).VersionedParams(&opts, metav1.ParameterCodec).MaxRetries(0).Do(ctx).Into(into); err != nil {
		return nil, fmt.Errorf("list %s: %w", r.name, err)
	}
	return into, nil
}

// Watch begins a watch.
func (r Resource) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	// Not tried again in there: who asks counts errors, and waits.
	w, err := r.rest.Get().NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.name).VersionedParams(&opts, metav1.ParameterCodec).MaxRetries(0).Watch(ctx)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", r.name, err)
	}
	return w, nil
}

// ListWatch is what an informer of client-go takes.
func (r Resource) ListWatch() *cache.ListWatch {
	return cache.NewFilteredListWatchFromClient(r.rest, r.name, r.namespace, func(*metav1.ListOptions) {})
}

// Logs reads the log of a pod's container. The caller closes it. Of the options,
// bound what comes by TailLines and LimitBytes: a log has no bound of its own.
func (c *Client) Logs(ctx context.Context, namespace, pod string, opts corev1.PodLogOptions) (io.ReadCloser, error) {
	r, err := c.core.Get().Namespace(namespace).Resource("pods").Name(pod).SubResource("log").
		VersionedParams(&opts, c.params).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the log of %s/%s: %w", namespace, pod, err)
	}
	return r, nil
}
