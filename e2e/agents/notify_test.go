package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// receiver is a web service that keeps what is sent to it.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	bodies []string
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.bodies = append(r.bodies, req.Header.Get("Authorization")+" "+string(body))
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) got() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.bodies, "\n")
}

// dashboardConn connects to the bus with the credentials of a dashboard.
func dashboardConn(t *testing.T, b *harness.Bus) (nc *nats.Conn, refused <-chan error) {
	t.Helper()
	auth, err := nats.NkeyOptionFromSeed(statedir.At(b.StateDir).Credential(string(bus.RoleDashboard)))
	if err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 10)
	nc, err = nats.Connect(b.NATSURL, auth, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { errs <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc, errs
}

// lines decodes the notices of a file, each a JSON object.
func lines(t *testing.T, path string) []map[string]any {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var all []map[string]any
	for line := range strings.Lines(string(data)) {
		var n map[string]any
		if err := json.Unmarshal([]byte(line), &n); err != nil {
			t.Fatalf("decode the notice %q: %v", line, err)
		}
		all = append(all, n)
	}
	return all
}

func arrives(t *testing.T, what string, ok func() bool) {
	t.Helper()
	if !harness.Poll(t.Context(), 20*time.Second, ok) {
		t.Errorf("timed out: %s does not arrive", what)
	}
}

// TestNoticeReachesItsUser checks that a notice arrives at each sink, and is nothing
// but text there.
func TestNoticeReachesItsUser(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	live, refused := dashboardConn(t, b)
	heard, err := live.SubscribeSync("live.notices.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := live.Flush(); err != nil {
		t.Fatal(err)
	}
	hook, slack := receive(t), receive(t)
	file := filepath.Join(t.TempDir(), "notices.jsonl")
	tail, asJSON := e2etest.Run(t, b.StateDir, "tail"), e2etest.Run(t, b.StateDir, "tail", "--json", "--notices")
	alerts := e2etest.Run(t, b.StateDir, "tail", "--json")
	agent, err := harness.StartAgentWith(t.Context(), e2etest.Binary(t), b.StateDir, "e2e", []string{
		"TOCSIN_NOTIFY_FILE=" + file, "TOCSIN_NOTIFY_WEBHOOK_TOKEN=s3cret", "TOCSIN_NOTIFY_SLACK=" + slack.URL + "/services/T0/s3cret",
		"TOCSIN_NOTIFY_DESKTOP=true", "DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent",
	}, "--autostart=false", "--notify-webhook="+hook.URL)
	if err != nil {
		t.Fatal(err)
	}
	secret := "ghp_" + strings.Repeat("a1B2c3", 6)
	blocks, err := agent.Call(t.Context(), "notify", map[string]any{
		"message": "<!channel> deployed\nlevel=ERROR msg=fake\x1b[2J \u202e" + secret, "level": "warn", "context": "Deploy 1",
	})
	if err != nil || len(blocks) != 1 || blocks[0] != "Notification sent: <!channel> deployed␊level=ERROR msg=fake␛[2J [REDACTED:github]" {
		t.Fatalf("got %q %v, want 1 of them and blocks[0] \"Notification sent: <!channel> deployed␊level=ERROR msg=fake␛[2J [REDACTED:github]\"", blocks, err)
	}

	m, err := heard.NextMsg(20 * time.Second)
	if err != nil || m.Subject != "live.notices.deploy_1" || !strings.Contains(string(m.Data), "deployed␊level=ERROR") {
		t.Errorf("the dashboard hears %v: %v, want Subject \"live.notices.deploy_1\" and \"deployed␊level=ERROR\" in Data", m, err)
	}
	const shown = "deployed␊level=ERROR msg=fake␛[2J [REDACTED:github]"
	arrives(t, "tail's line", func() bool {
		return strings.Contains(tail.Stdout.String(), "  warn     notice            Deploy 1    <!channel> "+shown)
	})
	arrives(t, "tail's JSON", func() bool { return strings.HasPrefix(asJSON.Stdout.String(), `{"notice":true,"message":`) })
	arrives(t, "the file's line", func() bool {
		got := lines(t, file)
		return len(got) == 1 && got[0]["message"] == "<!channel> "+shown && got[0]["level"] == "warn" && got[0]["context"] == "Deploy 1"
	})
	arrives(t, "the webhook's", func() bool {
		return strings.HasPrefix(hook.got(), "Bearer s3cret {") && strings.Contains(hook.got(), shown)
	})
	arrives(t, "Slack's", func() bool {
		var m struct{ Text string }
		return json.Unmarshal([]byte(slack.got()), &m) == nil && m.Text == "[warn] Deploy 1: &lt;!channel&gt; "+shown
	})
	arrives(t, "the word that there is no desktop", func() bool { return strings.Contains(agent.Log.String(), "sink=desktop") })

	if err := live.Publish("live.notices.deploy_1", []byte("fake")); err != nil {
		t.Error(err)
	}
	select {
	case err := <-refused:
		t.Log(err)
	case <-time.After(20 * time.Second):
		t.Error("a dashboard published a notice, want it refused")
	}
	if err := agent.Close(); err != nil || agent.ExitCode() != 0 {
		t.Errorf("exit %d: %v, want 0", agent.ExitCode(), err)
	}
	e2etest.CheckLog(t, agent.Log)
	log := agent.Log.String()
	if strings.Count(log, "llm_notify") != 1 || strings.Contains(log, "\nlevel=ERROR") || strings.Contains(log, "s3cret") || strings.ContainsAny(log, "\x1b\u202e") {
		t.Errorf("log = %q, want one visible line llm_notify without the secret, and no error", log)
	}
	if text := tail.Stdout.String() + asJSON.Stdout.String() + log + hook.got() + slack.got(); strings.Contains(text, secret) {
		t.Errorf("the secret was delivered, want it masked: %s", text)
	}
	if got := alerts.Stdout.String(); got != "" {
		t.Errorf("alerts got %s, want nothing", got)
	}
	again := e2etest.Run(t, b.StateDir, "tail") // also the notices before it
	arrives(t, "the past", func() bool { return strings.Contains(again.Stdout.String(), shown) })
}

// TestHangingSinksDoNotDelay checks that a sink that hangs delays neither the call nor
// the shutdown.
func TestHangingSinksDoNotDelay(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the client has gone
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	file := filepath.Join(t.TempDir(), "notices.jsonl")
	lock := flock.New(file + ".lock")
	if err := lock.Lock(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	desktop, err := net.Listen("unix", filepath.Join(t.TempDir(), "bus")) // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = desktop.Close() })
	agent, err := harness.StartAgentWith(t.Context(), e2etest.Binary(t), b.StateDir, "e2e", []string{"DBUS_SESSION_BUS_ADDRESS=unix:path=" + desktop.Addr().String()},
		"--autostart=false", "--notify-webhook="+silent.URL, "--notify-slack="+silent.URL+"/services/x", "--notify-file="+file, "--notify-desktop")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Kill() })                                                           // it has ended, unless the test failed
	if _, err := agent.Call(t.Context(), "notify", map[string]any{"message": "first"}); err != nil { // waits for the bus
		t.Fatal(err)
	}
	started := time.Now()
	const calls = 60
	for i := range calls {
		blocks, err := agent.Call(t.Context(), "notify", map[string]any{"message": "still here", "context": fmt.Sprint(i)})
		if err != nil || blocks[0] != "Notification sent: still here" {
			t.Fatalf("got %q %v, want blocks[0] \"Notification sent: still here\"", blocks, err)
		}
	}
	// A sink times out after 5 s at the earliest.
	if took := time.Since(started); took > 4*time.Second {
		t.Errorf("%d calls took %s, want at most 4 s", calls, took)
	}
	started = time.Now()
	if err := agent.Close(); err != nil || agent.ExitCode() != 0 {
		t.Errorf("exit %d: %v, want 0\n%s", agent.ExitCode(), err, agent.Log)
	}
	if took := time.Since(started); took > 2*time.Second { // on a busy machine too
		t.Errorf("the gateway took %s to end, want at most 2 s", took)
	}
	e2etest.CheckLog(t, agent.Log)
	for _, sink := range []string{"webhook", "slack", "file", "desktop"} {
		if n := strings.Count(agent.Log.String(), "too slow\" component=notices sink="+sink); n != 1 {
			t.Errorf("%s: logged %d times, want 1\n%s", sink, n, agent.Log)
		}
	}
}

