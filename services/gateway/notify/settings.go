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

// Settings configure the sinks, as flags of a command. The zero value has none. The log and
// the bus get every notice anyway.
type Settings struct {
	Desktop bool   `name:"notify-desktop" help:"Show notices (messages that the agent sends with its tool notify) as desktop notifications." env:"TOCSIN_NOTIFY_DESKTOP"`
	File    string `name:"notify-file" help:"Append notices to this file, one JSON object a line. It is rotated at 10 MiB; 5 old files are kept." env:"TOCSIN_NOTIFY_FILE" placeholder:"PATH"`
	// Webhook may contain a secret, and so may Slack.
	Webhook      string `name:"notify-webhook" help:"POST notices as JSON to this URL: https, or http on this machine." env:"TOCSIN_NOTIFY_WEBHOOK" placeholder:"URL"`
	WebhookToken string `name:"notify-webhook-token" help:"Bearer token for that webhook." env:"TOCSIN_NOTIFY_WEBHOOK_TOKEN" placeholder:"TOKEN"`
	Slack        string `name:"notify-slack" help:"Post notices to this Slack incoming webhook." env:"TOCSIN_NOTIFY_SLACK" placeholder:"URL"`
	Level        string `name:"notify-level" help:"Least level of these notices: info, warn (or warning) or error." default:"info" env:"TOCSIN_NOTIFY_LEVEL"`
}

// Validate returns an error that names the invalid setting and the allowed values. It never
// contains a URL, which may have a secret in it.
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
	if least := s.MinLevel(); s.Level != "" && s.Level != string(least) && s.Level != string(least.Severity()) {
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

// MinLevel returns the least level that is delivered. It may be configured by the name of a
// severity.
func (s Settings) MinLevel() Level {
	if s.Level == string(alert.Warning) {
		return Warn
	}
	return LevelOf(s.Level)
}

// HasSink reports whether any sink is configured.
func (s Settings) HasSink() bool {
	return s.Desktop || s.File != "" || s.Webhook != "" || s.Slack != ""
}

// checkFile returns an error if a file is evidently not writable. It writes nothing. An empty
// path is valid.
func checkFile(path string) error {
	if path == "" {
		return nil
	}
	switch info, err := os.Stat(path); {
	case err == nil && info.Mode().IsRegular():
		return nil
	case err == nil:
		return fmt.Errorf("must be a regular file: %s is not", path)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("must be a writable file: %w", err)
	}
	info, err := os.Stat(filepath.Dir(path))
	if err != nil || !info.IsDir() {
		return fmt.Errorf("must be in an existing directory: make %s first", filepath.Dir(path))
	}
	return nil
}

// checkURL returns an error if notices may not be sent to an address. An empty one is valid.
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
	return errors.New("must be an https URL, or an http URL of this machine: plain http would expose the notices on the network")
}

// checkSlack returns an error if an address is not an incoming webhook of Slack or of a
// compatible service.
func checkSlack(raw string) error {
	if err := checkURL(raw); err != nil || raw == "" {
		return err
	}
	u, err := url.Parse(raw)
	if err != nil {
		return errors.New("must be a URL")
	}
	host := strings.ToLower(u.Hostname())
	isSlackHost := host == "slack.com" || strings.HasSuffix(host, ".slack.com")
	if strings.Trim(u.Path, "/") == "" || isSlackHost && !strings.HasPrefix(host, "hooks.") {
		return errors.New("must be the URL of an incoming webhook, such as https://hooks.slack.com/services/T0/B0/x")
	}
	return nil
}
