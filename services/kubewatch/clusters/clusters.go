// Package clusters says which clusters are to be watched, and how each is reached:
// contexts of a kubeconfig, or the cluster that this process runs in.
//
// It asks no cluster anything.
package clusters

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// MaxClusters is how many one kubewatch watches: each costs memory for its objects.
const MaxClusters = 50

// DefaultName is what the cluster is called that this process runs in.
const DefaultName = "in-cluster"

// Cluster is one of them.
type Cluster struct {
	// Name is what people call it: the context's.
	Name   string
	Config *rest.Config
	// Namespace is the only one that is watched, or empty for all.
	Namespace string
}

// Choice is what the settings say.
type Choice struct {
	// Kubeconfig names files as KUBECONFIG does; empty means ~/.kube/config.
	Kubeconfig string
	// Contexts are wanted ones; none means the current one, or with All each that there is.
	Contexts []string
	All      bool
	// InClusterName is what the cluster is called that this process runs in. It is
	// looked for where no kubeconfig is named and none is there.
	InClusterName string
	// Namespace is the only one that is watched, or empty for all.
	Namespace string
}

// Find lists the clusters. Its errors say what is wrong with the settings.
func Find(choice Choice) ([]Cluster, error) {
	if ns := choice.Namespace; ns != "" {
		if wrong := validation.IsDNS1123Label(ns); len(wrong) > 0 {
			return nil, fmt.Errorf("--namespace %q: %s", ns, strings.Join(wrong, "; "))
		}
	}
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: []string{clientcmd.RecommendedHomeFile}}
	if choice.Kubeconfig != "" {
		rules.Precedence = filepath.SplitList(choice.Kubeconfig)
		if err := readable(rules.Precedence); err != nil {
			return nil, err
		}
	} else if _, err := os.Stat(clientcmd.RecommendedHomeFile); errors.Is(err, fs.ErrNotExist) {
		return inCluster(choice)
	}
	config, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig %s: %w", strings.Join(rules.Precedence, ", "), err)
	}
	names, err := contexts(choice, config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", strings.Join(rules.Precedence, ", "), err)
	}
	var found []Cluster
	for _, name := range names {
		cfg, err := clientcmd.NewNonInteractiveClientConfig(*config, name, &clientcmd.ConfigOverrides{}, rules).ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("kubeconfig %s: context %s: %w", strings.Join(rules.Precedence, ", "), name, err)
		}
		found = append(found, Cluster{Name: name, Config: cfg, Namespace: choice.Namespace})
	}
	return found, nil
}

// readable says which file that was named can't be read: clientcmd leaves out those
// that are not there.
func readable(files []string) error {
	for _, file := range files {
		if file == "" { // an empty part, as the shell leaves it
			continue
		}
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("read the kubeconfig: %w: name one by --kubeconfig or KUBECONFIG", err)
		}
	}
	return nil
}

// contexts are the names of those that are wanted, each once.
func contexts(choice Choice, config *api.Config) ([]string, error) {
	var names []string
	switch {
	case choice.All:
		names = slices.Sorted(maps.Keys(config.Contexts))
		if len(names) == 0 {
			return nil, errors.New("it has no context")
		}
	case len(choice.Contexts) > 0:
		for _, name := range choice.Contexts {
			if config.Contexts[name] == nil {
				return nil, fmt.Errorf("it has no context %q: there are %s", name, strings.Join(slices.Sorted(maps.Keys(config.Contexts)), ", "))
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	case config.Contexts[config.CurrentContext] == nil:
		return nil, errors.New("it has no current context: name one by --context")
	default:
		names = []string{config.CurrentContext}
	}
	if len(names) > MaxClusters {
		return nil, fmt.Errorf("%d contexts are more than the %d that one kubewatch watches: name fewer by --context", len(names), MaxClusters)
	}
	return names, nil
}

func inCluster(choice Choice) ([]Cluster, error) {
	cfg, err := rest.InClusterConfig()
	switch {
	case errors.Is(err, rest.ErrNotInCluster):
		return nil, fmt.Errorf("there is no cluster to watch: no %s, and this is no pod of a cluster: name a kubeconfig by --kubeconfig or KUBECONFIG", clientcmd.RecommendedHomeFile)
	case err != nil:
		return nil, fmt.Errorf("watch the cluster that this runs in: %w: its pod needs a service account with automountServiceAccountToken", err)
	case choice.All || len(choice.Contexts) > 0:
		return nil, fmt.Errorf("--context and --all-contexts need a kubeconfig, and there is no %s: this pod's own cluster is watched without them", clientcmd.RecommendedHomeFile)
	}
	return []Cluster{{Name: choice.InClusterName, Config: cfg, Namespace: choice.Namespace}}, nil
}
