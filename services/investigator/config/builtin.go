package config

import (
	"embed"
	"reflect"
	"strings"
)

// Names of what is built in.
const (
	// BuiltinServer is the MCP server with Tocsin's own read-only queries.
	BuiltinServer = "tocsin"
	// BuiltinChain takes every alert type that no other chain has.
	BuiltinChain = "default"

	generalAgent    = "GeneralAgent"
	kubernetesAgent = "KubernetesAgent"
	synthesisAgent  = "SynthesisAgent"
	chatAgent       = "ChatAgent"

	// kubernetesServer is used by the built-in KubernetesAgent where the file has it.
	kubernetesServer = "kubernetes"
)

//go:embed agents/*.md
var instructions embed.FS

// addBuiltin adds the agents and the chain that the file does not define. An agent that it defines
// keeps the built-in servers and instructions where it names none.
func (c *Config) addBuiltin() {
	if c.Agents == nil {
		c.Agents = map[string]*Agent{}
	}
	if c.Chains == nil {
		c.Chains = map[string]*Chain{}
	}
	for _, name := range []string{generalAgent, kubernetesAgent, synthesisAgent, chatAgent} {
		text, err := instructions.ReadFile("agents/" + name + ".md")
		if err != nil {
			panic(err) // it is embedded
		}
		agent := c.Agents[name]
		if agent == nil {
			agent = &Agent{Description: "built in"}
			c.Agents[name] = agent
		}
		at := join("agents", name)
		if !c.names(join(at, "custom_instructions")) {
			agent.Instructions = strings.TrimSpace(string(text))
		}
		if c.names(join(at, "mcp_servers")) || name == synthesisAgent {
			continue
		}
		agent.Servers = []string{BuiltinServer}
		if name == kubernetesAgent && c.Servers[kubernetesServer] != nil {
			agent.Servers = append(agent.Servers, kubernetesServer)
		}
	}
	if c.Chains[BuiltinChain] == nil && c.Defaults.LLMProvider != "" {
		stage := Stage{Name: "investigation"}
		setDefaults(reflect.ValueOf(&stage).Elem())
		agent := StageAgent{Name: generalAgent}
		setDefaults(reflect.ValueOf(&agent).Elem())
		stage.Agents = []StageAgent{agent}
		c.Chains[BuiltinChain] = &Chain{Description: "built in", Stages: []Stage{stage}}
	}
}

// names reports whether the file has a key, which may be empty.
func (c *Config) names(path string) bool { return c.lines[path] > 0 }

// deriveDefaults sets the defaults that depend on other keys.
func (c *Config) deriveDefaults() {
	for name, p := range c.Providers {
		if p.Price != nil && !c.names(join(join(join("llm_providers", name), "price"), "cached_input")) {
			p.Price.CachedInput = p.Price.Input
		}
	}
}
