package investigator

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/client"
	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// exitCode returns the exit code of a command that returned err.
func exitCode(err error) int {
	switch {
	case err == nil:
		return service.ExitOK
	case errors.Is(err, service.ErrUsage):
		return service.ExitUsage
	case errors.Is(err, service.ErrTimeUp), err.Error() == service.Exit(service.ExitTimeUp).Error():
		return service.ExitTimeUp
	}
	return service.ExitFailed
}

// printed is the stdout of a command. It calls onID, if set, with what is written.
type printed struct {
	bytes.Buffer
	onID func(id string)
}

func (p *printed) Write(b []byte) (int, error) {
	if p.onID != nil {
		p.onID(strings.TrimSuffix(string(b), "\n"))
	}
	return p.Buffer.Write(b)
}

// investigate runs `tocsin investigate` against an investigator.
func (r *running) investigate(ctx context.Context, c client.Command, onID func(id string)) (code int, id, stderr string, err error) {
	r.t.Helper()
	c.InvestigatorURL = r.url
	out, log := printed{onID: onID}, bytes.Buffer{}
	err = c.Run(ctx, service.Env{StateDir: r.t.TempDir(), Stdin: strings.NewReader("from stdin"), Stdout: &out, Stderr: &log, Logger: bustest.Quiet()})
	return exitCode(err), strings.TrimSuffix(out.String(), "\n"), log.String(), err
}

func (r *running) cancel(id string) {
	r.t.Helper()
	if status, text := r.send("POST", "/api/v1/sessions/"+id+"/cancel", ""); status != http.StatusOK {
		r.t.Errorf("cancel: %d %s, want 200", status, text)
	}
}

