// Package security is the detection rule for security events. Each is a finding; the
// package remembers nothing.
package security

import (
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// AppendKey appends the dedup key of the alert about an event: its type and what was blocked,
// or else the template of the message.
func AppendKey(dst []byte, app string, s *telemetry.Security) []byte {
	dst = append(append(dst, "security:"...), app...)
	dst = append(append(append(dst, ':'), s.Type...), ':')
	return appendSubject(dst, s)
}

// appendSubject appends what was blocked, or else the template of the message.
func appendSubject(dst []byte, s *telemetry.Security) []byte {
	if s.BlockedURL != "" {
		return template.AppendTarget(dst, s.BlockedURL)
	}
	return template.Append(dst, s.Message)
}

// Alert returns the alert about a security event, without its dedup key. Its URL is the page
// on which the event happened, or what was blocked if the page is not known.
func Alert(event *telemetry.Event) alert.Alert {
	s := event.Security
	a := alert.Alert{
		Severity: alert.Warning, Category: alert.Security, Source: alert.SourceSecurity, URL: event.URL,
		Title: "Security: " + s.Type, Detail: s.Message, Context: map[string]any{"type": s.Type},
	}
	if s.BlockedURL != "" {
		a.Title += " blocked"
		a.Context["blocked_url"] = s.BlockedURL
		if a.URL == "" {
			a.URL = s.BlockedURL
		}
		if a.Detail == "" {
			a.Detail = "Blocked " + s.BlockedURL
		}
	}
	if subject := appendSubject(nil, s); len(subject) > 0 {
		a.Title += " " + string(subject)
	}
	return a
}
