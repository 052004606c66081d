package kubernetes

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/kube"
	"github.com/tocsin-bus/tocsin/shared/alert"
	shared "github.com/tocsin-bus/tocsin/shared/kube"
)

// apart returns a world with an API server of its own, on the shared bus.
func apart(t *testing.T, opts kube.Options) *world {
	t.Helper()
	all := together(t)
	return &world{server: kube.Start(t, opts), bus: all.bus, cluster: opts.Context}
}

// asked returns how many requests for events the server has answered completely, by
// verb: LIST or WATCH. Only kubewatch sends them.
func (w *world) asked(t *testing.T, verb string) int {
	t.Helper()
	text := must(w.server.Client().CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context()))(t)
	n := 0
	for _, m := range requests.FindAllStringSubmatch(string(text), -1) {
		if strings.Contains(m[1], `resource="events"`) && strings.Contains(m[1], `verb="`+verb+`"`) {
			n += must(strconv.Atoi(m[2]))(t)
		}
	}
	return n
}

var requests = regexp.MustCompile(`(?m)^apiserver_request_total\{([^}]*)\} (\d+)$`)

// say creates an event without a meaning.
func (w *world) say(t *testing.T, ns, message string) {
	t.Helper()
	w.event(t, ns, thing(ns, "thing"), corev1.EventTypeNormal, "Said", message)
}

// exactlyOnce checks that a subscription, and the stream, has each of these messages
// once.
func (w *world) exactlyOnce(t *testing.T, c *client, id, ns string, want []string) {
	t.Helper()
	c.await(t, id, "the last", says(want[len(want)-1]))
	if wrong := exactly(c.messages(id), want); wrong != "" {
		t.Errorf("at the subscriber %s, want nothing", wrong)
	}
	var stored []string
	for _, m := range w.published(t, ns) {
		if m.Fault == nil && m.Event != nil {
			stored = append(stored, m.Event.Message)
		}
	}
	if wrong := exactly(stored, want); wrong != "" {
		t.Errorf("on the bus %s, want nothing", wrong)
	}
}

// errorsOf returns the numbers of notifications that a subscription is degraded, and
// that it has recovered.
func errorsOf(c *client, id string) (degraded, recovered int) {
	for _, n := range c.notesOf(id) {
		switch {
		case n.Logger != "kubernetes/subscription_error":
		case n.Data.Degraded != nil && *n.Data.Degraded:
			degraded++
		default:
			recovered++
		}
	}
	return degraded, recovered
}

// TestClosuresAndExpiry has a server that closes each watch after a second or two, and
// deletes events after two: no event is missed or repeated, the deletions are no
// events, and no degradation is reported.
func TestClosuresAndExpiry(t *testing.T) {
	t.Parallel()
	w := apart(t, kube.Options{Context: "closing", EventTTL: 2 * time.Second, MinRequestTimeout: time.Second})
	w.watch = kubewatch(t, w.bus, w.server.Kubeconfig(), "--context="+w.cluster)
	w.mustBeWatched(t)
	ns := w.server.Namespace(t)
	c := w.stdio(t)
	id := c.subscribe(t, filters{"cluster": w.cluster, "namespaces": []string{ns}})
	before := w.asked(t, "WATCH")
	var want []string
	deadline := time.Now().Add(2 * patience)
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for closed := 0; closed < 10; closed = w.asked(t, "WATCH") - before {
		if time.Now().After(deadline) {
			t.Fatalf("%d watches were closed within %s, want 10", closed, 2*patience)
		}
		want = append(want, fmt.Sprintf("event %d", len(want)))
		w.say(t, ns, want[len(want)-1])
		<-tick.C
	}
	// All of them are deleted, and the watch saw that: the last event comes after it.
	if !harness.Poll(t.Context(), patience, func() bool {
		list := must(w.server.Client().CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{}))(t)
		return len(list.Items) == 0
	}) {
		t.Fatalf("events remain after %s, want none: their TTL has passed", patience)
	}
	want = append(want, "last")
	w.say(t, ns, "last")
	w.exactlyOnce(t, c, id, ns, want)
	if degraded, recovered := errorsOf(c, id); degraded+recovered > 0 {
		t.Errorf("degraded %d times, recovered %d times, want degraded + recovered of at most 0", degraded, recovered)
	}
	for _, m := range w.published(t, "") {
		if m.Watch != nil {
			t.Errorf("published state of the watch = %+v, want none", *m.Watch)
		}
	}
	t.Logf("%d events, %d watches closed", len(want), w.asked(t, "WATCH")-before)
}

