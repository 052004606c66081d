package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/services/tocsin/quick"
	"github.com/tocsin-bus/tocsin/shared/service"
)

// parsed returns a parsed command line.
func parsed(t *testing.T, args ...string) (*cli, error) {
	t.Helper()
	line := &cli{}
	k, err := service.NewParser(line, kong.Configuration(noSettings))
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.Parse(args)
	return line, err
}

// TestHelpShowsDefaults expects the help of each flag to show its default.
func TestHelpShowsDefaults(t *testing.T) {
	k, err := service.NewParser(&cli{}, kong.Configuration(noSettings))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, command := range k.Model.Children {
		for _, flag := range slices.Concat(k.Model.Flags, command.Flags) {
			want := flag.Default
			switch {
			case want == "" || want == "false":
				continue
			case flag.IsBool():
				want = "Default: on"
			}
			seen++
			if !strings.Contains(flag.Help+flag.FormatPlaceHolder(), want) {
				t.Errorf("help of %s --%s lacks its default %s: %s", command.Name, flag.Name, flag.Default, flag.Help)
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d flags have a default, want at least 10", seen)
	}
}

// TestQuickLines checks that the command lines of package quick say and take what the
// whole command line does.
func TestQuickLines(t *testing.T) {
	whole, err := service.NewParser(&cli{}, kong.Configuration(noSettings))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, want := range whole.Model.Children {
		line := quick.Line([]string{want.Name})
		if line == nil {
			continue
		}
		found++
		k, err := service.NewParser(line, kong.Configuration(noSettings))
		if err != nil {
			t.Fatal(err)
		}
		if got := k.Model.Children[0]; got.Help != want.Help {
			t.Errorf("help of %s = %q, want %q", want.Name, got.Help, want.Help)
		}
		if got, want := len(k.Model.Flags), len(whole.Model.Flags); got != want {
			t.Errorf("%d flags for all commands, want %d", got, want)
		}
	}
	if found != 4 {
		t.Errorf("%d commands of package quick are among the commands of tocsin, want 4", found)
	}
}

func TestHealthcheckArgs(t *testing.T) {
	for line, want := range map[string]string{
		"tocsin":                              "tocsin",
		"tocsin detector":                     "tocsin detector",
		"tocsin detector healthcheck":         "tocsin healthcheck detector",
		"tocsin gateway healthcheck --live":   "tocsin healthcheck gateway --live",
		"tocsin healthcheck detector":         "tocsin healthcheck detector",
		"tocsin notify healthcheck":           "tocsin notify healthcheck",
		"tocsin ingest --token healthcheck":   "tocsin ingest --token healthcheck",
		"tocsin kubewatch --live healthcheck": "tocsin kubewatch --live healthcheck",
	} {
		if got := strings.Join(healthcheckArgs(strings.Fields(line)), " "); got != want {
			t.Errorf("healthcheckArgs(%q) = %q, want %q", line, got, want)
		}
	}
}

// TestFlagsWinOverTheEnvironment checks flags and variables that select the inbox.
func TestFlagsWinOverTheEnvironment(t *testing.T) {
	t.Setenv("TOCSIN_CLIENT", "me")
	t.Setenv("TOCSIN_GATEWAY_HTTP", "127.0.0.1:7460")
	for _, tt := range []struct {
		line         string
		client, more string
		wrong        string
	}{
		{line: "wait", client: "me"},
		{line: "wait --agent codex", more: "codex"},
		{line: "wait --client you", client: "you"},
		{line: "wait --client you --agent codex", wrong: "can't be used together"},
		{line: "gateway --http 127.0.0.1:1", more: "127.0.0.1:1"},
		{line: "gateway --client you", client: "you"},
		{line: "gateway", wrong: "--client (TOCSIN_CLIENT) names one client"},
	} {
		line, err := parsed(t, strings.Fields(tt.line)...)
		if tt.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("%s: error = %v, want %q in it", tt.line, err, tt.wrong)
			}
			continue
		}
		client, more := line.Wait.Client, line.Wait.Agent
		if strings.HasPrefix(tt.line, "gateway") {
			client, more = line.Gateway.Client, line.Gateway.HTTP
		}
		if err != nil || client != tt.client || more != tt.more {
			t.Errorf("%s: client %q and %q, %v, want %q and %q", tt.line, client, more, err, tt.client, tt.more)
		}
	}
}

