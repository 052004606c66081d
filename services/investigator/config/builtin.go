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

// addBuiltin adds the agents and the chain that the file does not define.
func (c *Config) addBuiltin() {
	if c.Agents == nil {
		c.Agents = map[string]*Agent{}
	}
	if c.Chains == nil {
		c.Chains = map[string]*Chain{}
	}
	for _, name := range []string{generalAgent, kubernetesAgent, synthesisAgent, chatAgent} {
		if c.Agents[name] != nil {
			continue
		}
		text, err := instructions.ReadFile("agents/" + name + ".md")
		if err != nil {
			panic(err) // it is embedded
		}
		agent := &Agent{Description: "built in", Instructions: strings.TrimSpace(string(text))}
		if name != synthesisAgent {
			agent.Servers = []string{BuiltinServer}
		}
		if name == kubernetesAgent && c.Servers[kubernetesServer] != nil {
			agent.Servers = append(agent.Servers, kubernetesServer)
		}
		c.Agents[name] = agent
	}
	if c.Chains[BuiltinChain] == nil && c.Defaults.LLMProvider != "" {
		stage := Stage{Name: "investigation"}
		setDefaults(reflect.ValueOf(&stage).Elem())
		agent := StageAgent{Name: generalAgent, Servers: []string{BuiltinServer}}
		setDefaults(reflect.ValueOf(&agent).Elem())
		stage.Agents = []StageAgent{agent}
		c.Chains[BuiltinChain] = &Chain{Description: "built in", Stages: []Stage{stage}}
	}
}