// cable is a proxy to a server that can be cut.
type cable struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]struct{}
	wg    sync.WaitGroup
}

// lay puts a cable between a server and the users of the kubeconfig that it returns.
func lay(t *testing.T, s *kube.Server) (c *cable, kubeconfig string) {
	t.Helper()
	config := must(clientcmd.LoadFromFile(s.Kubeconfig()))(t)
	c = &cable{listener: must((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t), conns: map[net.Conn]struct{}{}}
	for _, cluster := range config.Clusters {
		c.to = must(url.Parse(cluster.Server))(t).Host
		cluster.Server = "https://" + c.listener.Addr().String()
	}
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		t.Fatal(err)
	}
	c.wg.Go(c.serve)
	t.Cleanup(func() {
		_ = c.listener.Close() // it is closed
		c.set(true)
		c.wg.Wait()
	})
	return c, kubeconfig
}

func (c *cable) serve() {
	for {
		in, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.wg.Go(func() { c.carry(in) })
	}
}

func (c *cable) carry(in net.Conn) {
	defer c.drop(in)
	if !c.keep(in) {
		return
	}
	out, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", c.to)
	if err != nil {
		return
	}
	defer c.drop(out)
	if !c.keep(out) {
		return
	}
	c.wg.Go(func() {
		_, _ = io.Copy(out, in) // it ends with either side
		c.drop(out)
	})
	_, _ = io.Copy(in, out)
}

func (c *cable) keep(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns[conn] = struct{}{}
	return !c.cut
}

func (c *cable) drop(conn net.Conn) {
	_ = conn.Close() // it is closed either way
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
}

// set cuts the cable, or restores it.
func (c *cable) set(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut = cut; cut {
		for conn := range c.conns {
			_ = conn.Close() // it is closed either way
		}
	}
}

// TestCompactedHistory checks that after 410 Gone events are listed again, once: missed
// events arrive, others are not repeated, and there is no loop. The history is
// compacted while kubewatch was cut off, and while none ran.
func TestCompactedHistory(t *testing.T) {
	t.Parallel()
	w := apart(t, kube.Options{Context: "forgetful"})
	way, kubeconfig := lay(t, w.server)
	ns := w.server.Namespace(t)
	w.say(t, ns, "before anybody watched") // which is never reported as new
	w.watch = kubewatch(t, w.bus, kubeconfig)
	w.mustBeWatched(t)
	c := w.stdio(t)
	id := c.subscribe(t, filters{"cluster": w.cluster, "namespaces": []string{ns}})
	var want []string
	say := func(n int) {
		t.Helper()
		for range n {
			want = append(want, fmt.Sprintf("event %d", len(want)))
			w.say(t, ns, want[len(want)-1])
		}
	}
	away := func(what string, leave, come func()) {
		t.Helper()
		say(5)
		w.exactlyOnce(t, c, id, ns, want)
		leave()
		say(5)
		if err := w.server.Compact(); err != nil {
			t.Fatal(err)
		}
		say(5)
		// The version is gone for every client.
		if gone := w.forgot(t); !gone {
			t.Fatal("the server knows the version from before the compaction, want 410 Gone for it")
		}
		lists, watches := w.asked(t, "LIST"), w.asked(t, "WATCH")
		come()
		w.exactlyOnce(t, c, id, ns, want)
		say(5)
		w.exactlyOnce(t, c, id, ns, want)
		lists, watches = w.asked(t, "LIST")-lists, w.asked(t, "WATCH")-watches
		if lists > 5 || watches > 5 {
			t.Errorf("%s: %d lists and %d watches of events, want lists of at most 5 and watches of at most 5", what, lists, watches)
		}
		if n := strings.Count(w.watch.Log.String(), "all events are listed"); n != 1 {
			t.Errorf("%s: all events were listed %d times, want once\n%s", what, n, w.watch.Log)
		}
	}
	away("cut off", func() { way.set(true) }, func() { way.set(false) })
	if degraded, recovered := errorsOf(c, id); degraded != recovered {
		t.Errorf("degraded %d times, recovered %d times, want %v", degraded, recovered, recovered)
	}
	away("stopped", func() {
		if err := w.watch.Stop(); err != nil {
			t.Error(err)
		}
	}, func() { w.watch = kubewatch(t, w.bus, kubeconfig) })
}