// TestWarningIsWarn expects warn, a level of notices, to be accepted as the severity
// warning of alerts, and the other way round.
func TestWarningIsWarn(t *testing.T) {
	for _, word := range []string{"warn", "warning"} {
		for _, command := range []string{"tail", "wait"} {
			line, err := parsed(t, command, "--severity", word)
			if got := line.Tail.Severity + line.Wait.Severity; err != nil || got != "warning" {
				t.Errorf("%s --severity %s = %q, %v, want warning", command, word, got, err)
			}
		}
		if _, err := parsed(t, "gateway", "--notify-level", word); err != nil {
			t.Error(err)
		}
	}
}

func TestNewerVersions(t *testing.T) {
	for _, tt := range []struct {
		version, than string
		want          bool
	}{
		{"v1.10.0", "v1.9.9", true},
		{"1.2.3", "v1.2.2-4-gabcdef", true},
		{"v1.2.3-4-gabcdef", "v1.2.3", false},
		{"v1.2.2", "v1.2.3", false},
		{"dev", "v1.2.3", false},
		{"v2.0.0", "dev", false},
	} {
		if got := newer(tt.version, tt.than); got != tt.want {
			t.Errorf("newer(%s, %s) = %t, want %t", tt.version, tt.than, got, tt.want)
		}
	}
}

func TestTailTime(t *testing.T) {
	now := time.Date(2024, 5, 6, 7, 8, 9, 0, time.Local)
	for at, want := range map[time.Time]string{
		now:                      "07:08:09",
		now.Add(-8 * time.Hour):  "2024-05-05 23:08:09",
		now.AddDate(-1, 0, 0):    "2023-05-06 07:08:09",
		now.Add(24 * time.Hour):  "2024-05-07 07:08:09",
		now.Add(-7 * time.Hour):  "00:08:09",
		now.Add(-12 * time.Hour): "2024-05-05 19:08:09",
	} {
		if got := tailTime(at, now); got != want {
			t.Errorf("tailTime = %s, want %s", got, want)
		}
	}
}

// TestRules parses detection rules for all apps and for one, and expects the error of an
// unknown rule to list the rules.
func TestRules(t *testing.T) {
	for _, command := range []string{"up", "detector --nats-url nats://127.0.0.1:1"} {
		args := strings.Fields(command)
		line, err := parsed(t, append(args, "--rules", "spec", "--anomaly", "rate-tail", "--anomaly", "web=auto", "--regression=confirmed", "--noise", "mined,shop=spec")...)
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		flags := line.Up.RuleFlags
		if args[0] == "detector" {
			flags = line.Detector.RuleFlags
		}
		table, err := flags.Rules()
		want := ruleset.Table{Default: ruleset.Set{Anomaly: ruleset.RateTail, Regression: ruleset.Confirmed, Noise: ruleset.Mined}, Apps: map[string]ruleset.Set{
			"web":  {Anomaly: ruleset.Auto, Regression: ruleset.Confirmed, Noise: ruleset.Mined},
			"shop": {Anomaly: ruleset.RateTail, Regression: ruleset.Confirmed},
		}}
		if err != nil || !reflect.DeepEqual(table, want) {
			t.Errorf("rules of %s = %+v, %v, want %+v", command, table, err, want)
		}
		line, err = parsed(t, args...)
		if flags = line.Up.RuleFlags; args[0] == "detector" {
			flags = line.Detector.RuleFlags
		}
		if table, _ := flags.Rules(); err != nil || !reflect.DeepEqual(table, ruleset.Table{Default: ruleset.Default()}) {
			t.Errorf("rules of %s without flags = %+v, %v, want the default", command, table, err)
		}
		if _, err := parsed(t, append(args, "--anomaly", "web=never")...); err == nil || !strings.Contains(err.Error(), "auto, ratio3x, rate-tail") {
			t.Errorf("%s --anomaly web=never: error = %v, want the list of rules", command, err)
		}
	}
}
