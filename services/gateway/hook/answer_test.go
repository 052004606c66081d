package hook_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tocsin-bus/tocsin/services/gateway/hook"
	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/services/gateway/truncate"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFirstHookSavesThePosition, also if it delivers nothing.
func TestFirstHookSavesThePosition(t *testing.T) {
	r := testrig.New(t)
	r.Publish(t, r.Alert(alert.Warning))
	if got := r.Hook(t, "agent", testrig.Call("Stop")); got != "" {
		t.Fatalf("a stop with a warning pending = %s, want no answer", got)
	}
	if got, want := testrig.DeliveredTitles(t, r.Hook(t, "agent", testrig.Call("PostToolUse"))), "alert01"; got != want {
		t.Errorf("delivered = %q, want %q", got, want)
	}
}

func TestStop(t *testing.T) {
	const prompt, tool = "UserPromptSubmit", "PostToolUse"
	for _, tt := range []struct {
		name string
		// steps are severities of alerts that are raised, and moments with the titles
		// delivered. "again" is a stop after a blocked one, "off" one with BlockStop off.
		steps []string
	}{
		{"an error since the prompt", []string{prompt, "error", "Stop: BLOCKED alert01", "Stop: "}},
		{"other pending alerts are delivered with it", []string{prompt, "warning", "error", "Stop: BLOCKED alert02 alert01", tool + ": "}},
		{"no error", []string{prompt, "warning", "Stop: ", tool + ": alert01"}},
		{"an error that was delivered", []string{prompt, "error", tool + ": alert01", "Stop: "}},
		{"never twice in a row", []string{prompt, "error", "Stop: BLOCKED alert01", "error", "Stop: ", tool + ": alert02"}},
		{"never twice in a row, as the agent says", []string{prompt, "error", "again: ", tool + ": alert01"}},
		{"again after it has stopped", []string{prompt, "error", "Stop: BLOCKED alert01", "again: ", "error", "Stop: BLOCKED alert02"}},
		{"again after a prompt", []string{prompt, "error", "Stop: BLOCKED alert01", prompt, "error", "Stop: BLOCKED alert02"}},
		{"without a prompt, an error of the last 10 minutes", []string{"error", "Stop: BLOCKED alert01", "Stop: ", "error", "Stop: BLOCKED alert02"}},
		{"a session that has ended", []string{prompt, "error", "SessionEnd: ", "Stop: BLOCKED alert01"}},
		{"turned off", []string{prompt, "error", "off: ", tool + ": alert01"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := testrig.New(t)
			for _, step := range tt.steps {
				moment, want, checked := strings.Cut(step, ": ")
				input := testrig.Call(moment)
				switch {
				case alert.Severity(moment).Rank() > 0:
					r.Publish(t, r.Alert(alert.Severity(moment)))
					continue
				case moment == "again":
					input = testrig.StopAfterBlock
				case moment == "off":
					cfg, err := r.HookConfig("agent", testrig.Call("Stop"))
					if err != nil {
						t.Fatal(err)
					}
					cfg.BlockStop = false
					if line, err := hook.Answer(t.Context(), cfg); err != nil || line != nil {
						t.Fatalf("Answer with BlockStop off = %s, %v, want nil, nil", line, err)
					}
					continue
				}
				if got := testrig.DeliveredTitles(t, r.Hook(t, "agent", input)); checked && got != want {
					t.Fatalf("%s: delivered = %q, want %q", moment, got, want)
				}
			}
		})
	}
}

// TestResolvedErrorDoesNotBlock, and is delivered at the next moment.
func TestResolvedErrorDoesNotBlock(t *testing.T) {
	r := testrig.New(t)
	r.Hook(t, "agent", testrig.Call("UserPromptSubmit"))
	failed := r.Alert(alert.Error)
	r.Publish(t, failed)
	end := r.Alert(alert.Info)
	end.DedupKey, end.Resolves = failed.DedupKey, failed.ID
	r.Publish(t, end)
	if got := r.Hook(t, "agent", testrig.Call("Stop")); got != "" {
		t.Fatalf("a stop with a resolved error pending = %s, want no answer", got)
	}
	if got := r.Hook(t, "agent", testrig.Call("PostToolUse")); !strings.Contains(got, end.ID) && !strings.Contains(got, "Resolved") {
		t.Errorf("text = %q, want the resolution %s in it", got, end.ID)
	}
}

