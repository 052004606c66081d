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

// Config says what a stream lets through and how often. Its JSON is what the
// tool that configures the stream answers.
type Config struct {
	Enabled bool `json:"enabled"`
	// Events are names of filters; an alert passes when one of them lets it.
	Events []string `json:"events"`
	// ThrottleSeconds is the least time between two notifications.
	ThrottleSeconds int `json:"throttle_seconds"`
	// SeverityMin is the least severity that passes.
	SeverityMin alert.Severity `json:"severity_min"`
	// URL is a substring that the URL of an alert about a URL must have.
	URL string `json:"url"`
}

// DefaultConfig is the configuration of a stream that was never enabled, and
// what an argument that isn't given stands for.
func DefaultConfig() Config {
	return Config{Events: []string{FilterAll}, ThrottleSeconds: 5, SeverityMin: alert.Warning}
}

// Validate returns an error that names the first argument that is not allowed,
// by the name that the tool's arguments have, and lists what is.
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
