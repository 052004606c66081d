package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway"
	"github.com/tocsin-bus/tocsin/services/gateway/brief"
	"github.com/tocsin-bus/tocsin/services/gateway/clients"
	"github.com/tocsin-bus/tocsin/services/gateway/hook"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// call is the input of Claude Code's hook at a moment of the session s.
func call(event string) string {
	return `{"hook_event_name":"` + event + `","session_id":"s","cwd":"/work"}`
}

// again is a stop that follows a hold.
const again = `{"hook_event_name":"Stop","session_id":"s","cwd":"/work","stop_hook_active":true}`

// hook answers Claude Code's hook for the client of that name, and returns what
// it says to the model. A machine that is too busy is asked again.
func (r *rig) hook(t *testing.T, client, input string) string {
	t.Helper()
	var line []byte
	ok := poll(func() bool {
		var err error
		line, err = r.tryHook(client, input)
		if err != nil && !errors.Is(err, bus.ErrAway) && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		return err == nil
	})
	if !ok {
		t.Fatal("the hook finds no bus")
	}
	return said(t, line)
}

func (r *rig) tryHook(client, input string) ([]byte, error) {
	cfg, err := r.hookConfig(client, input)
	if err != nil {
		return nil, err
	}
	return gateway.Hook(context.Background(), cfg)
}

func (r *rig) hookConfig(client, input string) (gateway.HookConfig, error) {
	c, err := hook.Parse("claude-code", []byte(input))
	return gateway.HookConfig{Bus: bus.ConnConfig{Dir: r.dir}, Inbox: clients.NamedInbox(client), Call: c, Hold: true, Logger: quiet()}, err
}

// said is the text within an answer, with "HELD " before what holds the agent.
func said(t *testing.T, line []byte) string {
	t.Helper()
	if line == nil {
		return ""
	}
	var a struct {
		Specific struct {
			Context string `json:"additionalContext"`
		} `json:"hookSpecificOutput"`
		Decision, Reason string
	}
	if err := json.Unmarshal(line, &a); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	if a.Decision == "block" {
		return "HELD " + a.Reason
	}
	return a.Specific.Context
}

// toldBy are the titles of the alerts in a text.
func toldBy(t *testing.T, text string) string {
	t.Helper()
	if text == "" {
		return ""
	}
	held := ""
	if strings.HasPrefix(text, "HELD ") {
		held = "HELD "
	}
	return held + titles(t, text)
}

// TestHookAndObserveTellEachAlertOnce, whichever comes first.
func TestHookAndObserveTellEachAlertOnce(t *testing.T) {
	r := newRig(t)
	if got := r.hook(t, "agent", call("PostToolUse")); got != "" {
		t.Fatalf("nothing pends: %s", got)
	}
	c := r.open(t, "agent")
	r.publish(t, r.alert(alert.Info))
	r.publish(t, r.alert(alert.Error))
	c.pending(t, 2)
	if got := r.hook(t, "agent", call("PostToolUse")); !strings.HasPrefix(got, "--- ALERTS (2) ---\n[") || titles(t, got) != "alert02 alert01" {
		t.Fatal(got)
	}
	for _, event := range []string{"PostToolUse", "UserPromptSubmit", "Stop", "PreToolUse", "SessionEnd"} {
		if got := r.hook(t, "agent", call(event)); got != "" {
			t.Errorf("%s tells again: %s", event, got)
		}
	}
	if got := c.told(t); got != "" {
		t.Errorf("observe tells again: %s", got)
	}
	r.publish(t, r.alert(alert.Warning))
	c.pending(t, 1)
	if got := c.told(t); got != "alert03" {
		t.Error(got)
	}
	if got := r.hook(t, "agent", call("UserPromptSubmit")); got != "" {
		t.Errorf("the hook tells again: %s", got)
	}
	r.publish(t, r.alert(alert.Warning))
	if got := toldBy(t, r.hook(t, "agent", call("UserPromptSubmit"))); got != "alert04" {
		t.Error(got)
	}
	if got := toldBy(t, r.hook(t, "another", call("PostToolUse"))); got != "alert02 alert04 alert03 alert01" {
		t.Errorf("another client: %s", got)
	}
}

