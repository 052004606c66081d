package investigate

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/e2etest"
	"github.com/tocsin-bus/tocsin/e2e/harness/investigation"
	"github.com/tocsin-bus/tocsin/e2e/harness/kube"
	"github.com/tocsin-bus/tocsin/services/investigator/conclusion"
	"github.com/tocsin-bus/tocsin/services/investigator/model/modeltest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

const (
	// shop is the namespace of the trigger of docs/investigation.md.
	shop = "shop"
	// shopCluster is the context of the kubeconfig, which names the cluster.
	shopCluster = "shop-cluster"
	// oldHost is what is wrong: the ConfigMap names it, so the container's log does.
	oldHost = "db-old.shop.svc"
	// lastWords is the log line of the container that ended.
	lastWords = "cannot start: lookup " + oldHost + ": no such host"
	// newsTimeout bounds the wait for an alert of the client, on a busy machine.
	newsTimeout = time.Minute
	// kubernetesPackage is the folder of e2e/node with the MCP server.
	kubernetesPackage = "kubernetes-mcp-server"
	// providerKey is sent to the model server only.
	providerKey = "key-of-the-incident"
)

// incident is a pod in a crash loop that is investigated.
type incident struct {
	*investigation.System
	cluster *kube.Server
	// pod is the pod's name, and the subject of the script.
	pod    string
	client *harness.Agent
	// evidence holds the ids of calls and quotes that the model took from what it was sent.
	evidence []string
}

// TestIncident has a pod in a crash loop on a real Kubernetes API server. kubewatch sees it, a
// trigger starts a session, the model calls kubernetes-mcp-server from npm, and the conclusion
// reaches the MCP client that had been given the alert. The configuration is that of the runbook
// in docs/investigation.md, but for two addresses.
func TestIncident(t *testing.T) {
	t.Parallel()
	config := runbookConfig(t)
	in := &incident{cluster: kube.Start(t, kube.Options{Context: shopCluster})}
	kubelet, err := in.cluster.Kubelet(t.Context(), "shop-node")
	e2etest.NoError(t, err)
	t.Cleanup(func() { e2etest.NoError(t, kubelet.Close()) })
	in.System = investigation.Start(t, config, "ANTHROPIC_API_KEY="+providerKey, "KUBECONFIG="+in.cluster.Kubeconfig())
	in.AwaitServers(t)
	e2etest.Run(t, in.StateDir, "kubewatch", "--kubeconfig="+in.cluster.Kubeconfig())
	in.client = e2etest.Join(t, in.Bus, "claude-code")
	delivered := investigation.NewGate(t) // the model waits until the client has the alert
	in.pod = in.Models.Script(func(q turn) modeltest.Answer { return in.answer(t, q, delivered) })

	in.crash(t, kubelet)
	raised := in.raised(t)
	started := in.started(t)
	delivered.Open()
	session := in.Await(t, started.ID, "completed")

	in.checkTools(t, session.ID)
	in.checkConclusion(t, session)
	in.checkNews(t, raised, session)
}

// runbookConfig returns the configuration with the crashes' runbook. It runs the installed package
// in place of npx, which would ask the registry, and its provider is the test's.
func runbookConfig(t *testing.T) string {
	t.Helper()
	server := filepath.Join(e2etest.NodeModules(t, kubernetesPackage), "node_modules", ".bin", kubernetesPackage)
	if out, err := exec.CommandContext(t.Context(), server, "--version").CombinedOutput(); err != nil {
		t.Skipf("%s does not run here, perhaps npm has no build of it for %s/%s: %v\n%s", kubernetesPackage, runtime.GOOS, runtime.GOARCH, err, out)
	}
	config := e2etest.Block(t, "docs/investigation.md", "yaml", "\n  crashes:\n")
	for _, change := range [][2]string{
		{`command: npx, args: ["-y", "kubernetes-mcp-server@0.0.54", "--read-only"]`, `command: "` + server + `", args: ["--read-only"]`},
		{`api_key_env: ANTHROPIC_API_KEY,`, `api_key_env: ANTHROPIC_API_KEY, base_url: "$MODELS",`},
	} {
		if n := strings.Count(config, change[0]); n != 1 {
			t.Fatalf("docs/investigation.md: %q stands %d times in the configuration with the runbook, want once:\n%s", change[0], n, config)
		}
		config = strings.Replace(config, change[0], change[1], 1)
	}
	return config
}

