package kubernetes

import (
	"cmp"
	"fmt"

	"github.com/tocsin-bus/tocsin/shared/namespaces"
)

// maxLimit is the largest limit of subscriptions that can be set: each is a consumer on
// the bus, with up to maxPrefetched messages in memory.
const maxLimit = 10_000

// Flags are a gateway's settings for Kubernetes.
type Flags struct {
	Namespaces    []string `name:"kubernetes-namespaces" help:"Kubernetes namespaces to show; _cluster stands for nodes and other objects without a namespace. Repeatable, or a comma-separated list. Default: all." env:"TOCSIN_KUBERNETES_NAMESPACES" placeholder:"NAMESPACE"`
	MaxPerSession int      `name:"max-subscriptions-per-session" help:"Kubernetes subscriptions allowed for one client. Default: 10." default:"10" env:"TOCSIN_MAX_SUBSCRIPTIONS_PER_SESSION" placeholder:"N"`
	MaxGlobal     int      `name:"max-subscriptions-global" help:"Kubernetes subscriptions allowed for all clients of this gateway together. Default: 100." default:"100" env:"TOCSIN_MAX_SUBSCRIPTIONS_GLOBAL" placeholder:"N"`
}

// Validate returns which setting is wrong and what is allowed.
func (f Flags) Validate() error {
	_, err := f.Config()
	return err
}

// Config returns the settings in checked form.
func (f Flags) Config() (Config, error) {
	shown, err := namespaces.New(f.Namespaces)
	if err != nil {
		return Config{}, fmt.Errorf("--kubernetes-namespaces (TOCSIN_KUBERNETES_NAMESPACES) %w", err)
	}
	for _, limit := range []struct {
		setting string
		n       int
	}{
		{"--max-subscriptions-per-session (TOCSIN_MAX_SUBSCRIPTIONS_PER_SESSION)", f.MaxPerSession},
		{"--max-subscriptions-global (TOCSIN_MAX_SUBSCRIPTIONS_GLOBAL)", f.MaxGlobal},
	} {
		if limit.n < 1 || limit.n > maxLimit {
			return Config{}, fmt.Errorf("%s must be between 1 and %d", limit.setting, maxLimit)
		}
	}
	return Config{Namespaces: shown, Limits: Limits{PerSession: f.MaxPerSession, Global: f.MaxGlobal}}, nil
}

// Config limits what a gateway shows of Kubernetes.
type Config struct {
	// Namespaces are those that are shown; the zero value is all.
	Namespaces namespaces.Set
	// Limits bound subscriptions. A zero limit is the default.
	Limits Limits
}

// NewQuota returns the quota that all clients with this configuration share.
func (c Config) NewQuota() *Quota {
	return NewQuota(Limits{
		PerSession: cmp.Or(c.Limits.PerSession, DefaultPerSession),
		Global:     cmp.Or(c.Limits.Global, DefaultGlobal),
	})
}
