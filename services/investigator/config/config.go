// Package config reads the investigator's file: YAML with environment variables in its
// values. It reports every error at once, each with its line, and resolves the settings of
// one session into a [session.Plan]. It starts nothing and knows neither models nor tools.
package config

import (
	"maps"
	"os"
	"slices"
	"strings"
)

// Config is a valid configuration. It is read-only.
type Config struct {
	Providers map[string]*Provider `key:"llm_providers" doc:"models, by name"`
	Servers   map[string]*Server   `key:"mcp_servers" doc:"MCP servers, by name; tocsin is built in" names:"server"`
	Agents    map[string]*Agent    `key:"agents" doc:"agents, by name; built in: GeneralAgent, KubernetesAgent, SynthesisAgent, ChatAgent; an entry replaces only the settings it names"`
	Chains    map[string]*Chain    `key:"agent_chains" doc:"chains, by name; default is built in and takes every alert type that no other chain has"`
	Triggers  []Trigger            `key:"triggers" doc:"which alerts start a session, the first match wins" max:"100"`
	Defaults  Defaults             `key:"defaults" doc:"settings of all chains"`
	Queue     Queue                `key:"queue" doc:"sessions that wait and run"`
	System    System               `key:"system" doc:"addresses, runbooks, retention"`
	Auth      later                `key:"auth" doc:"roles" later:"true"`

	name  string
	file  os.FileInfo
	lines map[string]int    // of a path in the file
	raw   map[string]string // a value that named environment variables, as it stands in the file
	keys  map[string]string // of providers
	// expanded has the uses of environment variables, by the paths where they stand.
	expanded map[string][]expansion
	// entries are those that a plan names, by their paths; definitionKey makes their definitions.
	entries       map[string]Entry
	definitionKey []byte
}

// later is a section that a later version reads.
type later struct{}

// Provider is an entry of llm_providers.
type Provider struct {
	Type            string   `key:"type" doc:"wire protocol" enum:"openai|anthropic" later:"google|xai|vertexai" required:"true"`
	Model           string   `key:"model" doc:"the provider's name of the model" required:"true"`
	APIKeyEnv       string   `key:"api_key_env" doc:"environment variable with the key; needed without base_url"`
	BaseURL         string   `key:"base_url" doc:"address of another server with the same protocol; with a key http:// only on loopback"`
	API             string   `key:"api" doc:"OpenAI's API; without it chat with base_url, else responses" enum:"chat|responses"`
	ContextWindow   int      `key:"context_window" doc:"tokens of a request and its answer" default:"128000" range:"1024..10000000"`
	MaxOutputTokens int      `key:"max_output_tokens" doc:"tokens of an answer, less than context_window" default:"8000" range:"16..1000000"`
	Thinking        Thinking `key:"thinking" doc:"extended thinking"`
	Timeouts        Timeouts `key:"timeouts" doc:"time limits of a call"`
	Retries         int      `key:"retries" doc:"tries of a call in all" default:"3" range:"1..10"`
	Price           *Price   `key:"price" doc:"USD per million tokens; needed for max_cost_usd"`
	CredentialsEnv  string   `key:"credentials_env" doc:"credentials of vertexai" later:"true"`
	ProjectEnv      string   `key:"project_env" doc:"project of vertexai" later:"true"`
	LocationEnv     string   `key:"location_env" doc:"location of vertexai" later:"true"`
}

// UsesChat reports whether an openai provider speaks Chat Completions and not Responses.
func (p *Provider) UsesChat() bool { return p.API == "chat" || p.API == "" && p.BaseURL != "" }

// Thinking is how much a model may think before it answers.
type Thinking struct {
	BudgetTokens int `key:"budget_tokens" doc:"tokens for thinking, less than max_output_tokens; 0: off" default:"0" range:"0..1000000"`
}

// Timeouts are those of one model call.
type Timeouts struct {
	FirstChunk    Duration `key:"first_chunk" doc:"until the answer begins" default:"120s" range:"10ms..1h"`
	BetweenChunks Duration `key:"between_chunks" doc:"between two parts of the answer" default:"60s" range:"10ms..1h"`
	Call          Duration `key:"call" doc:"for the whole answer" default:"5m" range:"10ms..1h"`
}

// Price is in USD per million tokens.
type Price struct {
	Input       float64 `key:"input" doc:"input" range:"0..10000" required:"true"`
	CachedInput float64 `key:"cached_input" doc:"input that the provider had cached; without it that of input" range:"0..10000"`
	Output      float64 `key:"output" doc:"output, thinking included" range:"0..10000" required:"true"`
}

