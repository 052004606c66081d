package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
)

// PlanRequest is what an alert says about its session. All of it may be empty.
type PlanRequest struct {
	Chain      string // wins over the type
	AlertType  string
	Servers    []Selection
	RunbookURL string
}

// Selection is an MCP server that an alert chooses, and tools of it, or all.
type Selection struct {
	Name  string
	Tools []string
}

// Errors of [Config.Plan]. Their texts name the reason; all of them are mistakes of the caller.
var (
	ErrNoChain = errors.New("no chain")
	ErrServer  = errors.New("MCP server not available")
	ErrRunbook = errors.New("runbook not allowed")
)

// Bounds of an alert's selection.
const (
	maxSelectedServers = 50
	maxSelectedTools   = 500
	maxRunbookURL      = 2000
)

// ChainOf returns the chain for a chain's name, else for an alert type, else for the default
// type.
func (c *Config) ChainOf(chain, alertType string) (string, error) {
	if chain != "" {
		if c.Chains[chain] == nil {
			return "", fmt.Errorf("%w: there is no chain %s", ErrNoChain, quoted(chain))
		}
		return chain, nil
	}
	alertType = cmp.Or(alertType, c.Defaults.AlertType)
	for _, name := range sortedKeys(c.Chains) {
		if slices.Contains(c.Chains[name].AlertTypes, alertType) {
			return name, nil
		}
	}
	if c.Chains[BuiltinChain] == nil {
		return "", fmt.Errorf("%w for the alert type %s", ErrNoChain, quoted(alertType))
	}
	return BuiltinChain, nil
}

// Plan resolves the settings of one session. Of each setting the last one wins: built-in,
// defaults, agent, chain, stage, the stage's agent. The errors are [ErrNoChain], [ErrServer]
// and [ErrRunbook].
func (c *Config) Plan(req PlanRequest) (session.Plan, error) {
	name, err := c.ChainOf(req.Chain, req.AlertType)
	if err != nil {
		return session.Plan{}, err
	}
	chain := c.Chains[name]
	if err := c.checkSelection(chain, req.Servers); err != nil {
		return session.Plan{}, err
	}
	plan := session.Plan{
		Chain:     name,
		Summary:   c.provider(c.summaryProvider(chain)),
		Fallbacks: c.fallbacks(c.summaryProvider(chain), chain.Fallbacks, c.Defaults.Fallbacks),
		Limits: session.Limits{
			MaxTokens: chain.Limits.MaxTokens, MaxCostUSD: chain.Limits.MaxCostUSD, MaxToolCalls: chain.Limits.MaxToolCalls,
		},
		Timeout:          time.Duration(c.Queue.SessionTimeout),
		IterationTimeout: time.Duration(c.Defaults.IterationTimeout),
		ToolTimeout:      time.Duration(c.Defaults.ToolTimeout),
		Masking:          &session.Masking{Groups: c.MaskingGroups()},
	}
	switch {
	case req.RunbookURL != "":
		if err := c.checkRunbook(req.RunbookURL); err != nil {
			return session.Plan{}, err
		}
		plan.RunbookURL = req.RunbookURL
	case isURL(c.Defaults.Runbook):
		plan.RunbookURL = c.Defaults.Runbook
	}
	if !isURL(c.Defaults.Runbook) {
		plan.Runbook = c.Defaults.Runbook
	}
	for _, s := range chain.Stages {
		plan.Stages = append(plan.Stages, c.stage(chain, s, req.Servers))
	}
	return plan, nil
}

// MaskingGroups returns the groups of patterns that mask alerts and what models write.
func (c *Config) MaskingGroups() []string {
	if !c.Defaults.AlertMasking.Enabled {
		return nil
	}
	return []string{c.Defaults.AlertMasking.PatternGroup}
}

func (s Stage) copies() int {
	n := s.Replicas
	if len(s.Agents) == 1 {
		n = max(n, s.Agents[0].Replicas)
	}
	return n
}

// synthesized reports whether several agents run in the stage.
func (s Stage) synthesized() bool { return len(s.Agents) > 1 || s.copies() > 1 }

// synthesizer returns who joins the results of several agents.
func (s Stage) synthesizer() StageAgent {
	if s.Synthesis == nil {
		return StageAgent{Name: synthesisAgent}
	}
	return StageAgent{Name: s.Synthesis.Agent, LLMProvider: s.Synthesis.LLMProvider}
}

