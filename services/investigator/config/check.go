package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/tocsin-bus/tocsin/services/investigator/masking"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

// checker checks what no single value shows: references, and values that exclude each other.
type checker struct {
	*decoder
	c *Config
}

// errorAt reports a problem at a path, or where the nearest key above it stands.
func (k *checker) errorAt(path, format string, args ...any) {
	k.fail(k.line(path), path, format, args...)
}

func (k *checker) line(path string) int {
	for path != "" {
		if line, ok := k.lines[path]; ok {
			return line
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 0
}

func (k *checker) all() {
	for _, name := range sortedKeys(k.c.Providers) {
		k.provider("llm_providers."+name, name, k.c.Providers[name])
	}
	for _, name := range sortedKeys(k.c.Servers) {
		k.server("mcp_servers."+name, k.c.Servers[name])
	}
	for _, name := range sortedKeys(k.c.Agents) {
		k.servers("agents."+name+".mcp_servers", k.c.Agents[name].Servers)
	}
	if len(k.c.Chains) == 0 {
		k.errorAt("defaults.llm_provider", "is missing: the built-in chain needs a provider")
	} else if k.c.Chains[BuiltinChain] == nil {
		k.warn(0, "defaults.llm_provider", "is missing: alerts whose type no chain has are refused")
	}
	types := map[string]string{}
	for _, name := range sortedKeys(k.c.Chains) {
		k.chain("agent_chains."+name, name, k.c.Chains[name], types)
	}
	for i, t := range k.c.Triggers {
		k.trigger(fmt.Sprintf("triggers[%d]", i), t)
	}
	d := k.c.Defaults
	k.reference("defaults.llm_provider", d.LLMProvider, "provider", sortedKeys(k.c.Providers))
	k.fallbacks("defaults", d.LLMProvider, d.Fallbacks)
	if isURL(d.Runbook) {
		if err := k.c.checkRunbook(d.Runbook); err != nil {
			k.errorAt("defaults.runbook", "%v", err)
		}
	}
	if u, err := url.Parse(k.c.System.DashboardURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		k.errorAt("system.dashboard_url", "is no address: want http:// or https:// and a host")
	} else if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		k.errorAt("system.dashboard_url", "has a user, a query or a fragment: want the address without")
	}
	for i, domain := range k.c.System.Runbooks.AllowedDomains {
		if strings.ContainsAny(domain, "/:*@ ") {
			k.errorAt(fmt.Sprintf("system.runbooks.allowed_domains[%d]", i), "%s is no domain: want a host such as github.com", quoted(domain))
		}
	}
}

// reference checks a name that may be left out.
func (k *checker) reference(path, name, kind string, known []string) {
	if name != "" && !slices.Contains(known, name) {
		k.errorAt(path, "there is no %s %s: %s", kind, quoted(k.shown(path, name)), suggest(name, known))
	}
}

// shown returns a value as it stands in the file.
func (k *checker) shown(path, value string) string {
	if raw, ok := k.raw[path]; ok {
		return raw
	}
	return value
}

// The environment variables that allow_writes needs one of.
const (
	TokenEnv   = "TOCSIN_TOKEN"
	ProxiesEnv = "TOCSIN_TRUSTED_PROXIES"
)

func (k *checker) isSet(name string) bool {
	value, ok := k.lookup(name)
	return ok && strings.TrimSpace(value) != ""
}

// minBudget is the least budget for thinking that Anthropic's API accepts.
const minBudget = 1024

func (k *checker) provider(path, name string, p *Provider) {
	switch {
	case p.APIKeyEnv == "":
		if p.BaseURL == "" {
			k.errorAt(path+".api_key_env", "is missing: want the environment variable with the key")
		}
	case !envName.MatchString(p.APIKeyEnv):
		k.errorAt(path+".api_key_env", "is no name of an environment variable: want the name, not the key")
	default:
		key, set := k.lookup(p.APIKeyEnv)
		switch {
		case !set && redact.New().String(p.APIKeyEnv) != p.APIKeyEnv:
			k.errorAt(path+".api_key_env", "is no name of an environment variable: want the name, not the key")
		case !set:
			k.errorAt(path+".api_key_env", "the environment variable %s is not set", p.APIKeyEnv)
		case strings.TrimSpace(key) == "":
			k.errorAt(path+".api_key_env", "the environment variable %s is empty", p.APIKeyEnv)
		case strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }):
			k.errorAt(path+".api_key_env", "the environment variable %s has a line break or another character that a header can't carry", p.APIKeyEnv)
		}
		k.c.keys[name] = key
	}
	if p.Model == "" {
		k.errorAt(path+".model", "is empty: want the provider's name of the model")
	}
	if p.BaseURL != "" {
		k.address(path+".base_url", p.BaseURL, p.APIKeyEnv != "")
		if u, err := url.Parse(p.BaseURL); err == nil && (u.RawQuery != "" || u.Fragment != "") {
			k.errorAt(path+".base_url", "has a query or a fragment: want the address without")
		}
	}
	if p.API != "" && p.Type != "openai" {
		k.errorAt(path+".api", "is only for type openai: leave it out")
	}
	if p.MaxOutputTokens >= p.ContextWindow {
		k.errorAt(path+".max_output_tokens", "is %d: want less than context_window, which is %d", p.MaxOutputTokens, p.ContextWindow)
	}
	if p.Type == "anthropic" && p.Thinking.BudgetTokens > 0 && p.Thinking.BudgetTokens < minBudget {
		k.errorAt(path+".thinking.budget_tokens", "is %d: want 0, or at least %d with type anthropic", p.Thinking.BudgetTokens, minBudget)
	}
	if p.Thinking.BudgetTokens > 0 && p.Thinking.BudgetTokens >= p.MaxOutputTokens {
		k.errorAt(path+".thinking.budget_tokens", "is %d: want less than max_output_tokens, which is %d", p.Thinking.BudgetTokens, p.MaxOutputTokens)
	}
}

