package notify

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/httpguard"
)

// Settings say where notices go beside the log and the bus, as flags of a
// command. The zero value is nowhere.
type Settings struct {
	Desktop bool   `name:"notify-desktop" help:"Show notices (what the agent tells you by notify) as desktop notifications." env:"TOCSIN_NOTIFY_DESKTOP"`
	File    string `name:"notify-file" help:"Append notices to this file, a JSON object a line; past 10 MiB a new one is begun, and 5 old ones are kept." env:"TOCSIN_NOTIFY_FILE" placeholder:"PATH"`
	// Webhook may have a secret in it, as Slack does.
	Webhook      string `name:"notify-webhook" help:"POST notices as JSON to this URL: https, or http on this machine." env:"TOCSIN_NOTIFY_WEBHOOK" placeholder:"URL"`
	WebhookToken string `name:"notify-webhook-token" help:"Sent to that webhook as Authorization: Bearer." env:"TOCSIN_NOTIFY_WEBHOOK_TOKEN" placeholder:"TOKEN"`
	Slack        string `name:"notify-slack" help:"Post notices to this incoming webhook of Slack." env:"TOCSIN_NOTIFY_SLACK" placeholder:"URL"`
	Level        string `name:"notify-level" help:"Notices below this level go to none of these: info, warn (or warning) or error." default:"info" env:"TOCSIN_NOTIFY_LEVEL"`
}

// Validate says which setting is wrong and what is allowed. It never repeats a
// URL: there may be a secret in it.
func (s Settings) Validate() error {
	if err := checkFile(s.File); err != nil {
		return fmt.Errorf("--notify-file (TOCSIN_NOTIFY_FILE) %w", err)
	}
	if err := checkURL(s.Webhook); err != nil {
		return fmt.Errorf("--notify-webhook (TOCSIN_NOTIFY_WEBHOOK) %w", err)
	}
	if err := checkSlack(s.Slack); err != nil {
		return fmt.Errorf("--notify-slack (TOCSIN_NOTIFY_SLACK) %w", err)
	}
	if least := s.Least(); s.Level != "" && s.Level != string(least) && s.Level != string(least.Severity()) {
		return errors.New("--notify-level (TOCSIN_NOTIFY_LEVEL) must be one of info, warn, error")
	}
	if s.WebhookToken == "" {
		return nil
	}
	if s.Webhook == "" {
		return errors.New("--notify-webhook-token (TOCSIN_NOTIFY_WEBHOOK_TOKEN) needs --notify-webhook (TOCSIN_NOTIFY_WEBHOOK)")
	}
	if strings.ContainsFunc(s.WebhookToken, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errors.New("--notify-webhook-token (TOCSIN_NOTIFY_WEBHOOK_TOKEN) must be ASCII without spaces")
	}
	return nil
}

// Least is the level below which nothing goes anywhere: what is set, or the severity
// of an alert that is like it.
func (s Settings) Least() Level {
	if s.Level == string(alert.Warning) {
		return Warn
	}
	return LevelOf(s.Level)
}

// Any says whether notices go anywhere.
func (s Settings) Any() bool {
	return s.Desktop || s.File != "" || s.Webhook != "" || s.Slack != ""
}

// checkFile says why a file can't be written to, as far as can be seen without
// doing so. No path is fine.
func checkFile(path string) error {
	if path == "" {
		return nil
	}
	switch info, err := os.Stat(path); {
	case err == nil && info.Mode().IsRegular():
		return nil
	case err == nil:
		return fmt.Errorf("must be a file: %s is something else", path)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("must be a file that can be written: %w", err)
	}
	info, err := os.Stat(filepath.Dir(path))
	if err != nil || !info.IsDir() {
		return fmt.Errorf("must be in a directory that is there: make %s first", filepath.Dir(path))
	}
	return nil
}

// checkURL says why notices may not be sent to an address. No address is fine.
func checkURL(raw string) error {
	if raw == "" {
		return nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" || u.Opaque != "" {
		return errors.New("must be a URL, such as https://hooks.example/x")
	}
	if u.Scheme == "https" || u.Scheme == "http" && httpguard.Loopback(u.Hostname()) {
		return nil
	}
	return errors.New("must be an https URL, or an http URL of this machine: what an agent says is not for everybody on the way")
}

// checkSlack says what is no incoming webhook, of Slack or of what speaks like it.
func checkSlack(raw string) error {
	if err := checkURL(raw); err != nil || raw == "" {
		return err
	}
	u, err := url.Parse(raw)
	if err != nil {
		return errors.New("must be a URL")
	}
	host := strings.ToLower(u.Hostname())
	slacks := host == "slack.com" || strings.HasSuffix(host, ".slack.com")
	if strings.Trim(u.Path, "/") == "" || slacks && !strings.HasPrefix(host, "hooks.") {
		return errors.New("must be the URL of an incoming webhook, such as https://hooks.slack.com/services/T0/B0/x")
	}
	return nil
}
