package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/tocsin-bus/tocsin/services/kubewatch/api"
)

func connect(t *testing.T, handler http.HandlerFunc) *api.Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := api.Connect(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func answer(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, body)
}

// TestRequests checks the requests, and that answers in JSON are decoded.
func TestRequests(t *testing.T) {
	var requests []string
	c := connect(t, func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.URL.String())
		if got := r.Header.Get("Accept"); r.URL.Path == "/apis/apps/v1/deployments" && !strings.HasPrefix(got, "application/vnd.kubernetes.protobuf") {
			t.Errorf("Accept = %q, want protobuf first", got)
		}
		switch {
		case r.URL.Path == "/api/v1/namespaces/kube-system":
			answer(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":"u-1"}}`)
		case r.URL.Query().Get("watch") != "":
			answer(w, `{"type":"ADDED","object":{"kind":"Event","apiVersion":"v1","metadata":{"name":"e","resourceVersion":"8"},"reason":"Killing"}}`+"\n")
		case r.URL.Path == "/api/v1/events":
			answer(w, `{"kind":"EventList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}`)
		case strings.HasSuffix(r.URL.Path, "/log"):
			_, _ = io.WriteString(w, "one\ntwo\n")
		default:
			w.WriteHeader(http.StatusForbidden)
			answer(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no"}`)
		}
	})
	if uid, err := c.UID(t.Context()); err != nil || uid != "u-1" {
		t.Errorf("UID = %q, %v; want u-1", uid, err)
	}
	list, err := c.Events().List(t.Context(), metav1.ListOptions{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if rv := list.(*corev1.EventList).ResourceVersion; rv != "7" {
		t.Errorf("resourceVersion = %q, want 7", rv)
	}
	w, err := c.Events().Watch(t.Context(), metav1.ListOptions{ResourceVersion: "7"})
	if err != nil {
		t.Fatal(err)
	}
	e := <-w.ResultChan()
	if got, ok := e.Object.(*corev1.Event); e.Type != watch.Added || !ok || got.Reason != "Killing" {
		t.Errorf("watch event = %+v, want ADDED with the reason Killing", e)
	}
	w.Stop()
	log, err := c.Logs(t.Context(), "shop", "web-1", corev1.PodLogOptions{Container: "web", Previous: true, TailLines: new(int64(5))})
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(log); err != nil || string(data) != "one\ntwo\n" {
		t.Errorf("log = %q, %v; want the two lines", data, err)
	}
	if err := log.Close(); err != nil {
		t.Errorf("close the log: %v", err)
	}
	if _, err := c.Deployments().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("List = %v, want a forbidden error", err)
	}
	want := []string{
		"/api/v1/namespaces/kube-system",
		"/api/v1/events?limit=1",
		"/api/v1/events?resourceVersion=7&watch=true",
		"/api/v1/namespaces/shop/pods/web-1/log?container=web&previous=true&tailLines=5",
		"/apis/apps/v1/deployments",
	}
	if strings.Join(requests, "\n") != strings.Join(want, "\n") {
		t.Errorf("requests =\n%s\nwant\n%s", strings.Join(requests, "\n"), strings.Join(want, "\n"))
	}
}

// TestRequestsInNamespace checks that a client of one namespace sends only requests for it,
// except for objects without a namespace.
func TestRequestsInNamespace(t *testing.T) {
	var requests []string
	all := connect(t, func(w http.ResponseWriter, r *http.Request) {
		requests = append(requests, r.URL.String())
		answer(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"shop","uid":"u-2"}}`)
	})
	c := all.In("shop")
	if uid, err := c.UID(t.Context()); err != nil || uid != "u-2" {
		t.Errorf("UID = %q, %v; want u-2", uid, err)
	}
	for _, r := range []api.Resource{c.Events(), c.Pods(), c.Deployments(), c.Jobs(), c.Nodes()} {
		_, _ = r.List(t.Context(), metav1.ListOptions{}) // the answer has another type
	}
	if w, err := c.Events().Watch(t.Context(), metav1.ListOptions{}); err == nil {
		w.Stop()
	}
	_, _ = c.Pods().ListWatch().ListWithContext(t.Context(), metav1.ListOptions{})
	want := []string{
		"/api/v1/namespaces/shop",
		"/api/v1/namespaces/shop/events", "/api/v1/namespaces/shop/pods",
		"/apis/apps/v1/namespaces/shop/deployments", "/apis/batch/v1/namespaces/shop/jobs", "/api/v1/nodes",
		"/api/v1/namespaces/shop/events?watch=true", "/api/v1/namespaces/shop/pods",
	}
	if strings.Join(requests, "\n") != strings.Join(want, "\n") {
		t.Errorf("requests =\n%s\nwant\n%s", strings.Join(requests, "\n"), strings.Join(want, "\n"))
	}
	if c.Address() == all.Address() || c.Address() == all.In("other").Address() || all.In("").Address() != all.Address() {
		t.Errorf("addresses of all, shop and other = %s, %s, %s; want three different ones", all.Address(), c.Address(), all.In("other").Address())
	}
}

// TestAddress checks that the address depends on the server and its certificate authority.
func TestAddress(t *testing.T) {
	seen := map[string]string{}
	for name, cfg := range map[string]*rest.Config{
		"a":         {Host: "https://a"},
		"b":         {Host: "https://b"},
		"a, for me": {Host: "https://a", TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
	} {
		c, err := api.Connect(cfg)
		if err != nil {
			t.Fatal(err)
		}
		seen[name] = c.Address()
	}
	if seen["a"] == seen["b"] || seen["a"] != seen["a, for me"] || len(seen["a"]) != 32 {
		t.Errorf("addresses = %v, want those of a and b different, and a's independent of other settings", seen)
	}
}
