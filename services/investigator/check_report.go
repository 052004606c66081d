package investigator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/services/investigator/config"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/services/investigator/toolbox"
)

// describe writes what a file leads to. found has what providers and servers answered, or is nil.
func describe(out *report, s *settings, found *probed) {
	view := s.config.Redacted()
	out.line("model providers")
	for _, name := range slices.Sorted(maps.Keys(s.config.Providers)) {
		out.line("  %s: %s", name, describeProvider(s.config.Providers[name], at(view, "llm_providers", name)))
		if found != nil {
			out.line("    %s", found.models[name])
		}
	}
	out.line("chains")
	for _, name := range slices.Sorted(maps.Keys(s.config.Chains)) {
		describeChain(out, s.config, name)
	}
	if len(s.config.Triggers) > 0 {
		out.line("triggers")
	}
	for i, t := range s.config.Triggers {
		out.line("  %d: starts the chain %s for %s, at the earliest %s after the last session of the same alert", i+1, t.Chain, describeMatch(t.Match), t.Cooldown)
	}
	out.line("MCP servers")
	out.line("  %s: built in", config.BuiltinServer)
	for _, t := range new(builtinServer).tools() {
		out.line("    offered   %s", t.Definition.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.config.Servers)) {
		out.line("  %s: %s", name, describeTransport(at(view, "mcp_servers", name, "transport")))
		if found != nil {
			describeTools(out, found.servers[name])
			continue
		}
		for _, r := range toolRules(s.config.Servers[name]) {
			out.line("    %-8s  %s: %s", r.verdict, r.tools, r.why)
		}
	}
	if found == nil && len(s.config.Servers) > 0 {
		out.line("The servers were not started: --probe lists their tools.")
	}
}

// at returns a section of a redacted configuration.
func at(section map[string]any, path ...string) map[string]any {
	for _, key := range path {
		section, _ = section[key].(map[string]any)
	}
	return section
}

func describeProvider(p *config.Provider, shown map[string]any) string {
	kind := p.Type
	if p.Type == "openai" {
		kind = "openai (responses)"
		if p.UsesChat() {
			kind = "openai (chat)"
		}
	}
	parts := []string{kind, fmt.Sprint(shown["model"])}
	if p.BaseURL != "" {
		parts = append(parts, fmt.Sprint("at ", shown["base_url"]))
	}
	key := "no key"
	if p.APIKeyEnv != "" {
		key = "key from " + p.APIKeyEnv
	}
	parts = append(parts, key, fmt.Sprintf("%d tokens of context", p.ContextWindow))
	if p.Price == nil {
		parts = append(parts, "no price")
	}
	return commaList(parts)
}

func describeChain(out *report, cfg *config.Config, name string) {
	plan, err := cfg.Plan(config.PlanRequest{Chain: name})
	if err != nil {
		out.line("  %s: %v", name, err)
		return
	}
	types := "only by its name"
	switch list := cfg.Chains[name].AlertTypes; {
	case len(list) > 0:
		types = "alert types " + commaList(list)
	case name == config.BuiltinChain:
		types = "every alert type that no other chain has"
	}
	out.line("  %s: %s", name, types)
	for _, stage := range plan.Stages {
		if len(stage.Agents) == 1 {
			out.line("    stage %s: %s", stage.Name, describeAgent(stage.Agents[0]))
			continue
		}
		must := "one of them must complete"
		if stage.Policy == session.All {
			must = "each of them must complete"
		}
		out.line("    stage %s: %d agents side by side, %s", stage.Name, len(stage.Agents), must)
		for _, a := range stage.Agents {
			out.line("      %s", describeAgent(a))
		}
		if stage.Synthesis != nil {
			out.line("      synthesis: %s asks %s", stage.Synthesis.Name, providers(stage.Synthesis.Provider, stage.Synthesis.Fallbacks))
		}
	}
	out.line("    executive summary: %s", providers(plan.Summary, plan.Fallbacks))
	var limits []string
	if n := plan.Limits.MaxTokens; n > 0 {
		limits = append(limits, fmt.Sprintf("%d tokens", n))
	}
	if n := plan.Limits.MaxCostUSD; n > 0 {
		limits = append(limits, fmt.Sprintf("%g USD", n))
	}
	if n := plan.Limits.MaxToolCalls; n > 0 {
		limits = append(limits, counted(n, "tool call"))
	}
	if len(limits) > 0 {
		out.line("    limits of a session: %s", commaList(limits))
	}
}

