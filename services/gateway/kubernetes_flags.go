package gateway

import (
	"cmp"
	"fmt"

	"github.com/tocsin-bus/tocsin/services/gateway/kubernetes"
	"github.com/tocsin-bus/tocsin/services/gateway/namespaces"
)

// maxLimit is the most subscriptions that can be allowed: each is a consumer on the
// bus, with up to aheadMessages under way.
const maxLimit = 10_000

// KubernetesFlags say what of Kubernetes a gateway shows, and how many subscriptions
// there may be.
type KubernetesFlags struct {
	Namespaces    []string `name:"kubernetes-namespaces" help:"Of Kubernetes, show only what is in these namespaces; _cluster stands for nodes and whatever else is in none. May be repeated, or a list with commas. Default: all." env:"TOCSIN_KUBERNETES_NAMESPACES" placeholder:"NAMESPACE"`
	MaxPerSession int      `name:"max-subscriptions-per-session" help:"How many subscriptions to Kubernetes one client may have. Default: 10." default:"10" env:"TOCSIN_MAX_SUBSCRIPTIONS_PER_SESSION" placeholder:"N"`
	MaxGlobal     int      `name:"max-subscriptions-global" help:"How many all clients of this gateway may have together. Default: 100." default:"100" env:"TOCSIN_MAX_SUBSCRIPTIONS_GLOBAL" placeholder:"N"`
}

// Validate says which setting is wrong and what is allowed.
func (f KubernetesFlags) Validate() error {
	_, err := f.config()
	return err
}

func (f KubernetesFlags) config() (KubernetesConfig, error) {
	shown, err := namespaces.New(f.Namespaces)
	if err != nil {
		return KubernetesConfig{}, fmt.Errorf("--kubernetes-namespaces (TOCSIN_KUBERNETES_NAMESPACES) %w", err)
	}
	for _, limit := range []struct {
		setting string
		n       int
	}{
		{"--max-subscriptions-per-session (TOCSIN_MAX_SUBSCRIPTIONS_PER_SESSION)", f.MaxPerSession},
		{"--max-subscriptions-global (TOCSIN_MAX_SUBSCRIPTIONS_GLOBAL)", f.MaxGlobal},
	} {
		if limit.n < 1 || limit.n > maxLimit {
			return KubernetesConfig{}, fmt.Errorf("%s must be between 1 and %d", limit.setting, maxLimit)
		}
	}
	return KubernetesConfig{Namespaces: shown, Limits: kubernetes.Limits{PerSession: f.MaxPerSession, Global: f.MaxGlobal}}, nil
}

// KubernetesConfig says what of Kubernetes a gateway shows.
type KubernetesConfig struct {
	// Namespaces are those that are shown; the zero value is all.
	Namespaces namespaces.Set
	// Limits is how many subscriptions there may be. What is zero is the default.
	Limits kubernetes.Limits
}

// quota is what all sessions that are served with this configuration share.
func (c KubernetesConfig) quota() *kubernetes.Quota {
	return kubernetes.NewQuota(kubernetes.Limits{
		PerSession: cmp.Or(c.Limits.PerSession, kubernetes.DefaultPerSession),
		Global:     cmp.Or(c.Limits.Global, kubernetes.DefaultGlobal),
	})
}
