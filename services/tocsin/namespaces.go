package main

import (
	"fmt"

	"github.com/tocsin-bus/tocsin/services/gateway/namespaces"
)

// namespacesFlag is that of a gateway, for what reads its client's inbox beside it: a
// reader that shows more would tell what the gateway may not, one that shows less would
// take away what the gateway is to tell.
type namespacesFlag struct {
	KubernetesNamespaces []string `name:"kubernetes-namespaces" help:"Of Kubernetes, tell only alerts of these namespaces, as the client's gateway does; _cluster stands for what is in none. Default: all." env:"TOCSIN_KUBERNETES_NAMESPACES" placeholder:"NAMESPACE"`
}

func (f namespacesFlag) set() (namespaces.Set, error) {
	s, err := namespaces.New(f.KubernetesNamespaces)
	if err != nil {
		return s, fmt.Errorf("--kubernetes-namespaces (TOCSIN_KUBERNETES_NAMESPACES) %w", err)
	}
	return s, nil
}