// Server is an entry of mcp_servers.
type Server struct {
	Transport     Transport     `key:"transport" doc:"how the server is reached" required:"true"`
	Instructions  string        `key:"instructions" doc:"text for the model, with the server's tools"`
	Tools         []string      `key:"tools" doc:"allow-list of tools by pattern; empty: all that are read-only" max:"500"`
	ReadOnlyTools []string      `key:"read_only_tools" doc:"patterns of tools that you vouch for as read-only" max:"500"`
	AllowWrites   bool          `key:"allow_writes" doc:"offer tools that may change something; a call that needs an approval is denied; needs TOCSIN_TOKEN or trusted proxies" default:"false"`
	NoApproval    []string      `key:"no_approval" doc:"with allow_writes: patterns of tools that need no approval" max:"500"`
	Selectable    bool          `key:"selectable" doc:"an alert may choose the server" default:"false"`
	DataMasking   DataMasking   `key:"data_masking" doc:"masking of what the server returns"`
	Summarization Summarization `key:"summarization" doc:"summaries of long results"`
}

// Transport is how an MCP server is reached.
type Transport struct {
	Type          string            `key:"type" doc:"a process or streamable HTTP" enum:"stdio|http" later:"sse" required:"true"`
	Command       string            `key:"command" doc:"stdio: the program"`
	Args          []string          `key:"args" doc:"stdio: its arguments" max:"500"`
	Env           map[string]string `key:"env" doc:"stdio: its environment" secret:"true"`
	URL           string            `key:"url" doc:"http: the address; with a token, headers or a variable in its query http:// only on loopback"`
	BearerToken   string            `key:"bearer_token" doc:"http: the token" secret:"true"`
	VerifySSL     bool              `key:"verify_ssl" doc:"http: check the certificate" default:"true"`
	Timeout       Duration          `key:"timeout" doc:"http: for one request" default:"30s" range:"10ms..1h"`
	CustomHeaders map[string]string `key:"custom_headers" doc:"http: further headers" secret:"true"`
}

// DataMasking is what is masked besides the redaction of all texts.
type DataMasking struct {
	Enabled        bool            `key:"enabled" doc:"mask by the patterns" default:"true"`
	PatternGroups  []string        `key:"pattern_groups" doc:"groups of patterns: basic, secrets, security, kubernetes, cloud, all" max:"10"`
	Patterns       []string        `key:"patterns" doc:"patterns by name" max:"50"`
	CustomPatterns []CustomPattern `key:"custom_patterns" doc:"own patterns" max:"50"`
}

// CustomPattern is a pattern of the user.
type CustomPattern struct {
	Name    string `key:"name" doc:"letters, digits and underscores; shown as [MASKED_NAME]" required:"true"`
	Pattern string `key:"pattern" doc:"regular expression (RE2)" required:"true"`
}

// Summarization replaces long results by a summary.
type Summarization struct {
	Enabled             bool   `key:"enabled" doc:"summarize long results" default:"false"`
	SizeThresholdTokens int    `key:"size_threshold_tokens" doc:"from this size on" default:"5000" range:"100..1000000"`
	SummaryMaxTokens    int    `key:"summary_max_token_limit" doc:"size of a summary" default:"1000" range:"50..100000"`
	LLMProvider         string `key:"llm_provider" doc:"who summarizes; without it the agent's provider"`
}

// Agent is an entry of agents.
type Agent struct {
	Description   string   `key:"description" doc:"for people"`
	Servers       []string `key:"mcp_servers" doc:"its MCP servers" max:"50"`
	Instructions  string   `key:"custom_instructions" doc:"text for the model"`
	MaxIterations int      `key:"max_iterations" doc:"turns before it has to answer; without it that of defaults" range:"1..500"`
}

// Chain is an entry of agent_chains.
type Chain struct {
	AlertTypes    []string `key:"alert_types" doc:"alert types; each in one chain" max:"1000"`
	Description   string   `key:"description" doc:"for people"`
	Stages        []Stage  `key:"stages" doc:"stages, in their order" max:"20" required:"true"`
	Chat          *Chat    `key:"chat" doc:"chat about the session; not supported yet: only enabled: false"`
	Servers       []string `key:"mcp_servers" doc:"servers instead of the agents' own; empty: the agents' own" max:"50"`
	LLMProvider   string   `key:"llm_provider" doc:"instead of that of defaults"`
	Fallbacks     []string `key:"fallback_providers" doc:"tried in order when the provider fails; instead of those of defaults" max:"10"`
	SummaryBy     string   `key:"executive_summary_provider" doc:"who writes the executive summary; without it llm_provider"`
	MaxIterations int      `key:"max_iterations" doc:"instead of that of the agent" range:"1..500"`
	Limits        Limits   `key:"limits" doc:"limits of a session over all its agents; 0: none"`
}

