package namespaces_test

import (
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/namespaces"
)

// about returns an event about a pod in a namespace.
func about(namespace string) *kube.Message {
	return &kube.Message{Cluster: "dev", Event: &kube.Event{Namespace: "default", InvolvedObject: kube.Object{Kind: "Pod", Name: "web", Namespace: namespace}}}
}

func TestShows(t *testing.T) {
	for _, tt := range []struct {
		names string
		m     *kube.Message
		want  bool
	}{
		{"", about("shop"), true},
		{"", about(""), true},
		{"shop", about("shop"), true},
		{" shop ,bank", about("bank"), true},
		{"shop", about("bank"), false},
		// A node's event is stored in the namespace default, but its object has none.
		{"default", about(""), false},
		{"_cluster", about(""), true},
		{"_cluster", about("shop"), false},
		// Both names have the same token.
		{strings.Repeat("a", 63), about(strings.Repeat("a", 63) + "b"), false},
		{"shop", &kube.Message{Cluster: "dev", Watch: &kube.Watch{Degraded: true}}, true},
		{"shop", &kube.Message{Cluster: "dev"}, false},
	} {
		var names []string
		if tt.names != "" {
			names = strings.Split(tt.names, ",")
		}
		s, err := namespaces.New(names)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Shows(tt.m); got != tt.want {
			t.Errorf("limited to %q: Shows(%+v) = %t, want %t", tt.names, tt.m.Event, got, tt.want)
		}
		if got, want := s.Limited(), tt.names != ""; got != want {
			t.Errorf("limited to %q: Limited = %t, want %t", tt.names, got, want)
		}
	}
}

func TestShowsAlert(t *testing.T) {
	about := func(namespace any, fault string) alert.Alert {
		a := alert.Alert{Category: alert.Kubernetes, Context: map[string]any{"fault": fault}}
		if namespace != nil {
			a.Context["namespace"] = namespace
		}
		return a
	}
	for _, tt := range []struct {
		names []string
		a     alert.Alert
		want  bool
	}{
		{nil, about("bank", kube.Crash), true},
		{[]string{"shop"}, about("shop", kube.Crash), true},
		{[]string{"shop"}, about("bank", kube.Crash), false},
		{[]string{"shop"}, about(nil, kube.NodeNotReady), false},
		{[]string{"shop", "_cluster"}, about(nil, kube.NodeNotReady), true},
		{[]string{"shop", "_cluster"}, about(7, kube.Crash), false},
		{[]string{"shop"}, about(nil, kube.WatchDegraded), true},
		{[]string{"shop"}, alert.Alert{Category: alert.Errors, Context: map[string]any{"namespace": "bank"}}, true},
	} {
		s, err := namespaces.New(tt.names)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.ShowsAlert(tt.a); got != tt.want {
			t.Errorf("limited to %v: ShowsAlert with context %v = %t, want %t", tt.names, tt.a.Context, got, tt.want)
		}
	}
}

func TestShowsKey(t *testing.T) {
	shop, err := namespaces.New([]string{"shop"})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]bool{
		"kubernetes:dev:shop:Pod/web-1:crash":            true,
		"kubernetes:dev:bank:Pod/web-1:crash":            false,
		"kubernetes:dev:shop:Pod/w/app:warning/Shop":     true,
		"kubernetes:dev:bank:Pod/w/shop:warning/shop":    false,
		"kubernetes:arn:aws:eks:shop:Pod/web-1:crash":    true,
		"kubernetes:dev:shop:Deployment/web/app:crash":   true,
		"kubernetes:dev:bank:Deployment/shop/shop:crash": false,
		"kubernetes:shop:bank:Pod/shop:crash":            false,
		"kubernetes:dev::Node/n1:node_not_ready":         false,
		"kubernetes:dev::Cluster/dev:watch_degraded":     true,
		"kubernetes:shop":                                false,
		"errors:bank:9f3c2ab1":                           true,
		"":                                               true,
		// As the investigator masks them.
		"dc9a9b99-7a85b2c0-66a7e8d1-4d374785 kubernetes:dev:token:[REDACTED]":              false,
		"dc9a9b99-7a85b2c0-66a7e8d1-4d374785 kubernetes:dev:shop:Pod/w:warning/[REDACTED]": true,
		"dc9a9b99-7a85b2c0-66a7e8d1-4d374785 errors:bank:token=[REDACTED]":                 true,
		"dc9a9b99-7a85b2c0-66a7e8d1-4d374785 [withheld: the text could not be masked]":     false,
		"dc9a9b99-7a85b2c0-66a7e8d1-4d374785":                                              false,
	} {
		if got := shop.ShowsKey(key); got != want {
			t.Errorf("limited to shop: ShowsKey(%q) = %t, want %t", key, got, want)
		}
		if !(namespaces.Set{}).ShowsKey(key) {
			t.Errorf("without a limit: ShowsKey(%q) = false, want true", key)
		}
	}
}

func TestNewNamespacesRefuses(t *testing.T) {
	for _, name := range []string{"", "Shop", "shop/x", "-shop", "shop-", "*", "_", strings.Repeat("a", 64)} {
		if _, err := namespaces.New([]string{"fine", name}); err == nil || !strings.Contains(err.Error(), "_cluster") {
			t.Errorf("New(%q): error = %v, want one that names _cluster", name, err)
		}
	}
	many := make([]string, namespaces.Max+1)
	for i := range many {
		many[i] = "n" + strings.Repeat("x", i%60) + strings.Repeat("y", i/60)
	}
	if _, err := namespaces.New(many); err == nil {
		t.Errorf("New of %d names: no error, want one", len(many))
	}
}
