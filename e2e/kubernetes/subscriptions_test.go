package kubernetes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/kube"
)

// overEach runs a test over each transport.
func overEach(t *testing.T, test func(t *testing.T, w *world, c *client)) {
	w := together(t)
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		test(t, w, w.stdio(t))
	})
	t.Run("http", func(t *testing.T) {
		t.Parallel()
		c, _ := dial(t, w.overHTTP(t), "e2e")
		test(t, w, c)
	})
}

// TestLifecycle runs a subscription from its start to its end.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, w *world, c *client) {
		if err := c.Session.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: "info"}); err != nil {
			t.Fatal(err)
		}
		ns := w.server.Namespace(t)
		answer := ask[map[string]any](t, c, "events_subscribe", filters{"namespaces": []string{ns}, "type": "Warning", "cluster": w.cluster})
		id, _ := answer["subscriptionId"].(string)
		want := map[string]any{"subscriptionId": id, "cluster": w.cluster, "mode": "events", "filters": map[string]any{"namespaces": []any{ns}, "type": "Warning"}}
		if fmt.Sprint(answer) != fmt.Sprint(want) || id == "" {
			t.Fatalf("the answer is %v, not %v", answer, want)
		}
		witness := c.subscribe(t, filters{"namespaces": []string{ns}, "cluster": w.cluster})

		pod := w.pod(t, ns, "nginx-123", map[string]string{"app": "nginx"})
		made := w.event(t, ns, pod, corev1.EventTypeWarning, "FailedMount", "no such volume")
		n := c.await(t, id, "the event", says("no such volume"))
		e := n.Data.Event
		got := []any{n.Level, n.Logger, n.Data.Cluster, e.Namespace, e.Type, e.Reason, e.Timestamp.UTC(), e.Labels["app"], e.Involved.APIVersion, e.Involved.Kind, e.Involved.Name, e.Involved.Namespace}
		wanted := []any{"info", "kubernetes/events", w.cluster, ns, "Warning", "FailedMount", made.LastTimestamp.UTC().Truncate(time.Second), "nginx", "v1", "Pod", pod.Name, ns}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("notification (-want +got):\n%s\n%s", diff, n.Raw)
		}
		var raw struct {
			Event map[string]any `json:"event"`
		}
		if err := json.Unmarshal([]byte(n.Raw), &raw); err != nil {
			t.Fatal(err)
		}
		var fields []string
		for field := range raw.Event {
			fields = append(fields, field)
		}
		slices.Sort(fields)
		if want := []string{"involvedObject", "labels", "message", "namespace", "reason", "timestamp", "type"}; !slices.Equal(fields, want) {
			t.Errorf("an event has %v, and the specification %v", fields, want)
		}

		type list struct {
			Subscriptions []struct {
				ID        string `json:"subscriptionId"`
				Delivered int    `json:"delivered"`
			} `json:"subscriptions"`
		}
		if l := ask[list](t, c, "events_list_subscriptions", nil).Subscriptions; len(l) != 2 || l[0].ID != id || l[0].Delivered != 1 {
			t.Errorf("subscriptions = %+v, want 2, first %s with 1 delivered", l, id)
		}
		if answer := ask[map[string]any](t, c, "events_unsubscribe", filters{"subscriptionId": id}); answer["cancelled"] != true {
			t.Errorf("unsubscribed: %v, want cancelled", answer)
		}
		w.event(t, ns, pod, corev1.EventTypeWarning, "FailedMount", "still no such volume")
		c.await(t, witness, "the event after it", says("still no such volume"))
		if got := c.messages(id); len(got) != 1 {
			t.Errorf("events of the ended subscription = %v, want only the one before its end", got)
		}
		if l := ask[list](t, c, "events_list_subscriptions", nil).Subscriptions; len(l) != 1 || l[0].ID != witness {
			t.Errorf("subscriptions = %+v, want only %s", l, witness)
		}
		if text := refused(t, c, "events_unsubscribe", filters{"subscriptionId": id}); !strings.Contains(text, "not found") {
			t.Errorf("got %s, want \"not found\" in it", text)
		}
	})
}

// atOnce bounds what happens without a delay: far less than half a minute, the interval
// of a search for ended sessions.
const atOnce = 10 * time.Second