func describeAgent(a session.Agent) string {
	names := make([]string, 0, len(a.Servers))
	for _, s := range a.Servers {
		names = append(names, s.Name)
	}
	servers := "no MCP servers"
	if len(names) > 0 {
		servers = "MCP servers " + commaList(names)
	}
	return fmt.Sprintf("%s asks %s; %s; at most %s", a.Name, providers(a.Provider, a.Fallbacks), servers, counted(a.MaxIterations, "iteration"))
}

// providers returns a provider and those that are asked when it fails.
func providers(first session.Provider, fallbacks []session.Provider) string {
	names := []string{first.Name}
	for _, p := range fallbacks {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", else ")
}

func describeMatch(m config.Match) string {
	var parts []string
	if m.SeverityMin != "" {
		parts = append(parts, "severity_min "+m.SeverityMin)
	}
	for _, key := range []struct {
		name string
		any  []string
	}{{"category", m.Category}, {"app", m.App}, {"cluster", m.Cluster}, {"namespace", m.Namespace}, {"source", m.Source}, {"title", m.Title}} {
		if len(key.any) > 0 {
			parts = append(parts, key.name+" "+strings.Join(key.any, " or "))
		}
	}
	if len(parts) == 0 {
		return "every alert"
	}
	return commaList(parts)
}

func describeTransport(t map[string]any) string {
	if t["type"] != string(toolbox.Stdio) {
		return fmt.Sprintf("%v, %v", t["type"], t["url"])
	}
	words := []string{fmt.Sprint(t["command"])}
	args, _ := t["args"].([]any)
	for _, arg := range args {
		words = append(words, fmt.Sprint(arg))
	}
	return "stdio, " + strings.Join(words, " ")
}

func describeTools(out *report, s serverProbe) {
	if !s.Healthy {
		out.line("    error     %s", strings.Join(strings.Fields(s.Error), " ")) // it may have lines of stderr
		return
	}
	for _, t := range s.Tools {
		switch {
		case t.Offered && t.WhyNot != "":
			out.line("    offered   %s: %s", t.Name, t.WhyNot)
		case t.Offered:
			out.line("    offered   %s", t.Name)
		default:
			out.line("    withheld  %s: %s", t.Name, t.WhyNot)
		}
	}
	if len(s.Tools) == 0 {
		out.line("    the server has no tools")
	}
	for _, note := range s.leftOut {
		out.line("    warning   %s", strings.Join(strings.Fields(note), " "))
	}
}

// The verdicts of a [toolRule].
const (
	verdictOffered  = "offered"
	verdictDepends  = "depends"
	verdictWithheld = "withheld"
)

// allowedWhy is why tools are offered that may change something.
const allowedWhy = "allow_writes is set; calls are denied unless the server annotates the tool with readOnlyHint or destructiveHint: false, or no_approval names it"

// toolRule is what a file alone decides about tools of a server.
type toolRule struct{ verdict, tools, why string }

// toolRules returns what the file alone decides about the tools of a server. The first rule for a
// tool counts.
func toolRules(s *config.Server) []toolRule {
	var rules []toolRule
	if len(s.Tools) == 0 {
		for _, name := range s.ReadOnlyTools {
			rules = append(rules, toolRule{verdictOffered, name, "read_only_tools names it"})
		}
		rules = append(rules, toolRule{verdictOffered, "tools that the server annotates with readOnlyHint", "they change nothing"})
		if s.AllowWrites {
			return append(rules, toolRule{verdictOffered, "all other tools", allowedWhy})
		}
		return append(rules,
			toolRule{verdictWithheld, "all other tools", "the server does not annotate them with readOnlyHint, and read_only_tools does not name them"})
	}
	for _, name := range s.Tools {
		if slices.Contains(s.ReadOnlyTools, name) || !isPattern(name) && toolbox.Matches(s.ReadOnlyTools, name) {
			rules = append(rules, toolRule{verdictOffered, name, "tools and read_only_tools name it"})
			continue
		}
		if s.AllowWrites {
			rules = append(rules, toolRule{verdictOffered, name, "tools names it; " + allowedWhy})
			continue
		}
		rules = append(rules, toolRule{verdictDepends, name, "tools names it; it is offered if the server annotates it with readOnlyHint, or read_only_tools names it"})
	}
	for _, name := range s.ReadOnlyTools {
		if !isPattern(name) && !toolbox.Matches(s.Tools, name) {
			rules = append(rules, toolRule{verdictWithheld, name, "the list tools does not name it"})
		}
	}
	return append(rules, toolRule{verdictWithheld, "all other tools", "the list tools does not name them"})
}

func isPattern(name string) bool { return strings.ContainsAny(name, `*?[\`) }
