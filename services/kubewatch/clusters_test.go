package kubewatch_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/kubewatch"
)

const kubeconfig = `apiVersion: v1
kind: Config
current-context: dev
clusters:
- {name: c1, cluster: {server: "https://one.example:6443"}}
- {name: c2, cluster: {server: "https://two.example:6443"}}
users:
- {name: u, user: {token: t}}
contexts:
- {name: dev, context: {cluster: c1, user: u}}
- {name: prod, context: {cluster: c2, user: u}}
`

const other = `apiVersion: v1
kind: Config
clusters:
- {name: c3, cluster: {server: "https://three.example:6443"}}
contexts:
- {name: edge, context: {cluster: c3}}
- {name: broken, context: {cluster: none}}
`

// TestFind checks the clusters that settings select, as name=server, or the error.
func TestFindClusters(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	one, two := write("one", kubeconfig), write("two", other)
	empty, broken := write("empty", ""), write("broken", "clusters: {")
	both := one + string(filepath.ListSeparator) + two
	for name, tt := range map[string]struct {
		flags kubewatch.ClusterFlags
		want  string // the clusters, or a part of the error
		fails bool
	}{
		"the current context":        {flags: kubewatch.ClusterFlags{Kubeconfig: one}, want: "dev=https://one.example:6443"},
		"one by name":                {flags: kubewatch.ClusterFlags{Kubeconfig: one, Contexts: []string{"prod"}}, want: "prod=https://two.example:6443"},
		"several, one of them twice": {flags: kubewatch.ClusterFlags{Kubeconfig: one, Contexts: []string{"prod", "dev", "prod"}}, want: "prod=https://two.example:6443 dev=https://one.example:6443"},
		"all":                        {flags: kubewatch.ClusterFlags{Kubeconfig: one, AllContexts: true}, want: "dev=https://one.example:6443 prod=https://two.example:6443"},
		"of two files":               {flags: kubewatch.ClusterFlags{Kubeconfig: both, Contexts: []string{"edge", "dev"}}, want: "edge=https://three.example:6443 dev=https://one.example:6443"},
		"no such context":            {flags: kubewatch.ClusterFlags{Kubeconfig: one, Contexts: []string{"stage"}}, want: `no context "stage": there are dev, prod`, fails: true},
		"no current context":         {flags: kubewatch.ClusterFlags{Kubeconfig: two}, want: "no current context: set --context", fails: true},
		"a context of no cluster":    {flags: kubewatch.ClusterFlags{Kubeconfig: two, Contexts: []string{"broken"}}, want: "context broken", fails: true},
		"one namespace":              {flags: kubewatch.ClusterFlags{Kubeconfig: one, Namespace: "shop"}, want: "dev=https://one.example:6443 in shop"},
		"no name of a namespace":     {flags: kubewatch.ClusterFlags{Kubeconfig: one, Namespace: "shop/web"}, want: "--namespace", fails: true},
		"no context at all":          {flags: kubewatch.ClusterFlags{Kubeconfig: empty, AllContexts: true}, want: "it has no context", fails: true},
		"no YAML":                    {flags: kubewatch.ClusterFlags{Kubeconfig: broken}, want: "read the kubeconfig", fails: true},
		"no such file":               {flags: kubewatch.ClusterFlags{Kubeconfig: filepath.Join(dir, "none")}, want: "set --kubeconfig or KUBECONFIG", fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := tt.flags.FindClusters()
			if tt.fails {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("FindClusters = error %v, want one with %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range found {
				text := c.Name + "=" + c.Config.Host
				if c.Namespace != "" {
					text += " in " + c.Namespace
				}
				got = append(got, text)
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("FindClusters = %q, want %q", got, tt.want)
			}
		})
	}
}