// answer follows the runbook: the pod, the log of the container that ended, CI, and the ConfigMap
// that the log line leads to. Both quotes are taken from what the model was sent.
func (in *incident) answer(t *testing.T, q turn, delivered *investigation.Gate) modeltest.Answer {
	pod := map[string]any{"namespace": shop, "name": q.Subject}
	switch {
	case q.Agent == investigation.Executive:
		return q.Say("the ConfigMap names a database that is gone")
	case len(q.Results) == 0:
		return delivered.Hold(q.Call("kubernetes__pods_get", pod))
	case len(q.Results) == 1:
		pod["previous"], pod["tail"] = true, 100
		return q.Call("kubernetes__pods_log", pod)
	case len(q.Results) == 2:
		return q.Call("tocsin__ci", map[string]any{})
	case len(q.Results) == 3:
		return q.Call("kubernetes__resources_get", map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "namespace": shop, "name": "shop-config"})
	}
	var evidence []map[string]string
	for _, from := range []int{1, 3} {
		result := q.Results[from]
		lines := strings.Split(result.Text, "\n")
		n := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, oldHost) })
		if n < 0 {
			t.Errorf("result %s that the model is sent: got %q, want a line with %q", result.CallID, result.Text, oldHost)
			continue
		}
		in.evidence = append(in.evidence, result.CallID, lines[n])
		evidence = append(evidence, map[string]string{"claim": "The container looks for a host that is gone.", "call_id": result.CallID, "quote": lines[n]})
	}
	return q.Call(conclusion.ToolName, map[string]any{
		"cause": q.Subject + ": the ConfigMap shop-config names a database host that is gone", "confidence": "proven", "evidence": evidence,
		"suggested_change": map[string]string{"file": "deploy/shop/config.yaml", "description": "Name the new database host."},
	})
}

// crash writes what a kubelet makes of a pod whose container ends again and again.
func (in *incident) crash(t *testing.T, kubelet *kube.Kubelet) {
	t.Helper()
	ctx, c := t.Context(), in.cluster.Client().CoreV1()
	_, err := c.Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}}, metav1.CreateOptions{})
	e2etest.NoError(t, err)
	_, err = c.ConfigMaps(shop).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "shop-config"}, Data: map[string]string{"DATABASE_HOST": oldHost},
	}, metav1.CreateOptions{})
	e2etest.NoError(t, err)
	pod, err := in.cluster.Pod(ctx, shop, in.pod, map[string]string{"app": shop})
	e2etest.NoError(t, err)
	kubelet.SetLog(pod, "app", kube.Log{Current: "starting\n", Previous: "starting\n" + lastWords + "\n"})
	_, err = in.cluster.CrashLoop(ctx, pod, "app", 1, 3)
	e2etest.NoError(t, err)
}

// raised waits until the client has been given the alert, and returns it.
func (in *incident) raised(t *testing.T) alert.Alert {
	t.Helper()
	alerts, err := in.client.Wait(t.Context(), 1, newsTimeout)
	if err != nil {
		t.Fatalf("%v\n%s", err, in.Bus.Log)
	}
	got := alerts[0]
	e2etest.CheckAlert(t, got, alert.Alert{
		Category: alert.Kubernetes, Severity: alert.Error, App: shop, Title: "Crash loop: " + shop + "/" + in.pod + " (app)",
		Context: map[string]any{alert.ClusterKey: shopCluster, alert.NamespaceKey: shop},
	})
	if len(alerts) != 1 || got.Investigation.Ended() {
		t.Fatalf("the client is given %+v, want the one alert, before its investigation ends", alerts)
	}
	return got
}

// started waits for the session of the trigger.
func (in *incident) started(t *testing.T) investigation.Session {
	t.Helper()
	var list struct {
		Sessions []investigation.Session `json:"sessions"`
	}
	investigation.Wait(t, "the session of the trigger", func() bool {
		in.Get(t, "/sessions", &list)
		return len(list.Sessions) > 0
	})
	s := list.Sessions[0]
	if len(list.Sessions) != 1 || s.Author != "trigger" || s.ChainID != "crashes" || s.AlertType != "kubernetes" {
		t.Fatalf("sessions %+v, want one, of the author trigger, of the chain crashes, of the type kubernetes", list.Sessions)
	}
	return s
}