// TestLimits checks the limits of the flags for one session and for all. A session that
// disconnects frees its subscriptions at once, and none can end another's.
func TestLimits(t *testing.T) {
	t.Parallel()
	w := together(t)
	url := w.overHTTP(t, "--max-subscriptions-per-session=2", "--max-subscriptions-global=3")
	one, leave := dial(t, url, "one")
	two, _ := dial(t, url, "two")
	ns := w.server.Namespace(t)
	wish := filters{"namespaces": []string{ns}, "cluster": w.cluster}
	first := one.subscribe(t, wish)
	one.subscribe(t, wish)
	if text := refused(t, one, "events_subscribe", wish); !strings.Contains(text, "--max-subscriptions-per-session") || !strings.Contains(text, "2 subscriptions") {
		t.Errorf("got %s, want \"--max-subscriptions-per-session\" in it and \"2 subscriptions\" in it", text)
	}
	of2 := two.subscribe(t, wish)
	if text := refused(t, two, "events_subscribe", wish); !strings.Contains(text, "--max-subscriptions-global") || !strings.Contains(text, "3 subscriptions") {
		t.Errorf("got %s, want \"--max-subscriptions-global\" in it and \"3 subscriptions\" in it", text)
	}
	for _, id := range []string{first, "sub-none", of2 + "x"} {
		if text := refused(t, two, "events_unsubscribe", filters{"subscriptionId": id}); !strings.Contains(text, "not found") {
			t.Errorf("%s: got %s, want \"not found\" in it", id, text)
		}
	}
	w.event(t, ns, thing(ns, "a"), corev1.EventTypeNormal, "Made", "made")
	one.await(t, first, "the event of a subscription that goes on", says("made"))
	two.await(t, of2, "the event", says("made"))

	leave()
	began := 0
	if !harness.Poll(t.Context(), atOnce, func() bool {
		if _, err := two.Call(t.Context(), "events_subscribe", wish); err == nil {
			began++
		}
		return began == 1
	}) {
		t.Fatalf("no subscription began within %s of the end of another session, want one: its places should be free", atOnce)
	}
	if text := refused(t, two, "events_subscribe", wish); !strings.Contains(text, "--max-subscriptions-per-session") {
		t.Errorf("with two of its own, and none of others: %s, want \"--max-subscriptions-per-session\" in it", text)
	}
	if _, err := two.Call(t.Context(), "events_unsubscribe", filters{"subscriptionId": of2}); err != nil {
		t.Fatal(err)
	}
	two.subscribe(t, wish)
}

// TestDefaultLimit checks that a session has ten subscriptions without settings.
func TestDefaultLimit(t *testing.T) {
	t.Parallel()
	w := together(t)
	c := w.stdio(t)
	for range 10 {
		c.subscribe(t, filters{"reason": "Nothing", "cluster": w.cluster})
	}
	if text := refused(t, c, "events_subscribe", filters{"reason": "Nothing", "cluster": w.cluster}); !strings.Contains(text, "10 subscriptions") {
		t.Errorf("got %s, want \"10 subscriptions\" in it", text)
	}
}

// TestRefusals checks the texts of refused subscriptions.
func TestRefusals(t *testing.T) {
	t.Parallel()
	c := together(t).stdio(t)
	for want, args := range map[string]filters{
		"set at least one of namespaces":         {},
		"must not select everything":             {"mode": "faults"},
		"cluster must be one that is watched":    {"cluster": "elsewhere", "type": "Warning"},
		"labelSelector must be a label selector": {"labelSelector": "a in (b"},
		"type must be":                           {"type": "warning"},
		"mode must be one of events, faults":     {"mode": "all", "type": "Warning"},
		"no fault is Normal":                     {"mode": "faults", "type": "Normal"},
		"must be one of namespaces, or left ou":  {"namespaces": []string{"a"}, "involvedNamespace": "b"},
	} {
		// The other worlds' clusters are on this bus too: without the name it would be
		// refused for that reason.
		if args["cluster"] == nil {
			args["cluster"] = sharedCluster
		}
		if text := refused(t, c, "events_subscribe", args); !strings.Contains(text, want) {
			t.Errorf("%v: got %s, want %q in it", args, text, want)
		}
	}
}

