package config_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
)

var update = flag.Bool("update", false, "rewrite the table of keys")

const needle = "needle-7f3a"

func env(name string) (string, bool) {
	if name == "ABSENT" {
		return "", false
	}
	return needle, true
}

// base is a valid file of six lines.
const base = `llm_providers:
  a: {type: openai, model: m, base_url: "http://127.0.0.1:1/v1"}
  b: {type: anthropic, model: m, api_key_env: KEY, price: {input: 1, output: 2}}
mcp_servers:
  s: {transport: {type: stdio, command: run}, tools: [get, "list_*"], selectable: true}
  t: {transport: {type: stdio, command: run}}
`

func TestBadFiles(t *testing.T) {
	chain := func(rest string) string {
		return base + "defaults: {llm_provider: a}\nagent_chains:\n  c:\n    stages: [{name: s, agents: [{name: GeneralAgent}]}]\n" + rest
	}
	for name, test := range map[string]struct {
		file string
		want string
	}{
		"no YAML":           {"a: [", "f:1: not YAML: did not find expected node content"},
		"empty":             {"", "f: defaults.llm_provider: is missing: the built-in chain needs a provider"},
		"no UTF-8":          {"a: \xff", "f: is not UTF-8"},
		"unknown key":       {base + "defaults: {llm_provder: a, llm_provider: a}", "f:7: defaults.llm_provder: is not known: did you mean llm_provider?"},
		"twice":             {base + "defaults:\n  llm_provider: a\n  llm_provider: b", "f:9: defaults.llm_provider: is there twice: first in line 8"},
		"missing provider":  {base + "defaults: {llm_provider: x1}", `f:7: defaults.llm_provider: there is no provider "x1": want one of a, b`},
		"absent variable":   {base + "defaults: {llm_provider: a, runbook: \"{{.ABSENT}}\"}", "f:7: defaults.runbook: the environment variable ABSENT is not set"},
		"variable's form":   {base + "defaults: {llm_provider: a, runbook: \"{{KEY}}\"}", "f:7: defaults.runbook: {{KEY}} is no environment variable: want {{.KEY}}"},
		"variable's name":   {base + "defaults: {llm_provider: a}\nsystem: {dashboard_url: \"http://{{.HOST-NAME}}:1\"}", "f:8: system.dashboard_url: has a {{. that names no environment variable: want {{.NAME}}, with letters, digits and _"},
		"variable's end":    {base + "defaults: {llm_provider: a}\nsystem: {dashboard_url: \"http://{{.KEY}:1\"}", "f:8: system.dashboard_url: has a {{. that names no environment variable: want {{.NAME}}, with letters, digits and _"},
		"secret not shown":  {base + "defaults: {llm_provider: \"{{.KEY}}\"}", `f:7: defaults.llm_provider: there is no provider "{{.KEY}}": want one of a, b`},
		"unquoted variable": {base + "defaults: {llm_provider: a, runbook: {{.KEY}}}", `f:7: defaults.runbook: is a mapping: want a text (put "{{.NAME}}" in quotes)`},
		"duration":          {base + "defaults: {llm_provider: a, tool_timeout: 30}", `f:7: defaults.tool_timeout: "30" is not a duration: want a number with a unit, such as 30s, 5m or 365d`},
		"range":             {base + "defaults: {llm_provider: a}\nqueue: {worker_count: 0}", "f:8: queue.worker_count: is 0: want 1 to 1000"},
		"size":              {base + "defaults: {llm_provider: a}\nsystem: {retention: {max_bytes: 1GB}}", `f:8: system.retention.max_bytes: "1GB" is not a size: want a whole number with a unit, such as 512MiB or 1GiB`},
		"enum":              {base + "defaults: {llm_provider: a, success_policy: al}", `f:7: defaults.success_policy: "al" is not known: did you mean all?`},
		"later transport":   {base + "  u: {transport: {type: sse}}\ndefaults: {llm_provider: a}", `f:7: mcp_servers.u.transport.type: "sse" is not supported yet: want stdio or http`},
		"approval pattern":  {base + "  u: {transport: {type: stdio, command: x}, allow_writes: true, no_approval: ['[']}\ndefaults: {llm_provider: a}", "f:7: mcp_servers.u.no_approval[0]: is no pattern: want the name of a tool, in which * stands for any text"},
		"later slack":       {base + "defaults: {llm_provider: a}\nsystem: {slack: {enabled: true}}", "f:8: system.slack.enabled: is not supported yet: leave it out"},
		"later auth":        {base + "defaults: {llm_provider: a}\nauth: {roles: {}}", "f:8: auth: is not supported yet: leave it out"},
		"later chat":        {chain("    chat: {enabled: true}"), "f:11: agent_chains.c.chat.enabled: is not supported yet: leave it out"},
		"later provider": {"defaults: {llm_provider: g}\nllm_providers:\n  g: {type: google, model: m, api_key_env: KEY}",
			`f:3: llm_providers.g.type: "google" is not supported yet: want openai or anthropic`},
		"cost without price": {chain("    limits: {max_cost_usd: 1}"), "f:11: agent_chains.c.limits.max_cost_usd: needs a price of the provider a: add llm_providers.a.price"},
		"own fallback":       {chain("    llm_provider: b\n    fallback_providers: [a, b]"), `f:12: agent_chains.c.fallback_providers[1]: "b" would be its own fallback: want another provider`},
		"circle":             {chain("    fallback_providers: [b, b]"), `f:11: agent_chains.c.fallback_providers[1]: "b" is there twice: fallbacks would go in a circle`},
		"type twice":         {chain("    alert_types: [x]\n  d:\n    alert_types: [x]\n    stages: [{name: s, agents: [{name: ChatAgent}]}]"), `f:13: agent_chains.d.alert_types[0]: "x" is in the chain c too: want each type in one chain, once`},
		"missing server":     {chain("    mcp_servers: [z9]"), `f:11: agent_chains.c.mcp_servers[0]: there is no server "z9": want one of tocsin, s, t`},
		"missing agent": {base + "defaults: {llm_provider: a}\nagent_chains:\n  c:\n    stages:\n      - {name: s, agents: [{name: GeneralAgnt}]}",
			`f:11: agent_chains.c.stages[0].agents[0].name: there is no agent "GeneralAgnt": did you mean GeneralAgent?`},
		"replicas of several": {base + "defaults: {llm_provider: a}\nagent_chains:\n  c:\n    stages:\n      - {name: s, replicas: 2, agents: [{name: ChatAgent}, {name: GeneralAgent}]}",
			"f:11: agent_chains.c.stages[0].replicas: is for a stage with one agent: want either replicas or several agents"},
		"agent's provider": {base + "defaults: {llm_provider: a}\nagents: {x: {llm_provider: a}}", "f:8: agents.x.llm_provider: is not known: want one of description, mcp_servers, custom_instructions, max_iterations"},
		"synthesis without a provider": {base + "agent_chains:\n  c:\n    executive_summary_provider: a\n    stages:\n      - {name: s, replicas: 2, agents: [{name: GeneralAgent, llm_provider: a}]}",
			"f:11: agent_chains.c.stages[0].synthesis.llm_provider: is missing: want it here, in the stage, the chain or defaults"},
		"synthesis without an agent": {base + "defaults: {llm_provider: a}\nagent_chains:\n  c:\n    stages:\n      - {name: s, replicas: 2, agents: [{name: GeneralAgent}], synthesis: {agent: \"\"}}",
			"f:11: agent_chains.c.stages[0].synthesis.agent: is empty: want an agent"},
		"synthesis without a price": {base + "defaults: {llm_provider: a}\nagent_chains:\n  c:\n    executive_summary_provider: b\n    limits: {max_cost_usd: 1}\n    stages:\n      - {name: s, replicas: 2, agents: [{name: ChatAgent, llm_provider: b}]}",
			"f:11: agent_chains.c.limits.max_cost_usd: needs a price of the provider a: add llm_providers.a.price"},
		"empty transport": {base + "  u: {transport: }\ndefaults: {llm_provider: a}", "f:7: mcp_servers.u.transport.type: is missing: want a process or streamable HTTP"},
		"small budget": {"defaults: {llm_provider: g}\nllm_providers:\n  g: {type: anthropic, model: m, api_key_env: KEY, thinking: {budget_tokens: 1000}}",
			"f:3: llm_providers.g.thinking.budget_tokens: is 1000: want 0, or at least 1024 with type anthropic"},
		"address with a query": {"defaults: {llm_provider: g}\nllm_providers:\n  g: {type: openai, model: m, base_url: \"https://example.com/v1?x=1\"}",
			"f:3: llm_providers.g.base_url: has a query or a fragment: want the address without"},
		"address without a host": {"defaults: {llm_provider: g}\nllm_providers:\n  g: {type: openai, model: m, base_url: \"http://:80/v1\"}",
			"f:3: llm_providers.g.base_url: is no address: want http:// or https:// and a host"},
		"name below localhost": {"defaults: {llm_provider: g}\nllm_providers:\n  g: {type: openai, model: m, api_key_env: KEY, base_url: \"http://x.localhost/v1\"}",
			"f:3: llm_providers.g.base_url: would send a secret without encryption: want https://, or http:// on loopback"},
		"plain http with a variable in the query": {base + "  u: {transport: {type: http, url: \"http://example.com/mcp?key={{.KEY}}\"}}\ndefaults: {llm_provider: a}",
			"f:7: mcp_servers.u.transport.url: would send a secret without encryption: want https://, or http:// on loopback"},
		"pattern of tools": {base + "  u: {transport: {type: stdio, command: x}, read_only_tools: [\"[\"]}\ndefaults: {llm_provider: a}",
			"f:7: mcp_servers.u.read_only_tools[0]: is no pattern: want the name of a tool, in which * stands for any text"},
		"type in a trigger": {base + "defaults: {llm_provider: a}\ntriggers:\n  - {match: {type: x}, chain: default}",
			"f:9: triggers[0].match.type: is not known: want one of category, severity_min, app, cluster, namespace, source, title"},
		"missing chain": {base + "defaults: {llm_provider: a}\ntriggers:\n  - {match: {app: x}, chain: defalt}", `f:9: triggers[0].chain: there is no chain "defalt": did you mean default?`},
		"plain http": {"defaults: {llm_provider: g}\nllm_providers:\n  g: {type: openai, model: m, api_key_env: KEY, base_url: \"http://example.com/v1\"}",
			"f:3: llm_providers.g.base_url: would send a secret without encryption: want https://, or http:// on loopback"},
		"absent key":      {"defaults: {llm_provider: g}\nllm_providers:\n  g: {type: openai, model: m, api_key_env: ABSENT}", "f:3: llm_providers.g.api_key_env: the environment variable ABSENT is not set"},
		"reserved server": {base + "  tocsin: {transport: {type: stdio, command: x}}\ndefaults: {llm_provider: a}", "f:7: mcp_servers.tocsin: is built in: choose another name"},
		"server's name":   {base + "  A__b: {transport: {type: stdio, command: x}}\ndefaults: {llm_provider: a}", "f:7: mcp_servers.A__b: is no name of a server: want small letters, digits, - and single _ between them, at most 32 characters"},
		"other transport": {base + "  u: {transport: {type: stdio, command: x, url: \"https://x\"}}\ndefaults: {llm_provider: a}", "f:7: mcp_servers.u.transport.url: has no effect with type stdio: leave it out"},
		"custom pattern":  {base + "  u: {transport: {type: stdio, command: x}, data_masking: {custom_patterns: [{name: x, pattern: \"(\"}]}}\ndefaults: {llm_provider: a}", "f:7: mcp_servers.u.data_masking.custom_patterns[0].pattern: is no regular expression (RE2)"},
		"every error": {"queue: {worker_count: x}\nsystem: {github: {token_env: A}}\ndefaults: {llm_provider: q}",
			"f:1: queue.worker_count: \"x\" is not a whole number\nf:2: system.github.token_env: is not supported yet: leave it out\nf:3: defaults.llm_provider: there is no provider \"q\": there is none"},
		"circular alias": {"defaults: &x {runbook: *x}", "f:1: defaults.llm_provider: is missing: the built-in chain needs a provider\nf:1: defaults.runbook: is a mapping: want a text (put \"{{.NAME}}\" in quotes)"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := config.Parse([]byte(test.file), "f", env)
			if err == nil {
				t.Fatalf("got no error, want %s", test.want)
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
			if strings.Contains(err.Error(), needle) {
				t.Errorf("got the value of a variable in %q, want it hidden", err)
			}
		})
	}
}