func (c *Config) stage(chain *Chain, s Stage, selected []Selection) session.Stage {
	stage := session.Stage{
		Name:   s.Name,
		Policy: session.Policy(cmp.Or(s.SuccessPolicy, c.Defaults.SuccessPolicy)),
	}
	agents := s.Agents
	switch n := s.copies(); {
	case n > 1:
		agents = slices.Repeat(s.Agents, n)
		stage.Parallel = session.Replica
	case len(agents) > 1:
		stage.Parallel = session.MultiAgent
	}
	for i, a := range agents {
		agent := c.agent(chain, s, a, selected)
		same := func(other StageAgent) bool { return other.Name == a.Name }
		if total := count(agents, same); total > 1 {
			agent.Name = a.Name + "-" + strconv.Itoa(count(agents[:i+1], same))
		}
		stage.Agents = append(stage.Agents, agent)
	}
	if len(agents) > 1 {
		synthesis := c.agent(chain, s, s.synthesizer(), nil)
		synthesis.Servers = nil // it reads what the others found
		stage.Synthesis = &synthesis
	}
	return stage
}

func count(agents []StageAgent, ok func(StageAgent) bool) int {
	n := 0
	for _, a := range agents {
		if ok(a) {
			n++
		}
	}
	return n
}

func (c *Config) agent(chain *Chain, s Stage, a StageAgent, selected []Selection) session.Agent {
	entry := c.Agents[a.Name]
	provider := c.providerOf(chain, s, a)
	agent := session.Agent{
		Name: a.Name, Agent: a.Name, Instructions: entry.Instructions, Provider: c.provider(provider),
		Fallbacks:     c.fallbacks(provider, a.Fallbacks, s.Fallbacks, chain.Fallbacks, c.Defaults.Fallbacks),
		MaxIterations: cmp.Or(a.MaxIterations, s.MaxIterations, chain.MaxIterations, entry.MaxIterations, c.Defaults.MaxIterations),
	}
	if len(selected) > 0 {
		for _, choice := range selected {
			agent.Servers = append(agent.Servers, c.toolServer(choice.Name, provider, choice.Tools))
		}
		return agent
	}
	for _, name := range c.serversOf(chain, s, a) {
		agent.Servers = append(agent.Servers, c.toolServer(name, provider, nil))
	}
	return agent
}

func (c *Config) toolServer(name, provider string, tools []string) session.Server {
	server := session.Server{Name: name, Definition: c.ServerEntry(name).Definition(c.definitionKey), Tools: tools}
	entry := c.Servers[name]
	if entry == nil { // built in
		return server
	}
	server.Instructions = entry.Instructions
	if s := entry.Summarization; s.Enabled {
		server.Summarization = &session.Summarization{
			Threshold: s.SizeThresholdTokens, MaxTokens: s.SummaryMaxTokens, Provider: c.provider(cmp.Or(s.LLMProvider, provider)),
		}
	}
	return server
}

// serversOf returns the servers of a stage's agent: the last list that is not empty.
func (c *Config) serversOf(chain *Chain, s Stage, a StageAgent) []string {
	lists := [][]string{a.Servers, s.Servers, chain.Servers}
	if entry := c.Agents[a.Name]; entry != nil {
		lists = append(lists, entry.Servers)
	}
	return firstList(lists)
}

func firstList(lists [][]string) []string {
	for _, list := range lists {
		if len(list) > 0 {
			return list
		}
	}
	return nil
}

func (c *Config) providerOf(chain *Chain, s Stage, a StageAgent) string {
	return cmp.Or(a.LLMProvider, s.LLMProvider, chain.LLMProvider, c.Defaults.LLMProvider)
}

func (c *Config) summaryProvider(chain *Chain) string {
	return cmp.Or(chain.SummaryBy, chain.LLMProvider, c.Defaults.LLMProvider)
}

