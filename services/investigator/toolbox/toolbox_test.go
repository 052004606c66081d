package toolbox_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/services/investigator/toolbox"
)

const secret = "hunter2"

// The test binary is also the servers: TOOLBOX_PLAY says which.
func TestMain(m *testing.M) {
	if play := os.Getenv("TOOLBOX_PLAY"); play != "" {
		runPlay(play)
		return
	}
	goleak.VerifyTestMain(m)
}

// runPlay is a stdio server that behaves or misbehaves.
func runPlay(play string) {
	switch play {
	case "hang":
		time.Sleep(time.Hour)
	case "garbage":
		for {
			if _, err := fmt.Println("not a message " + secret); err != nil {
				return
			}
		}
	case "exit":
		fmt.Fprintln(os.Stderr, "no configuration, password "+secret)
		os.Exit(3)
	case "circle", "many":
		rawServer(play)
	default:
		if play == "banner" {
			fmt.Println("Welcome to the server!")
		}
		_ = newServer(nil).Run(context.Background(), &mcp.StdioTransport{})
	}
}

var readOnly = &mcp.ToolAnnotations{ReadOnlyHint: true}

func object() json.RawMessage { return json.RawMessage(`{"type":"object"}`) }

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// newServer is a server that works. With its tool wait a call goes on until it is cancelled, or to
// the end, which may be nil.
func newServer(end <-chan struct{}) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "play", Version: "1"}, nil)
	add := func(name string, a *mcp.ToolAnnotations, do mcp.ToolHandler) {
		s.AddTool(&mcp.Tool{Name: name, Description: "Does " + name + ", password " + secret, InputSchema: object(), Annotations: a}, do)
	}
	add("echo", readOnly, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(string(r.Params.Arguments)), nil
	})
	add("environment", readOnly, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(strings.Join(os.Environ(), "\n")), nil
	})
	add("image", readOnly, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.ImageContent{MIMEType: "image/png", Data: make([]byte, 12345)}}}, nil
	})
	add("huge", readOnly, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return text(strings.Repeat("x", 9<<20)), nil
	})
	// flood writes a line of 50 MB beside the SDK, which would take long to encode it.
	add("flood", readOnly, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		line := []byte(`{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", 1<<20))
		for range 50 {
			if _, err := os.Stdout.Write(line); err != nil {
				return nil, err
			}
		}
		return text("done"), nil
	})
	add("wait", readOnly, func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		select {
		case <-ctx.Done():
		case <-end:
		}
		return text("cancelled"), nil
	})
	add("fail", readOnly, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, fmt.Errorf("no access with password %s", secret)
	})
	// die ends the process in the middle of the first call: the file records that.
	die := func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct {
			Once   string
			Always bool
		}
		if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(args.Once, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil && !args.Always {
			return text("survived"), nil
		}
		_ = f.Close()
		fmt.Fprintln(os.Stderr, "out of memory near "+secret)
		os.Exit(7)
		return nil, nil
	}
	add("die", readOnly, die)
	add("die-writing", nil, die)
	// once goes on until its end in the first call: the file records that.
	add("once", readOnly, func(ctx context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var args struct{ File string }
		if err := json.Unmarshal(r.Params.Arguments, &args); err != nil {
			return nil, err
		}
		f, err := os.OpenFile(args.File, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, fs.ErrExist) {
			return text("again"), nil
		}
		if err != nil {
			return nil, err
		}
		_ = f.Close()
		<-ctx.Done()
		return nil, ctx.Err()
	})
	add("change", readOnly, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s.AddTool(&mcp.Tool{Name: "echo", Description: "Now different", InputSchema: object(), Annotations: readOnly},
			func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) { return text("changed"), nil })
		return text("done"), nil
	})
	return s
}

// rawServer writes its messages itself: the SDK would not.
func rawServer(play string) {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Cursor string }
		}
		if json.Unmarshal(in.Bytes(), &m) != nil || m.ID == nil {
			continue
		}
		switch m.Method {
		case "initialize":
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"raw","version":"1"}}}`+"\n", m.ID)
		case "tools/list":
			if play == "circle" {
				fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"nextCursor":"again","tools":[null,`+
					`{"name":"twice","description":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},`+
					`{"name":"twice","description":"b","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},`+
					`{"name":"list","inputSchema":[],"annotations":{"readOnlyHint":true}},`+
					`{"name":"text","inputSchema":{"type":"string"},"annotations":{"readOnlyHint":true}},`+
					`{"name":"good","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}}`+"\n", m.ID)
				continue
			}
			tools := make([]string, 10_000)
			for i := range tools {
				tools[i] = fmt.Sprintf(`{"name":"t%d","inputSchema":{"type":"object"}}`, i)
			}
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[%s]}}`+"\n", m.ID, strings.Join(tools, ","))
		default:
			fmt.Printf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"method not found"}}`+"\n", m.ID)
		}
	}
}