// TestNoticesAreLimited checks the limit for each context, and that the bus gets all
// notices.
func TestNoticesAreLimited(t *testing.T) {
	t.Parallel()
	b := e2etest.Up(t)
	file := filepath.Join(t.TempDir(), "notices.jsonl")
	agent := e2etest.Join(t, b, "e2e", "--notify-file="+file, "--notify-level=warn")
	tail := e2etest.Run(t, b.StateDir, "tail", "--last=100") // it may start after them
	notify := func(context, level string, n int) {
		t.Helper()
		for i := range n {
			blocks, err := agent.Call(t.Context(), "notify", map[string]any{"message": fmt.Sprintf("%s %d.", context, i), "context": context, "level": level})
			if err != nil || blocks[0] != fmt.Sprintf("Notification sent: %s %d.", context, i) {
				t.Fatalf("got %q %v, want blocks[0] %v", blocks, err, fmt.Sprintf("Notification sent: %s %d.", context, i))
			}
		}
	}
	notify("quiet", "info", 3)
	notify("chatty", "error", 20)
	notify("other", "warn", 1)
	arrives(t, "the other context's", func() bool {
		got := lines(t, file)
		return len(got) == 6 && got[4]["message"] == "chatty 4." && got[5]["message"] == "other 0."
	})
	arrives(t, "all of it on the bus", func() bool { return strings.Count(tail.Stdout.String(), "  notice  ") == 24 })
}
