package logs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tocsin-bus/tocsin/services/kubewatch/api"
	"github.com/tocsin-bus/tocsin/services/kubewatch/fault"
	"github.com/tocsin-bus/tocsin/services/kubewatch/logs"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request is one request for a log.
type request struct {
	container    string
	previous     bool
	lines, limit int
}

// clusterCaptures serves logs as a kubelet does: the first bytes of the last lines.
func clusterCaptures(t *testing.T, answer func(w http.ResponseWriter, a request) (log string, done bool)) *api.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path != "/api/v1/namespaces/shop/pods/web-1/log" {
			http.NotFound(w, r)
			return
		}
		a := request{container: q.Get("container"), previous: q.Get("previous") == "true"}
		a.lines, _ = strconv.Atoi(q.Get("tailLines"))
		a.limit, _ = strconv.Atoi(q.Get("limitBytes"))
		log, done := answer(w, a)
		if done {
			return
		}
		lines := strings.SplitAfter(log, "\n")
		if lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		log = strings.Join(lines[max(0, len(lines)-a.lines):], "")
		_, _ = io.WriteString(w, log[:min(len(log), a.limit)])
	}))
	t.Cleanup(server.Close)
	c, err := api.Connect(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func refuse(w http.ResponseWriter, code int, reason, message string) (string, bool) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	data, _ := json.Marshal(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code, "message": message})
	_, _ = w.Write(data)
	return "", true
}

func wanted(targets ...fault.Target) *fault.Capture {
	return &fault.Capture{Namespace: "shop", Pod: "web-1", Targets: targets}
}

var web = fault.Target{Container: "web"}

func one(t *testing.T, cfg logs.Config, answer func(w http.ResponseWriter, a request) (string, bool)) kube.Log {
	t.Helper()
	got := logs.New(cfg).Capture(t.Context(), "dev", clusterCaptures(t, answer), wanted(web))
	if len(got) != 1 || got[0].Container != "web" {
		t.Fatalf("Capture = %+v, want one log of the container web", got)
	}
	return got[0]
}

func text(log string) func(http.ResponseWriter, request) (string, bool) {
	return func(http.ResponseWriter, request) (string, bool) { return log, false }
}

func TestSample(t *testing.T) {
	long := strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz...\n", 20_000)
	wide := strings.Repeat(strings.Repeat("x", 5000)+"\n", 300)
	for _, tt := range []struct {
		name, log, want string // want is the end of the sample
		truncated, all  bool   // all: want is the whole sample
		panics          bool
	}{
		{"short", "starting\npanic: boom\n\tmain.go:7\n", "starting\npanic: boom\n\tmain.go:7\n", false, true, true},
		{"empty", "", "", false, true, false},
		{"long, with a panic at its end", long + "panic: boom\n", "panic: boom\n", true, false, true},
		{"more lines than are kept", strings.Repeat("a\n", 300) + "z\n", strings.Repeat("a\n", 199) + "z\n", true, true, false},
		{"as many lines as are kept", strings.Repeat("a\n", 200), strings.Repeat("a\n", 200), false, true, false},
		{"lines so long that the end is beyond the limit", wide + "panic: boom\n", "panic: boom\n", true, false, true},
		{"one line without an end", strings.Repeat("y", 1<<20), "yyy", true, false, false},
		{"runes", strings.Repeat("ä", 1<<14), "ää", true, false, false},
		{"not UTF-8", "a\xff\xfeb\n", "a\ufffd\ufffdb\n", false, true, false},
		{"controls", "\x1b[31mred\x00\r\n\u202eevil\n", "␛[31mred␀\nevil\n", false, true, false},
		{"secrets", "password=hunter2hunter2\nAuthorization: Bearer abcdefabcdefabcdef\n", "password=[REDACTED]\nAuthorization: [REDACTED]\n", false, true, false},
		{"many secrets: the masks are longer", strings.Repeat("pwd=a\n", 200), "pwd=[REDACTED]\n", false, false, false},
		{"a word within a line", "no panic: ok\nnon-fatal error: x\n", "no panic: ok\nnon-fatal error: x\n", false, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := one(t, logs.Config{}, text(tt.log))
			if got.Error != "" || got.Truncated != tt.truncated || got.HasPanic != tt.panics || !strings.HasSuffix(got.Sample, tt.want) || tt.all && got.Sample != tt.want {
				t.Errorf("log has %d bytes, truncated %t, panic %t, error %q and ends with %q; want truncated %t, panic %t, no error, %q",
					len(got.Sample), got.Truncated, got.HasPanic, got.Error, kube.Tail([]byte(got.Sample), 200), tt.truncated, tt.panics, tt.want)
			}
			if len(got.Sample) > kube.MaxLog || !utf8.ValidString(got.Sample) {
				t.Errorf("sample has %d bytes, valid UTF-8: %t; want at most %d valid ones", len(got.Sample), utf8.ValidString(got.Sample), kube.MaxLog)
			}
		})
	}
}

