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
	// maxReason bounds what is read of an answer, in bytes, and shownReason what is shown
	// of it, in characters.
	maxReason   = 4 << 10
	shownReason = 300
)

// Probe checks the health of a service on this machine, for orchestrators that can run a
// program and nothing else.
type Probe struct {
	Live    bool          `help:"Check liveness (/healthz) instead of readiness (/readyz)."`
	Timeout time.Duration `help:"Timeout of the check. Default: ${default}." default:"3s" placeholder:"D"`
	Token   string        `help:"Value of the service's TOCSIN_TOKEN: beyond loopback it is required to see reasons." env:"TOCSIN_TOKEN" placeholder:"TOKEN"`
}

// Ask checks the service that listens on addr, as in its settings: a wildcard is checked
// on loopback. The error is the reason why it is not ready, or not alive.
func (p Probe) Ask(ctx context.Context, name, addr string) error {
	url, err := LocalURL(name, addr)
	if err != nil {
		return err
	}
	return p.AskURL(ctx, name, url)
}

// LocalURL returns the URL of the service that listens on addr on this machine, as in its settings:
// a wildcard is reached on loopback. Its errors are usage errors.
func LocalURL(name, addr string) (string, error) {
	host, port, err := net.SplitHostPort(strings.TrimSpace(addr))
	switch {
	case err != nil:
		return "", Usagef("%s listens on %q, which is not host:port: use the address in its settings", name, addr)
	case port == "0" || port == "":
		return "", Usagef("%s listens on any free port: set a port in its settings", name)
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1" // a wildcard listener accepts IPv4 too
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// AskURL is [Probe.Ask] for a known URL.
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
		return fmt.Errorf("%s stopped in the middle of its answer: %w", name, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s is not %s: %s", name, p.State(), reason(resp.StatusCode, body))
	}
	return nil
}

// State is the checked state: ready, or alive.
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

// reason is the reason in an answer.
func reason(status int, body []byte) string {
	var answer struct {
		Error string `json:"error"`
	}
	text := strings.TrimSpace(string(body))
	if json.Unmarshal(body, &answer) == nil {
		text = answer.Error
	}
	if text == "" {
		text = fmt.Sprintf("status %d", status)
	}
	return sanitize.Cut(sanitize.Visible(text), shownReason)
}

// Check runs a health check as a command does: it prints one line if the service is well,
// else it returns the error.
func (p Probe) Check(ctx context.Context, env Env, name, addr string) error {
	if err := p.Ask(ctx, name, addr); err != nil {
		return err
	}
	_, err := fmt.Fprintf(env.Stdout, "%s is %s\n", name, p.State())
	return err
}