func mask(s string) string { return strings.ReplaceAll(s, secret, "[MASKED]") }

func stdio(t testing.TB, play string) toolbox.Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return toolbox.Server{Name: "play", Type: toolbox.Stdio, Command: self, Env: map[string]string{"TOOLBOX_PLAY": play}, Mask: mask}
}

// opened returns a set with one server, which is closed at the end.
func opened(t testing.TB, r *toolbox.Registry, s toolbox.Server) (*toolbox.Set, toolbox.Listed) {
	t.Helper()
	set := toolbox.NewSet(r, nil)
	t.Cleanup(set.Close)
	return set, set.Open(t.Context(), []toolbox.Server{s})[0]
}

func contains(t *testing.T, what, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s = %.2000q, want %q in it", what, got, w)
		}
	}
	if strings.Contains(got, secret) {
		t.Errorf("%s = %.2000q shows the secret", what, got)
	}
}

func TestStdioServer(t *testing.T) {
	t.Setenv("NEEDLE_API_KEY", "needle")
	t.Setenv("LC_ALL", "C")
	s := stdio(t, "banner")
	s.Instructions = "Use password " + secret
	set, listed := opened(t, nil, s)
	if listed.Error != "" {
		t.Fatalf("Open: %s", listed.Error)
	}
	contains(t, "instructions", listed.Instructions, "[MASKED]")
	offered := map[string]string{}
	for _, tool := range listed.Tools {
		offered[tool.Name] = tool.WhyNot
		contains(t, "description", tool.Description, "[MASKED]")
	}
	contains(t, "why not", offered["die-writing"], "readOnlyHint")

	tests := []struct {
		tool, args string
		want       []string
		isError    bool
	}{
		{"echo", `{"a":1}`, []string{`{"a":1}`}, false},
		{"echo", ``, []string{`{}`}, false},
		{"echo", `{"password":"` + secret + `"}`, []string{"[MASKED]"}, false},
		{"echo", `[]`, []string{"no JSON object"}, true},
		{"image", `{}`, []string{"[image, image/png, 12345 bytes, not shown]"}, false},
		{"fail", `{}`, []string{"no access", "[MASKED]"}, true},
		{"die-writing", `{}`, []string{"not offered"}, true},
		{"missing", `{}`, []string{"no such tool"}, true},
	}
	for _, test := range tests {
		got := set.Call(t.Context(), "play", test.tool, json.RawMessage(test.args))
		if got.IsError != test.isError {
			t.Errorf("Call %s: is error %v, want %v: %.500s", test.tool, got.IsError, test.isError, got.Text)
		}
		contains(t, "Call "+test.tool, got.Text, test.want...)
	}
	env := set.Call(t.Context(), "play", "environment", nil).Text
	contains(t, "environment", env, "PATH=", "LC_ALL=C", "TOOLBOX_PLAY=banner")
	if strings.Contains(strings.ToLower(env), "needle") {
		t.Errorf("environment = %s, want no needle in it", env)
	}
}

