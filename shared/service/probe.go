package service

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

const (
	// maxReason bounds what is read of an answer, in bytes, and shownReason what is
	// shown of it, in characters.
	maxReason   = 4 << 10
	shownReason = 300
)

// Probe asks a service that runs here how it is, as an orchestrator does that can
// run a program and nothing else.
type Probe struct {
	Live    bool          `help:"Ask whether it is alive (/healthz), in place of whether it does its work (/readyz)."`
	Timeout time.Duration `help:"How long the answer may take. Default: ${default}." default:"3s" placeholder:"D"`
	Token   string        `help:"Value of the service's TOCSIN_TOKEN: beyond loopback it gives reasons to those alone who have it." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`
}

// Ask asks what listens on addr, as the service has it in its settings: where that
// is a wildcard, on loopback. The error says why it is not as it should be.
func (p Probe) Ask(ctx context.Context, name, addr string) error {
	host, port, err := net.SplitHostPort(strings.TrimSpace(addr))
	switch {
	case err != nil:
		return Usagef("%s listens on %q, which is not host:port: name its address as it has it", name, addr)
	case port == "0" || port == "":
		return Usagef("%s listens on whatever port was free: name one in its settings", name)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1" // a wildcard listener takes IPv4 too
	}
	return p.AskURL(ctx, name, "http://"+net.JoinHostPort(host, port))
}

// AskURL is Ask where the URL is known.
func (p Probe) AskURL(ctx context.Context, name, url string) error {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+p.path(), http.NoBody)
	if err != nil {
		return fmt.Errorf("ask %s: %w", name, err)
	}
	if token := strings.TrimSpace(p.Token); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	// No proxy: it is on this machine. No kept connection: this process ends.
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", name, err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReason))
	if err != nil {
		return fmt.Errorf("%s does not answer to the end: %w", name, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is not %s: %s", name, p.State(), reason(resp.StatusCode, body))
	}
	return nil
}

// State is what the service should be: ready, or alive.
func (p Probe) State() string {
	if p.Live {
		return "alive"
	}
	return "ready"
}

func (p Probe) path() string {
	if p.Live {
		return "/healthz"
	}
	return "/readyz"
}

// reason is what an answer says of itself.
func reason(status int, body []byte) string {
	var said struct {
		Error string `json:"error"`
	}
	text := strings.TrimSpace(string(body))
	if json.Unmarshal(body, &said) == nil {
		text = said.Error
	}
	if text == "" {
		text = fmt.Sprintf("status %d", status)
	}
	return sanitize.Cut(sanitize.Visible(text), shownReason)
}

// Check runs a health check as a command does: one line on stdout where all is
// well, else the error.
func (p Probe) Check(ctx context.Context, env Env, name, addr string) error {
	if err := p.Ask(ctx, name, addr); err != nil {
		return err
	}
	_, err := fmt.Fprintf(env.Stdout, "%s is %s\n", name, p.State())
	return err
}
