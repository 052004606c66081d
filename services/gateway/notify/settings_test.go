package notify

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSettings(t *testing.T) {
	dir := t.TempDir()
	there := filepath.Join(dir, "notices.jsonl")
	if err := os.WriteFile(there, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const secret = "T000-secret"
	for name, c := range map[string]struct {
		settings Settings
		want     string // in the refusal; empty is none
	}{
		"nothing":                         {},
		"a file that is there":            {settings: Settings{File: there}},
		"a file that is not":              {settings: Settings{File: filepath.Join(dir, "new.jsonl")}},
		"a directory":                     {settings: Settings{File: dir}, want: "--notify-file"},
		"a directory that is not there":   {settings: Settings{File: filepath.Join(dir, "no", "x")}, want: "make " + filepath.Join(dir, "no") + " first"},
		"a device":                        {settings: Settings{File: os.DevNull}, want: "TOCSIN_NOTIFY_FILE"},
		"below a file":                    {settings: Settings{File: filepath.Join(there, "x")}, want: "--notify-file"},
		"https":                           {settings: Settings{Webhook: "https://hooks.example/" + secret}},
		"http here":                       {settings: Settings{Webhook: "http://127.0.0.1:8080/x"}},
		"http at localhost":               {settings: Settings{Webhook: "http://localhost/x", WebhookToken: "t"}},
		"http elsewhere":                  {settings: Settings{Webhook: "http://hooks.example/" + secret}, want: "--notify-webhook"},
		"http almost here":                {settings: Settings{Webhook: "http://127.0.0.1.evil.example/"}, want: "https URL"},
		"no scheme":                       {settings: Settings{Webhook: "hooks.example/" + secret}, want: "TOCSIN_NOTIFY_WEBHOOK"},
		"another scheme":                  {settings: Settings{Webhook: "ftp://hooks.example/" + secret}, want: "https"},
		"no host":                         {settings: Settings{Webhook: "https:///" + secret}, want: "must be a URL"},
		"control characters":              {settings: Settings{Slack: "https://hooks.example/\x00" + secret}, want: "--notify-slack"},
		"slack":                           {settings: Settings{Slack: "https://hooks.slack.com/services/" + secret}},
		"slack in the clear":              {settings: Settings{Slack: "http://hooks.slack.com/services/" + secret}, want: "TOCSIN_NOTIFY_SLACK"},
		"slack's own pages":               {settings: Settings{Slack: "https://team.slack.com/archives/" + secret}, want: "incoming webhook"},
		"slack without a path":            {settings: Settings{Slack: "https://hooks.slack.com/"}, want: "incoming webhook"},
		"what speaks like slack":          {settings: Settings{Slack: "https://chat.example/hooks/" + secret}},
		"warn":                            {settings: Settings{Level: "warn"}},
		"as of an alert":                  {settings: Settings{Level: "warning"}},
		"no level":                        {settings: Settings{Level: "loud"}, want: "--notify-level (TOCSIN_NOTIFY_LEVEL) must be one of"},
		"a token for nobody":              {settings: Settings{WebhookToken: secret}, want: "needs --notify-webhook (TOCSIN_NOTIFY_WEBHOOK)"},
		"a token with a header behind it": {settings: Settings{Webhook: "https://a.example", WebhookToken: secret + "\r\nX: y"}, want: "must be ASCII"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.settings.Validate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("a secret is shown: %v", err)
			}
			if _, again := New(c.settings, quiet()); (again == nil) != (err == nil) {
				t.Errorf("New says %v", again)
			}
		})
	}
}

// TestLeast: a level may be named as an alert's severity is.
func TestLeast(t *testing.T) {
	for name, want := range map[string]Level{"info": Info, "warn": Warn, "warning": Warn, "error": Error, "": Info} {
		c, err := New(Settings{Level: name, File: filepath.Join(t.TempDir(), "x")}, quiet())
		if err != nil || c.level != want {
			t.Errorf("%q: %+v, %v", name, c, err)
		}
	}
}