// forgot reports whether the server refuses the oldest version with 410.
func (w *world) forgot(t *testing.T) bool {
	t.Helper()
	seconds := int64(1)
	watch, err := w.server.Client().CoreV1().Events("").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1", TimeoutSeconds: &seconds})
	if err != nil {
		return apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
	}
	defer watch.Stop()
	e, more := <-watch.ResultChan()
	return more && (apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) || apierrors.IsGone(apierrors.FromObject(e.Object)))
}

// TestServerKilled kills the server for half a minute: one notification and one alert
// report that the watch is degraded, and one of each that it has recovered. Events from
// before and after arrive.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	w := apart(t, kube.Options{Context: "killed"})
	w.watch = kubewatch(t, w.bus, w.server.Kubeconfig())
	w.mustBeWatched(t)
	ns := w.server.Namespace(t)
	c := w.stdio(t)
	events := c.subscribe(t, filters{"cluster": w.cluster, "namespaces": []string{ns}})
	faults := c.subscribe(t, filters{"cluster": w.cluster, "namespaces": []string{ns}, "mode": "faults"})
	heard, _ := dashboard(t, w)
	watchAlerts := func() raised { return about(heard(), shared.WatchDegraded, w.cluster) }

	var want []string
	for i := range 20 {
		want = append(want, fmt.Sprintf("before %d", i))
		w.say(t, ns, want[i])
	}
	killed := time.Now()
	if err := w.server.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{events, faults} {
		n := c.awaitWithin(t, 2*patience, id, "that it is degraded", func(n note) bool { return n.Logger == "kubernetes/subscription_error" })
		if n.Level != "error" || n.Data.Degraded == nil || !*n.Data.Degraded || n.Data.Error == "" || n.Data.Cluster != w.cluster {
			t.Errorf("notification = %s, want the level error, degraded true, an error, and the cluster %s", n.Raw, w.cluster)
		}
	}
	t.Logf("degraded after %s", time.Since(killed).Round(time.Second))
	if !harness.Poll(t.Context(), patience, func() bool { return len(watchAlerts().first) == 1 }) {
		t.Errorf("alerts about the watch = %+v, want one new alert", watchAlerts())
	}
	late := ask[map[string]any](t, c, "events_subscribe", filters{"cluster": w.cluster, "namespaces": []string{ns}})
	if late["degraded"] != true || !strings.Contains(fmt.Sprint(late["note"]), "sends nothing") {
		t.Errorf("answer to a later subscription = %v, want degraded true and a note with \"sends nothing\"", late)
	}
	if status := ask[any](t, c, "observe", map[string]any{"what": "status"}); !strings.Contains(fmt.Sprint(status), "degraded") {
		t.Errorf("status = %v, want \"degraded\" in it", status)
	}
	rest := time.NewTimer(30*time.Second - time.Since(killed)) // while it is down
	defer rest.Stop()
	<-rest.C
	if err := w.server.Restart(); err != nil {
		t.Fatal(err)
	}
	up := time.Now()
	want = append(want, "after")
	w.say(t, ns, "after")
	lateID, _ := late["subscriptionId"].(string)
	for _, id := range []string{events, faults, lateID} {
		c.awaitWithin(t, 2*patience, id, "that it has recovered", func(n note) bool { return n.Data.Degraded != nil && !*n.Data.Degraded })
	}
	t.Logf("recovered after %s", time.Since(up).Round(time.Second))
	if !harness.Poll(t.Context(), patience, func() bool { return len(watchAlerts().ends) == 1 }) {
		t.Errorf("alerts about the watch = %+v, want one that resolves", watchAlerts())
	}
	want = append(want, "last")
	w.say(t, ns, "last")
	w.exactlyOnce(t, c, events, ns, want)
	for _, id := range []string{events, faults} {
		if degraded, recovered := errorsOf(c, id); degraded != 1 || recovered != 1 {
			t.Errorf("degraded %d times, recovered %d times, want 1 and 1", degraded, recovered)
		}
	}
	r := watchAlerts()
	if len(r.first) != 1 || len(r.ends) != 1 || r.first[0].Severity != alert.Warning || r.first[0].Category != alert.Kubernetes || r.ends[0].Resolves != r.first[0].ID {
		t.Errorf("alerts about the watch = %+v, want one warning of Kubernetes, and one alert that resolves it", r)
	}
	var delivered []bool
	for _, m := range w.published(t, "") {
		if m.Watch != nil {
			delivered = append(delivered, m.Watch.Degraded)
		}
	}
	if fmt.Sprint(delivered) != "[true false]" {
		t.Errorf("degraded: %v, want \"[true false]\"", delivered)
	}
}