func TestHugeResultRestartsTheServer(t *testing.T) {
	set, _ := opened(t, nil, stdio(t, "work"))
	for _, tool := range []string{"huge", "flood"} {
		got := set.Call(t.Context(), "play", tool, nil)
		if !got.IsError || got.Retried {
			t.Errorf("Call %s = %.200q, error %v, retried %v, want an error without a retry", tool, got.Text, got.IsError, got.Retried)
		}
		contains(t, "Call "+tool, got.Text, "over 8 MiB")
		if got := set.Call(t.Context(), "play", "echo", nil); got.IsError || got.Text != "{}" {
			t.Errorf("Call after it = %+v, want {}", got)
		}
	}
}

// TestHugeResultBesideAnotherCall: a call that was under way beside one with a huge answer is made
// again, and only the other one is called too large.
func TestHugeResultBesideAnotherCall(t *testing.T) {
	set, _ := opened(t, nil, stdio(t, "work"))
	file := filepath.Join(t.TempDir(), "once")
	beside := make(chan toolbox.Result, 1)
	go func() {
		beside <- set.Call(t.Context(), "play", "once", json.RawMessage(fmt.Sprintf(`{"file":%q}`, file)))
	}()
	for { // until it is under way
		if _, err := os.Stat(file); err == nil {
			break
		}
		select {
		case got := <-beside:
			t.Fatalf("the call beside it ended early: %+v", got)
		default:
			runtime.Gosched()
		}
	}
	huge := set.Call(t.Context(), "play", "huge", nil)
	if !huge.IsError {
		t.Errorf("the huge call = %+v, want an error", huge)
	}
	contains(t, "the huge call", huge.Text, "over 8 MiB")
	if got := <-beside; got.IsError || !got.Retried || got.Text != "again" {
		t.Errorf("the call beside it = %+v, want the answer of a second try", got)
	}
}

