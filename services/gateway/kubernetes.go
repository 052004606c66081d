package gateway

import (
	"fmt"

	"github.com/tocsin-bus/tocsin/services/gateway/namespaces"
)

// KubernetesFlags say what of Kubernetes a gateway shows.
type KubernetesFlags struct {
	Namespaces []string `name:"kubernetes-namespaces" help:"Of Kubernetes, show only what is in these namespaces; _cluster stands for nodes and whatever else is in none. May be repeated, or a list with commas. Default: all." env:"TOCSIN_KUBERNETES_NAMESPACES" placeholder:"NAMESPACE"`
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
	return KubernetesConfig{Namespaces: shown}, nil
}

// KubernetesConfig says what of Kubernetes a gateway shows.
type KubernetesConfig struct {
	// Namespaces are those that are shown; the zero value is all.
	Namespaces namespaces.Set
}