// Chat is the chat of a chain.
type Chat struct {
	Enabled     bool   `key:"enabled" doc:"only false" required:"true" later:"true"`
	Agent       string `key:"agent" doc:"who answers"`
	LLMProvider string `key:"llm_provider" doc:"its provider"`
}

// Limits bound a session. 0 means no limit.
type Limits struct {
	MaxTokens    int     `key:"max_tokens" doc:"input and output tokens" default:"0" range:"0..1000000000"`
	MaxCostUSD   float64 `key:"max_cost_usd" doc:"estimated cost; each provider needs a price" default:"0" range:"0..100000"`
	MaxToolCalls int     `key:"max_tool_calls" doc:"tool calls" default:"0" range:"0..1000000"`
}

// Stage is one stage of a chain.
type Stage struct {
	Name          string       `key:"name" doc:"unique in the chain" required:"true"`
	Agents        []StageAgent `key:"agents" doc:"agents that run side by side" max:"16" required:"true"`
	Replicas      int          `key:"replicas" doc:"how often the one agent runs side by side" default:"1" range:"1..16"`
	SuccessPolicy string       `key:"success_policy" doc:"one agent must complete, or each; without it that of defaults" enum:"any|all"`
	Synthesis     *Synthesis   `key:"synthesis" doc:"who joins the results of several agents"`
	Servers       []string     `key:"mcp_servers" doc:"instead of the chain's; empty: those" max:"50"`
	LLMProvider   string       `key:"llm_provider" doc:"instead of the chain's"`
	Fallbacks     []string     `key:"fallback_providers" doc:"instead of the chain's" max:"10"`
	MaxIterations int          `key:"max_iterations" doc:"instead of the chain's" range:"1..500"`
}

// StageAgent is an agent in a stage.
type StageAgent struct {
	Name          string   `key:"name" doc:"an agent" required:"true"`
	Replicas      int      `key:"replicas" doc:"as in the stage, where the agent is the only one" default:"1" range:"1..16"`
	Servers       []string `key:"mcp_servers" doc:"instead of the stage's; empty: those" max:"50"`
	LLMProvider   string   `key:"llm_provider" doc:"instead of the stage's"`
	Fallbacks     []string `key:"fallback_providers" doc:"instead of the stage's" max:"10"`
	MaxIterations int      `key:"max_iterations" doc:"instead of the stage's" range:"1..500"`
}

// Synthesis is who joins the results of a stage.
type Synthesis struct {
	Agent       string `key:"agent" doc:"an agent" default:"SynthesisAgent"`
	LLMProvider string `key:"llm_provider" doc:"instead of the stage's"`
}

// Trigger says which alerts start a session.
type Trigger struct {
	Match    Match    `key:"match" doc:"all keys must hold" required:"true"`
	Chain    string   `key:"chain" doc:"the chain" required:"true"`
	Cooldown Duration `key:"cooldown" doc:"from the end of the last session of the same alert" default:"30m" range:"0s..30d"`
}

// Match is what a trigger asks of an alert. A list holds alternatives, and no list holds
// for every alert. In patterns * stands for any text.
type Match struct {
	Category    []string `key:"category" doc:"categories" scalar:"true" max:"100"`
	SeverityMin string   `key:"severity_min" doc:"lowest severity" enum:"info|warning|error"`
	App         []string `key:"app" doc:"patterns" scalar:"true" max:"100"`
	Cluster     []string `key:"cluster" doc:"patterns" scalar:"true" max:"100"`
	Namespace   []string `key:"namespace" doc:"patterns" scalar:"true" max:"100"`
	Source      []string `key:"source" doc:"patterns" scalar:"true" max:"100"`
	Title       []string `key:"title" doc:"patterns" scalar:"true" max:"100"`
}

// Defaults are the settings of all chains.
type Defaults struct {
	LLMProvider      string       `key:"llm_provider" doc:"provider of every agent"`
	MaxIterations    int          `key:"max_iterations" doc:"turns of an agent before it has to answer" default:"20" range:"1..500"`
	SuccessPolicy    string       `key:"success_policy" doc:"when a stage of several agents succeeds" default:"any" enum:"any|all"`
	AlertType        string       `key:"alert_type" doc:"type of an alert that names none" default:"kubernetes"`
	Runbook          string       `key:"runbook" doc:"text, or a URL of an allowed domain, for alerts without a runbook"`
	AlertMasking     AlertMasking `key:"alert_masking" doc:"masking of the alert's data"`
	IterationTimeout Duration     `key:"iteration_timeout" doc:"one model call and its tools" default:"6m" range:"10ms..1h"`
	ToolTimeout      Duration     `key:"tool_timeout" doc:"one tool call" default:"60s" range:"10ms..1h"`
	Fallbacks        []string     `key:"fallback_providers" doc:"tried in order when the provider fails" max:"10"`
}

