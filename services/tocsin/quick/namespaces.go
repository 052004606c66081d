package quick

import (
	"fmt"

	"github.com/tocsin-bus/tocsin/shared/namespaces"
)

// NamespacesFlag is the flag of the gateway, for commands that take from the inbox of the
// gateway's client. With another value, such a command would deliver alerts that the
// gateway must not, or take alerts without delivering them.
type NamespacesFlag struct {
	KubernetesNamespaces []string `name:"kubernetes-namespaces" help:"Kubernetes namespaces whose alerts are delivered, as set for the client's gateway; _cluster stands for objects without a namespace. Default: all." env:"TOCSIN_KUBERNETES_NAMESPACES" placeholder:"NAMESPACE"`
}

// Set returns the namespaces, or an error that names the flag.
func (f NamespacesFlag) Set() (namespaces.Set, error) {
	s, err := namespaces.New(f.KubernetesNamespaces)
	if err != nil {
		return s, fmt.Errorf("--kubernetes-namespaces (TOCSIN_KUBERNETES_NAMESPACES) %w", err)
	}
	return s, nil
}
