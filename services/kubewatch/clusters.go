package kubewatch

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

// maxClusters is how many clusters one kubewatch watches. Each needs memory for its objects.
const maxClusters = 50

// Cluster is a cluster to watch.
type Cluster struct {
	// Name is the name of the context.
	Name   string
	Config *rest.Config
	// Namespace is the namespace to watch, empty for all.
	Namespace string
}

// FindClusters returns the selected clusters: contexts of a kubeconfig, or the cluster that
// this process runs in if there is no kubeconfig. It sends no request to a cluster; its
// errors are about the settings.
func (f ClusterFlags) FindClusters() ([]Cluster, error) {
	if ns := f.Namespace; ns != "" {
		if wrong := validation.IsDNS1123Label(ns); len(wrong) > 0 {
			return nil, fmt.Errorf("--namespace %q: %s", ns, strings.Join(wrong, "; "))
		}
	}
	rules := &clientcmd.ClientConfigLoadingRules{Precedence: []string{clientcmd.RecommendedHomeFile}}
	if f.Kubeconfig != "" {
		rules.Precedence = filepath.SplitList(f.Kubeconfig)
		if err := checkReadable(rules.Precedence); err != nil {
			return nil, err
		}
	} else if _, err := os.Stat(clientcmd.RecommendedHomeFile); errors.Is(err, fs.ErrNotExist) {
		return f.inCluster()
	}
	config, err := rules.Load()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig %s: %w", strings.Join(rules.Precedence, ", "), err)
	}
	names, err := f.selectContexts(config)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", strings.Join(rules.Precedence, ", "), err)
	}
	var found []Cluster
	for _, name := range names {
		cfg, err := clientcmd.NewNonInteractiveClientConfig(*config, name, &clientcmd.ConfigOverrides{}, rules).ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("kubeconfig %s: context %s: %w", strings.Join(rules.Precedence, ", "), name, err)
		}
		found = append(found, Cluster{Name: name, Config: cfg, Namespace: f.Namespace})
	}
	return found, nil
}

// checkReadable returns an error for a kubeconfig that does not exist: clientcmd skips those.
func checkReadable(files []string) error {
	for _, file := range files {
		if file == "" { // as in "a::b"
			continue
		}
		if _, err := os.Stat(file); err != nil {
			return fmt.Errorf("read the kubeconfig: %w: set --kubeconfig or KUBECONFIG", err)
		}
	}
	return nil
}

// selectContexts returns the names of the selected contexts, each once.
func (f ClusterFlags) selectContexts(config *api.Config) ([]string, error) {
	var names []string
	switch {
	case f.AllContexts:
		names = slices.Sorted(maps.Keys(config.Contexts))
		if len(names) == 0 {
			return nil, errors.New("it has no context")
		}
	case len(f.Contexts) > 0:
		for _, name := range f.Contexts {
			if config.Contexts[name] == nil {
				return nil, fmt.Errorf("it has no context %q: there are %s", name, strings.Join(slices.Sorted(maps.Keys(config.Contexts)), ", "))
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	case config.Contexts[config.CurrentContext] == nil:
		return nil, errors.New("it has no current context: set --context")
	default:
		names = []string{config.CurrentContext}
	}
	if len(names) > maxClusters {
		return nil, fmt.Errorf("%d contexts are more than the %d that one kubewatch watches: select fewer with --context", len(names), maxClusters)
	}
	return names, nil
}

// inCluster returns the cluster that this process runs in.
func (f ClusterFlags) inCluster() ([]Cluster, error) {
	cfg, err := rest.InClusterConfig()
	switch {
	case errors.Is(err, rest.ErrNotInCluster):
		return nil, fmt.Errorf("there is no cluster to watch: %s does not exist, and this process runs in no pod: set --kubeconfig or KUBECONFIG", clientcmd.RecommendedHomeFile)
	case err != nil:
		return nil, fmt.Errorf("watch the cluster of this pod: %w: the pod needs a service account with automountServiceAccountToken", err)
	case f.AllContexts || len(f.Contexts) > 0:
		return nil, fmt.Errorf("--context and --all-contexts need a kubeconfig, and %s does not exist: unset them to watch the cluster of this pod", clientcmd.RecommendedHomeFile)
	}
	return []Cluster{{Name: f.ClusterName, Config: cfg, Namespace: f.Namespace}}, nil
}
