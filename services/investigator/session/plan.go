package session

import (
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

// Plan is the configuration of one session, resolved when it was submitted or retried. It is
// stored with the session, so that a change of the configuration changes nothing for it. It names
// providers and servers, and holds no secrets: a worker with another configuration, as after a
// restart, uses its own addresses and keys for the names.
type Plan struct {
	Chain  string  `json:"chain"`
	Stages []Stage `json:"stages"`
	// Summary is the provider of the executive summary.
	Summary   Provider   `json:"summary"`
	Fallbacks []Provider `json:"fallbacks,omitempty"` // of the summary
	Limits    Limits     `json:"limits,omitzero"`
	// Timeout bounds the session from its first claim, without the time that it waits for a
	// person. IterationTimeout bounds one model call and its tools.
	Timeout          time.Duration `json:"timeout"`
	IterationTimeout time.Duration `json:"iteration_timeout"`
	ToolTimeout      time.Duration `json:"tool_timeout"`
	// Runbook is the text of the configured runbook, and RunbookURL that of the alert, which
	// is noted.
	Runbook    string `json:"runbook,omitempty"`
	RunbookURL string `json:"runbook_url,omitempty"`
	// Masking selects the patterns for the session's texts. Without it those of the configuration
	// mask them.
	Masking *Masking `json:"masking,omitempty"`
	// ChatEnabled is shown with the session.
	ChatEnabled bool `json:"chat_enabled"`
}

// Masking selects masking patterns by their groups; none of them means redaction alone.
type Masking struct {
	Groups []string `json:"groups,omitempty"`
}

// Stage is one configured stage of a chain. Its synthesis is a stage of its own when it runs.
type Stage struct {
	Name string `json:"name"`
	// Agents are those that run side by side, replicas listed one by one.
	Agents []Agent `json:"agents"`
	// Parallel is "", multi_agent or replica.
	Parallel Parallel `json:"parallel,omitempty"`
	// Policy is any or all.
	Policy Policy `json:"policy"`
	// Synthesis is set where there are several agents.
	Synthesis *Agent `json:"synthesis,omitempty"`
}

// Agent is one agent of a stage.
type Agent struct {
	// Name is the one shown: the configured one, or with -1, -2 for replicas and repeated
	// agents. Agent is the configured one.
	Name         string `json:"name"`
	Agent        string `json:"agent"`
	Instructions string `json:"instructions,omitempty"`
	// Servers are the MCP servers, in their order, and what narrows them.
	Servers       []Server   `json:"servers,omitempty"`
	Provider      Provider   `json:"provider"`
	Fallbacks     []Provider `json:"fallbacks,omitempty"`
	MaxIterations int        `json:"max_iterations"`
}

// Server is an MCP server as one agent may use it.
type Server struct {
	Name string `json:"name"`
	// Definition identifies the entry of the configuration: after a change of the file the session keeps
	// the entry in each process that had it. Another process takes the one of the name.
	Definition string `json:"definition,omitempty"`
	// Tools are the names of those that the alert chose; none means all that the server's entry
	// offers.
	Tools        []string `json:"tools,omitempty"`
	Instructions string   `json:"instructions,omitempty"`
	// Summarization replaces long results by a summary.
	Summarization *Summarization `json:"summarization,omitempty"`
}

// Summarization says from which size on a result is summarized, in tokens, and how long the
// summary may be.
type Summarization struct {
	Threshold int      `json:"threshold"`
	MaxTokens int      `json:"max_tokens"`
	Provider  Provider `json:"provider"`
}

// Provider is an entry of llm_providers, without what is secret or only for its transport.
type Provider struct {
	Name string `json:"name"`
	// Definition is as in [Server].
	Definition string `json:"definition,omitempty"`
	Model      string `json:"model"`
	// ContextWindow and MaxOutput are tokens.
	ContextWindow int `json:"context_window"`
	MaxOutput     int `json:"max_output"`
	// Price is nil where none is configured.
	Price *model.Price `json:"price,omitempty"`
}

// Limits bound a session over all its executions. 0 means no limit.
type Limits struct {
	MaxTokens    int     `json:"max_tokens,omitempty"`
	MaxCostUSD   float64 `json:"max_cost_usd,omitempty"`
	MaxToolCalls int     `json:"max_tool_calls,omitempty"`
}

// Parallel is why a stage has several agents.
type Parallel string

// The kinds of parallel stages.
const (
	MultiAgent Parallel = "multi_agent"
	Replica    Parallel = "replica"
)

// Policy decides whether a stage of several agents succeeded.
type Policy string

// The policies: one agent must complete, or each of them.
const (
	Any Policy = "any"
	All Policy = "all"
)
