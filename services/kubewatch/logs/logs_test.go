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

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/tocsin-bus/tocsin/services/kubewatch/api"
	"github.com/tocsin-bus/tocsin/services/kubewatch/fault"
	"github.com/tocsin-bus/tocsin/services/kubewatch/logs"
	"github.com/tocsin-bus/tocsin/shared/kube"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// asked is one request for a log.
type asked struct {
	container    string
	previous     bool
	lines, limit int
}

// cluster serves logs as a kubelet does: the last lines, and of those the first bytes.
func cluster(t *testing.T, answer func(w http.ResponseWriter, a asked) (log string, done bool)) *api.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if r.URL.Path != "/api/v1/namespaces/shop/pods/web-1/log" {
			http.NotFound(w, r)
			return
		}
		a := asked{container: q.Get("container"), previous: q.Get("previous") == "true"}
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

func one(t *testing.T, cfg logs.Config, answer func(w http.ResponseWriter, a asked) (string, bool)) kube.Log {
	t.Helper()
	got := logs.New(cfg).Capture(t.Context(), "dev", cluster(t, answer), wanted(web))
	if len(got) != 1 || got[0].Container != "web" {
		t.Fatalf("%+v", got)
	}
	return got[0]
}

func text(log string) func(http.ResponseWriter, asked) (string, bool) {
	return func(http.ResponseWriter, asked) (string, bool) { return log, false }
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
		{"no runes", "a\xff\xfeb\n", "a\ufffd\ufffdb\n", false, true, false},
		{"controls", "\x1b[31mred\x00\r\n\u202eevil\n", "␛[31mred␀\nevil\n", false, true, false},
		{"secrets", "password=hunter2hunter2\nAuthorization: Bearer abcdefabcdefabcdef\n", "password=[REDACTED]\nAuthorization: [REDACTED]\n", false, true, false},
		{"many secrets: the masks are longer", strings.Repeat("pwd=a\n", 200), "pwd=[REDACTED]\n", false, false, false},
		{"a word within a line", "no panic: ok\nnon-fatal error: x\n", "no panic: ok\nnon-fatal error: x\n", false, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := one(t, logs.Config{}, text(tt.log))
			if got.Error != "" || got.Truncated != tt.truncated || got.HasPanic != tt.panics || !strings.HasSuffix(got.Sample, tt.want) || tt.all && got.Sample != tt.want {
				t.Errorf("%d bytes, truncated %t, panic %t, %q: …%q", len(got.Sample), got.Truncated, got.HasPanic, got.Error, kube.Tail([]byte(got.Sample), 200))
			}
			if len(got.Sample) > kube.MaxLog || !utf8.ValidString(got.Sample) {
				t.Errorf("%d bytes", len(got.Sample))
			}
		})
	}
}

