package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// TestInvestigatorCommands checks which command a line chooses: without a word of its own it is the
// service.
func TestInvestigatorCommands(t *testing.T) {
	for _, c := range []struct{ line, command, says string }{
		{line: "investigator", command: "investigator run"},
		{line: "investigator --investigator f.yaml --investigator-addr 127.0.0.1:0", command: "investigator run"},
		{line: "investigator --nats-url nats://127.0.0.1:1 --replicas 3", command: "investigator run"},
		{line: "investigator run --investigator f.yaml", command: "investigator run"},
		{line: "investigator --replicas 3", says: "--replicas works with an external bus only"},
		{line: "investigator check f.yaml", command: "investigator check <file>"},
		{line: "investigator check f.yaml --probe", command: "investigator check <file>"},
		{line: "investigator check", says: "<file>"},
		{line: "investigator check a b", says: "b"},
		{line: "investigator --investigator f.yaml check f.yaml", says: "--investigator"},
		{line: "investigator dance", says: "dance"},
		{line: "investigate --alert A", command: "investigate"},
		{line: "investigate -", command: "investigate <stdin>"},
		{line: "investigate", says: "give one alert"},
	} {
		line := &cli{}
		k, err := service.NewParser(line, kong.Configuration(noSettings))
		if err != nil {
			t.Fatal(err)
		}
		chosen, err := k.Parse(strings.Fields(c.line))
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want an error with %q", c.line, err, c.says)
			}
			continue
		}
		if err != nil || chosen.Command() != c.command {
			t.Errorf("%s: %v, %v, want the command %s", c.line, chosen, err, c.command)
		}
	}
}

// TestDoctorInvestigator checks the finding for each state of the investigator.
func TestDoctorInvestigator(t *testing.T) {
	for _, c := range []struct {
		name     string
		status   int
		body     string
		down     bool
		absent   bool
		want     string // the mark and the result
		wantNone bool
	}{
		{name: "ready", status: 200, body: `{"ok":true}`, want: "ok URL is ready"},
		{name: "not ready", status: 503, body: `{"error":"the stored sessions are being read"}`, want: "FAIL not ready: the stored sessions are being read"},
		{name: "no reason", status: 503, body: `{"error":"Service Unavailable"}`, want: "FAIL not ready: it gives the reason only with the token"},
		{name: "a hostile reason", status: 503, body: `{"error":"\u001b[31m"}`, want: "FAIL not ready: ␛[31m"},
		{name: "gone", down: true, want: "FAIL "},
		{name: "not configured", absent: true, wantNone: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/readyz" || r.Header.Get("Authorization") != "Bearer s3cret" {
					t.Errorf("asked %s with %v, want /readyz with the token", r.URL, r.Header)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer s.Close()
			d := doctor{
				env: service.Env{StateDir: t.TempDir(), Stdout: io.Discard, Logger: slog.New(slog.DiscardHandler)}, token: "s3cret",
				running: true, runtime: statedir.Runtime{InvestigatorURL: s.URL},
			}
			if c.absent {
				d.runtime.InvestigatorURL = ""
			}
			if c.down {
				s.Close()
			}
			found := d.investigator(t.Context())
			if c.wantNone {
				if len(found) != 0 {
					t.Errorf("found %+v, want nothing", found)
				}
				return
			}
			if len(found) != 1 || found[0].check != "investigator" {
				t.Fatalf("found %+v, want one finding", found)
			}
			got := fmt.Sprintf("%s %s", found[0].mark(), strings.ReplaceAll(found[0].result, s.URL, "URL"))
			if !strings.HasPrefix(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestInvestigatorHelp checks that --help lists the flags that work without a command, as that of
// the other services does, and the commands.
func TestInvestigatorHelp(t *testing.T) {
	for line, want := range map[string][]string{
		"investigator --help":       {"--investigator=FILE", "--nats-url=URL", "--state-dir=DIR", "investigator check"},
		"investigator run --help":   {"--investigator=FILE", "--nats-url=URL", "--state-dir=DIR"},
		"investigator check --help": {"--probe", "--state-dir=DIR"},
	} {
		var stdout bytes.Buffer
		k, err := service.NewParser(&cli{}, kong.Name("tocsin"), kong.Configuration(noSettings), kong.Writers(&stdout, io.Discard), kong.Exit(func(int) { panic(line) }))
		if err != nil {
			t.Fatal(err)
		}
		func() {
			defer func() { _ = recover() }() // of Exit, which must not return
			_, _ = k.Parse(strings.Fields(line))
		}()
		for _, text := range want {
			if strings.Count(stdout.String(), text) != 1 {
				t.Errorf("%s has %q %d times, want once:\n%s", line, text, strings.Count(stdout.String(), text), &stdout)
			}
		}
	}
}