// AlertMasking is what is masked in the alert's data.
type AlertMasking struct {
	Enabled      bool   `key:"enabled" doc:"mask by the group" default:"true"`
	PatternGroup string `key:"pattern_group" doc:"group of patterns" default:"security" enum:"basic|secrets|security|kubernetes|cloud|all"`
}

// Queue bounds what waits and runs.
type Queue struct {
	WorkerCount           int      `key:"worker_count" doc:"sessions at once in this process" default:"5" range:"1..1000"`
	MaxConcurrentSessions int      `key:"max_concurrent_sessions" doc:"sessions at once over all processes" default:"5" range:"1..1000"`
	MaxQueuedSessions     int      `key:"max_queued_sessions" doc:"sessions that wait; above it 429" default:"1000" range:"1..100000"`
	SessionTimeout        Duration `key:"session_timeout" doc:"one session from its start" default:"40m" range:"10ms..7d"`
	ChatTimeout           Duration `key:"chat_timeout" doc:"one answer in a chat" later:"true"`
	ApprovalTimeout       Duration `key:"approval_timeout" doc:"until an approval expires" later:"true"`
	MaxPerHour            int      `key:"max_per_hour" doc:"sessions that triggers and MCP start in an hour" default:"60" range:"1..100000"`
}

// System has addresses and what is kept.
type System struct {
	DashboardURL     string    `key:"dashboard_url" doc:"address of the dashboard in links to sessions; without it, tocsin up takes that of its own dashboard" default:"http://127.0.0.1:7480"`
	AllowedWSOrigins []string  `key:"allowed_ws_origins" doc:"further origins of WebSocket clients" later:"true"`
	Runbooks         Runbooks  `key:"runbooks" doc:"runbooks of alerts"`
	GitHub           GitHub    `key:"github" doc:"access to GitHub"`
	Slack            Slack     `key:"slack" doc:"messages to Slack; not supported yet: only enabled: false"`
	Retention        Retention `key:"retention" doc:"how long sessions are kept"`
}

// Runbooks says where runbooks may be.
type Runbooks struct {
	RepoURL        string   `key:"repo_url" doc:"repository with runbooks" later:"true"`
	Folder         string   `key:"folder" doc:"folder with runbooks" later:"true"`
	CacheTTL       Duration `key:"cache_ttl" doc:"how long a runbook is cached" later:"true"`
	AllowedDomains []string `key:"allowed_domains" doc:"domains of runbook URLs; empty: none" default:"github.com,raw.githubusercontent.com" max:"100"`
}

// GitHub is the access to GitHub.
type GitHub struct {
	TokenEnv string `key:"token_env" doc:"environment variable with a token" later:"true"`
}

// Slack is the access to Slack.
type Slack struct {
	Enabled  bool   `key:"enabled" doc:"only false" default:"false" later:"true"`
	TokenEnv string `key:"token_env" doc:"environment variable with a token; read where Slack is enabled"`
	Channel  string `key:"channel" doc:"channel; read where Slack is enabled"`
}

// Retention bounds what is kept.
type Retention struct {
	Sessions Duration `key:"sessions" doc:"ended sessions, from their end" default:"365d" range:"1m..3650d"`
	MaxBytes Size     `key:"max_bytes" doc:"all sessions together; new ones are refused at 95%" default:"1GiB" range:"1MiB..1TiB"`
}

// UseDashboard sets the dashboard's address in links, where the file has none. It is called before
// the configuration is used.
func (c *Config) UseDashboard(address string) {
	if _, named := c.lines["system.dashboard_url"]; !named && address != "" {
		c.System.DashboardURL = address
	}
}

// SessionURL returns the link to a session: the dashboard serves the investigator's API.
func (c *Config) SessionURL(id string) string {
	return strings.TrimRight(c.System.DashboardURL, "/") + "/api/v1/sessions/" + id
}

// Name returns the name of the file.
func (c *Config) Name() string { return c.name }

// File describes the file as it was read, so that [Watch] sees what changed since. It is nil where
// [Load] has not read one.
func (c *Config) File() os.FileInfo { return c.file }

// Key returns the key of a provider, as it was in the environment when the file was read, or
// nothing.
func (c *Config) Key(provider string) string { return c.keys[provider] }

// AlertTypes returns the alert types that chains name, in order, with their chains.
func (c *Config) AlertTypes() []AlertType {
	var types []AlertType
	for _, name := range slices.Sorted(maps.Keys(c.Chains)) {
		for _, t := range c.Chains[name].AlertTypes {
			types = append(types, AlertType{Type: t, Chain: name})
		}
	}
	return types
}

// AlertType is an alert type and its chain.
type AlertType struct{ Type, Chain string }