// providersOf returns every provider that a session of the chain may use.
func (c *Config) providersOf(chain *Chain) []string {
	names := append([]string{c.summaryProvider(chain)}, firstList([][]string{chain.Fallbacks, c.Defaults.Fallbacks})...)
	servers := map[string]bool{}
	for _, s := range chain.Stages {
		agents := s.Agents
		if s.synthesized() {
			agents = append(slices.Clone(agents), s.synthesizer())
		}
		for _, a := range agents {
			names = append(names, c.providerOf(chain, s, a))
			names = append(names, firstList([][]string{a.Fallbacks, s.Fallbacks, chain.Fallbacks, c.Defaults.Fallbacks})...)
			for _, name := range c.serversOf(chain, s, a) {
				servers[name] = true
			}
		}
	}
	for _, name := range sortedKeys(c.Servers) {
		s := c.Servers[name]
		if (servers[name] || s.Selectable) && s.Summarization.Enabled && s.Summarization.LLMProvider != "" {
			names = append(names, s.Summarization.LLMProvider)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// fallbacks returns the last list that is not empty, without the provider itself.
func (c *Config) fallbacks(provider string, lists ...[]string) []session.Provider {
	var found []session.Provider
	for _, name := range firstList(lists) {
		if name != provider {
			found = append(found, c.provider(name))
		}
	}
	return found
}

func (c *Config) provider(name string) session.Provider {
	p := c.Providers[name]
	entry := session.Provider{Name: name, Definition: c.ProviderEntry(name).Definition(c.definitionKey), Model: p.Model, ContextWindow: p.ContextWindow, MaxOutput: p.MaxOutputTokens}
	if p.Price != nil {
		entry.Price = &model.Price{Input: p.Price.Input, CachedInput: p.Price.CachedInput, Output: p.Price.Output}
	}
	return entry
}

// checkSelection refuses what would give a session more than its chain has.
func (c *Config) checkSelection(chain *Chain, selected []Selection) error {
	if len(selected) > maxSelectedServers {
		return fmt.Errorf("%w: %d servers are named, want at most %d", ErrServer, len(selected), maxSelectedServers)
	}
	var own []string
	for _, s := range chain.Stages {
		for _, a := range s.Agents {
			own = append(own, c.serversOf(chain, s, a)...)
		}
	}
	for i, choice := range selected {
		name := quoted(choice.Name)
		entry := c.Servers[choice.Name]
		switch {
		case entry == nil && choice.Name != BuiltinServer:
			return fmt.Errorf("%w: there is no server %s", ErrServer, name)
		case !slices.Contains(own, choice.Name) && (entry == nil || !entry.Selectable):
			return fmt.Errorf("%w: the server %s is not selectable", ErrServer, name)
		case slices.ContainsFunc(selected[:i], func(s Selection) bool { return s.Name == choice.Name }):
			return fmt.Errorf("%w: the server %s is named twice", ErrServer, name)
		case len(choice.Tools) > maxSelectedTools:
			return fmt.Errorf("%w: %d tools of %s are named, want at most %d", ErrServer, len(choice.Tools), name, maxSelectedTools)
		}
		for _, tool := range choice.Tools {
			if tool == "" || strings.ContainsAny(tool, "*?[") {
				return fmt.Errorf("%w: %s is no name of a tool of %s", ErrServer, strconv.Quote(oneLine(tool, 100)), name)
			}
			if entry != nil && len(entry.Tools) > 0 && !slices.ContainsFunc(entry.Tools, func(p string) bool { return matchTool(p, tool) }) {
				return fmt.Errorf("%w: the tool %s of %s is not in its tools", ErrServer, quoted(tool), name)
			}
		}
	}
	return nil
}

func matchTool(pattern, tool string) bool {
	ok, err := path.Match(pattern, tool)
	return err == nil && ok
}

func badPattern(pattern string) bool {
	_, err := path.Match(pattern, "")
	return err != nil
}

func isURL(text string) bool {
	return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
}

// checkRunbook refuses an address whose host is none of the allowed domains.
func (c *Config) checkRunbook(text string) error {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxRunbookURL || !isURL(text) || u.Host == "" || u.User != nil || hasControl(text) {
		return fmt.Errorf("%w: want an http:// or https:// address without a user name, at most %d characters", ErrRunbook, maxRunbookURL)
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	for _, domain := range c.System.Runbooks.AllowedDomains {
		if host == strings.ToLower(domain) || strings.TrimPrefix(host, "www.") == strings.ToLower(domain) {
			return nil
		}
	}
	return fmt.Errorf("%w: the domain %s is not in system.runbooks.allowed_domains", ErrRunbook, quoted(host))
}
