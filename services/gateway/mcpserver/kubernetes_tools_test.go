package mcpserver_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/namespaces"
)

func TestKubernetesTools(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "")
	if names := c.tools(t); slices.Contains(names, "events_subscribe") {
		t.Fatalf("tools without a kubewatch = %v, want none for Kubernetes", names)
	}
	if why := c.fails(t, "events_subscribe", `{"type":"Warning"}`); !strings.Contains(why, "no Kubernetes cluster is watched: start tocsin kubewatch") {
		t.Errorf("got %v, want %q in it", why, "no Kubernetes cluster is watched: start tocsin kubewatch")
	}
	k := r.startKubewatch(t, "dev")
	if m := c.next(t); m.Method != "notifications/tools/list_changed" {
		t.Fatalf("got %v, want %v", m.raw, "notifications/tools/list_changed")
	}
	names := c.tools(t)
	for _, want := range []string{"events_subscribe", "events_unsubscribe", "events_list_subscriptions", "observe"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %v", want, names)
		}
	}
	// A client that connects now has them in its first list.
	if names := r.open(t, "other").tools(t); !slices.Contains(names, "events_subscribe") {
		t.Errorf("the first list of tools = %v, want those for Kubernetes in it", names)
	}
	k.release(t, "dev")
	if !testrig.Poll(func() bool {
		return strings.Contains(c.call(t, "events_list_subscriptions", `{}`).blocks[0], "no Kubernetes cluster is watched")
	}) {
		t.Error("timed out: events_list_subscriptions does not report that the kubewatch has gone")
	}
	if names := c.tools(t); !slices.Contains(names, "events_subscribe") {
		t.Errorf("tools after the kubewatch has gone = %v, want those for Kubernetes to stay", names)
	}
}

// TestKubernetesFlags: a refusal names the setting that is wrong.
func TestKubernetesFlags(t *testing.T) {
	for _, tt := range []struct {
		flags kubernetes.Flags
		want  string
	}{
		{kubernetes.Flags{MaxPerSession: 10, MaxGlobal: 100, Namespaces: []string{"shop", "_cluster"}}, ""},
		{kubernetes.Flags{MaxPerSession: 0, MaxGlobal: 100}, "--max-subscriptions-per-session (TOCSIN_MAX_SUBSCRIPTIONS_PER_SESSION) must be between 1 and 10000"},
		{kubernetes.Flags{MaxPerSession: 1, MaxGlobal: 10_001}, "--max-subscriptions-global (TOCSIN_MAX_SUBSCRIPTIONS_GLOBAL) must be between 1 and 10000"},
		{kubernetes.Flags{MaxPerSession: 1, MaxGlobal: 1, Namespaces: []string{"Shop"}}, "--kubernetes-namespaces (TOCSIN_KUBERNETES_NAMESPACES) must be names of namespaces"},
	} {
		err := tt.flags.Validate()
		if got := fmt.Sprint(err); tt.want == "" && err != nil || !strings.HasPrefix(got, tt.want) && tt.want != "" {
			t.Errorf("Validate of %+v = %v, want %q", tt.flags, err, tt.want)
		}
	}
}

// TestKubernetesToolsOverHTTP: a client that starts to listen later is also notified that
// there are more tools, until it has listed them.
func TestKubernetesToolsOverHTTP(t *testing.T) {
	r := newRig(t)
	k := r.startKubewatch(t)
	h := r.begin(t, r.serve(t, mcpserver.Compatible, mcpserver.HTTPConfig{}), "later")
	list := `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	if text := h.say(t, http.MethodPost, list); strings.Contains(text, "events_subscribe") || !strings.Contains(text, "observe") {
		t.Fatalf("got %v, want it without %q and with %q", text, "events_subscribe", "observe")
	}
	k.renew(t, "dev", kube.Watch{})
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		var stream *http.Response
		if !testrig.Poll(func() bool { // there is one at a time
			stream = h.do(ctx, t, http.MethodGet, "") //nolint:bodyclose // once it is read
			if stream.StatusCode != http.StatusOK {
				_ = stream.Body.Close()
			}
			return stream.StatusCode == http.StatusOK
		}) {
			t.Fatal("timed out: the client can't open a stream")
		}
		scan := bufio.NewScanner(stream.Body)
		end := time.AfterFunc(patience, stop)
		announced := false
		for !announced && scan.Scan() {
			announced = strings.Contains(scan.Text(), "notifications/tools/list_changed")
		}
		if !announced {
			t.Error("got no notification that the list of tools has changed, want one")
		}
		end.Stop()
		stop()
		_ = stream.Body.Close()
	}
	if text := h.say(t, http.MethodPost, list); !strings.Contains(text, "events_subscribe") {
		t.Errorf("got %v, want %q in it", text, "events_subscribe")
	}
}

// TestKubernetesNamespaces: a gateway that is limited to namespaces shows no others.
func TestKubernetesNamespaces(t *testing.T) {
	r := newRig(t)
	k := r.startKubewatch(t, "dev")
	var err error
	if r.kubernetes.Namespaces, err = namespaces.New([]string{"shop"}); err != nil {
		t.Fatal(err)
	}
	c := r.open(t, "")
	if why := c.fails(t, "events_subscribe", `{"namespaces":["bank"]}`); !strings.Contains(why, "namespaces must be among those that this gateway shows: shop") {
		t.Errorf("got %v, want %q in it", why, "namespaces must be among those that this gateway shows: shop")
	}
	s := c.follow(t, `{}`)
	if got := fmt.Sprint(s.Filters["namespaces"]); got != "[shop]" {
		t.Errorf("got %v, want %v", got, "[shop]")
	}
	k.publishEvent(t, "dev", "bank")
	k.publishEvent(t, "dev", "")
	c.event(t, s.SubscriptionID, k.publishEvent(t, "dev", "shop"))
}