func hasControl(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// loopback reports whether a host is this machine for each resolver and proxy: a name
// below localhost may be another one.
func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.IsLoopback()
}

// address checks a URL to which a secret may be sent.
func (k *checker) address(path, text string, secret bool) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		k.errorAt(path, "is no address: want http:// or https:// and a host")
	case u.User != nil:
		k.errorAt(path, "has a user name or password: want them in an environment variable")
	case u.Scheme == "http" && secret && !loopback(u.Hostname()):
		k.errorAt(path, "would send a secret without encryption: want https://, or http:// on loopback")
	}
}

var (
	patternName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]{0,63}$`)
	headerName  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
)

func (k *checker) server(path string, s *Server) {
	t, at := s.Transport, path+".transport"
	stdio := map[string]bool{"command": t.Command != "", "args": len(t.Args) > 0, "env": len(t.Env) > 0}
	http := map[string]bool{"url": t.URL != "", "bearer_token": t.BearerToken != "", "custom_headers": len(t.CustomHeaders) > 0}
	var wrong map[string]bool
	switch t.Type {
	case "stdio":
		wrong = http
		if t.Command == "" {
			k.errorAt(at+".command", "is missing: want the program")
		}
		for _, name := range sortedKeys(t.Env) {
			if !envName.MatchString(name) || strings.ContainsRune(t.Env[name], 0) {
				k.errorAt(at+".env."+name, "is no environment variable: want letters, digits and _, and no zero byte in the value")
			}
		}
		if unversioned(t.Command, t.Args) {
			k.warn(k.line(at+".args"), at+".args", "npx -y without a version runs the newest one, without a check: want package@version")
		}
	case "http":
		wrong = stdio
		if t.URL == "" {
			k.errorAt(at+".url", "is missing: want the address")
		} else {
			_, query, _ := strings.Cut(k.c.raw[at+".url"], "?")
			k.address(at+".url", t.URL, t.BearerToken != "" || len(t.CustomHeaders) > 0 || envUse.MatchString(query))
		}
		if hasControl(t.BearerToken) {
			k.errorAt(at+".bearer_token", "has a line break or a control character")
		}
		for _, name := range sortedKeys(t.CustomHeaders) {
			if !headerName.MatchString(name) || hasControl(t.CustomHeaders[name]) {
				k.errorAt(join(at+".custom_headers", name), "is no header: want a name of letters, digits and -, and a value without control characters")
			}
		}
	}
	for _, key := range sortedKeys(wrong) {
		if wrong[key] {
			k.errorAt(at+"."+key, "has no effect with type %s: leave it out", t.Type)
		}
	}
	k.patterns(path+".tools", s.Tools)
	k.patterns(path+".read_only_tools", s.ReadOnlyTools)
	k.patterns(path+".no_approval", s.NoApproval)
	switch {
	case s.AllowWrites && !k.isSet(TokenEnv) && !k.isSet(ProxiesEnv):
		k.errorAt(path+".allow_writes", "needs %s or %s: without them everybody on this machine may submit alerts", TokenEnv, ProxiesEnv)
	case s.AllowWrites:
		k.warn(k.line(path+".allow_writes"), path+".allow_writes", "calls that need an approval are denied: approvals are not supported yet")
	case len(s.NoApproval) > 0:
		k.warn(k.line(path+".no_approval"), path+".no_approval", "has no effect without allow_writes: true")
	}
	m := path + ".data_masking"
	for i, group := range s.DataMasking.PatternGroups {
		k.reference(fmt.Sprintf("%s.pattern_groups[%d]", m, i), group, "group", masking.Groups())
	}
	for i, name := range s.DataMasking.Patterns {
		k.reference(fmt.Sprintf("%s.patterns[%d]", m, i), name, "pattern", masking.Names())
	}
	names := map[string]bool{}
	for i, p := range s.DataMasking.CustomPatterns {
		at := fmt.Sprintf("%s.custom_patterns[%d]", m, i)
		switch {
		case !patternName.MatchString(p.Name):
			k.errorAt(at+".name", "is no name: want letters, digits and underscores, at most 64")
		case names[strings.ToUpper(p.Name)]:
			k.errorAt(at+".name", "%s is there twice", quoted(p.Name))
		}
		names[strings.ToUpper(p.Name)] = true
		re, err := regexp.Compile(p.Pattern)
		switch {
		case err != nil:
			k.errorAt(at+".pattern", "is no regular expression (RE2)")
		case re.MatchString(""):
			k.errorAt(at+".pattern", "matches the empty text, and so everywhere: want one that needs a character")
		}
	}
	k.reference(path+".summarization.llm_provider", s.Summarization.LLMProvider, "provider", sortedKeys(k.c.Providers))
}

// patterns checks patterns of tools: one that can't be read would match none.
func (k *checker) patterns(at string, patterns []string) {
	for i, p := range patterns {
		if badPattern(p) {
			k.errorAt(fmt.Sprintf("%s[%d]", at, i), "is no pattern: want the name of a tool, in which * stands for any text")
		}
	}
}

// unversioned reports whether npx is asked to run a package without a version.
func unversioned(command string, args []string) bool {
	if command != "npx" && !strings.HasSuffix(command, "/npx") || !slices.Contains(args, "-y") && !slices.Contains(args, "--yes") {
		return false
	}
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			at := strings.LastIndexByte(arg, '@')
			return at <= 0 || arg[at:] == "@latest"
		}
	}
	return false
}

func (k *checker) servers(path string, names []string) {
	known := append([]string{BuiltinServer}, sortedKeys(k.c.Servers)...)
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", path, i)
		k.reference(at, name, "server", known)
		if slices.Contains(names[:i], name) {
			k.errorAt(at, "%s is there twice", quoted(k.shown(at, name)))
		}
	}
}

// fallbacks checks the fallbacks beside the provider of the same place.
func (k *checker) fallbacks(path, provider string, names []string) {
	for i, name := range names {
		at := fmt.Sprintf("%s.fallback_providers[%d]", path, i)
		k.reference(at, name, "provider", sortedKeys(k.c.Providers))
		switch {
		case name == provider:
			k.errorAt(at, "%s would be its own fallback: want another provider", quoted(k.shown(at, name)))
		case slices.Contains(names[:i], name):
			k.errorAt(at, "%s is there twice: fallbacks would go in a circle", quoted(k.shown(at, name)))
		}
	}
}

func (k *checker) chain(path, name string, c *Chain, types map[string]string) {
	providers, agents := sortedKeys(k.c.Providers), sortedKeys(k.c.Agents)
	for i, t := range c.AlertTypes {
		at := fmt.Sprintf("%s.alert_types[%d]", path, i)
		if other, taken := types[t]; taken {
			k.errorAt(at, "%s is in the chain %s too: want each type in one chain, once", quoted(k.shown(at, t)), other)
		}
		types[t] = name
	}
	k.reference(path+".llm_provider", c.LLMProvider, "provider", providers)
	k.reference(path+".executive_summary_provider", c.SummaryBy, "provider", providers)
	k.fallbacks(path, c.LLMProvider, c.Fallbacks)
	k.servers(path+".mcp_servers", c.Servers)
	if c.Chat != nil {
		k.reference(path+".chat.agent", c.Chat.Agent, "agent", agents)
		k.reference(path+".chat.llm_provider", c.Chat.LLMProvider, "provider", providers)
	}
	if len(c.Stages) == 0 {
		k.errorAt(path+".stages", "is empty: want a stage")
	}
	names := map[string]bool{}
	for i, s := range c.Stages {
		at := fmt.Sprintf("%s.stages[%d]", path, i)
		switch {
		case s.Name == "" || len(s.Name) > maxName || hasControl(s.Name):
			k.errorAt(at+".name", "is no name: want 1 to %d characters in one line", maxName)
		case names[s.Name]:
			k.errorAt(at+".name", "%s is there twice in the chain", quoted(k.shown(at+".name", s.Name)))
		}
		names[s.Name] = true
		k.stage(at, s)
		for j, a := range s.Agents {
			at := fmt.Sprintf("%s.agents[%d]", at, j)
			if k.c.providerOf(c, s, a) == "" {
				k.errorAt(at+".llm_provider", "is missing: want it here, in the stage, the chain or defaults")
			}
		}
		if s.synthesized() && k.c.providerOf(c, s, s.synthesizer()) == "" {
			k.errorAt(at+".synthesis.llm_provider", "is missing: want it here, in the stage, the chain or defaults")
		}
	}
	if k.c.summaryProvider(c) == "" {
		k.errorAt(path+".executive_summary_provider", "is missing: want it or llm_provider, here or in defaults")
	}
	if c.Limits.MaxCostUSD > 0 {
		for _, p := range k.c.providersOf(c) {
			if entry := k.c.Providers[p]; entry != nil && entry.Price == nil {
				k.errorAt(path+".limits.max_cost_usd", "needs a price of the provider %s: add llm_providers.%s.price", p, p)
			}
		}
	}
}

func (k *checker) stage(path string, s Stage) {
	providers, agents := sortedKeys(k.c.Providers), sortedKeys(k.c.Agents)
	k.reference(path+".llm_provider", s.LLMProvider, "provider", providers)
	k.fallbacks(path, s.LLMProvider, s.Fallbacks)
	k.servers(path+".mcp_servers", s.Servers)
	if len(s.Agents) == 0 {
		k.errorAt(path+".agents", "is empty: want an agent")
	}
	if s.Replicas > 1 && len(s.Agents) > 1 {
		k.errorAt(path+".replicas", "is for a stage with one agent: want either replicas or several agents")
	}
	for i, a := range s.Agents {
		at := fmt.Sprintf("%s.agents[%d]", path, i)
		k.reference(at+".name", a.Name, "agent", agents)
		if a.Name == "" {
			k.errorAt(at+".name", "is empty: want an agent")
		}
		k.reference(at+".llm_provider", a.LLMProvider, "provider", providers)
		k.fallbacks(at, a.LLMProvider, a.Fallbacks)
		k.servers(at+".mcp_servers", a.Servers)
		if a.Replicas > 1 && (len(s.Agents) > 1 || s.Replicas > 1) {
			k.errorAt(at+".replicas", "is for a stage with one agent: want it there or in the stage, or several agents")
		}
	}
	if s.Synthesis != nil {
		k.reference(path+".synthesis.agent", s.Synthesis.Agent, "agent", agents)
		if s.Synthesis.Agent == "" {
			k.errorAt(path+".synthesis.agent", "is empty: want an agent")
		}
		k.reference(path+".synthesis.llm_provider", s.Synthesis.LLMProvider, "provider", providers)
		if !s.synthesized() {
			k.warn(k.line(path+".synthesis"), path+".synthesis", "has no effect: the stage has one agent")
		}
	}
}

func (k *checker) trigger(path string, t Trigger) {
	k.reference(path+".chain", t.Chain, "chain", sortedKeys(k.c.Chains))
	if t.Chain == "" {
		k.errorAt(path+".chain", "is empty: want a chain")
	}
	var known []string
	for _, c := range alert.Categories() {
		known = append(known, string(c))
	}
	for i, c := range t.Match.Category {
		if !strings.Contains(c, "*") {
			at := fmt.Sprintf("%s.match.category[%d]", path, i)
			if k.lines[at] == 0 {
				at = path + ".match.category"
			}
			k.reference(at, c, "category", known)
		}
	}
}
