// Package upgrade runs the binary on a state directory that an earlier version made.
package upgrade

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

func TestMain(m *testing.M) { e2etest.Main(m) }

// The state directory that fe59af0 made, see testdata/README.md.
const (
	archive = "testdata/fe59af0.tar.gz"
	// The open alerts, by what they are about.
	slowPage, openCircuit, fullMemory, failedBuild = "3xu3q6vo24d2hzc5xegzb7yqbi", "yav6cmcc3qfdrzdprsn6scz5yf", "u26ujewomw6vdxitdaw6ebdkdr", "ruv4u6mksggvf5xafmzhkeelkd"
)

// TestUpgradeFromFE59AF0 checks that a known error, a baseline, an applied noise rule,
// the inbox position of a client and open alerts survive an upgrade.
func TestUpgradeFromFE59AF0(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unpack(t, dir)
	b := e2etest.UpIn(t, dir)
	sys := &e2etest.System{Bus: b, Agent: e2etest.Join(t, b, "e2e", "--client=upgrade")}
	if o := sys.Observe(t, nil); o.Block != "" {
		t.Errorf("alerts that the client had taken before the upgrade: got %s, want none", o.Block)
	}

	t.Run("the known error is back, not new", func(t *testing.T) {
		sys.PostEvents(t, map[string]any{"kind": "log", "app": "web", "log": map[string]any{
			"level": "error", "message": "the cart of order 7 is gone", "stack": "Error: the cart is gone\n    at pay (http://localhost:3000/src/cart.js:10:5)",
		}})
		e2etest.CheckAlert(t, sys.TakeAlerts(t, 1)[0], alert.Alert{
			Title: "Error is back: the cart of order <n> is gone", DedupKey: "errors:web:6376d9c2c03d519e",
			Context: map[string]any{"state": "regressed", "first_seen": "2026-11-22T12:43:05.940Z", "seen": 4.0},
		})
	})

	t.Run("the baseline of a page is compared", func(t *testing.T) {
		for range 5 {
			sys.PostVitals(t, "/cart", 2000)
		}
		e2etest.CheckAlert(t, sys.TakeAlerts(t, 1)[0], alert.Alert{Category: alert.Regression, DedupKey: "regression:web:/cart:lcp_ms"}, "baseline 999.5 ms (20 loads)")
	})

	t.Run("the noise rule is applied", func(t *testing.T) {
		const hiddenBefore, ticks = 30, 5
		sys.PostLogs(t, "info", ticks, func(i int) string { return fmt.Sprint("tick ", i) })
		type rule struct {
			ID             string `json:"rule_id"`
			State, Pattern string
			Hidden         int
		}
		want := []rule{{"noise_fa24615f6d62", "applied", "tick <n>", hiddenBefore + ticks}}
		var got struct{ Rules []rule }
		harness.Poll(t.Context(), 20*time.Second, func() bool {
			text := sys.Call(t, "configure", map[string]any{"action": "noise", "noise_action": "list", "app": "web"})
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatalf("decode the noise rules: %v: %s", err, text)
			}
			return cmp.Equal(want, got.Rules)
		})
		if diff := cmp.Diff(want, got.Rules); diff != "" {
			t.Errorf("noise rules of web (-want +got):\n%s", diff)
		}
	})

	t.Run("open alerts stay open until they are resolved", func(t *testing.T) {
		if o := sys.Observe(t, nil); strings.Contains(o.Block, "resolve") {
			t.Errorf("before the end of what they are about: got %s, want no resolved alerts", o.Block)
		}
		sys.PostEvents(t,
			map[string]any{"kind": "circuit", "app": "web", "circuit": map[string]any{"name": "db", "state": "closed"}},
			map[string]any{"kind": "memory", "app": "web", "memory": map[string]any{"used_bytes": 100, "limit_bytes": 1000}})
		sys.PostCI(t, map[string]any{"status": "success", "name": "build", "ref": "main", "commit": "def"})
		for range 6 {
			sys.PostVitals(t, "/pay", 1000)
		}
		want := map[string]string{
			openCircuit: "Circuit db is closed again", fullMemory: "Memory is back to normal",
			failedBuild: "CI success: build on main", slowPage: "Resolved: LCP regressed on /pay",
		}
		got := map[string]string{}
		harness.Poll(t.Context(), 20*time.Second, func() bool {
			for _, a := range sys.Observe(t, nil).Alerts {
				if a.Resolves != "" {
					got[a.Resolves] = a.Title
				}
			}
			return len(got) >= len(want)
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("titles by the id of the alert that is resolved (-want +got):\n%s", diff)
		}
	})
}

// unpack writes the state directory to dir.
func unpack(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(archive)
	e2etest.NoError(t, err)
	defer func() { _ = f.Close() }() // it was only read
	unzipped, err := gzip.NewReader(f)
	e2etest.NoError(t, err)
	for files := tar.NewReader(unzipped); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		e2etest.NoError(t, err)
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if h.Typeflag == tar.TypeDir {
			e2etest.NoError(t, os.MkdirAll(path, 0o700))
			continue
		}
		data, err := io.ReadAll(files)
		e2etest.NoError(t, err)
		e2etest.NoError(t, os.WriteFile(path, data, 0o600))
	}
}