// TestLogLevel checks that a session that never set a level gets notifications once it
// subscribes, and that a level that was set applies.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	overEach(t, func(t *testing.T, w *world, c *client) {
		ns := w.server.Namespace(t)
		events := c.subscribe(t, filters{"namespaces": []string{ns}, "cluster": w.cluster})
		faults := c.subscribe(t, filters{"namespaces": []string{ns}, "cluster": w.cluster, "mode": "faults"})
		pods := 0
		// happen creates an event, which is also a fault.
		happen := func(message string) {
			t.Helper()
			pods++
			about := thing(ns, fmt.Sprintf("pod-%d", pods))
			about.Kind = "Pod"
			w.event(t, ns, about, corev1.EventTypeWarning, "Unhealthy", message)
		}
		level := func(level mcp.LoggingLevel) {
			t.Helper()
			if err := c.Session.SetLoggingLevel(t.Context(), &mcp.SetLoggingLevelParams{Level: level}); err != nil {
				t.Fatal(err)
			}
		}
		// A fault arrives, and then the error of its logs.
		whole := func(message string) {
			t.Helper()
			for _, logs := range []bool{false, true} {
				c.await(t, faults, message, func(n note) bool { return says(message)(n) && len(n.Data.Logs) > 0 == logs })
			}
		}
		happen("no level")
		c.await(t, events, "without a level", says("no level"))
		whole("no level")
		level("warning")
		if answer := ask[map[string]any](t, c, "events_subscribe", filters{"namespaces": []string{ns}, "cluster": w.cluster}); !strings.Contains(fmt.Sprint(answer["note"]), "logging/setLevel") {
			t.Errorf("answer = %v, want a note that names logging/setLevel", answer)
		}
		happen("warning")
		whole("warning")
		// An event below the level was processed and left out once it is counted.
		withheld := func(id string, n int) {
			t.Helper()
			type counts struct {
				Subscriptions []struct {
					ID       string `json:"subscriptionId"`
					Withheld int    `json:"withheld"`
				} `json:"subscriptions"`
			}
			var list counts
			if !harness.Poll(t.Context(), patience, func() bool {
				list = ask[counts](t, c, "events_list_subscriptions", nil)
				for _, s := range list.Subscriptions {
					if s.ID == id && s.Withheld >= n {
						return true
					}
				}
				return false
			}) {
				t.Fatalf("subscriptions = %+v, want %s with at least %d withheld", list.Subscriptions, id, n)
			}
		}
		withheld(events, 1)
		level("error")
		happen("error")
		withheld(faults, 2)
		withheld(events, 2)
		level("debug")
		happen("debug")
		c.await(t, events, "at debug", says("debug"))
		whole("debug")
		if got, want := c.messages(events), []string{"no level", "debug"}; !slices.Equal(got, want) {
			t.Errorf("events: %q, want %q", got, want)
		}
		got := slices.Compact(c.messages(faults))
		if want := []string{"no level", "warning", "debug"}; !slices.Equal(got, want) {
			t.Errorf("faults: %q, want %q", got, want)
		}
	})
}