// TestSecretAcrossTheCut checks that a secret is masked if its name was cut off.
func TestSecretAcrossTheCut(t *testing.T) {
	line := "password=" + strings.Repeat("s3cr3t", 400) + "\n"
	for cut := range 60 {
		got := one(t, logs.Config{MaxBytes: 2400 - cut*7}, text("start\n"+line+"end\n"))
		if strings.Contains(got.Sample, "s3cr3t") {
			t.Fatalf("cut at %d: sample = %q, want no part of the secret", cut, got.Sample)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		code            int
		reason, message string
		want            string
	}{
		{403, "Forbidden", `pods "web-1" is forbidden: User "x" cannot get resource "pods/log"`, "the cluster refuses access: kubewatch needs the right to get pods/log"},
		{401, "Unauthorized", "Unauthorized", "does not accept kubewatch's credentials"},
		{404, "NotFound", `pods "web-1" not found`, "the pod or its node is gone"},
		{400, "BadRequest", `previous terminated container "web" in pod "web-1" not found`, "there is no log of the previous run"},
		{400, "BadRequest", `container "web" in pod "web-1" is waiting to start: ContainerCreating`, "the container has not started"},
		{400, "BadRequest", `a container name must be specified for pod web-1, choose one of: [web proxy]`, "choose one of: [web proxy]"},
		{500, "InternalError", "dial tcp 10.0.0.1:10250: connection refused\x1b[31m token=hunter2hunter2", "connection refused␛[31m token=[REDACTED]"},
		{500, "InternalError", strings.Repeat("x", 5000), "…"},
	} {
		got := one(t, logs.Config{}, func(w http.ResponseWriter, _ request) (string, bool) {
			return refuse(w, tt.code, tt.reason, tt.message)
		})
		if !strings.Contains(got.Error, tt.want) || got.Sample != "" || utf8.RuneCountInString(got.Error) > 300 {
			t.Errorf("%d %s: log = %+v, want no sample and an error of at most 300 characters with %q", tt.code, tt.message, got, tt.want)
		}
	}
}

// TestRequests checks which logs are requested, in which order and of how many containers.
func TestRequests(t *testing.T) {
	var mu sync.Mutex
	var seen []request
	c := clusterCaptures(t, func(_ http.ResponseWriter, a request) (string, bool) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, a)
		if a.container == "b" {
			return "the same\n", false
		}
		return fmt.Sprint(a.container, a.previous, "\n"), false
	})
	targets := []fault.Target{{Container: "b", Previous: true}, {Container: "b"}, {Container: "a", Previous: true}, {Container: "a"}, {Container: "c"}}
	got := logs.New(logs.Config{MaxContainers: 2}).Capture(t.Context(), "dev", c, wanted(targets...))
	want := "[{b true false the same\n false } {b false false  false the same as the log of the previous run: the container was not restarted since} {a true false atrue\n false } {a false false afalse\n false }]"
	if fmt.Sprint(got) != want {
		t.Errorf("Capture = %v, want %v", got, want)
	}
	for i, a := range seen {
		if a.lines != 201 || a.limit != 256<<10 || a.container != targets[i].Container || a.previous != targets[i].Previous {
			t.Errorf("request %d = %+v, want 201 lines and 256 KiB of %+v", i, a, targets[i])
		}
	}
}