// A key in the place of the name of its variable is not shown.
func TestKeyForItsName(t *testing.T) {
	key := "ghp_" + strings.Repeat("a1B2", 9)
	file := "defaults: {llm_provider: g}\nllm_providers:\n  g: {type: openai, model: m, api_key_env: " + key + "}"
	_, _, err := config.Parse([]byte(file), "f", func(string) (string, bool) { return "", false })
	want := "f:3: llm_providers.g.api_key_env: is no name of an environment variable: want the name, not the key"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestWarnings(t *testing.T) {
	file := base + "  u: {transport: {type: stdio, command: npx, args: [-y, pkg]}}\ndefaults: {llm_provider: a, llm_backend: x}\nqueue:\n  orphan_threshold: 5m\n  poll_interval: 1s\n"
	_, warnings, err := config.Parse([]byte(file), "f", env)
	if err != nil {
		t.Fatal(err)
	}
	want := `f:7: mcp_servers.u.transport.args: npx -y without a version runs the newest one, without a check: want package@version
f:8: defaults.llm_backend: has no effect: the provider's type decides the protocol
f:10: queue.orphan_threshold: has no effect: another worker goes on within 5 s, without a setting
f:11: queue.poll_interval: has no effect: workers get sessions at once, without polling`
	if diff := cmp.Diff(want, warnings.String()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func full(t *testing.T) *config.Config {
	t.Helper()
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	c, warnings, err := config.Parse(data, "full.yaml", env)
	if err != nil {
		t.Fatal(err)
	}
	var warned []string
	for _, w := range warnings {
		warned = append(warned, w.Path+" "+w.Text)
	}
	if diff := cmp.Diff([]string(nil), warned); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	return c
}

// TestDeployed checks that the examples of deploy/ are valid.
func TestDeployed(t *testing.T) {
	for _, file := range []string{"compose/investigator.yaml", "kubernetes/investigator/configuration.yaml"} {
		data, err := os.ReadFile("../../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		c, warnings, err := config.Parse(data, file, env)
		if err != nil {
			t.Errorf("%s: %v, want no error", file, err)
			continue
		}
		if len(warnings) > 0 {
			t.Errorf("%s: warnings %v, want none", file, warnings)
		}
		if plan, err := c.Plan(config.PlanRequest{AlertType: "incident"}); err != nil || plan.Chain != "incident" {
			t.Errorf("%s: the plan of an incident is %q, %v, want incident", file, plan.Chain, err)
		}
	}
}

// TestSessionURL checks which dashboard links name, with and without a slash at the end.
func TestSessionURL(t *testing.T) {
	for _, c := range []struct{ name, file, runs, want string }{
		{"neither", "", "", "http://127.0.0.1:7480/api/v1/sessions/x"},
		{"a dashboard that runs", "", "http://127.0.0.1:9", "http://127.0.0.1:9/api/v1/sessions/x"},
		{"the file", "https://alerts.example/tocsin/", "", "https://alerts.example/tocsin/api/v1/sessions/x"},
		{"both", "https://alerts.example", "http://127.0.0.1:9", "https://alerts.example/api/v1/sessions/x"},
		{"the file with the default", "http://127.0.0.1:7480", "http://127.0.0.1:9", "http://127.0.0.1:7480/api/v1/sessions/x"},
	} {
		text := "llm_providers: { local: { type: openai, model: m, base_url: \"http://127.0.0.1:1/v1\" } }\ndefaults: { llm_provider: local }\n"
		if c.file != "" {
			text += "system: { dashboard_url: \"" + c.file + "\" }\n"
		}
		cfg, _, err := config.Parse([]byte(text), "f", env)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		cfg.UseDashboard(c.runs)
		if got := cfg.SessionURL("x"); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestPlan(t *testing.T) {
	plan, err := full(t).Plan(config.PlanRequest{AlertType: "crash"})
	if err != nil {
		t.Fatal(err)
	}
	first := plan.Stages[0]
	type agent struct{ Name, Provider, Fallbacks, Servers string }
	show := func(a session.Agent) agent {
		var fallbacks, servers []string
		for _, f := range a.Fallbacks {
			fallbacks = append(fallbacks, f.Name)
		}
		for _, s := range a.Servers {
			servers = append(servers, s.Name)
		}
		return agent{a.Name, a.Provider.Name, strings.Join(fallbacks, ","), strings.Join(servers, ",")}
	}
	got := []agent{show(first.Agents[0]), show(first.Agents[1]), show(*first.Synthesis), show(plan.Stages[1].Agents[0])}
	want := []agent{
		{"triage-1", "claude", "gpt", "kubernetes,tocsin"}, {"triage-2", "gpt", "", "kubernetes,tocsin"},
		{"SynthesisAgent", "claude", "gpt", ""}, {"writer", "claude", "gpt", "tocsin"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("agents (-want +got):\n%s", diff)
	}
	if first.Parallel != session.MultiAgent || plan.Summary.Name != "gpt" || plan.Timeout != 40*time.Minute || plan.ChatEnabled {
		t.Errorf("got %+v, want several agents, the summary by gpt, 40 minutes and no chat", plan)
	}
	plan, err = full(t).Plan(config.PlanRequest{AlertType: "other"})
	if err != nil || plan.Chain != config.BuiltinChain || plan.Stages[0].Agents[0].Name != "GeneralAgent" {
		t.Errorf("got %v and %+v, want the built-in chain", err, plan)
	}
}

// TestBuiltinAgents: of a built-in agent an entry of the file replaces what it names.
func TestBuiltinAgents(t *testing.T) {
	for name, test := range map[string]struct {
		entry        string
		servers      []string
		instructions string
	}{
		"no entry":     {"", []string{config.BuiltinServer}, "Investigate any kind of alert"},
		"servers":      {"agents: {GeneralAgent: {mcp_servers: [s]}}\n", []string{"s"}, "Investigate any kind of alert"},
		"no servers":   {"agents: {GeneralAgent: {mcp_servers: []}}\n", nil, "Investigate any kind of alert"},
		"instructions": {"agents: {GeneralAgent: {custom_instructions: look}}\n", []string{config.BuiltinServer}, "look"},
	} {
		c, _, err := config.Parse([]byte(base+test.entry+"defaults: {llm_provider: a}\n"), "f", env)
		if err != nil {
			t.Errorf("%s: %v, want a configuration", name, err)
			continue
		}
		plan, err := c.Plan(config.PlanRequest{})
		if err != nil {
			t.Errorf("%s: %v, want a plan", name, err)
			continue
		}
		agent := plan.Stages[0].Agents[0]
		var got []string
		for _, s := range agent.Servers {
			got = append(got, s.Name)
		}
		if !slices.Equal(got, test.servers) || !strings.HasPrefix(agent.Instructions, test.instructions) {
			t.Errorf("%s: the agent of the chain default has the servers %q and the instructions %q, want %q and %q", name, got, agent.Instructions, test.servers, test.instructions)
		}
	}
}

// TestServerSecrets: what a transport takes from the environment may be secret.
func TestServerSecrets(t *testing.T) {
	text := base + "defaults: {llm_provider: a, runbook: 'see {{.RUNBOOK}}'}\n"
	text = strings.Replace(text, "mcp_servers:\n", "mcp_servers:\n"+`  args: {instructions: "{{.WORDS}}", transport: {type: stdio, command: "{{.PROGRAM}}", args: [plain, "--a={{.ONE}},{{.TWO}}"], env: {A: "{{.ONE}}"}}}
  headers: {transport: {type: http, url: "http://127.0.0.1:1/{{.PATH}}", bearer_token: plain, custom_headers: {X: "Basic {{.HEADER}}"}}}
`, 1)
	c, _, err := config.Parse([]byte(text), "f", func(name string) (string, bool) { return "value-of-" + name, true })
	if err != nil {
		t.Fatal(err)
	}
	for server, want := range map[string]string{
		"args": "value-of-ONE value-of-PROGRAM value-of-TWO", "headers": "value-of-HEADER value-of-PATH", "s": "", "arg": "",
	} {
		if got := strings.Join(c.ServerSecrets(server), " "); got != want {
			t.Errorf("the secrets of %s are %q, want %q", server, got, want)
		}
	}
}

// TestPlainValuesAreNoSecrets: a server's results are full of paths, names of clusters and hosts. They
// are no secrets where a name and their form agree on that.
func TestPlainValuesAreNoSecrets(t *testing.T) {
	for _, test := range []struct {
		transport, variable, value string
		secret                     bool
	}{
		{`type: stdio, command: x, env: {KUBECONFIG: "{{.WHERE}}"}`, "WHERE", "/home/me/.kube/config", false},
		{`type: stdio, command: x, env: {WHERE: "{{.KUBECONFIG}}"}`, "KUBECONFIG", "/home/me/a:/home/me/b", false},
		{`type: stdio, command: x, args: ["--kubeconfig", "{{.KUBECONFIG}}"]`, "KUBECONFIG", "~/.kube/config", false},
		{`type: stdio, command: x, args: ["--namespace={{.SHOP_NAMESPACE}}"]`, "SHOP_NAMESPACE", "payments", false},
		{`type: stdio, command: x, args: ["--context", "{{.KUBE_CONTEXT}}"]`, "KUBE_CONTEXT", "arn:aws:eks:eu-west-1:1234:cluster/shop", false},
		{`type: stdio, command: x, env: {AWS_REGION: "{{.AWS_REGION}}"}`, "AWS_REGION", "eu-west-1", false},
		{`type: stdio, command: x, env: {PROMETHEUS_URL: "{{.PROMETHEUS_URL}}"}`, "PROMETHEUS_URL", "http://prometheus.monitoring:9090/", false},
		{`type: http, url: "https://{{.METRICS_HOST}}/mcp"`, "METRICS_HOST", "metrics.example", false},

		{`type: stdio, command: x, env: {KUBECONFIG: "{{.KUBECONFIG}}"}`, "KUBECONFIG", "apiVersion: v1, token=needle", true},
		{`type: stdio, command: x, env: {TEAM: "{{.TEAM}}"}`, "TEAM", "payments", true},
		{`type: stdio, command: x, env: {TEAM: "{{.TEAM}}"}`, "TEAM", "/home/me/.kube/config", true},
		{`type: stdio, command: x, env: {API_TOKEN: "{{.CLUSTER}}"}`, "CLUSTER", "needle-4711", true},
		{`type: stdio, command: x, env: {CLUSTER: "{{.API_TOKEN}}"}`, "API_TOKEN", "needle-4711", true},
		{`type: stdio, command: x, env: {CLUSTER: "{{.CLUSTER}}"}`, "CLUSTER", "ghp_" + strings.Repeat("aB3", 12), true},
		{`type: stdio, command: x, env: {CLUSTER: "{{.CLUSTER}}"}`, "CLUSTER", "two words", true},
		{`type: stdio, command: x, env: {HOOK_URL: "{{.HOOK_URL}}"}`, "HOOK_URL", "https://mcp.example/s/needle4711/mcp", true},
		{`type: stdio, command: x, env: {DATABASE_URL: "{{.DATABASE_URL}}"}`, "DATABASE_URL", "postgres://me:needle@db.internal", true},
		{`type: stdio, command: x, env: {METRICS_URL: "{{.METRICS_URL}}"}`, "METRICS_URL", "https://metrics.example?key=needle", true},
		{`type: http, url: "https://metrics.example/mcp?cluster={{.CLUSTER}}"`, "CLUSTER", "needle-4711", true},
		{`type: http, url: "https://metrics.example/mcp", custom_headers: {X-Cluster: "{{.CLUSTER}}"}`, "CLUSTER", "needle-4711", true},
		{`type: http, url: "https://metrics.example/mcp", bearer_token: "{{.CLUSTER}}"`, "CLUSTER", "needle-4711", true},
	} {
		text := base + "defaults: {llm_provider: a}\n"
		text = strings.Replace(text, "mcp_servers:\n", "mcp_servers:\n  one: {transport: {"+test.transport+"}}\n", 1)
		c, _, err := config.Parse([]byte(text), "f", func(name string) (string, bool) {
			if name == test.variable {
				return test.value, true
			}
			return env(name)
		})
		if err != nil {
			t.Errorf("%s: %v, want a configuration", test.transport, err)
			continue
		}
		if got := c.ServerSecrets("one"); slices.Contains(got, test.value) != test.secret {
			t.Errorf("%s with %s=%s: the secrets are %q, want it among them: %v", test.transport, test.variable, test.value, got, test.secret)
		}
	}
}

// TestPriceOfCachedInput: what has no price of its own costs as much as other input.
func TestPriceOfCachedInput(t *testing.T) {
	for entry, want := range map[string]float64{
		"price: {input: 3, output: 15}":                    3,
		"price: {input: 3, cached_input: 0.3, output: 15}": 0.3,
		"price: {input: 3, cached_input: 0, output: 15}":   0,
	} {
		text := "llm_providers: {a: {type: openai, model: m, base_url: \"http://127.0.0.1:1/v1\", " + entry + "}}\ndefaults: {llm_provider: a}\n"
		c, _, err := config.Parse([]byte(text), "f", env)
		if err != nil {
			t.Errorf("%s: %v, want a configuration", entry, err)
			continue
		}
		plan, err := c.Plan(config.PlanRequest{})
		if err != nil || plan.Summary.Price == nil || plan.Summary.Price.CachedInput != want {
			t.Errorf("%s: the price is %+v (error %v), want %v for cached input", entry, plan.Summary.Price, err, want)
		}
	}
}

func TestPlanRefusals(t *testing.T) {
	c := full(t)
	for name, test := range map[string]struct {
		req  config.PlanRequest
		want error
	}{
		"chain":                 {config.PlanRequest{Chain: "x"}, config.ErrNoChain},
		"unknown server":        {config.PlanRequest{Servers: []config.Selection{{Name: "x"}}}, config.ErrServer},
		"not selectable":        {config.PlanRequest{AlertType: "other", Servers: []config.Selection{{Name: "kubernetes"}}}, config.ErrServer},
		"own":                   {config.PlanRequest{Servers: []config.Selection{{Name: "kubernetes"}}}, nil},
		"selectable":            {config.PlanRequest{AlertType: "other", Servers: []config.Selection{{Name: "metrics", Tools: []string{"label_x"}}}}, nil},
		"tool not in tools":     {config.PlanRequest{Servers: []config.Selection{{Name: "metrics", Tools: []string{"write"}}}}, config.ErrServer},
		"pattern":               {config.PlanRequest{Servers: []config.Selection{{Name: "metrics", Tools: []string{"*"}}}}, config.ErrServer},
		"twice":                 {config.PlanRequest{Servers: []config.Selection{{Name: "metrics"}, {Name: "metrics"}}}, config.ErrServer},
		"runbook":               {config.PlanRequest{RunbookURL: "https://github.com/a/b"}, nil},
		"runbook's domain":      {config.PlanRequest{RunbookURL: "https://github.com.evil.example/a"}, config.ErrRunbook},
		"runbook's scheme":      {config.PlanRequest{RunbookURL: "file:///etc/passwd"}, config.ErrRunbook},
		"runbook's user":        {config.PlanRequest{RunbookURL: "https://github.com@evil.example/"}, config.ErrRunbook},
		"runbook's line breaks": {config.PlanRequest{RunbookURL: "https://github.com/a\nb"}, config.ErrRunbook},
	} {
		if _, err := c.Plan(test.req); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
}

// TestEveryPlanIsWhole checks that a file that is accepted has only whole plans.
func TestEveryPlanIsWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		provider := rapid.SampledFrom([]string{"", "a", "b", "c"})
		yaml := base
		if p := provider.Draw(t, "defaults"); p != "" {
			yaml += "defaults: {llm_provider: " + p + "}\n"
		}
		yaml += "agent_chains:\n  x:\n    alert_types: [one]\n    stages:\n"
		agents := 0
		for i := range rapid.IntRange(1, 3).Draw(t, "stages") {
			agent := rapid.SampledFrom([]string{"GeneralAgent", "KubernetesAgent", "MissingAgent"}).Draw(t, "agent")
			n := rapid.IntRange(1, 3).Draw(t, "replicas")
			agents += n
			yaml += fmt.Sprintf("      - {name: s%d, replicas: %d, agents: [{name: %s, llm_provider: %q, fallback_providers: [b]}]}\n", i, n, agent, provider.Draw(t, "p"))
		}
		c, _, err := config.Parse([]byte(yaml), "f", env)
		if err != nil {
			return
		}
		plan, err := c.Plan(config.PlanRequest{AlertType: "one"})
		if err != nil {
			t.Fatalf("got %v, want a plan of\n%s", err, yaml)
		}
		got := 0
		for _, s := range plan.Stages {
			seen := map[string]bool{}
			for _, a := range s.Agents {
				got++
				if a.Provider.Model == "" || a.MaxIterations == 0 || len(a.Servers) == 0 || seen[a.Name] {
					t.Errorf("got the agent %+v, want one with provider, servers and a name of its own", a)
				}
				seen[a.Name] = true
			}
			if (len(s.Agents) > 1) != (s.Synthesis != nil) {
				t.Errorf("got the synthesis %v of %d agents, want one for several", s.Synthesis, len(s.Agents))
			}
		}
		if got != agents || plan.Summary.Model == "" {
			t.Errorf("got %d agents and the summary by %+v, want %d and a provider", got, plan.Summary, agents)
		}
	})
}

func TestRedacted(t *testing.T) {
	c := full(t)
	view := fmt.Sprint(c.Redacted())
	if strings.Contains(view, needle) || !strings.Contains(view, "{{.TOKEN}}") || !strings.Contains(view, "ANTHROPIC_API_KEY") {
		t.Errorf("got %s, want names of variables and no values", view)
	}
	if c.Key("claude") != needle || c.Key("local") != "" {
		t.Errorf("got the keys %q and %q, want the environment's and none", c.Key("claude"), c.Key("local"))
	}
}

// TestAllowWrites: a call can be approved only where people differ from the programs of the machine.
func TestAllowWrites(t *testing.T) {
	const file = base + "  u:\n    transport: {type: stdio, command: x}\n    allow_writes: true\n    no_approval: [scale]\ndefaults: {llm_provider: a}\n"
	for name, want := range map[string]string{
		"":                       "f:9: mcp_servers.u.allow_writes: needs TOCSIN_TOKEN or TOCSIN_TRUSTED_PROXIES: without them everybody on this machine may submit alerts",
		"TOCSIN_TOKEN":           "",
		"TOCSIN_TRUSTED_PROXIES": "",
	} {
		c, warnings, err := config.Parse([]byte(file), "f", func(asked string) (string, bool) { return "x", asked == "KEY" || asked == name })
		switch {
		case want == "" && (err != nil || !c.Servers["u"].AllowWrites):
			t.Errorf("with %s: %v, want a server that may write", name, err)
		case want == "" && !strings.Contains(fmt.Sprint(warnings), "approvals are not supported yet"):
			t.Errorf("with %s: the warnings %v, want one that calls are denied", name, warnings)
		case want != "" && (err == nil || err.Error() != want):
			t.Errorf("without: %v, want %s", err, want)
		}
	}
	without := strings.Replace(file, "    allow_writes: true\n", "", 1)
	if _, warnings, err := config.Parse([]byte(without), "f", env); err != nil || !strings.Contains(fmt.Sprint(warnings), "no effect without allow_writes") {
		t.Errorf("no_approval alone: %v and %v, want a warning", err, warnings)
	}
}

func TestRedactedAddress(t *testing.T) {
	c, _, err := config.Parse([]byte(base+"  m: {transport: {type: http, url: 'https://m.example/mcp?key="+needle+"&b={{.TOKEN}}'}}\ndefaults: {llm_provider: a}\n"), "f", env)
	if err != nil {
		t.Fatal(err)
	}
	if view := fmt.Sprint(c.Redacted()); strings.Contains(view, needle) || !strings.Contains(view, "https://m.example/mcp?[HIDDEN]") {
		t.Errorf("got %s, want the address without its query", view)
	}
}

func TestLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.yaml")
	write := func(text string, mode os.FileMode) error {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, _, err := config.Load(path, env)
		return err
	}
	good := base + "defaults: {llm_provider: a}\n"
	if err := write(good, 0o644); err != nil {
		t.Errorf("got %v, want the file accepted", err)
	}
	if err := write(good, 0o664); runtime.GOOS != "windows" && (err == nil || !strings.Contains(err.Error(), "chmod go-w")) {
		t.Errorf("got %v for a file that the group can write, want it refused", err)
	}
	if err := write(good+strings.Repeat("# comment\n", 1<<17), 0o600); err == nil || !strings.Contains(err.Error(), "1 MiB") {
		t.Errorf("got %v for a long file, want it refused", err)
	}
}

// TestLoadNoRegularFile: a named pipe would be opened only with its writer.
func TestLoadNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe.yaml")
	if err := makePipe(pipe); err != nil {
		t.Skipf("no named pipe: %v", err)
	}
	for _, path := range []string{dir, pipe} {
		refused := make(chan error, 1)
		go func() {
			_, _, err := config.Load(path, env)
			refused <- err
		}()
		select {
		case err := <-refused:
			if err == nil || !strings.Contains(err.Error(), "no regular file") {
				t.Errorf("%s: got %v, want it refused as no regular file", path, err)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: no answer in 10 s, want it refused", path)
		}
	}
}

func TestLoadForeign(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"tarsy.yaml":         "defaults: {llm_provider: a, scoring: {enabled: true}}\nagent_chains:\n  k:\n    alert_types: [k]\n    stages: [{name: s, agents: [{name: KubernetesAgent, iteration_strategy: langchain}]}]\n    fallback_providers: [{provider: b, backend: langchain}]\n",
		"llm-providers.yaml": "llm_providers:\n  a: {type: openai, model: m, api_key_env: K, max_tool_result_tokens: 9}\n  b: {type: anthropic, model: m, api_key_env: K}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, providers, is := config.ForeignFiles(filepath.Join(dir, "tarsy.yaml"))
	if !is {
		t.Fatal("got no pair of files, want one")
	}
	_, warnings, err := config.LoadForeign(first, providers, env)
	if err != nil {
		t.Fatal(err)
	}
	text := warnings.String()
	for _, want := range []string{"llm-providers.yaml:2: llm_providers.a.max_tool_result_tokens", "tarsy.yaml:1: defaults.scoring", "tarsy.yaml:5: agent_chains.k.stages[0].agents[0].iteration_strategy", "fallback_providers[0].backend"} {
		if !strings.Contains(text, want) {
			t.Errorf("got the warnings %s, want %s", text, want)
		}
	}
}

const begin, end = "<!-- keys: begin -->\n", "<!-- keys: end -->\n"

func TestTable(t *testing.T) {
	const page = "../../../docs/reference/investigator.md"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(data), begin)
	got, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s: got no markers, want %q and %q", page, begin, end)
	}
	want := config.Table()
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differs from the structs: run go test -update (-want +got):\n%s", page, diff)
	}
}

func FuzzParse(f *testing.F) {
	data, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(base))
	f.Add([]byte("defaults: &x\n  runbook: *x\na: {<<: *x}\nagents: {a: null}\nagent_chains: {c: ~}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, w1, err1 := config.Parse(data, "f", env)
		_, w2, err2 := config.Parse(data, "f", env)
		if diff := cmp.Diff(fmt.Sprint(w1, err1), fmt.Sprint(w2, err2)); diff != "" {
			t.Fatalf("two readings differ:\n%s", diff)
		}
		if err1 != nil {
			return
		}
		for name := range c.Chains {
			if _, err := c.Plan(config.PlanRequest{Chain: name}); err != nil {
				t.Fatalf("chain %s: got %v, want a plan", name, err)
			}
		}
		c.Redacted()
	})
}
