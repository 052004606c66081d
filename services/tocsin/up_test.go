package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/service"
)

// TestIdleTimeBeginsAfterTheStart checks that even a bus with a very short idle time announces
// itself before it stops.
func TestIdleTimeBeginsAfterTheStart(t *testing.T) {
	line, err := parsed(t, "up", "--idle-exit=1ms", "--nats-addr=127.0.0.1:0", "--nats-ws-addr=127.0.0.1:0",
		"--ingest-addr=127.0.0.1:0", "--otlp-addr=127.0.0.1:0", "--dashboard-addr=127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	env := service.Env{StateDir: t.TempDir(), Stdout: &out, Logger: slog.New(slog.DiscardHandler)}
	if err := line.Up.Run(t.Context(), env); err != nil {
		t.Errorf("up = %v, want nil", err)
	}
	if got, want := out.String(), "tocsin is up"; !strings.HasPrefix(got, want) {
		t.Errorf("output = %q, want it to begin with %q", got, want)
	}
}

// TestUpWithInvestigator checks that tocsin up runs an investigator where it has a configuration,
// and does not start with one that has errors.
func TestUpWithInvestigator(t *testing.T) {
	for _, c := range []struct{ name, config, printed, says string }{
		{name: "a configuration", config: "llm_providers: { local: { type: openai, model: m, base_url: \"http://127.0.0.1:1/v1\", api_key_env: \"\" } }\ndefaults: { llm_provider: local }\n", printed: "\n  investigator http://127.0.0.1:"},
		{name: "an error in it", config: "nonsense: 1\n", says: "nonsense"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "investigator.yaml")
			if err := os.WriteFile(file, []byte(c.config), 0o600); err != nil {
				t.Fatal(err)
			}
			line, err := parsed(t, "up", "--idle-exit=1ms", "--nats-addr=127.0.0.1:0", "--nats-ws-addr=127.0.0.1:0", "--ingest-addr=127.0.0.1:0",
				"--otlp-addr=127.0.0.1:0", "--dashboard-addr=127.0.0.1:0", "--investigator="+file, "--investigator-addr=127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			env := service.Env{StateDir: t.TempDir(), Stdout: &out, Logger: slog.New(slog.DiscardHandler)}
			err = line.Up.Run(t.Context(), env)
			if got := fmt.Sprint(err); (err != nil) != (c.says != "") || !strings.Contains(got, c.says) {
				t.Errorf("up = %v, want an error with %q, or none", err, c.says)
			}
			if !strings.Contains(out.String(), c.printed) {
				t.Errorf("output = %q, want %q in it", out.String(), c.printed)
			}
		})
	}
}