// TestBounds checks the bounds of captures at once, of each cluster and of all, and that the
// waiting captures of one cluster take no slot from another.
func TestBounds(t *testing.T) {
	var now, most, all, mostOfAll atomic.Int64
	release := make(chan struct{})
	raise := func(most *atomic.Int64, n int64) {
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
	}
	serve := func(mine *atomic.Int64) func(http.ResponseWriter, request) (string, bool) {
		return func(http.ResponseWriter, request) (string, bool) {
			if mine != nil {
				raise(&most, mine.Add(1))
				defer mine.Add(-1)
			}
			raise(&mostOfAll, all.Add(1))
			defer all.Add(-1)
			<-release
			return "x\n", false
		}
	}
	dev, prod := clusterCaptures(t, serve(&now)), clusterCaptures(t, serve(nil))
	c := logs.New(logs.Config{PerCluster: 3, Global: 5})
	var running sync.WaitGroup
	var taken atomic.Int64
	for i := range 40 {
		running.Go(func() {
			name, from := "dev", dev
			if i%2 == 1 {
				name, from = "prod", prod
			}
			if got := c.Capture(t.Context(), name, from, wanted(web)); got[0].Sample == "x\n" {
				taken.Add(1)
			}
		})
	}
	bustest.Eventually(t, "5 captures at once", func() bool { return all.Load() == 5 && c.Stats().Waiting == 35 })
	close(release)
	running.Wait()
	if n := most.Load(); n > 3 {
		t.Errorf("%d captures of one cluster at once, want at most 3", n)
	}
	if n := mostOfAll.Load(); n != 5 {
		t.Errorf("%d captures at once, want 5", n)
	}
	if n := taken.Load(); n != 40 {
		t.Errorf("%d captures succeeded, want 40", n)
	}
	if s, want := c.Stats(), (logs.Stats{Captured: 40}); s != want {
		t.Errorf("Stats = %+v, want %+v", s, want)
	}
}

// TestWaiting checks that a capture is refused at once if too many wait, and that waiting
// captures end with their context.
func TestWaiting(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{})
	from := clusterCaptures(t, func(http.ResponseWriter, request) (string, bool) { close(held); <-hold; return "x\n", false })
	c := logs.New(logs.Config{PerCluster: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Capture(t.Context(), "dev", from, wanted(web)) })
	<-held
	for range 200 {
		running.Go(func() {
			if got := c.Capture(ctx, "dev", from, wanted(web)); got[0].Error != "not read: the watch of the cluster ended" {
				t.Errorf("log of a cancelled capture = %+v, want the error that the watch ended", got[0])
			}
		})
	}
	bustest.Eventually(t, "200 waiting captures", func() bool { return c.Stats().Waiting == 200 })
	got := c.Capture(t.Context(), "dev", from, wanted(web, fault.Target{Container: "proxy", Previous: true}))
	if len(got) != 2 || got[1].Container != "proxy" || !got[1].Previous || got[1].Error != "not read: 200 captures of this cluster are waiting already" {
		t.Errorf("refused capture = %+v, want two logs with the error that 200 wait", got)
	}
	if n := c.Stats().Refused; n != 1 {
		t.Errorf("Refused = %d, want 1", n)
	}
	cancel()
	bustest.Eventually(t, "end of the waiting captures", func() bool { return c.Stats().Waiting == 0 })
	close(hold)
	running.Wait()
}

// TestHalfSecrets checks that no part of a secret is left, wherever a log is cut.
func TestHalfSecrets(t *testing.T) {
	key := "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEpAIBAAKCAQEA1234567890abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL\n", 26) + "-----END RSA PRIVATE KEY-----\n"
	for lines := 160; lines < 200; lines++ { // the first of the last 200 lines is one of the key
		got := one(t, logs.Config{}, text("start\n"+key+strings.Repeat("work\n", lines)+"panic: boom\n"))
		if strings.Contains(got.Sample, "MIIE") || !got.HasPanic || !strings.HasSuffix(got.Sample, "work\npanic: boom\n") {
			t.Fatalf("%d lines after the key: sample = %q, want no part of the key, and the panic at the end", lines, got.Sample)
		}
	}
	const secret = "AKIAIOSFODNN7EXAMPLE"
	filler := func(n int) string { return strings.Repeat("x", n-1) + "," }
	for off := range len(secret) {
		for what, log := range map[string]string{
			// One line; only its beginning can be read.
			"end": filler(256<<10-off) + secret + filler(100<<10),
			// The masks are so short that the beginning of the examined part is kept.
			"begin": filler(30<<10) + secret + filler(100) + "token=" + strings.Repeat("t", kube.MaxLog+8<<10-100-6-off) + "\n",
		} {
			if got := one(t, logs.Config{}, text(log)); strings.Contains(got.Sample, "AKIA") || strings.Contains(got.Sample, "XAMPLE") {
				t.Fatalf("cut at its %s, offset %d: sample = %q, want no part of the secret", what, off, got.Sample)
			}
		}
	}
	// Other text stays as it is.
	log := "a\n-----END CERTIFICATE-----\n-----END PRIVATE KEY\nb\n"
	if got := one(t, logs.Config{}, text(log)); got.Sample != log {
		t.Errorf("sample without a private key = %q, want %q", got.Sample, log)
	}
}