// TestSecretAcrossTheCut: a secret whose name was cut off is not shown.
func TestSecretAcrossTheCut(t *testing.T) {
	line := "password=" + strings.Repeat("s3cr3t", 400) + "\n"
	for cut := range 60 {
		got := one(t, logs.Config{MaxBytes: 2400 - cut*7}, text("start\n"+line+"end\n"))
		if strings.Contains(got.Sample, "s3cr3t") {
			t.Fatalf("%d: %q", cut, got.Sample)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		code            int
		reason, message string
		want            string
	}{
		{403, "Forbidden", `pods "web-1" is forbidden: User "x" cannot get resource "pods/log"`, "the cluster refuses it: kubewatch needs the right to get pods/log"},
		{401, "Unauthorized", "Unauthorized", "credential is refused"},
		{404, "NotFound", `pods "web-1" not found`, "the pod or its node is gone"},
		{400, "BadRequest", `previous terminated container "web" in pod "web-1" not found`, "there is no log of the run before"},
		{400, "BadRequest", `container "web" in pod "web-1" is waiting to start: ContainerCreating`, "the container has not started"},
		{400, "BadRequest", `a container name must be specified for pod web-1, choose one of: [web proxy]`, "choose one of: [web proxy]"},
		{500, "InternalError", "dial tcp 10.0.0.1:10250: connection refused\x1b[31m token=hunter2hunter2", "connection refused␛[31m token=[REDACTED]"},
		{500, "InternalError", strings.Repeat("x", 5000), "…"},
	} {
		got := one(t, logs.Config{}, func(w http.ResponseWriter, _ asked) (string, bool) { return refuse(w, tt.code, tt.reason, tt.message) })
		if !strings.Contains(got.Error, tt.want) || got.Sample != "" || utf8.RuneCountInString(got.Error) > 300 {
			t.Errorf("%d %s: %+v", tt.code, tt.message, got)
		}
	}
}

// TestAsks: what is asked for, in which order, of how many containers.
func TestAsks(t *testing.T) {
	var mu sync.Mutex
	var seen []asked
	c := cluster(t, func(_ http.ResponseWriter, a asked) (string, bool) {
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
	want := "[{b true false the same\n false } {b false false  false the same as the log of the run before: it was not started again since} {a true false atrue\n false } {a false false afalse\n false }]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v", got)
	}
	for i, a := range seen {
		if a.lines != 201 || a.limit != 256<<10 || a.container != targets[i].Container || a.previous != targets[i].Previous {
			t.Errorf("%+v", a)
		}
	}
}

// TestBounds: so many captures are under way at once of a cluster, and in all; those of
// one cluster that wait take no place from the other's.
func TestBounds(t *testing.T) {
	var now, most, all, mostOfAll atomic.Int64
	release := make(chan struct{})
	raise := func(most *atomic.Int64, n int64) {
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
	}
	serve := func(mine *atomic.Int64) func(http.ResponseWriter, asked) (string, bool) {
		return func(http.ResponseWriter, asked) (string, bool) {
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
	dev, prod := cluster(t, serve(&now)), cluster(t, serve(nil))
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
	await(t, func() bool { return all.Load() == 5 && c.Stats().Waiting == 35 })
	close(release)
	running.Wait()
	if most.Load() > 3 || mostOfAll.Load() != 5 || taken.Load() != 40 {
		t.Errorf("%d of one cluster, %d at once, %d taken", most.Load(), mostOfAll.Load(), taken.Load())
	}
	if s := c.Stats(); s != (logs.Stats{Captured: 40}) {
		t.Errorf("%+v", s)
	}
}

// TestWaiting: past the bound of those that wait, a capture says at once that it was
// not made; those that wait end with their context.
func TestWaiting(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{})
	from := cluster(t, func(http.ResponseWriter, asked) (string, bool) { close(held); <-hold; return "x\n", false })
	c := logs.New(logs.Config{PerCluster: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Capture(t.Context(), "dev", from, wanted(web)) })
	<-held
	for range 200 {
		running.Go(func() {
			if got := c.Capture(ctx, "dev", from, wanted(web)); got[0].Error != "not read: the watch of the cluster ended" {
				t.Errorf("%+v", got)
			}
		})
	}
	await(t, func() bool { return c.Stats().Waiting == 200 })
	got := c.Capture(t.Context(), "dev", from, wanted(web, fault.Target{Container: "proxy", Previous: true}))
	if len(got) != 2 || got[1].Container != "proxy" || !got[1].Previous || got[1].Error != "not read: 200 captures of this cluster wait already" || c.Stats().Refused != 1 {
		t.Errorf("%+v", got)
	}
	cancel()
	await(t, func() bool { return c.Stats().Waiting == 0 })
	close(hold)
	running.Wait()
}

// TestHalfSecrets: of what is cut there is no part of a secret left, wherever the cut is.
func TestHalfSecrets(t *testing.T) {
	key := "-----BEGIN RSA PRIVATE KEY-----\n" + strings.Repeat("MIIEpAIBAAKCAQEA1234567890abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL\n", 26) + "-----END RSA PRIVATE KEY-----\n"
	for lines := 160; lines < 200; lines++ { // the first of the last 200 lines is one of the key
		got := one(t, logs.Config{}, text("start\n"+key+strings.Repeat("work\n", lines)+"panic: boom\n"))
		if strings.Contains(got.Sample, "MIIE") || !got.HasPanic || !strings.HasSuffix(got.Sample, "work\npanic: boom\n") {
			t.Fatalf("%d: %q", lines, got.Sample)
		}
	}
	const secret = "AKIAIOSFODNN7EXAMPLE"
	filler := func(n int) string { return strings.Repeat("x", n-1) + "," }
	for off := range len(secret) {
		for what, log := range map[string]string{
			// One line, of which its beginning is all there is.
			"end": filler(256<<10-off) + secret + filler(100<<10),
			// Its masks are so short that the beginning of what is looked at is kept.
			"begin": filler(30<<10) + secret + filler(100) + "token=" + strings.Repeat("t", kube.MaxLog+8<<10-100-6-off) + "\n",
		} {
			if got := one(t, logs.Config{}, text(log)); strings.Contains(got.Sample, "AKIA") || strings.Contains(got.Sample, "XAMPLE") {
				t.Fatalf("%s, %d: %q", what, off, got.Sample)
			}
		}
	}
	// What is no private key stays.
	log := "a\n-----END CERTIFICATE-----\n-----END PRIVATE KEY\nb\n"
	if got := one(t, logs.Config{}, text(log)); got.Sample != log {
		t.Errorf("%q", got.Sample)
	}
}

// TestTimeout: each capture has one. Where a node doesn't answer, its other logs are not
// asked for.
func TestTimeout(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	from := cluster(t, func(w http.ResponseWriter, a asked) (string, bool) {
		if a.container == "stuck" {
			_, _ = io.WriteString(w, "begins\n")
			w.(http.Flusher).Flush()
			<-hold
		}
		return "x\n", false
	})
	c := logs.New(logs.Config{Timeout: 300 * time.Millisecond})
	got := c.Capture(t.Context(), "dev", from, wanted(web, fault.Target{Container: "stuck"}, fault.Target{Container: "other"}))
	if len(got) != 3 || got[0].Sample != "x\n" || got[1].Error != "it took too long" || got[2].Error != "not read: the log before took too long" || got[2].Container != "other" {
		t.Errorf("%+v", got)
	}
	if s := c.Stats(); s.Captured != 1 || s.Failed != 2 {
		t.Errorf("%+v", s)
	}
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not come about within 10 s")
		}
	}
}

// memory is a log that is there at once.
type memory string

func (m memory) Logs(context.Context, string, string, corev1.PodLogOptions) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(string(m))), nil
}

// FuzzSample: whatever a container writes, its sample is bounded, is text, and has
// nothing that a terminal would act on. What a server sends beyond what was asked for is
// not read.
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
			t.Errorf("%+v", got)
		}
	})
}

// TestEndless: a server that sends without end is left at the bound.
func TestEndless(t *testing.T) {
	got := logs.New(logs.Config{}).Capture(t.Context(), "dev", endless{}, wanted(web))[0]
	if got.Error != "" || !got.Truncated || len(got.Sample) > kube.MaxLog || len(got.Sample) < kube.MaxLog/2 {
		t.Errorf("%+v", got)
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
