package config

import (
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// foreignWords are keys of the system that this one replaces, and what to write instead.
var foreignWords = map[string]string{
	"iteration_strategy":        "agents always call tools natively, and the provider's type decides the protocol",
	"llm_backend":               "the provider's type decides the protocol",
	"backend":                   "the provider's type decides the protocol",
	"max_tool_result_tokens":    "a result over 15% of context_window is shown as head and tail, and read in parts",
	"native_tools":              "agents have the tools of MCP servers only: name one in mcp_servers",
	"poll_interval":             "workers get sessions at once, without polling",
	"poll_interval_jitter":      "workers get sessions at once, without polling",
	"heartbeat_interval":        "another worker goes on within 5 s, without a setting",
	"graceful_shutdown_timeout": "a session goes on in another worker, or at the next start",
	"scoring_shutdown_timeout":  "sessions are not scored",
	"scoring":                   "sessions are not scored: evidence is looked up instead",
	"memory":                    "there is no memory of earlier sessions",
	"skills":                    "write it into custom_instructions or a runbook",
	"required_skills":           "write it into custom_instructions or a runbook",
	"sub_agents":                "name the agents in a stage: they run side by side",
	"orchestrator":              "name the agents in a stage: they run side by side",
	"type":                      "every agent investigates",
	"holidays":                  "agents know the date only",
	"cost_estimation":           "write price at the provider",
	"session_retention_days":    "write sessions, such as 365d",
	"event_ttl":                 "events are kept as long as their session",
	"cleanup_interval":          "sessions end at their time, without a setting",
	"session_cleanup_url":       "sessions of MCP servers are closed by the protocol",
	"replacement":               "the text is [MASKED_NAME]",
}

// foreignWord returns what to write instead of a key, or nothing.
func foreignWord(key string) string {
	if strings.HasPrefix(key, "orphan_") {
		return "another worker goes on within 5 s, without a setting"
	}
	return foreignWords[key]
}

// standsThere reports whether the replaced system has a foreign word at a path. In triggers, which
// it lacks, an unknown key would make one match more than it says.
func standsThere(word, path string) bool {
	if word == "type" {
		return strings.HasPrefix(path, "agents.")
	}
	return !strings.HasPrefix(path, "triggers")
}

// foreignFallback returns the provider of {provider, backend}, the replaced system's form of
// a fallback.
func (d *decoder) foreignFallback(n *yaml.Node, path string) *yaml.Node {
	var provider *yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch key := n.Content[i]; key.Value {
		case "provider":
			provider = n.Content[i+1]
		case "backend", "llm_backend":
			d.warn(key.Line, join(path, key.Value), "has no effect: "+foreignWord(key.Value))
		default:
			return n
		}
	}
	if provider == nil {
		return n
	}
	return provider
}

// foreignProviders is the second file of the system that this one replaces.
const foreignProviders = "llm-providers.yaml"

// ForeignFiles returns the two files of the system that this one replaces, where path is the
// first of them, tarsy.yaml.
func ForeignFiles(path string) (first, providers string, is bool) {
	if filepath.Base(path) != "tarsy.yaml" {
		return "", "", false
	}
	return path, filepath.Join(filepath.Dir(path), foreignProviders), true
}