func TestDeathInACall(t *testing.T) {
	args := func() json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"once":%q}`, filepath.Join(t.TempDir(), "died")))
	}
	s := stdio(t, "work")
	set, _ := opened(t, nil, s)
	got := set.Call(t.Context(), "play", "die", args())
	if got.IsError || !got.Retried || got.Text != "survived" || got.Duration < 250*time.Millisecond {
		t.Errorf("Call = %+v, want survived, after a retry", got)
	}
	got = set.Call(t.Context(), "play", "die", json.RawMessage(`{"always":true}`))
	if !got.IsError || !got.Retried {
		t.Errorf("Call that dies each time = %+v, want an error after a retry", got)
	}
	contains(t, "Call", got.Text, "exit status 7", "out of memory near [MASKED]")
	got = set.Call(t.Context(), "play", "die", json.RawMessage(`{"once":1}`))
	if !got.IsError || got.Retried {
		t.Errorf("Call with a tool's error = %+v, want no retry", got)
	}
}

// TestCallWithoutApproval: approvals are not supported yet, so a call that may destroy something never reaches
// its server.
func TestCallWithoutApproval(t *testing.T) {
	s := stdio(t, "work")
	s.AllowWrites = true
	set, _ := opened(t, nil, s)
	file := filepath.Join(t.TempDir(), "died")
	args := json.RawMessage(fmt.Sprintf(`{"once":%q}`, file))
	got := set.Call(t.Context(), "play", "die-writing", args)
	if !got.IsError || got.Retried {
		t.Errorf("Call = %+v, want an error", got)
	}
	contains(t, "Call", got.Text, "denied", "approve")
	if _, err := os.Stat(file); err == nil {
		t.Error("the call reached the server, want that it does not")
	}
}

func TestTimeOutIsNotRetried(t *testing.T) {
	set, _ := opened(t, nil, stdio(t, "work"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	got := set.Call(ctx, "play", "wait", nil)
	if !got.IsError || !got.TimedOut || got.Retried {
		t.Errorf("Call = %+v, want a time-out without a retry", got)
	}
	if got := set.Call(t.Context(), "play", "echo", nil); got.IsError {
		t.Errorf("Call after it = %+v, want no error", got)
	}
}

func TestServersThatDoNotStart(t *testing.T) {
	missing := stdio(t, "")
	missing.Command = "tocsin-no-such-program"
	own := stdio(t, "exit")
	own.Env["API_TOKEN"], own.Mask = secret, func(text string) string { return text }
	tests := []struct {
		name   string
		server toolbox.Server
		want   []string
	}{
		{"own secret", own, []string{"no configuration, password [REDACTED]"}},
		{"garbage", stdio(t, "garbage"), []string{"something else than JSON"}},
		{"exit", stdio(t, "exit"), []string{"exit status 3", "no configuration, password [MASKED]"}},
		{"missing", missing, []string{"executable file not found"}},
		{"token over http", toolbox.Server{Name: "h", Type: toolbox.HTTP, URL: "http://metrics.example/mcp", BearerToken: secret, Mask: mask}, []string{"use https"}},
		{"scheme", toolbox.Server{Name: "h", Type: toolbox.HTTP, URL: "ftp://x", Mask: mask}, []string{"scheme"}},
		{"no mask", toolbox.Server{Name: "h", Type: toolbox.HTTP, URL: "ftp://x"}, []string{"withheld"}},
		{"mask that panics", toolbox.Server{Name: "h", Type: toolbox.HTTP, URL: "ftp://x", Mask: func(string) string { panic("x") }}, []string{"withheld"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, listed := opened(t, nil, test.server)
			contains(t, "Error", listed.Error, test.want...)
			if len(listed.Tools) > 0 {
				t.Errorf("%d tools, want none", len(listed.Tools))
			}
		})
	}
}

func TestServerThatHangsAtItsStart(t *testing.T) {
	set := toolbox.NewSet(nil, nil)
	defer set.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	listed := set.Open(ctx, []toolbox.Server{stdio(t, "hang")})
	contains(t, "Error", listed[0].Error, "did not answer in time")
}

func TestMisshapenDefinitions(t *testing.T) {
	_, listed := opened(t, nil, stdio(t, "circle"))
	if listed.Error != "" {
		t.Fatal(listed.Error)
	}
	got := map[string]string{}
	for _, tool := range listed.Tools {
		got[tool.Name] = tool.WhyNot
	}
	want := map[string]string{
		"twice": "the server defines it more than once, and not alike",
		"list":  "its input schema is no object",
		"text":  "its input schema describes something else than an object",
		"good":  "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("why not (-want +got):\n%s", diff)
	}
}

// checked runs a registry until its servers were checked once.
func checked(t *testing.T, servers ...toolbox.Server) *toolbox.Registry {
	t.Helper()
	r := toolbox.NewRegistry(servers)
	r.Check(t.Context())
	return r
}

func TestRegistry(t *testing.T) {
	good, bad, many := stdio(t, "work"), stdio(t, "exit"), stdio(t, "many")
	good.Name, bad.Name, many.Name = "good", "bad", "many"
	good.ReadOnlyTools = []string{"die-*"}
	good.Tools = []string{"e*", "die*"}
	r := checked(t, good, bad, many)
	statuses := r.Statuses()
	if len(statuses) != 3 || !statuses[0].Healthy || statuses[1].Healthy || !statuses[2].Healthy || statuses[0].LastCheck == nil {
		t.Fatalf("Statuses = %+v", statuses)
	}
	offered := map[string]bool{}
	for _, tool := range statuses[0].Tools {
		offered[tool.Name] = tool.Offered
	}
	want := map[string]bool{"echo": true, "environment": true, "die": true, "die-writing": true, "image": false, "huge": false, "wait": false, "flood": false, "fail": false, "change": false, "once": false}
	if diff := cmp.Diff(want, offered); diff != "" {
		t.Errorf("offered (-want +got):\n%s", diff)
	}
	if got := len(statuses[2].Tools); got != toolbox.MaxTools {
		t.Errorf("%d tools, want %d", got, toolbox.MaxTools)
	}
	var categories []string
	for _, w := range r.Warnings() {
		categories = append(categories, w.ServerID+" "+w.Category)
		contains(t, "warning", w.Details)
	}
	if diff := cmp.Diff([]string{"good tools_withheld", "bad mcp_server", "many tools_withheld", "many tools_left_out"}, categories); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	// A set needs no answer where the registry knows.
	set := toolbox.NewSet(r, nil)
	defer set.Close()
	listed := set.Open(t.Context(), []toolbox.Server{good, bad})
	contains(t, "Error", listed[1].Error, "exit status 3")
	var names []string
	for _, tool := range set.Tools() {
		names = append(names, tool.ModelName)
	}
	if diff := cmp.Diff([]string{"good__die", "good__die-writing", "good__echo", "good__environment"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if got := set.Call(t.Context(), "good", "echo", nil); got.Text != "{}" {
		t.Errorf("Call = %+v, want {}", got)
	}
}

func TestRegistryRunsAndUpdates(t *testing.T) {
	first := stdio(t, "work")
	r := toolbox.NewRegistry([]toolbox.Server{first})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { r.Run(ctx) })
	wait := func(id string) {
		t.Helper()
		if err := r.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := r.Statuses(); len(got) != 1 || got[0].ID != id || !got[0].Healthy {
			t.Fatalf("Statuses = %+v, want %s, healthy", got, id)
		}
	}
	wait("play")
	second := first
	second.Name = "second"
	r.Update([]toolbox.Server{second})
	wait("second")
	cancel()
	wg.Wait()
}

func TestChangedDefinitionIsNotUsed(t *testing.T) {
	s := httpServer(t)
	r := checked(t, s)
	set, _ := opened(t, r, s)
	if got := set.Call(t.Context(), s.Name, "echo", nil); got.IsError {
		t.Fatalf("Call before = %+v", got)
	}
	if got := set.Call(t.Context(), s.Name, "change", nil); got.IsError {
		t.Fatalf("Call change = %+v", got)
	}
	r.Check(t.Context())
	got := set.Call(t.Context(), s.Name, "echo", nil)
	if !got.IsError {
		t.Errorf("Call after = %+v, want an error", got)
	}
	contains(t, "Call after", got.Text, "changed since the investigation began")
}

func httpServer(t testing.TB) toolbox.Server {
	t.Helper()
	end := make(chan struct{})
	s := newServer(end)
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil))
	t.Cleanup(func() {
		close(end) // a cancellation can overtake its call
		web.Close()
		endSessions(s)
	})
	return toolbox.Server{Name: "web", Type: toolbox.HTTP, URL: web.URL, Mask: mask}
}

// endSessions ends those that no client has ended: after a failure the SDK's does not.
func endSessions(s *mcp.Server) {
	for session := range s.Sessions() {
		_ = session.Close()
	}
}

func TestHTTPServer(t *testing.T) {
	server := newServer(nil)
	t.Cleanup(func() { endSessions(server) })
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	var wrong atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+secret || r.Header.Get("X-Team") != "shop" {
			wrong.Add(1)
		}
		handler.ServeHTTP(w, r)
	}))
	defer web.Close()
	s := toolbox.Server{Name: "web", Type: toolbox.HTTP, URL: web.URL, BearerToken: secret, Headers: map[string]string{"X-Team": "shop"}, Mask: mask}
	set, listed := opened(t, nil, s)
	if listed.Error != "" {
		t.Fatal(listed.Error)
	}
	if got := set.Call(t.Context(), "web", "echo", json.RawMessage(`{"a":1}`)); got.Text != `{"a":1}` {
		t.Errorf("Call = %+v", got)
	}
	got := set.Call(t.Context(), "web", "huge", nil)
	contains(t, "Call huge", got.Text, "over 8 MiB")
	if got := set.Call(t.Context(), "web", "echo", nil); got.IsError {
		t.Errorf("Call after it = %+v", got)
	}
	if n := wrong.Load(); n != 0 {
		t.Errorf("%d requests without the token or the header", n)
	}
}

func TestHTTPVerifiesCertificates(t *testing.T) {
	for _, skip := range []bool{false, true} {
		t.Run(fmt.Sprintf("skip %t", skip), func(t *testing.T) {
			server := newServer(nil)
			t.Cleanup(func() { endSessions(server) })
			var reached atomic.Int64
			handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { reached.Add(1); return server }, nil)
			web := httptest.NewUnstartedServer(handler) // with a certificate that no authority signed
			web.Config.ErrorLog = log.New(io.Discard, "", 0)
			web.StartTLS()
			defer web.Close()
			set, listed := opened(t, nil, toolbox.Server{Name: "web", Type: toolbox.HTTP, URL: web.URL, BearerToken: secret, SkipVerifySSL: skip, Mask: mask})
			if skip {
				if got := set.Call(t.Context(), "web", "echo", json.RawMessage(`{"a":1}`)); listed.Error != "" || got.Text != `{"a":1}` {
					t.Errorf("listed %q, Call = %+v, want an answer without a check of the certificate", listed.Error, got)
				}
				return
			}
			contains(t, "Error", listed.Error, "certificate")
			if n := reached.Load(); n != 0 {
				t.Errorf("the server got %d requests, want none", n)
			}
		})
	}
}

// TestHTTPTimeout: the server's time-out ends a call whose answer does not begin, and one whose
// stream stands still. No such call is repeated, and the server is used further.
func TestHTTPTimeout(t *testing.T) {
	for _, where := range []string{"before the answer", "in the stream"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			server := newServer(nil)
			t.Cleanup(func() { endSessions(server) })
			handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
			var calls atomic.Int64
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				if bytes.Contains(body, []byte(`"tools/call"`)) && bytes.Contains(body, []byte(`"wait"`)) {
					calls.Add(1)
					if where == "in the stream" {
						w.Header().Set("Content-Type", "text/event-stream")
						w.WriteHeader(http.StatusOK)
						w.(http.Flusher).Flush()
					}
					<-r.Context().Done()
					return
				}
				handler.ServeHTTP(w, r)
			}))
			t.Cleanup(web.Close)
			set, listed := opened(t, nil, toolbox.Server{Name: "web", Type: toolbox.HTTP, URL: web.URL, Timeout: 2 * time.Second, Mask: mask})
			if listed.Error != "" {
				t.Fatal(listed.Error)
			}
			got := set.Call(t.Context(), "web", "wait", nil)
			if !got.IsError || !got.TimedOut || got.Retried {
				t.Errorf("Call = %+v, want a time-out without a retry", got)
			}
			if n := calls.Load(); n != 1 {
				t.Errorf("the server got the call %d times, want once", n)
			}
			if got := set.Call(t.Context(), "web", "echo", json.RawMessage(`{"a":1}`)); got.Text != `{"a":1}` {
				t.Errorf("Call after it = %+v, want an answer", got)
			}
		})
	}
}

func TestHTTPRedirectToAnotherHost(t *testing.T) {
	var reached atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer other.Close()
	web := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer web.Close()
	_, listed := opened(t, nil, toolbox.Server{Name: "web", Type: toolbox.HTTP, URL: web.URL, BearerToken: secret, Mask: mask})
	contains(t, "Error", listed.Error, "redirects to another host")
	if n := reached.Load(); n != 0 {
		t.Errorf("the other host got %d requests, want none", n)
	}
}

func TestHTTPFailureIsRetried(t *testing.T) {
	server := newServer(nil)
	t.Cleanup(func() { endSessions(server) })
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	var fail atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if fail.Add(-1) >= 0 {
			http.Error(w, "restarting", http.StatusServiceUnavailable)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer web.Close()
	set, _ := opened(t, nil, toolbox.Server{Name: "web", Type: toolbox.HTTP, URL: web.URL, Mask: mask})
	fail.Store(1)
	got := set.Call(t.Context(), "web", "echo", nil)
	if got.IsError || !got.Retried {
		t.Errorf("Call over a restart = %+v, want a retry that succeeds", got)
	}
}

func TestBuiltin(t *testing.T) {
	set := toolbox.NewSet(nil, []toolbox.Builtin{
		{Definition: toolbox.Tool{Name: "conclude", Schema: object()}, Mask: mask,
			Func: func(_ context.Context, args json.RawMessage) toolbox.Result {
				return toolbox.Result{Text: string(args) + secret}
			}},
		{Definition: toolbox.Tool{Server: "tocsin", Name: "alerts", Schema: object()}, Mask: mask,
			Func: func(context.Context, json.RawMessage) toolbox.Result { panic(secret) }},
		{Definition: toolbox.Tool{Name: "open", Schema: object()},
			Func: func(context.Context, json.RawMessage) toolbox.Result { return toolbox.Result{Text: secret} }},
	})
	defer set.Close()
	set.Open(t.Context(), nil)
	for name, want := range map[string]string{"conclude": "{}[MASKED]", "tocsin__alerts": "the built-in tool tocsin.alerts failed", "open": "withheld"} {
		tool, ok := set.Resolve(name)
		if !ok {
			t.Errorf("Resolve(%q): not found", name)
			continue
		}
		contains(t, name, set.Call(t.Context(), tool.Server, tool.Name, nil).Text, want)
	}
}

// Nothing of the servers is left when a set is closed, not even in the middle of a call.
func TestCloseInACall(t *testing.T) {
	set := toolbox.NewSet(nil, nil)
	web := httpServer(t)
	set.Open(t.Context(), []toolbox.Server{stdio(t, "work"), web})
	var wg sync.WaitGroup
	for _, server := range []string{"play", "web"} {
		wg.Go(func() {
			if got := set.Call(t.Context(), server, "wait", nil); !got.IsError {
				t.Errorf("Call on %s = %+v, want an error", server, got)
			}
		})
	}
	set.Close()
	wg.Wait()
	if out, _ := exec.Command("ps", "-o", "pid,args", "--ppid", fmt.Sprint(os.Getpid())).Output(); strings.Contains(string(out), "tocsin-mcp-guard") {
		t.Errorf("processes are left:\n%s", out)
	}
}

// TestCloseCancelsCalls: a server learns that a call was given up before the session ends.
func TestCloseCancelsCalls(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "play", Version: "1"}, nil)
	began, ended, cancelled := make(chan struct{}), make(chan struct{}), make(chan struct{})
	server.AddTool(&mcp.Tool{Name: "wait", Description: "Waits", InputSchema: object(), Annotations: readOnly},
		func(ctx context.Context, _ *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			close(began)
			select {
			case <-ctx.Done():
				close(cancelled)
			case <-ended:
			}
			return text(""), nil
		})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	set, _ := opened(t, nil, toolbox.Server{Name: "web", Type: toolbox.HTTP, URL: web.URL, Mask: mask})
	var wg sync.WaitGroup
	wg.Go(func() { set.Call(t.Context(), "web", "wait", nil) })
	<-began
	set.Close()
	wg.Wait()
	select {
	case <-cancelled:
	case <-time.After(10 * time.Second):
		t.Error("the call was not cancelled within 10 s of Close")
	}
	close(ended)
}

func BenchmarkCall(b *testing.B) {
	for name, server := range map[string]toolbox.Server{"stdio": stdio(b, "work"), "http": httpServer(b)} {
		b.Run(name, func(b *testing.B) {
			set, listed := opened(b, nil, server)
			if listed.Error != "" {
				b.Fatal(listed.Error)
			}
			for b.Loop() {
				if got := set.Call(b.Context(), server.Name, "echo", nil); got.IsError {
					b.Fatal(got.Text)
				}
			}
		})
	}
}