// TestDuplicates checks that an event without news arrives once, and one that is
// counted again arrives again. Of one fault that several events and a state report,
// there is one.
func TestDuplicates(t *testing.T) {
	t.Parallel()
	w := together(t)
	c := w.stdio(t)
	// A standby publishes nothing.
	standby := kubewatch(t, w.bus, w.server.Kubeconfig(), "--context="+w.cluster)
	if !harness.Poll(t.Context(), patience, func() bool { return strings.Contains(standby.Log.String(), "standing by") }) {
		t.Fatalf("timed out: the second kubewatch does not stand by\n%s", standby.Log)
	}
	ns := w.server.Namespace(t)
	events := c.subscribe(t, filters{"cluster": w.cluster, "namespaces": []string{ns}})
	faults := c.subscribe(t, filters{"cluster": w.cluster, "namespaces": []string{ns}, "mode": "faults"})
	pod := w.pod(t, ns, "web-0", nil)
	w.kubelet.SetLog(pod, "app", kube.Log{Current: "it was fine\n"})
	made := w.event(t, ns, pod, corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container app in pod web-0")
	c.await(t, events, "the event", says(made.Message))
	// The same again: the server has nothing to report.
	must(w.server.Client().CoreV1().Events(ns).Update(t.Context(), made, metav1.UpdateOptions{}))(t)
	must(w.server.CrashLoop(t.Context(), pod, "app", 1, 4))(t)
	must(w.server.EventAgain(t.Context(), made))(t)
	w.event(t, ns, pod, corev1.EventTypeWarning, "BackOff", "Back-off restarting failed container app in pod web-0 (again)")
	w.event(t, ns, pod, corev1.EventTypeWarning, "FailedMount", "no volume")
	w.event(t, ns, pod, corev1.EventTypeWarning, "FailedMount", "no volume, as another event, within the minute")
	w.event(t, ns, thing(ns, "end"), corev1.EventTypeNormal, "Last", "last")
	last := *thing(ns, "end")
	last.Kind = "Pod"
	w.event(t, ns, &last, corev1.EventTypeWarning, "Last", "last fault")
	c.await(t, events, "the last", says("last fault"))
	c.await(t, faults, "the last", says("last fault"))
	want := []string{
		made.Message, made.Message, made.Message + " (again)", "no volume", "no volume, as another event, within the minute", "last", "last fault",
	}
	if got := c.messages(events); !slices.Equal(got, want) {
		t.Errorf("events:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	ids := map[string]int{}
	var kinds []string
	for _, n := range c.notesOf(faults) {
		if len(n.Data.Logs) > 0 {
			continue // the same again, with its logs
		}
		ids[n.Data.FaultID]++
		kinds = append(kinds, n.Data.Event.Reason)
	}
	slices.Sort(kinds)
	if want := []string{"BackOff", "FailedMount", "Last"}; !slices.Equal(kinds, want) {
		t.Errorf("faults: %v, want %v", kinds, want)
	}
	for id, n := range ids {
		if n != 1 || id == "" {
			t.Errorf("fault %q came %d times, want an id, once", id, n)
		}
	}
}

// TestFilters checks that each filter passes what it names and nothing else.
func TestFilters(t *testing.T) {
	t.Parallel()
	w := together(t)
	c := w.stdio(t)
	shop, bank := w.server.Namespace(t), w.server.Namespace(t)
	ids := map[string]string{}
	for name, f := range map[string]filters{
		"namespaces":        {"namespaces": []string{shop}},
		"both namespaces":   {"namespaces": []string{shop, bank}},
		"labels":            {"namespaces": []string{shop, bank}, "labelSelector": "app=web,tier in (front,back),!canary"},
		"kind":              {"namespaces": []string{shop, bank}, "involvedKind": "pod"},
		"name":              {"namespaces": []string{shop, bank}, "involvedName": "web-0"},
		"involvedNamespace": {"involvedNamespace": shop},
		"type":              {"namespaces": []string{shop, bank}, "type": "Warning"},
		"reason":            {"namespaces": []string{shop, bank}, "reason": "Failed"},
		"all of them": {
			"namespaces": []string{shop}, "labelSelector": "app=web", "involvedKind": "Pod", "involvedName": "web-0", "involvedNamespace": shop, "type": "Warning", "reason": "FailedM",
		},
	} {
		f["cluster"] = w.cluster
		ids[name] = c.subscribe(t, f)
	}
	web := map[string]string{"app": "web", "tier": "front"}
	pods := map[string]*corev1.Pod{}
	for name, labels := range map[string]map[string]string{"web-0": web, "web-1": web, "db-0": {"app": "db"}, "canary": {"app": "web", "tier": "front", "canary": "yes"}} {
		pods[name] = w.pod(t, shop, name, labels)
	}
	pods["bank"] = w.pod(t, bank, "web-0", nil)
	w.event(t, shop, pods["db-0"], corev1.EventTypeWarning, "FailedMount", "db")
	w.event(t, shop, pods["canary"], corev1.EventTypeWarning, "FailedMount", "canary")
	w.event(t, shop, pods["web-1"], corev1.EventTypeNormal, "Started", "web-1")
	w.event(t, shop, pods["web-0"], corev1.EventTypeNormal, "FailedOver", "web-0, which is normal")
	w.event(t, bank, pods["bank"], corev1.EventTypeWarning, "BackFailed", "bank")
	w.event(t, shop, thing(shop, "web-0"), corev1.EventTypeWarning, "FailedMount", "a thing")
	w.event(t, shop, pods["web-0"], corev1.EventTypeWarning, "FailedMount", "last")
	for name, want := range map[string][]string{
		"namespaces":        {"db", "canary", "web-1", "web-0, which is normal", "a thing", "last"},
		"both namespaces":   {"db", "canary", "web-1", "web-0, which is normal", "bank", "a thing", "last"},
		"labels":            {"web-1", "web-0, which is normal", "last"},
		"kind":              {"db", "canary", "web-1", "web-0, which is normal", "bank", "last"},
		"name":              {"web-0, which is normal", "bank", "a thing", "last"},
		"involvedNamespace": {"db", "canary", "web-1", "web-0, which is normal", "a thing", "last"},
		"type":              {"db", "canary", "bank", "a thing", "last"},
		"reason":            {"db", "canary", "web-0, which is normal", "a thing", "last"},
		"all of them":       {"last"},
	} {
		c.await(t, ids[name], name+": the last event", says("last"))
		if got := c.messages(ids[name]); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestLabelsOfANewObject checks that an event that arrives with its object has its
// labels, without a delay between them.
func TestLabelsOfANewObject(t *testing.T) {
	t.Parallel()
	w := together(t)
	c := w.stdio(t)
	ns := w.server.Namespace(t)
	id := c.subscribe(t, filters{"cluster": w.cluster, "namespaces": []string{ns}, "labelSelector": "app=web"})
	const pods = 40
	for i := range pods {
		pod := must(w.server.Client().CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", i), Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.invalid/app"}}},
		}, metav1.CreateOptions{}))(t)
		w.event(t, ns, pod, corev1.EventTypeNormal, "Scheduled", pod.Name)
	}
	if !harness.Poll(t.Context(), patience, func() bool { return len(c.messages(id)) == pods }) {
		t.Errorf("events of pods with the label = %q, want those of %d pods", c.messages(id), pods)
	}
}

