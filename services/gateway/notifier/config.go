package notifier

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Bounds on Config.ThrottleSeconds.
const (
	MinThrottleSeconds = 1
	MaxThrottleSeconds = 60
)

// Config says which alerts become notifications, and how often. Its JSON is part of the
// configure tool's results.
type Config struct {
	Enabled bool `json:"enabled"`
	// Events names event filters; an alert passes if it passes one of them.
	Events []string `json:"events"`
	// ThrottleSeconds is the least time between two notifications.
	ThrottleSeconds int `json:"throttle_seconds"`
	// SeverityMin is the least severity that passes.
	SeverityMin alert.Severity `json:"severity_min"`
	// URL is a substring that the URL must contain, of alerts that are about a URL.
	URL string `json:"url"`
}

// DefaultConfig returns the configuration of a notifier that was never enabled, which
// also has the defaults of missing arguments.
func DefaultConfig() Config {
	return Config{Events: []string{FilterAll}, ThrottleSeconds: 5, SeverityMin: alert.Warning}
}

// Validate returns an error that names the first invalid argument, as the tool names it,
// and the allowed values.
func (c Config) Validate() error {
	for _, name := range c.Events {
		if !slices.Contains(Filters(), name) {
			return fmt.Errorf("events must be of %s; %q is not", strings.Join(Filters(), ", "), name)
		}
	}
	if len(c.Events) == 0 {
		return fmt.Errorf("events must name at least one of %s", strings.Join(Filters(), ", "))
	}
	if c.ThrottleSeconds < MinThrottleSeconds || c.ThrottleSeconds > MaxThrottleSeconds {
		return fmt.Errorf("throttle_seconds must be between %d and %d", MinThrottleSeconds, MaxThrottleSeconds)
	}
	if c.SeverityMin.Rank() == 0 {
		return fmt.Errorf("severity_min must be one of info, warning, error")
	}
	return nil
}
