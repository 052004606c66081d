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
		want     string // in the error; empty means none
	}{
		"nothing":                          {},
		"an existing file":                 {settings: Settings{File: there}},
		"a new file":                       {settings: Settings{File: filepath.Join(dir, "new.jsonl")}},
		"a directory":                      {settings: Settings{File: dir}, want: "--notify-file"},
		"a missing directory":              {settings: Settings{File: filepath.Join(dir, "no", "x")}, want: "make " + filepath.Join(dir, "no") + " first"},
		"a device":                         {settings: Settings{File: os.DevNull}, want: "TOCSIN_NOTIFY_FILE"},
		"below a file":                     {settings: Settings{File: filepath.Join(there, "x")}, want: "--notify-file"},
		"https":                            {settings: Settings{Webhook: "https://hooks.example/" + secret}},
		"http on this machine":             {settings: Settings{Webhook: "http://127.0.0.1:8080/x"}},
		"http at localhost":                {settings: Settings{Webhook: "http://localhost/x", WebhookToken: "t"}},
		"http elsewhere":                   {settings: Settings{Webhook: "http://hooks.example/" + secret}, want: "--notify-webhook"},
		"http at a host like this machine": {settings: Settings{Webhook: "http://127.0.0.1.evil.example/"}, want: "https URL"},
		"no scheme":                        {settings: Settings{Webhook: "hooks.example/" + secret}, want: "TOCSIN_NOTIFY_WEBHOOK"},
		"another scheme":                   {settings: Settings{Webhook: "ftp://hooks.example/" + secret}, want: "https"},
		"no host":                          {settings: Settings{Webhook: "https:///" + secret}, want: "must be a URL"},
		"control characters":               {settings: Settings{Slack: "https://hooks.example/\x00" + secret}, want: "--notify-slack"},
		"slack":                            {settings: Settings{Slack: "https://hooks.slack.com/services/" + secret}},
		"slack in the clear":               {settings: Settings{Slack: "http://hooks.slack.com/services/" + secret}, want: "TOCSIN_NOTIFY_SLACK"},
		"slack's own pages":                {settings: Settings{Slack: "https://team.slack.com/archives/" + secret}, want: "incoming webhook"},
		"slack without a path":             {settings: Settings{Slack: "https://hooks.slack.com/"}, want: "incoming webhook"},
		"a service like slack":             {settings: Settings{Slack: "https://chat.example/hooks/" + secret}},
		"warn":                             {settings: Settings{Level: "warn"}},
		"the severity of an alert":         {settings: Settings{Level: "warning"}},
		"an unknown level":                 {settings: Settings{Level: "loud"}, want: "--notify-level (TOCSIN_NOTIFY_LEVEL) must be one of"},
		"a token without a webhook":        {settings: Settings{WebhookToken: secret}, want: "needs --notify-webhook (TOCSIN_NOTIFY_WEBHOOK)"},
		"a token that ends the header":     {settings: Settings{Webhook: "https://a.example", WebhookToken: secret + "\r\nX: y"}, want: "must be ASCII"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.settings.Validate()
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("Validate = %v, want %q in it", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("Validate = %v, want no secret in it", err)
			}
			if _, newErr := New(c.settings, quiet()); (newErr == nil) != (err == nil) {
				t.Errorf("New: error = %v, want that of Validate, %v", newErr, err)
			}
		})
	}
}

// TestMinLevel: a level may be given by the name of a severity.
func TestMinLevel(t *testing.T) {
	for name, want := range map[string]Level{"info": Info, "warn": Warn, "warning": Warn, "error": Error, "": Info} {
		c, err := New(Settings{Level: name, File: filepath.Join(t.TempDir(), "x")}, quiet())
		if err != nil {
			t.Fatal(err)
		}
		if c.level != want {
			t.Errorf("level %q = %q, want %q", name, c.level, want)
		}
	}
}
