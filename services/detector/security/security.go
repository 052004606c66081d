// Package security says what there is to say about a security event. Each is
// an alert; the package remembers nothing.
package security

import (
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// AppendKey appends the key under which alerts about such an event are
// repetitions of each other: its type and what was blocked, or else what the
// message says.
func AppendKey(dst []byte, app string, s *telemetry.Security) []byte {
	dst = append(append(dst, "security:"...), app...)
	dst = append(append(append(dst, ':'), s.Type...), ':')
	return appendSubject(dst, s)
}

func appendSubject(dst []byte, s *telemetry.Security) []byte {
	if s.BlockedURL != "" {
		return template.AppendTarget(dst, s.BlockedURL)
	}
	return template.Append(dst, s.Message)
}

// Alert is what there is to say about an event that holds a security payload.
// Its URL is the page on which it happened, or what was blocked when the page
// is not known.
func Alert(event *telemetry.Event, key string) alert.Alert {
	s := event.Security
	a := alert.Alert{
		Severity: alert.Warning, Category: alert.Security, Source: alert.SourceSecurity, URL: event.URL,
		Title: "Security: " + s.Type, Detail: s.Message, Context: map[string]any{"type": s.Type}, DedupKey: key,
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