// checkTools checks which tools the model was offered, and what the cluster answered.
func (in *incident) checkTools(t *testing.T, id string) {
	t.Helper()
	first := in.Models.Asked(in.pod)[0]
	for name, want := range map[string]bool{
		"kubernetes__pods_get": true, "kubernetes__pods_log": true, "kubernetes__resources_get": true, "tocsin__ci": true, conclusion.ToolName: true,
		"kubernetes__configuration_view": false, "kubernetes__pods_delete": false,
	} {
		if got := slices.Contains(first.Tools, name); got != want {
			t.Errorf("the model is offered %s: %t, want %t: %q", name, got, want, first.Tools)
		}
	}
	if got := first.Header.Get("X-Api-Key"); got != providerKey {
		t.Errorf("the provider's key: got %q, want %q", got, providerKey)
	}
	results := map[string]string{}
	for _, st := range in.Trace(t, id).Stages {
		for _, e := range st.Executions {
			for _, call := range e.MCP {
				if call.InteractionType != "tool_call" {
					continue
				}
				var d investigation.MCPDetail
				in.Get(t, "/sessions/"+id+"/trace/mcp/"+call.ID, &d)
				if d.ErrorMessage != nil {
					t.Errorf("%s.%s: error %q, want none", d.ServerName, investigation.Value(d.ToolName), *d.ErrorMessage)
				}
				results[d.ServerName+"."+investigation.Value(d.ToolName)] = investigation.Value(d.ToolResult)
			}
		}
	}
	for tool, want := range map[string]string{
		"kubernetes.pods_get": "reason: CrashLoopBackOff", "kubernetes.pods_log": lastWords, "kubernetes.resources_get": "DATABASE_HOST: " + oldHost,
		"tocsin.ci": "",
	} {
		if got, called := results[tool]; !called || !strings.Contains(got, want) {
			t.Errorf("%s answers %q (called: %t), want %q in it", tool, got, called, want)
		}
	}
}

// checkConclusion checks that both quotes were found in what the cluster answered.
func (in *incident) checkConclusion(t *testing.T, s investigation.Session) {
	t.Helper()
	var evidence []string
	for _, e := range s.Conclusion.Evidence {
		evidence = append(evidence, e.CallID, e.Quote)
		if !e.Supported {
			t.Errorf("the evidence %+v is not supported, want the quote found in the result", e)
		}
	}
	in.Models.Locked(func() {
		if len(in.evidence) != 4 || !slices.Equal(evidence, in.evidence) {
			t.Errorf("evidence: got %q, want what the model quoted, %q", evidence, in.evidence)
		}
	})
	if s.Conclusion.Confidence != "proven" || !strings.Contains(s.Conclusion.Cause, "a database host that is gone") {
		t.Errorf("conclusion %+v, want it proven, with the cause", s.Conclusion)
	}
}

// checkNews checks that the client, which had been given the alert, gets its conclusion, once.
func (in *incident) checkNews(t *testing.T, raised alert.Alert, s investigation.Session) {
	t.Helper()
	var news []alert.Alert
	ended := func(a alert.Alert) bool { return a.Investigation.Ended() }
	if !harness.Poll(t.Context(), newsTimeout, func() bool {
		o, err := in.client.Observe(t.Context(), nil)
		e2etest.NoError(t, err)
		news = append(news, o.Alerts...)
		return slices.ContainsFunc(news, ended)
	}) {
		t.Fatalf("the client is given %+v within %s, want the end of the investigation", news, newsTimeout)
	}
	ends := slices.DeleteFunc(slices.Clone(news), func(a alert.Alert) bool { return !ended(a) })
	got := ends[0]
	if len(ends) != 1 || got.AsOriginal().ID != raised.AsOriginal().ID {
		t.Fatalf("the client is given %+v, want one end, of alert %s", ends, raised.ID)
	}
	i := got.Investigation
	want := alert.SuggestedChange{File: "deploy/shop/config.yaml", Description: "Name the new database host."}
	if i.SessionID != s.ID || i.Status != alert.InvestigationCompleted || i.Confidence != alert.Proven ||
		!strings.Contains(i.Summary, "the ConfigMap names a database that is gone") || !strings.HasSuffix(i.URL, "/sessions/"+s.ID) ||
		i.SuggestedChange == nil || i.SuggestedChange.File != want.File || i.SuggestedChange.Description != want.Description {
		t.Errorf("the client is given the investigation %+v with the change %+v, want session %s, completed, proven, with its summary, URL and the change %+v", i, i.SuggestedChange, s.ID, want)
	}
	if !strings.HasPrefix(got.Title, "Investigation completed: ") {
		t.Errorf("title %q, want that of an investigation's end", got.Title)
	}
}
