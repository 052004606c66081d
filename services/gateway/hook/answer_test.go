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

// TestAnInboxBeginsWithTheFirstHook, also where that says nothing.
func TestAnInboxBeginsWithTheFirstHook(t *testing.T) {
	r := testrig.New(t)
	r.Publish(t, r.Alert(alert.Warning))
	if got := r.Hook(t, "agent", testrig.Call("Stop")); got != "" {
		t.Fatalf("held by a warning: %s", got)
	}
	if got := testrig.Told(t, r.Hook(t, "agent", testrig.Call("PostToolUse"))); got != "alert01" {
		t.Error(got)
	}
}

func TestStop(t *testing.T) {
	const prompt, tool = "UserPromptSubmit", "PostToolUse"
	for _, tt := range []struct {
		name string
		// steps are severities of alerts that come, and moments with what is told.
		steps []string
	}{
		{"an error since the prompt", []string{prompt, "error", "Stop: HELD alert01", "Stop: "}},
		{"what pends beside it is told too", []string{prompt, "warning", "error", "Stop: HELD alert02 alert01", tool + ": "}},
		{"no error", []string{prompt, "warning", "Stop: ", tool + ": alert01"}},
		{"an error that was told", []string{prompt, "error", tool + ": alert01", "Stop: "}},
		{"never twice in a row", []string{prompt, "error", "Stop: HELD alert01", "error", "Stop: ", tool + ": alert02"}},
		{"never twice in a row, as the client says", []string{prompt, "error", "again: ", tool + ": alert01"}},
		{"once more after it has stopped", []string{prompt, "error", "Stop: HELD alert01", "again: ", "error", "Stop: HELD alert02"}},
		{"once more after a prompt", []string{prompt, "error", "Stop: HELD alert01", prompt, "error", "Stop: HELD alert02"}},
		{"without a prompt, an error of these minutes", []string{"error", "Stop: HELD alert01", "Stop: ", "error", "Stop: HELD alert02"}},
		{"a session that has ended", []string{prompt, "error", "SessionEnd: ", "Stop: HELD alert01"}},
		{"turned off", []string{prompt, "error", "off: ", tool + ": alert01"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := testrig.New(t)
			for _, step := range tt.steps {
				what, want, checked := strings.Cut(step, ": ")
				switch {
				case alert.Severity(what).Rank() > 0:
					r.Publish(t, r.Alert(alert.Severity(what)))
					continue
				case what == "again":
					what = testrig.Again
				case what == "off":
					cfg, err := r.HookConfig("agent", testrig.Call("Stop"))
					cfg.Hold = false
					line, hookErr := hook.Answer(t.Context(), cfg)
					if err := errors.Join(err, hookErr); err != nil || line != nil {
						t.Fatalf("%s %v", line, err)
					}
					continue
				default:
					what = testrig.Call(what)
				}
				if got := testrig.Told(t, r.Hook(t, "agent", what)); checked && got != want {
					t.Fatalf("%s: %q", step, got)
				}
			}
		})
	}
}

// TestAnErrorThatIsOverHoldsNobody, and is told when there is an occasion.
func TestAnErrorThatIsOverHoldsNobody(t *testing.T) {
	r := testrig.New(t)
	r.Hook(t, "agent", testrig.Call("UserPromptSubmit"))
	failed := r.Alert(alert.Error)
	r.Publish(t, failed)
	over := r.Alert(alert.Info)
	over.DedupKey, over.Resolves = failed.DedupKey, failed.ID
	r.Publish(t, over)
	if got := r.Hook(t, "agent", testrig.Call("Stop")); got != "" {
		t.Fatalf("held: %s", got)
	}
	if got := r.Hook(t, "agent", testrig.Call("PostToolUse")); !strings.Contains(got, over.ID) && !strings.Contains(got, "Resolved") {
		t.Error(got)
	}
}

func TestSituation(t *testing.T) {
	r := testrig.New(t)
	look := func(want string) {
		t.Helper()
		got := r.Hook(t, "agent", testrig.Call("SessionStart"))
		if first, second, _ := strings.Cut(got, "\n"); !strings.HasPrefix(first, "Tocsin: "+want) || !strings.Contains(second, "observe") || strings.Contains(second, "\n") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	look("no alert pends; no CI result in the last 7 days.")
	r.Publish(t, r.Alert(alert.Error))
	look("1 alert pends (1 error); the last CI result failed, ")
	other := r.Alert(alert.Warning)
	other.Category = alert.Security
	r.Publish(t, other)
	r.Publish(t, r.Alert(alert.Info))
	look("3 alerts pend (1 error, 1 warning, 1 info); the last CI result passed, ")
	if got := testrig.Told(t, r.Hook(t, "agent", testrig.Call("PostToolUse"))); got != "alert01 alert02 alert03" {
		t.Errorf("they do not pend any more: %s", got)
	}
}

// TestHookReadsTheNewest of many, and says how many there were.
func TestHookReadsTheNewest(t *testing.T) {
	r := testrig.New(t)
	r.Hook(t, "agent", testrig.Call("PostToolUse"))
	for range 560 {
		r.Publish(t, r.Alert(alert.Warning))
	}
	got := r.Hook(t, "agent", testrig.Call("PostToolUse"))
	if len(got) > truncate.MaxText || !strings.HasPrefix(testrig.Titles(t, got), "alert560 alert559 ") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	told := len(strings.Fields(testrig.Titles(t, got)))
	if want := fmt.Sprintf("--- ALERTS (%d) ---\n%d more left out here", told, 560-told); !strings.HasPrefix(got, want) {
		t.Errorf("%s: %.100s", want, got)
	}
	if got := r.Hook(t, "agent", testrig.Call("PostToolUse")); got != "" {
		t.Error(got)
	}
}

// TestHookWithoutABus is quick, and tells later.
func TestHookWithoutABus(t *testing.T) {
	r := testrig.New(t)
	r.Hook(t, "agent", testrig.Call("PostToolUse"))
	r.Publish(t, r.Alert(alert.Error))
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = mute.Close() }()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	for what, l := range map[string]net.Listener{"mute": mute, "dead": dead} {
		if err := r.Lock.Announce(statedir.Runtime{PID: 1, NATSURL: "nats://" + l.Addr().String()}); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		line, err := r.TryHook("agent", testrig.Call("PostToolUse"))
		if took := time.Since(begun); line != nil || !errors.Is(err, bus.ErrAway) || took > time.Second {
			t.Errorf("%s: %s %v after %v", what, line, err, took)
		}
	}
	r.Down()
	if line, err := r.TryHook("agent", testrig.Call("PostToolUse")); line != nil || !errors.Is(err, bus.ErrAway) {
		t.Errorf("%s %v", line, err)
	}
	r.Up(t)
	if got := testrig.Told(t, r.Hook(t, "agent", testrig.Call("PostToolUse"))); got != "alert01" {
		t.Error(got)
	}
}