// TestAllowedNamespaces checks that a gateway that shows some namespaces shows no
// other, in any tool, resource or notification.
func TestAllowedNamespaces(t *testing.T) {
	t.Parallel()
	w := together(t)
	mine, other := w.server.Namespace(t), w.server.Namespace(t)
	c := w.stdio(t, "--kubernetes-namespaces="+mine)
	all := w.stdio(t, "--client=all-"+mine)
	for _, args := range []filters{{"namespaces": []string{other}}, {"involvedNamespace": other}, {"namespaces": []string{mine, other}}, {"namespaces": []string{"_cluster"}}} {
		args["cluster"] = w.cluster
		if text := refused(t, c, "events_subscribe", args); !strings.Contains(text, "this gateway shows") || strings.Contains(text, other) {
			t.Errorf("%v: got %s, want \"this gateway shows\" in it and no %q in it", args, text, other)
		}
	}
	events := c.subscribe(t, filters{"cluster": w.cluster, "reason": "FailedMount"})
	faults := c.subscribe(t, filters{"cluster": w.cluster, "reason": "FailedMount", "mode": "faults"})
	both := all.subscribe(t, filters{"cluster": w.cluster, "namespaces": []string{mine, other}, "mode": "faults"})
	for _, ns := range []string{other, mine} {
		w.event(t, ns, w.pod(t, ns, "web-of-"+ns, nil), corev1.EventTypeWarning, "FailedMount", "in "+ns)
	}
	c.await(t, events, "its own", says("in "+mine))
	c.await(t, faults, "its own", says("in "+mine))
	all.await(t, both, "that of the other", says("in "+other))
	for _, id := range []string{events, faults} {
		for _, n := range c.notesOf(id) {
			if n.Data.Event.Namespace != mine {
				t.Errorf("notification %s, want only those of namespace %s", n.Raw, mine)
			}
		}
	}
	// Alerts: those of the history and those that are pushed.
	raised := func(c *client, ns string) bool {
		o, err := c.Observe(t.Context(), map[string]any{"what": "alerts", "limit": 200})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(o.First, ns)
	}
	if !harness.Poll(t.Context(), patience, func() bool { return raised(c, mine) && raised(all, other) }) {
		t.Fatalf("no alert of namespace %s or %s within %s, want one of each", mine, other, patience)
	}
	for _, what := range []string{"alerts", "kubernetes", "status"} {
		o, err := c.Observe(t.Context(), map[string]any{"what": what, "limit": 200})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(o.First+o.Block, other) {
			t.Errorf("observe %s = %s, want nothing of namespace %s", what, o.First+o.Block, other)
		}
		if what == "kubernetes" && !strings.Contains(o.First, "in "+mine) {
			t.Errorf("observe kubernetes = %s, want the event in %s", o.First, mine)
		}
	}
}