// The command line against an investigator on a real bus: what it prints, and its exit codes.
func TestInvestigateCommand(t *testing.T) {
	b := bustest.Start(t)
	release := make(chan struct{})
	models := modeltest.Serve(
		modeltest.Rule{Match: func(q modeltest.Request) bool { return strings.Contains(q.Body, "never ends") }, Respond: func(modeltest.Request) modeltest.Answer {
			return modeltest.Answer{Before: func(modeltest.Request) { <-release }, Status: 400, Body: `{"error":{"message":"the end"}}`}
		}},
		modeltest.Rule{Match: func(q modeltest.Request) bool { return strings.Contains(q.Body, "is refused") }, Respond: func(modeltest.Request) modeltest.Answer {
			return modeltest.Fail(400, "the model does not like this")
		}},
		modeltest.Rule{Match: func(q modeltest.Request) bool { return len(q.Tools) == 0 }, Answers: []modeltest.Answer{modeltest.Say("In short: the disk is full.")}},
		modeltest.Rule{Match: func(q modeltest.Request) bool { return q.Last("tool").CallID == "" }, Answers: []modeltest.Answer{{
			Thinking: "look \x1b[31mfirst", Calls: []modeltest.Call{{ID: "c1", Name: "tocsin__alerts", Arguments: `{"app":"shop"}`}},
		}}},
		modeltest.Rule{Answers: []modeltest.Answer{{
			Calls: []modeltest.Call{{ID: "c2", Name: conclusion.ToolName, Arguments: `{"cause":"the disk is full","confidence":"likely"}`}},
		}}},
	)
	t.Cleanup(models.Close)
	r := start(t, b.Config(bus.RoleInvestigator), configFile(t, models.URL, ""))
	t.Cleanup(func() { close(release) })
	const limit = time.Minute
	data := func(text string) string {
		file := filepath.Join(t.TempDir(), "alert.txt")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}

	t.Run("followed to its end", func(t *testing.T) {
		code, id, log, err := r.investigate(t.Context(), client.Command{Data: data("pod web-1 crashes"), Chain: "default", Follow: true, Timeout: limit}, nil)
		if code != service.ExitOK || !regexp.MustCompile(`^[0-9A-Z]{26}$`).MatchString(id) {
			t.Fatalf("exit %d, id %q, %v, want 0 and an id\n%s", code, id, err, log)
		}
		for _, want := range []string{
			"queued for investigation\n", "thinking  GeneralAgent: look ␛[31mfirst\n", `tocsin.alerts {"app":"shop"}`, " answered in ", "analysis  GeneralAgent: ",
			"the disk is full", "\nsummary: In short: the disk is full.\n", "\nconfidence: likely\n", "the session " + id + " is completed\n",
		} {
			if !strings.Contains(log, want) {
				t.Errorf("stderr lacks %q:\n%s", want, log)
			}
		}
		if n := strings.Count(log, " answered in "); n != 2 {
			t.Errorf("%d lines of answers, want one for each of the two calls:\n%s", n, log)
		}
		var d session.Detail
		r.get("/api/v1/sessions/"+id, &d)
		if !strings.HasPrefix(d.Author, AuthorCLI) || len(d.Author) == len(AuthorCLI) || d.AlertData != "pod web-1 crashes" {
			t.Errorf("author %q, data %q, want the user of this process, and the file", d.Author, d.AlertData)
		}
	})
	t.Run("waited for", func(t *testing.T) {
		code, id, log, err := r.investigate(t.Context(), client.Command{Stdin: "-", Type: "crash", Timeout: limit}, nil)
		if code != service.ExitOK || strings.Contains(log, "thinking") || !strings.Contains(log, "confidence: likely") {
			t.Errorf("exit %d, %v, want 0 and the end without the timeline\n%s", code, err, log)
		}
		var d session.Detail
		if r.get("/api/v1/sessions/"+id, &d); d.AlertData != "from stdin" || d.AlertType != "crash" {
			t.Errorf("data %q of type %s, want stdin and crash", d.AlertData, d.AlertType)
		}
	})
	t.Run("only queued", func(t *testing.T) {
		code, id, log, err := r.investigate(t.Context(), client.Command{Data: data("it never ends")}, nil)
		if code != service.ExitOK || log != "queued for investigation\n" {
			t.Errorf("exit %d, %v, stderr %q, want 0 and one line", code, err, log)
		}
		r.await(id, session.StatusInProgress)
		r.cancel(id)
	})
	t.Run("failed", func(t *testing.T) {
		code, id, log, err := r.investigate(t.Context(), client.Command{Data: data("this is refused"), Follow: true, Timeout: limit}, nil)
		if code != service.ExitFailed || !strings.Contains(err.Error(), "the session "+id+" failed: ") || !strings.Contains(log, "error") {
			t.Errorf("exit %d, %v, want 1 and the reason\n%s", code, err, log)
		}
	})
	t.Run("still running at the time-out", func(t *testing.T) {
		code, id, log, err := r.investigate(t.Context(), client.Command{Data: data("this never ends"), Follow: true, Timeout: 100 * time.Millisecond}, nil)
		if code != service.ExitTimeUp || !strings.Contains(err.Error(), id+" goes on") {
			t.Errorf("exit %d, %v, want 3 and that the session goes on\n%s", code, err, log)
		}
	})
	t.Run("cancelled meanwhile", func(t *testing.T) {
		code, id, log, err := r.investigate(t.Context(), client.Command{Data: data("this never ends, either"), Follow: true}, r.cancel)
		if code != service.ExitFailed || !strings.Contains(err.Error(), "the session "+id+" was cancelled") {
			t.Errorf("exit %d, %v, want 1 and that it was cancelled\n%s", code, err, log)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		code, id, log, _ := r.investigate(ctx, client.Command{Data: data("it still never ends"), Follow: true}, func(string) { stop() })
		if code != service.ExitTimeUp || !strings.Contains(log, "stopped following; the session goes on: "+id+"\n") {
			t.Errorf("exit %d, want 3 and that the session goes on\n%s", code, log)
		}
		var o session.Outcome
		if r.get("/api/v1/sessions/"+id+"/summary", &o); o.Status != session.StatusInProgress && o.Status != session.StatusPending {
			t.Errorf("the session is %s, want it to go on", o.Status)
		}
	})
	for name, c := range map[string]struct {
		command client.Command
		code    int
		says    string
	}{
		"an unknown chain": {client.Command{Stdin: "-", Chain: "nope"}, service.ExitUsage, "nope"},
		"an unknown alert": {client.Command{Alert: "01ABC"}, service.ExitUsage, "no stored alert"},
		"an empty file":    {client.Command{Data: data(" \n")}, service.ExitUsage, "is empty"},
		"no UTF-8":         {client.Command{Data: data("\xff")}, service.ExitUsage, "not UTF-8"},
		"too much":         {client.Command{Data: data(strings.Repeat("x", maxData+1))}, service.ExitUsage, "over 1 MiB"},
		"an empty object":  {client.Command{Data: data("{}")}, service.ExitUsage, "data is empty"},
		"a missing file":   {client.Command{Data: filepath.Join(t.TempDir(), "none")}, service.ExitUsage, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			code, id, log, err := r.investigate(t.Context(), c.command, nil)
			if code != c.code || id != "" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("exit %d, id %q, %v, want %d with %q\n%s", code, id, err, c.code, c.says, log)
			}
		})
	}
}

// An alert with the dedup_key of an open session joins it, and the command prints that.
func TestInvestigateCommandJoins(t *testing.T) {
	b := bustest.Start(t)
	release := make(chan struct{})
	end := sync.OnceFunc(func() { close(release) })
	models := scripted(t, func(modeltest.Request) { <-release })
	r := start(t, b.Config(bus.RoleInvestigator), configFile(t, models.URL, ""))
	t.Cleanup(end)
	stored := shopAlerts()[1]
	publishAlert(t, b, stored)
	run := func() (id, log string) {
		t.Helper()
		code, id, log, err := r.investigate(t.Context(), client.Command{Alert: stored.ID}, nil)
		if code != service.ExitOK {
			t.Fatalf("exit %d, %v, want 0", code, err)
		}
		return id, log
	}
	first, _ := run()
	second, log := run()
	if first != second || log != "joined the open session of an alert with the same dedup_key\n" {
		t.Errorf("sessions %s and %s, stderr %q, want one session that was joined", first, second, log)
	}
	end()
	r.await(first, session.StatusCompleted)
}
