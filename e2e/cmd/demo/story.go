package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
)

// play plays the chapters in order.
func (s *stage) play(ctx context.Context) error {
	for _, chapter := range []func(context.Context) error{s.calm, s.deploy, s.edit, s.noise, s.active, s.secrets, s.investigate} {
		if err := chapter(ctx); err != nil {
			return err
		}
	}
	return nil
}

const page = "http://localhost:3000/cart"

func load(lcp float64) event {
	return event{"kind": "vitals", "url": page, "session": "s1", "vitals": event{"lcp_ms": lcp, "ttfb_ms": 150, "cls": 0.02}}
}

func request(method, path string, status, took int) event {
	return event{"kind": "network", "url": page, "session": "s1", "network": event{"method": method, "url": path, "status": status, "duration_ms": took}}
}

func logged(level, message string) event {
	return event{"kind": "log", "url": page, "session": "s1", "log": event{"level": level, "message": message}}
}

func (s *stage) calm(ctx context.Context) error {
	s.chapter(ctx, "A shop page loads well")
	for _, lcp := range []float64{1180, 1220, 1205, 1190} {
		if err := s.send(ctx, load(lcp), request("GET", "/api/cart", 200, 40), logged("info", "cart rendered")); err != nil {
			return err
		}
	}
	alerts, err := s.observe(ctx, map[string]any{})
	if err == nil && len(alerts) > 0 {
		err = fmt.Errorf("%w: got alerts before the deploy, want none", errStory)
	}
	return err
}

func (s *stage) deploy(ctx context.Context) error {
	s.chapter(ctx, "A deploy: loads get slower, the checkout fails, a user clicks again and again")
	events := []event{logged("info", "deploy 4f2c1e9 is live")}
	for _, lcp := range []float64{1980, 2050} {
		events = append(events, load(lcp))
	}
	for range 7 {
		events = append(events, request("POST", "/api/checkout/8841", 502, 1200))
	}
	events = append(events, logged("error", "TypeError: Cannot read properties of undefined (reading 'total')"))
	for range 4 {
		events = append(events, event{"kind": "action", "url": page, "session": "s1", "action": event{"type": "click", "target": "button#pay"}})
	}
	if err := s.send(ctx, events...); err != nil {
		return err
	}
	const raised = 5 // regression, failed requests, their spike, a new error, frustration
	if err := s.pending(ctx, raised); err != nil {
		return err
	}
	alerts, err := s.observe(ctx, map[string]any{"what": "errors"})
	if err == nil && len(alerts) != raised-1 { // the inbox joins the regression and the spike
		err = fmt.Errorf("%w: got %d alerts, want %d", errStory, len(alerts), raised-1)
	}
	for _, a := range alerts {
		if strings.Contains(a.Title, failedCheckout) {
			s.failed = a.ID
		}
	}
	return err
}

func (s *stage) edit(ctx context.Context) error {
	s.chapter(ctx, "The agent edits a file; its client runs a hook after the tool call")
	if err := s.send(ctx, logged("error", "RangeError: Invalid count value: -1")); err != nil {
		return err
	}
	if err := s.hook(ctx, patience); err != nil {
		return err
	}
	alerts, err := s.observe(ctx, map[string]any{})
	if err == nil && len(alerts) > 0 {
		err = fmt.Errorf("%w: got the alert of the hook again, want it once", errStory)
	}
	return err
}

func (s *stage) noise(ctx context.Context) error {
	s.chapter(ctx, "Noise: a dev server's chatter, a browser extension, health checks")
	var events []event
	for i := range 40 {
		events = append(events, logged("debug", fmt.Sprintf("[vite] hot updated: /src/cart.ts in %d ms", 10+i)), request("GET", "/health", 200, 1))
	}
	for i := range 30 {
		events = append(events, logged("error", fmt.Sprintf("chrome-extension://abcdefgh/content.js:%d: message port closed", i)))
	}
	if err := s.send(ctx, events...); err != nil {
		return err
	}
	blocks, err := s.agent.Call(ctx, "configure", map[string]any{"action": "noise", "noise_action": "auto_detect"})
	if err != nil {
		return err
	}
	s.print("agent", "configure {noise auto_detect}")
	s.print("", "  | "+short(blocks[0], 400))
	_, err = s.agent.Wait(ctx, 1, patience)
	return err
}

func (s *stage) active(ctx context.Context) error {
	s.chapter(ctx, "The agent enables notifications and continues to work")
	blocks, err := s.agent.Call(ctx, "configure_streaming", map[string]any{"action": "enable", "throttle_seconds": 2})
	if err != nil {
		return err
	}
	s.print("agent", "configure_streaming {enable, throttle 2 s}")
	s.print("", "  | "+blocks[0])

	posted := time.Now()
	s.posted++
	err = s.post(ctx, "/ci-result", event{
		"status": "failure", "source": "github-actions", "name": "test", "ref": "main", "commit": "4f2c1e9",
		"summary": "148 tests passed, 2 failed", "url": "https://ci.example/run/123", "duration_ms": 45000,
		"failures": []event{
			{"name": "TestCheckoutTotal", "message": "expected 42.00, got NaN"},
			{"name": "TestCheckoutRetries", "message": "expected 200, got 502"},
		},
	})
	if err != nil {
		return err
	}
	if err := s.notification(ctx, posted, "the CI result was posted"); err != nil {
		return err
	}

	s.chapter(ctx, "Three more alerts within the throttle: one batch")
	posted = time.Now()
	err = s.send(ctx,
		request("GET", "/api/stock/17", 503, 900), request("GET", "/api/prices", 500, 300),
		event{"kind": "security", "url": page, "security": event{"type": "csp", "message": "script-src blocked an inline script"}})
	if err != nil {
		return err
	}
	if err := s.notification(ctx, posted, "they were posted, at the end of the throttle"); err != nil {
		return err
	}
	_, err = s.observe(ctx, map[string]any{"what": "ci"})
	return err
}

func (s *stage) secrets(ctx context.Context) error {
	s.chapter(ctx, "A request with secrets: masked before it is stored")
	const secret = "correct-horse-battery-staple"
	err := s.send(ctx, event{"kind": "network", "network": event{
		"method": "POST", "url": "/api/login?session_token=" + secret, "status": 200,
		"request_headers": event{"Authorization": "Bearer " + secret}, "request_body": `{"user":"ada","password":"` + secret + `"}`,
	}})
	if err != nil {
		return err
	}
	var text string
	shown := harness.Poll(ctx, patience, func() bool { // the detector may not have read it yet
		var blocks []string
		blocks, err = s.agent.Call(ctx, "observe", map[string]any{"what": "network", "url": "/api/login"})
		text = strings.Join(blocks, "\n")
		return err != nil || strings.Contains(text, "/api/login?")
	})
	if err != nil {
		return err
	}
	if !shown {
		return fmt.Errorf("%w: got %s, want the request in it", errStory, text)
	}
	if strings.Contains(text, secret) || !strings.Contains(text, "[REDACTED]") {
		return fmt.Errorf("%w: got %s, want the secret masked", errStory, text)
	}
	s.print("agent", "observe {what: network, url: /api/login}")
	s.print("", "  | "+short(text, 600))
	return nil
}
