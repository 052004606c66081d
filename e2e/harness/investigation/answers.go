package investigation

import (
	"encoding/json"
	"slices"
	"strings"
)

// Session is what the API shows of a session, as far as tests read it.
type Session struct {
	ID                    string     `json:"id"`
	AlertType             string     `json:"alert_type"`
	ChainID               string     `json:"chain_id"`
	Status                string     `json:"status"`
	Author                string     `json:"author"`
	StartedAt             *string    `json:"started_at"`
	CompletedAt           *string    `json:"completed_at"`
	ErrorMessage          *string    `json:"error_message"`
	ExecutiveSummary      *string    `json:"executive_summary"`
	ExecutiveSummaryError *string    `json:"executive_summary_error"`
	FinalAnalysis         *string    `json:"final_analysis"`
	AlertData             string     `json:"alert_data"`
	TotalStages           int        `json:"total_stages"`
	CompletedStages       int        `json:"completed_stages"`
	LLMInteractionCount   int        `json:"llm_interaction_count"`
	MCPInteractionCount   int        `json:"mcp_interaction_count"`
	InputTokens           int        `json:"input_tokens"`
	OutputTokens          int        `json:"output_tokens"`
	QueuePosition         int        `json:"queue_position"`
	Stages                []Stage    `json:"stages"`
	Conclusion            Conclusion `json:"conclusion"`
}

// Ended reports whether the session can't change any more by itself.
func (s Session) Ended() bool {
	return slices.Contains([]string{"completed", "failed", "cancelled", "timed_out"}, s.Status)
}

// Conclusion is the conclusion of a session.
type Conclusion struct {
	Cause      string `json:"cause"`
	Confidence string `json:"confidence"`
	Structured *bool  `json:"structured"`
	Evidence   []struct {
		CallID    string `json:"call_id"`
		Quote     string `json:"quote"`
		Supported bool   `json:"supported"`
	} `json:"evidence"`
}

// Stage is a stage of a session.
type Stage struct {
	ID                 string      `json:"id"`
	StageName          string      `json:"stage_name"`
	StageIndex         int         `json:"stage_index"`
	StageType          string      `json:"stage_type"`
	Status             string      `json:"status"`
	ParallelType       *string     `json:"parallel_type"`
	ExpectedAgentCount int         `json:"expected_agent_count"`
	Attempt            int         `json:"attempt"`
	Executions         []Execution `json:"executions"`
}

// Execution is the work of one agent.
type Execution struct {
	ExecutionID  string  `json:"execution_id"`
	AgentName    string  `json:"agent_name"`
	AgentIndex   int     `json:"agent_index"`
	Status       string  `json:"status"`
	LLMProvider  string  `json:"llm_provider"`
	ModelName    string  `json:"model_name"`
	Iterations   int     `json:"iterations"`
	ErrorMessage *string `json:"error_message"`
}

// Outline returns the stages as lines: name, type, status, kind of parallel work, and the agents
// with their statuses and providers.
func (s Session) Outline() []string {
	var lines []string
	for _, st := range s.Stages {
		words := []string{st.StageName + ":", st.StageType, st.Status}
		if st.ParallelType != nil {
			words = append(words, *st.ParallelType)
		}
		for _, e := range st.Executions {
			words = append(words, e.AgentName+"="+e.Status+"/"+e.LLMProvider)
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}

// Event is an event of a timeline.
type Event struct {
	ID              string          `json:"id"`
	StageID         *string         `json:"stage_id"`
	ExecutionID     *string         `json:"execution_id"`
	SequenceNumber  int64           `json:"sequence_number"`
	UpdatedSequence int64           `json:"updated_sequence"`
	EventType       string          `json:"event_type"`
	Status          string          `json:"status"`
	Content         string          `json:"content"`
	Metadata        json.RawMessage `json:"metadata"`
}

// Trace is every interaction of a session.
type Trace struct {
	Stages []struct {
		StageName  string `json:"stage_name"`
		Executions []struct {
			ExecutionID string           `json:"execution_id"`
			AgentName   string           `json:"agent_name"`
			LLM         []LLMInteraction `json:"llm_interactions"`
			MCP         []MCPInteraction `json:"mcp_interactions"`
		} `json:"executions"`
	} `json:"stages"`
	Session []LLMInteraction `json:"session_interactions"`
}

// LLMInteraction is one call of a model. DurationMS is nil while it is under way.
type LLMInteraction struct {
	ID              string  `json:"id"`
	InteractionType string  `json:"interaction_type"`
	ModelName       string  `json:"model_name"`
	LLMProvider     string  `json:"llm_provider"`
	DurationMS      *int64  `json:"duration_ms"`
	ErrorMessage    *string `json:"error_message"`
}

// MCPInteraction is one call of an MCP server.
type MCPInteraction struct {
	ID              string  `json:"id"`
	InteractionType string  `json:"interaction_type"`
	ServerName      string  `json:"server_name"`
	ToolName        *string `json:"tool_name"`
	DurationMS      *int64  `json:"duration_ms"`
	ErrorMessage    *string `json:"error_message"`
}

// LLMDetail is one call of a model with its conversation.
type LLMDetail struct {
	LLMInteraction
	Conversation []struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	} `json:"conversation"`
}

// MCPDetail is one call of an MCP server with its result.
type MCPDetail struct {
	MCPInteraction
	ToolArguments json.RawMessage `json:"tool_arguments"`
	ToolResult    *string         `json:"tool_result"`
}