func TestSummary(t *testing.T) {
	r := testrig.New(t)
	check := func(want string) {
		t.Helper()
		got := r.Hook(t, "agent", testrig.Call("SessionStart"))
		first, second, _ := strings.Cut(got, "\n")
		if want := "Tocsin: " + want; !strings.HasPrefix(first, want) {
			t.Errorf("first line = %q, want prefix %q", first, want)
		}
		if !strings.Contains(second, "observe") || strings.Contains(second, "\n") {
			t.Errorf("after the first line = %q, want one line that names observe", second)
		}
	}
	check("no pending alerts; no CI result in the last 7 days.")
	r.Publish(t, r.Alert(alert.Error))
	check("1 pending alert (1 error); the last CI result failed, ")
	other := r.Alert(alert.Warning)
	other.Category = alert.Security
	r.Publish(t, other)
	r.Publish(t, r.Alert(alert.Info))
	check("3 pending alerts (1 error, 1 warning, 1 info); the last CI result passed, ")
	if got, want := testrig.DeliveredTitles(t, r.Hook(t, "agent", testrig.Call("PostToolUse"))), "alert01 alert02 alert03"; got != want {
		t.Errorf("still pending after the summaries = %q, want %q", got, want)
	}
}

// TestHookReadsTheNewest of many alerts, and counts those left out.
func TestHookReadsTheNewest(t *testing.T) {
	const published = 560
	r := testrig.New(t)
	r.Hook(t, "agent", testrig.Call("PostToolUse"))
	for range published {
		r.Publish(t, r.Alert(alert.Warning))
	}
	got := r.Hook(t, "agent", testrig.Call("PostToolUse"))
	if len(got) > truncate.MaxText {
		t.Errorf("text has %d bytes, want at most %d", len(got), truncate.MaxText)
	}
	titles := testrig.Titles(t, got)
	if want := "alert560 alert559 "; !strings.HasPrefix(titles, want) {
		t.Errorf("alerts = %q, want prefix %q", titles, want)
	}
	shown := len(strings.Fields(titles))
	if want := fmt.Sprintf("--- ALERTS (%d) ---\n%d more left out here", shown, published-shown); !strings.HasPrefix(got, want) {
		t.Errorf("text = %.100q, want prefix %q", got, want)
	}
	if got := r.Hook(t, "agent", testrig.Call("PostToolUse")); got != "" {
		t.Errorf("the next hook = %s, want nothing: the alert was delivered", got)
	}
}

// TestHookWithoutABus returns soon and leaves the alerts pending.
func TestHookWithoutABus(t *testing.T) {
	r := testrig.New(t)
	r.Hook(t, "agent", testrig.Call("PostToolUse"))
	r.Publish(t, r.Alert(alert.Error))
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]net.Listener{"a silent port": silent, "a closed port": closed} {
		if err := r.Lock.Announce(statedir.Runtime{PID: 1, NATSURL: "nats://" + l.Addr().String()}); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		line, err := r.TryHook("agent", testrig.Call("PostToolUse"))
		if line != nil || !errors.Is(err, bus.ErrUnreachable) {
			t.Errorf("%s: Answer = %s, %v, want nil, %v", name, line, err, bus.ErrUnreachable)
		}
		if took := time.Since(begun); took > time.Second {
			t.Errorf("%s: took %v, want at most 1s", name, took)
		}
	}
	r.Down()
	if line, err := r.TryHook("agent", testrig.Call("PostToolUse")); line != nil || !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("after the bus stopped: Answer = %s, %v, want nil, %v", line, err, bus.ErrUnreachable)
	}
	r.Up(t)
	if got, want := testrig.DeliveredTitles(t, r.Hook(t, "agent", testrig.Call("PostToolUse"))), "alert01"; got != want {
		t.Errorf("delivered after the bus is back = %q, want %q", got, want)
	}
}
