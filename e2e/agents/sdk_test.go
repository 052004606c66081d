package agents

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/services/gateway/mcpserver"
)

// typeScript is one of the clients of the TypeScript SDK.
type typeScript struct {
	// pkg is the module that it is imported from.
	pkg string
	// asks is the protocol version that it requests, or "auto" for the newest that both
	// have.
	asks string
	// protocol is the gateway's setting.
	protocol mcpserver.Protocol
	// over is the transport: stdio or HTTP.
	over string
	// agreed is the version that both then use.
	agreed string
}

// typeScripts has the SDK as it was when each version was the newest, and as it is now.
var typeScripts = []typeScript{
	{"sdk-of-2024-11-05", "2024-11-05", mcpserver.Compatible, "stdio", "2024-11-05"},
	{"sdk-of-2025-06-18", "2025-06-18", mcpserver.Compatible, "stdio", "2025-06-18"},
	{"sdk-of-2025-06-18", "2025-06-18", mcpserver.Compatible, "HTTP", "2025-06-18"},
	{"@modelcontextprotocol/sdk", "2025-11-25", mcpserver.Compatible, "stdio", "2025-11-25"},
	{"@modelcontextprotocol/sdk", "2025-11-25", mcpserver.Latest, "HTTP", "2025-11-25"},
	{"@modelcontextprotocol/client", "2024-11-05", mcpserver.Compatible, "stdio", "2024-11-05"},
	{"@modelcontextprotocol/client", "2025-06-18", mcpserver.Compatible, "stdio", "2025-06-18"},
	{"@modelcontextprotocol/client", "2025-11-25", mcpserver.Latest, "stdio", "2025-11-25"},
	{"@modelcontextprotocol/client", "2026-07-28", mcpserver.Latest, "stdio", "2026-07-28"},
	{"@modelcontextprotocol/client", "2026-07-28", mcpserver.Latest, "HTTP", "2026-07-28"},
	{"@modelcontextprotocol/client", "auto", mcpserver.Compatible, "stdio", "2025-11-25"},
	{"@modelcontextprotocol/client", "auto", mcpserver.Compatible, "HTTP", "2025-11-25"},
	{"@modelcontextprotocol/client", "auto", mcpserver.Latest, "stdio", "2026-07-28"},
}

// sdkSeen is the output of node/sdk/agent.mjs.
type sdkSeen struct {
	Agreed   string   `json:"agreed"`
	Server   string   `json:"server"`
	Tools    []string `json:"tools"`
	Observed string   `json:"observed"`
	Notified string   `json:"notified"`
	Enabled  string   `json:"enabled"`
	Message  *struct {
		Level, Logger, Title string
	} `json:"message"`
	Streamed string `json:"streamed"`
	Pinged   bool   `json:"pinged"`
	Held     string `json:"held"`
	After    string `json:"after"`
}

// TestTypeScriptSDK runs the SDK that most clients are built on, old and new, over
// stdio and HTTP: it lists, observes, is notified, pings and cancels.
func TestTypeScriptSDK(t *testing.T) {
	t.Parallel()
	dir := e2etest.NodeModules(t, "sdk")
	e2etest.NeedNode(t, 20)
	for _, ts := range typeScripts {
		t.Run(fmt.Sprintf("%s asks %s of %s over %s", strings.TrimPrefix(ts.pkg, "@"), ts.asks, ts.protocol, ts.over), func(t *testing.T) {
			t.Parallel()
			b := e2etest.Up(t)
			races := t.TempDir()
			where := []string{e2etest.Binary(t), "gateway", "--autostart=false", "--protocol=" + string(ts.protocol)}
			if ts.over == "HTTP" {
				where = []string{overHTTP(t, b, e2etest.Binary(t), append(where[1:], "--http=127.0.0.1:0")...)}
			}
			node := exec.CommandContext(t.Context(), "node", append([]string{"agent.mjs", ts.pkg, ts.asks}, where...)...)
			node.Dir = dir
			node.Env = append(node.Environ(), "TOCSIN_STATE_DIR="+b.StateDir, "INGEST="+b.IngestURL, "GORACE=atexit_sleep_ms=0 log_path="+filepath.Join(races, "race"))
			var stderr strings.Builder
			node.Stderr = &stderr
			out, err := node.Output()
			if err != nil {
				t.Fatalf("run the SDK's client: %v\n%s\n%s", err, &stderr, b.Log)
			}
			checkRaceReports(t, races)
			var seen sdkSeen
			if err := json.Unmarshal(out, &seen); err != nil {
				t.Fatalf("decode the output %s: %v", out, err)
			}
			checkSDK(t, ts, seen)
			if t.Failed() {
				t.Logf("%s\n%s\n%s", out, &stderr, b.Log)
			}
		})
	}
}

func checkSDK(t *testing.T, ts typeScript, seen sdkSeen) {
	t.Helper()
	if seen.Server != "tocsin" || seen.Agreed != ts.agreed {
		t.Errorf("%s over %s, want Server \"tocsin\" and Agreed %v", seen.Server, seen.Agreed, ts.agreed)
	}
	if want := []string{"configure", "configure_streaming", "notify", "observe"}; !slices.Equal(seen.Tools, want) {
		t.Errorf("tools = %q, want %q", seen.Tools, want)
	}
	for marker, text := range map[string]string{"first": seen.Observed, "second": seen.Streamed, "third": seen.After} {
		if !strings.HasPrefix(text, "--- ALERTS (1) ---") || !strings.Contains(text, "CI failure: "+marker) {
			t.Errorf("%s: got %q, want it to begin with \"--- ALERTS (1) ---\" and %q in it", marker, text, "CI failure: "+marker)
		}
	}
	if ts.agreed == "2026-07-28" { // which has neither
		if seen.Message != nil || seen.Pinged {
			t.Errorf("got %+v, want Message nil and no Pinged", seen)
		}
	} else if !seen.Pinged || seen.Message == nil || seen.Message.Level != "error" || seen.Message.Title != "CI failure: second" {
		t.Errorf("the notification: %+v, want Pinged, a Message, Level \"error\" and Title \"CI failure: second\"", seen.Message)
	}
	if seen.Notified == "" || seen.Enabled == "" {
		t.Errorf("got %+v, want a Notified and a Enabled", seen)
	}
	if !strings.HasPrefix(seen.Held, "ended: ") {
		t.Errorf("the cancelled call = %q, want it ended", seen.Held)
	}
}
