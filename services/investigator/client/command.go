package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/user"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/service"
	"github.com/tocsin-bus/tocsin/shared/statedir"
)

// maxData bounds the alert's data, in bytes. The investigator refuses more.
const maxData = 1 << 20

// Command is the command `tocsin investigate`, which submits an alert.
type Command struct {
	Chain   string        `help:"Chain of agents; it wins over --type." placeholder:"C"`
	Type    string        `help:"Alert type, which selects the chain. Default: defaults.alert_type of the investigator's configuration." placeholder:"T"`
	Alert   string        `help:"Id of a stored alert, from an agent or tocsin tail --json." placeholder:"ID"`
	Data    string        `help:"File with the alert: any text of at most 1 MiB." placeholder:"FILE"`
	Follow  bool          `help:"Print the timeline as it grows, and at the end the analysis, to stderr. The timeline is read every 0.5 s."`
	Timeout time.Duration `help:"How long to wait for the end of the session; without --follow, the timeline is not printed. Default: with --follow until the end, else not at all." placeholder:"D"`

	InvestigatorURL  string `name:"investigator-url" help:"URL of the investigator. Default: the one that runs on the state directory, else --investigator-addr." env:"TOCSIN_INVESTIGATOR_URL" placeholder:"URL"`
	InvestigatorAddr string `help:"Address of an investigator that runs alone on this machine. Default: ${default}." default:"127.0.0.1:7490" env:"TOCSIN_INVESTIGATOR_ADDR" placeholder:"ADDR"`
	Token            string `help:"Token of the investigator." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`

	Stdin string `arg:"" optional:"" name:"stdin" help:"With - the alert is read from stdin."`
}

// Validate requires exactly one alert.
func (c *Command) Validate() error {
	alerts := 0
	for _, given := range []bool{c.Alert != "", c.Data != "", c.Stdin != ""} {
		if given {
			alerts++
		}
	}
	switch {
	case c.Stdin != "" && c.Stdin != "-":
		return fmt.Errorf("unexpected argument %s: a file needs --data, and - stands for stdin", sanitize.Visible(c.Stdin))
	case alerts != 1:
		return errors.New("give one alert: --alert ID, --data FILE, or - for stdin")
	case c.Timeout < 0:
		return errors.New("--timeout must not be negative")
	}
	if c.InvestigatorURL != "" {
		if _, err := service.BaseURL(c.InvestigatorURL); err != nil {
			return fmt.Errorf("--investigator-url %w", err)
		}
	}
	return nil
}

// Run submits the alert and prints the id of its session to stdout. All else goes to stderr.
func (c *Command) Run(ctx context.Context, env service.Env) error {
	data, err := c.data(env.Stdin)
	if err != nil {
		return err
	}
	address, err := c.address(env)
	if err != nil {
		return err
	}
	client := &Client{URL: address, Token: strings.TrimSpace(c.Token), User: userName()}
	submitted, err := client.Submit(ctx, Alert{Type: c.Type, Chain: c.Chain, Data: data, ID: c.Alert})
	switch {
	case err != nil && ctx.Err() != nil:
		return errors.New("interrupted before the investigator answered: it may have queued the alert")
	case err != nil:
		return client.explain(err)
	}
	id := sanitize.Visible(submitted.SessionID)
	if _, err := fmt.Fprintln(env.Stdout, id); err != nil {
		return err
	}
	what := "queued for investigation"
	if submitted.Joined() {
		what = "joined the open session of an alert with the same dedup_key"
	}
	if _, err := fmt.Fprintln(env.Stderr, what); err != nil {
		return err
	}
	if !c.Follow && c.Timeout == 0 {
		return nil
	}
	f := newFollower(client, id, env.Stderr)
	f.quiet = !c.Follow
	return f.run(ctx, c.Timeout)
}

// data returns the alert's text. Its errors are usage errors.
func (c *Command) data(stdin io.Reader) (string, error) {
	in, name := stdin, "the alert on stdin"
	switch {
	case c.Alert != "":
		return "", nil
	case c.Data != "" && c.Data != "-":
		file, err := os.Open(c.Data)
		if err != nil {
			return "", service.Usagef("--data: %v", err)
		}
		defer func() { _ = file.Close() }() // it was only read
		in, name = file, sanitize.Visible(c.Data)
	}
	data, err := io.ReadAll(io.LimitReader(in, maxData+1))
	switch {
	case err != nil:
		return "", service.Usagef("read %s: %v", name, err)
	case len(data) > maxData:
		return "", service.Usagef("%s is over 1 MiB: shorten it", name)
	case !utf8.Valid(data):
		return "", service.Usagef("%s is not UTF-8 text", name)
	case strings.TrimSpace(string(data)) == "":
		return "", service.Usagef("%s is empty: write what is known of the alert", name)
	}
	return string(data), nil
}

// address returns the URL of the investigator.
func (c *Command) address(env service.Env) (string, error) {
	if c.InvestigatorURL != "" {
		base, err := service.BaseURL(c.InvestigatorURL)
		if err != nil {
			return "", service.Usagef("--investigator-url %v", err)
		}
		return base.String(), nil
	}
	if r, err := statedir.At(env.StateDir).Running(); err == nil && r.InvestigatorURL != "" {
		return r.InvestigatorURL, nil
	}
	return service.LocalURL("the investigator", c.InvestigatorAddr)
}

// userName returns the name of who runs the command.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return sanitize.Visible(u.Username)
	}
	return "unknown"
}

// explain returns the error of a refused submission with what to do.
func (c *Client) explain(err error) error {
	var r *Refusal
	var unreachable *UnreachableError
	switch {
	case errors.As(err, &unreachable):
		return fmt.Errorf(`%w; start one with "tocsin up --investigator FILE" or "tocsin investigator --investigator FILE"`, err)
	case !errors.As(err, &r):
		return err
	case r.Text == "":
		return fmt.Errorf("%s answers, but is no investigator (status %d): check --investigator-url and TOCSIN_INVESTIGATOR_ADDR", c.URL, r.Status)
	}
	switch r.Status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge:
		return service.Usagef("the investigator refuses the alert: %s", r.Text)
	case http.StatusUnauthorized:
		if c.Token == "" {
			return fmt.Errorf("the investigator at %s wants a token: set TOCSIN_TOKEN to the value that it has", c.URL)
		}
		return fmt.Errorf("the investigator at %s does not accept the token: set TOCSIN_TOKEN to the value that it has", c.URL)
	}
	text := "the investigator refuses the alert: " + r.Text
	if r.Temporary() {
		text = "the investigator can't take the alert now: " + r.Text + "; try again"
		if r.RetryAfter > 0 {
			text += " in " + r.RetryAfter.String()
		}
	}
	return errors.New(text)
}
