// Package api is kubewatch's client of the Kubernetes API: lists and watches of a few
// resources, and the logs of containers.
//
// It sets the encoding (protobuf), the user agent and the rate limit. It does not retry. It
// is a REST client with a scheme of its own: the typed clients of client-go register every
// type of Kubernetes when the program starts, and the same program answers an agent's hooks
// within milliseconds.
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
	// requestsPerSecond and burst bound the requests to the server. Watches need few; most
	// are for logs.
	requestsPerSecond = 50
	burst             = 100
	// protobuf is preferred: it is several times cheaper than JSON on both sides.
	protobuf = "application/vnd.kubernetes.protobuf"
	accepted = protobuf + ",application/json"
	// requestTimeout bounds one short request.
	requestTimeout = 10 * time.Second
)

// Client is a connection to one cluster. It is safe for concurrent use.
type Client struct {
	core, apps, batch *rest.RESTClient
	params            runtime.ParameterCodec
	http              *http.Client
	// address is a hash of the server's URL and its certificate authority.
	address string
	// namespace limits requests to a namespace, empty for all.
	namespace string
}

// Connect returns a client. It sends no request: its error is about the settings.
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
		client  **rest.RESTClient
		version schema.GroupVersion
		path    string
	}{
		{&c.core, corev1.SchemeGroupVersion, "/api"},
		{&c.apps, appsv1.SchemeGroupVersion, "/apis"},
		{&c.batch, batchv1.SchemeGroupVersion, "/apis"},
	} {
		groupConfig := rest.CopyConfig(cfg)
		groupConfig.GroupVersion, groupConfig.APIPath = &group.version, group.path
		if *group.client, err = rest.RESTClientForConfigAndClient(groupConfig, httpClient); err != nil {
			return nil, fmt.Errorf("connect to %s: %w", cfg.Host, err)
		}
	}
	return c, nil
}

// address returns what identifies a cluster that does not reveal its uid.
func address(cfg *rest.Config) string {
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%s\n%s\n%s", cfg.Host, cfg.CAData, cfg.CAFile) // a hash never fails
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Address returns a hash of the server's URL and its certificate authority. It identifies a
// cluster that does not reveal its uid.
func (c *Client) Address() string { return c.address }

// In returns a client of the same cluster that is limited to one namespace, or to none for
// an empty name. A client of one namespace has a uid and an address of its own.
func (c *Client) In(namespace string) *Client {
	limited := *c
	if limited.namespace = namespace; namespace != "" {
		sum := sha256.Sum256([]byte(c.address + "\n" + namespace))
		limited.address = hex.EncodeToString(sum[:16])
	}
	return &limited
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// UID returns what identifies a cluster regardless of its name: the uid of its namespace
// kube-system, or of the namespace that the client is limited to.
func (c *Client) UID(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var ns corev1.Namespace
	if err := c.core.Get().Resource("namespaces").Name(cmp.Or(c.namespace, metav1.NamespaceSystem)).Do(ctx).Into(&ns); err != nil {
		return "", fmt.Errorf("read the uid of the cluster: %w", err)
	}
	return string(ns.UID), nil
}

// Resource is one kind of object, in one namespace or in all.
type Resource struct {
	rest *rest.RESTClient
	name string
	list func() runtime.Object
	// namespace is empty for all, and for objects without one.
	namespace string
}

// Events returns the core/v1 events, which include those of all API groups.
func (c *Client) Events() Resource {
	return Resource{c.core, "events", func() runtime.Object { return &corev1.EventList{} }, c.namespace}
}

// Pods returns the pods.
func (c *Client) Pods() Resource {
	return Resource{c.core, "pods", func() runtime.Object { return &corev1.PodList{} }, c.namespace}
}

// Nodes returns the nodes.
func (c *Client) Nodes() Resource {
	return Resource{c.core, "nodes", func() runtime.Object { return &corev1.NodeList{} }, ""}
}

// Deployments returns the deployments.
func (c *Client) Deployments() Resource {
	return Resource{c.apps, "deployments", func() runtime.Object { return &appsv1.DeploymentList{} }, c.namespace}
}

// Jobs returns the jobs.
func (c *Client) Jobs() Resource {
	return Resource{c.batch, "jobs", func() runtime.Object { return &batchv1.JobList{} }, c.namespace}
}

// Name returns the name of the resource as in a role.
func (r Resource) Name() string { return r.name }

// List returns the objects, or a page of them, as a list of the resource's type.
func (r Resource) List(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	into := r.list()
	if err := r.rest.Get().NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.name).VersionedParams(&opts, metav1.ParameterCodec).MaxRetries(0).Do(ctx).Into(into); err != nil {
		return nil, fmt.Errorf("list %s: %w", r.name, err)
	}
	return into, nil
}

// Watch starts a watch.
func (r Resource) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	opts.Watch = true
	// No retries here: the caller counts errors and waits.
	w, err := r.rest.Get().NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.name).VersionedParams(&opts, metav1.ParameterCodec).MaxRetries(0).Watch(ctx)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", r.name, err)
	}
	return w, nil
}

// ListWatch returns the resource in the form that client-go's reflector takes.
func (r Resource) ListWatch() *cache.ListWatch {
	return cache.NewFilteredListWatchFromClient(r.rest, r.name, r.namespace, func(*metav1.ListOptions) {})
}

// Logs returns the log of a container, which the caller closes. Set TailLines and LimitBytes
// in the options: a log has no bound of its own.
func (c *Client) Logs(ctx context.Context, namespace, pod string, opts corev1.PodLogOptions) (io.ReadCloser, error) {
	r, err := c.core.Get().Namespace(namespace).Resource("pods").Name(pod).SubResource("log").
		VersionedParams(&opts, c.params).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the log of %s/%s: %w", namespace, pod, err)
	}
	return r, nil
}