// TestTimeout checks the timeout of a log, and that the other logs of a node that does not
// answer are not requested.
func TestTimeout(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	from := clusterCaptures(t, func(w http.ResponseWriter, a request) (string, bool) {
		if a.container == "stuck" {
			_, _ = io.WriteString(w, "begins\n")
			w.(http.Flusher).Flush()
			<-hold
		}
		return "x\n", false
	})
	c := logs.New(logs.Config{Timeout: 300 * time.Millisecond})
	got := c.Capture(t.Context(), "dev", from, wanted(web, fault.Target{Container: "stuck"}, fault.Target{Container: "other"}))
	want := []kube.Log{
		{Container: "web", Sample: "x\n"}, {Container: "stuck", Error: "the timeout expired"},
		{Container: "other", Error: "not read: reading the log before it timed out"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("logs (-want +got):\n%s", diff)
	}
	if s := c.Stats(); s.Captured != 1 || s.Failed != 2 {
		t.Errorf("Stats = %+v, want 1 captured and 2 failed", s)
	}
}

// memory is a log in memory.
type memory string

func (m memory) Logs(context.Context, string, string, corev1.PodLogOptions) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(string(m))), nil
}

// FuzzSample checks that the sample of any log is bounded, valid UTF-8, and without control
// characters, also if a server sends more than was requested.
func FuzzSample(f *testing.F) {
	f.Add("panic: boom\n", 10)
	f.Add("\xff\x1b[31m\u202e", 3)
	f.Add(strings.Repeat("token=a ", 100), 50)
	f.Add(strings.Repeat("é", 100), 51)
	f.Fuzz(func(t *testing.T, log string, limit int) {
		if limit < 1 || limit > 1<<16 {
			return
		}
		got := logs.New(logs.Config{MaxBytes: limit}).Capture(t.Context(), "dev", memory(log), wanted(web))[0]
		if got.Error != "" || len(got.Sample) > limit || !utf8.ValidString(got.Sample) || strings.ContainsAny(got.Sample, "\x00\x1b\u202e\u200b\x7f\u009b") {
			t.Errorf("log = %+v, want at most %d bytes of visible text", got, limit)
		}
	})
}

// TestEndless checks that reading stops at the bound if a server sends without end.
func TestEndless(t *testing.T) {
	got := logs.New(logs.Config{}).Capture(t.Context(), "dev", endless{}, wanted(web))[0]
	if got.Error != "" || !got.Truncated || len(got.Sample) > kube.MaxLog || len(got.Sample) < kube.MaxLog/2 {
		t.Errorf("log has %d bytes, truncated %t, error %q; want %d to %d bytes, truncated", len(got.Sample), got.Truncated, got.Error, kube.MaxLog/2, kube.MaxLog)
	}
}

type endless struct{}

func (endless) Logs(context.Context, string, string, corev1.PodLogOptions) (io.ReadCloser, error) {
	return io.NopCloser(endless{}), nil
}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = "log\n"[i%4]
	}
	return len(p), nil
}

func BenchmarkCapture(b *testing.B) {
	from := memory(strings.Repeat("2026-01-28T14:30:00Z INFO request done method=GET path=/cart status=200 duration=12ms\n", 200))
	c := logs.New(logs.Config{})
	b.ReportAllocs()
	for b.Loop() {
		c.Capture(b.Context(), "dev", from, wanted(web))
	}
}