// TestAnInboxBeginsWithTheFirstHook, also where that says nothing.
func TestAnInboxBeginsWithTheFirstHook(t *testing.T) {
	r := newRig(t)
	r.publish(t, r.alert(alert.Warning))
	if got := r.hook(t, "agent", call("Stop")); got != "" {
		t.Fatalf("held by a warning: %s", got)
	}
	if got := toldBy(t, r.hook(t, "agent", call("PostToolUse"))); got != "alert01" {
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
			r := newRig(t)
			for _, step := range tt.steps {
				what, want, checked := strings.Cut(step, ": ")
				switch {
				case alert.Severity(what).Rank() > 0:
					r.publish(t, r.alert(alert.Severity(what)))
					continue
				case what == "again":
					what = again
				case what == "off":
					cfg, err := r.hookConfig("agent", call("Stop"))
					cfg.Hold = false
					line, hookErr := gateway.Hook(t.Context(), cfg)
					if err := errors.Join(err, hookErr); err != nil || line != nil {
						t.Fatalf("%s %v", line, err)
					}
					continue
				default:
					what = call(what)
				}
				if got := toldBy(t, r.hook(t, "agent", what)); checked && got != want {
					t.Fatalf("%s: %q", step, got)
				}
			}
		})
	}
}

// TestAnErrorThatIsOverHoldsNobody, and is told when there is an occasion.
func TestAnErrorThatIsOverHoldsNobody(t *testing.T) {
	r := newRig(t)
	r.hook(t, "agent", call("UserPromptSubmit"))
	failed := r.alert(alert.Error)
	r.publish(t, failed)
	over := r.alert(alert.Info)
	over.DedupKey, over.Resolves = failed.DedupKey, failed.ID
	r.publish(t, over)
	if got := r.hook(t, "agent", call("Stop")); got != "" {
		t.Fatalf("held: %s", got)
	}
	if got := r.hook(t, "agent", call("PostToolUse")); !strings.Contains(got, over.ID) && !strings.Contains(got, "Resolved") {
		t.Error(got)
	}
}

func TestSituation(t *testing.T) {
	r := newRig(t)
	look := func(want string) {
		t.Helper()
		got := r.hook(t, "agent", call("SessionStart"))
		if first, second, _ := strings.Cut(got, "\n"); !strings.HasPrefix(first, "Tocsin: "+want) || !strings.Contains(second, "observe") || strings.Contains(second, "\n") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	look("no alert pends; no CI result in the last 7 days.")
	r.publish(t, r.alert(alert.Error))
	look("1 alert pends (1 error); the last CI result failed, ")
	other := r.alert(alert.Warning)
	other.Category = alert.Security
	r.publish(t, other)
	r.publish(t, r.alert(alert.Info))
	look("3 alerts pend (1 error, 1 warning, 1 info); the last CI result passed, ")
	if got := toldBy(t, r.hook(t, "agent", call("PostToolUse"))); got != "alert01 alert02 alert03" {
		t.Errorf("they do not pend any more: %s", got)
	}
}

// TestHookReadsTheNewest of many, and says how many there were.
func TestHookReadsTheNewest(t *testing.T) {
	r := newRig(t)
	r.hook(t, "agent", call("PostToolUse"))
	for range 560 {
		r.publish(t, r.alert(alert.Warning))
	}
	got := r.hook(t, "agent", call("PostToolUse"))
	if len(got) > brief.MaxText || !strings.HasPrefix(titles(t, got), "alert560 alert559 ") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	told := len(strings.Fields(titles(t, got)))
	if want := fmt.Sprintf("--- ALERTS (%d) ---\n%d more left out here", told, 560-told); !strings.HasPrefix(got, want) {
		t.Errorf("%s: %.100s", want, got)
	}
	if got := r.hook(t, "agent", call("PostToolUse")); got != "" {
		t.Error(got)
	}
}

// TestHookWithoutABus is quick, and tells later.
func TestHookWithoutABus(t *testing.T) {
	r := newRig(t)
	r.hook(t, "agent", call("PostToolUse"))
	r.publish(t, r.alert(alert.Error))
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
		if err := r.lock.Announce(statedir.Runtime{PID: 1, NATSURL: "nats://" + l.Addr().String()}); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		line, err := r.tryHook("agent", call("PostToolUse"))
		if took := time.Since(begun); line != nil || !errors.Is(err, bus.ErrAway) || took > time.Second {
			t.Errorf("%s: %s %v after %v", what, line, err, took)
		}
	}
	r.down()
	if line, err := r.tryHook("agent", call("PostToolUse")); line != nil || !errors.Is(err, bus.ErrAway) {
		t.Errorf("%s %v", line, err)
	}
	r.up(t)
	if got := toldBy(t, r.hook(t, "agent", call("PostToolUse"))); got != "alert01" {
		t.Error(got)
	}
}
