package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

// Time is a time as people see it: RFC 3339 in UTC with milliseconds.
type Time time.Time

const timeLayout = "2006-01-02T15:04:05.000Z"

// MarshalJSON implements [json.Marshaler].
func (t Time) MarshalJSON() ([]byte, error) {
	return []byte(`"` + time.Time(t).UTC().Format(timeLayout) + `"`), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *Time) UnmarshalJSON(b []byte) error {
	return (*time.Time)(t).UnmarshalJSON(b)
}

// String returns the time as in JSON.
func (t Time) String() string { return time.Time(t).UTC().Format(timeLayout) }

func timeOrNull(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	v := Time(t)
	return &v
}

// Item is a session in a list. A value that the session does not have is null.
type Item struct {
	ID                  string   `json:"id"`
	AlertType           string   `json:"alert_type"`
	ChainID             string   `json:"chain_id"`
	Status              Status   `json:"status"`
	Author              string   `json:"author"`
	CreatedAt           Time     `json:"created_at"`
	StartedAt           *Time    `json:"started_at"`
	CompletedAt         *Time    `json:"completed_at"`
	DurationMS          *int64   `json:"duration_ms"`
	ErrorMessage        *string  `json:"error_message"`
	ExecutiveSummary    *string  `json:"executive_summary"`
	CurrentStageIndex   *int     `json:"current_stage_index"`
	TotalStages         int      `json:"total_stages"`
	CompletedStages     int      `json:"completed_stages"`
	LLMInteractionCount int      `json:"llm_interaction_count"`
	MCPInteractionCount int      `json:"mcp_interaction_count"`
	InputTokens         int      `json:"input_tokens"`
	OutputTokens        int      `json:"output_tokens"`
	CachedTokens        int      `json:"cached_tokens"`
	EstimatedCostUSD    *float64 `json:"estimated_cost_usd"`
	ChatMessageCount    int      `json:"chat_message_count"`
	AlertID             *string  `json:"alert_id"`
	DedupKey            *string  `json:"dedup_key"`
}

// ItemOf returns the session as lists show it. The cost is null where a provider without a
// price was asked.
func ItemOf(s *Session) Item {
	it := Item{
		ID: s.ID(), AlertType: s.submitted.AlertType, ChainID: s.plan.Chain, Status: s.status, Author: s.submitted.Author,
		CreatedAt: Time(s.created), StartedAt: timeOrNull(s.started), CompletedAt: timeOrNull(s.done),
		ErrorMessage: orNull(s.err), ExecutiveSummary: orNull(s.summary.text),
		TotalStages: len(s.slots), CompletedStages: len(s.completed),
		LLMInteractionCount: len(s.models), MCPInteractionCount: len(s.tools),
		InputTokens: s.usage.Input, OutputTokens: s.usage.Output, CachedTokens: s.usage.Cached,
		EstimatedCostUSD: costOrNull(s.cost, s.unpriced), DedupKey: orNull(s.submitted.DedupKey),
	}
	if !s.done.IsZero() && !s.started.IsZero() {
		ms := s.done.Sub(s.started).Milliseconds()
		it.DurationMS = &ms
	}
	if n := len(s.stages); n > 0 {
		index := s.stages[n-1].Index
		it.CurrentStageIndex = &index
	}
	if a := s.submitted.Alert; a != nil {
		it.AlertID = &a.ID
	}
	return it
}

// costDigits rounds costs to 9 digits: sums of prices have more, which mean nothing.
const costDigits = 1e9

func costOrNull(cost float64, unpriced bool) *float64 {
	if unpriced {
		return nil
	}
	cost = math.Round(cost*costDigits) / costDigits
	return &cost
}

// Load reads the whole text, which may be an object. Where it is nil, or fails, a view shows the
// head and tail.
type Load func(Text) (string, error)

func (l Load) text(t Text) string {
	if whole, err := l.whole(t); err == nil {
		return whole
	}
	return t.Shown()
}

var errNoLoad = errors.New("stored texts can't be read here")

func (l Load) whole(t Text) (string, error) {
	switch {
	case t.Object == "":
		return t.Inline, nil
	case l == nil:
		return "", errNoLoad
	}
	return l(t)
}

// Detail is a session with its stages.
type Detail struct {
	Item
	AlertData             string          `json:"alert_data"`
	FinalAnalysis         *string         `json:"final_analysis"`
	Conclusion            json.RawMessage `json:"conclusion"`
	ExecutiveSummaryError *string         `json:"executive_summary_error"`
	RunbookURL            *string         `json:"runbook_url"`
	MCPSelection          json.RawMessage `json:"mcp_selection"`
	ChatEnabled           bool            `json:"chat_enabled"`
	Chat                  *struct{}       `json:"chat"`
	WaitingFor            *string         `json:"waiting_for"`
	Stages                []StageView     `json:"stages"`
}

// StageView is a stage that was started.
type StageView struct {
	ID                 string          `json:"id"`
	StageName          string          `json:"stage_name"`
	StageIndex         int             `json:"stage_index"`
	StageType          string          `json:"stage_type"`
	Status             Status          `json:"status"`
	ParallelType       *string         `json:"parallel_type"`
	ExpectedAgentCount int             `json:"expected_agent_count"`
	Attempt            int             `json:"attempt"`
	Executions         []ExecutionView `json:"executions"`
}

// ExecutionView is the work of one agent.
type ExecutionView struct {
	ExecutionID      string   `json:"execution_id"`
	AgentName        string   `json:"agent_name"`
	AgentIndex       int      `json:"agent_index"`
	Status           Status   `json:"status"`
	LLMProvider      string   `json:"llm_provider"`
	ModelName        string   `json:"model_name"`
	Iterations       int      `json:"iterations"`
	InputTokens      int      `json:"input_tokens"`
	OutputTokens     int      `json:"output_tokens"`
	CachedTokens     int      `json:"cached_tokens"`
	EstimatedCostUSD *float64 `json:"estimated_cost_usd"`
	ErrorMessage     *string  `json:"error_message"`
	StartedAt        *Time    `json:"started_at"`
	CompletedAt      *Time    `json:"completed_at"`
}

// DetailOf returns the session with its stages.
func DetailOf(s *Session, load Load) Detail {
	d := Detail{
		Item: ItemOf(s), AlertData: load.text(s.submitted.Data),
		FinalAnalysis: s.finalAnalysis(), Conclusion: s.finalConclusion(), ExecutiveSummaryError: orNull(s.summary.err),
		RunbookURL: orNull(s.plan.RunbookURL), MCPSelection: rawOrNull(s.submitted.Selection),
		ChatEnabled: s.plan.ChatEnabled, Stages: []StageView{},
	}
	for _, st := range s.stages {
		v := StageView{
			ID: st.ID, StageName: st.Name, StageIndex: st.Index, StageType: "investigation", Status: st.status,
			ParallelType: orNull(string(st.parallel)), ExpectedAgentCount: len(st.execs), Attempt: st.attempt, Executions: []ExecutionView{},
		}
		if st.Synthesis {
			v.StageType = "synthesis"
		}
		for _, e := range st.execs {
			p := e.current()
			v.Executions = append(v.Executions, ExecutionView{
				ExecutionID: e.id, AgentName: e.agent.Name, AgentIndex: e.index, Status: e.status, LLMProvider: p.Name, ModelName: p.Model,
				Iterations: e.iterations, InputTokens: e.usage.Input, OutputTokens: e.usage.Output, CachedTokens: e.usage.Cached,
				EstimatedCostUSD: costOrNull(e.cost, e.unpriced), ErrorMessage: orNull(e.err),
				StartedAt: timeOrNull(e.started), CompletedAt: timeOrNull(e.ended),
			})
		}
		d.Stages = append(d.Stages, v)
	}
	return d
}

var null = json.RawMessage("null")

func rawOrNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return null
	}
	return raw
}

// finalAnalysis is that of a session that completed.
func (s *Session) finalAnalysis() *string {
	if s.status != StatusCompleted {
		return nil
	}
	return orNull(s.analysis)
}

func (s *Session) finalConclusion() json.RawMessage {
	if s.status != StatusCompleted {
		return null
	}
	return rawOrNull(s.conclusion)
}

// Outcome is what a session led to.
type Outcome struct {
	ID               string          `json:"id"`
	Status           Status          `json:"status"`
	FinalAnalysis    *string         `json:"final_analysis"`
	ExecutiveSummary *string         `json:"executive_summary"`
	Conclusion       json.RawMessage `json:"conclusion"`
	ErrorMessage     *string         `json:"error_message"`
}

// Summary returns what the session led to.
func Summary(s *Session) Outcome {
	return Outcome{
		ID: s.ID(), Status: s.status, FinalAnalysis: s.finalAnalysis(), ExecutiveSummary: orNull(s.summary.text),
		Conclusion: s.finalConclusion(), ErrorMessage: orNull(s.err),
	}
}

// TraceView is every interaction of a session.
type TraceView struct {
	Stages              []TraceStage     `json:"stages"`
	SessionInteractions []LLMInteraction `json:"session_interactions"`
}

// TraceStage has the interactions of a stage.
type TraceStage struct {
	StageID    string           `json:"stage_id"`
	StageName  string           `json:"stage_name"`
	Executions []TraceExecution `json:"executions"`
}

// TraceExecution has the interactions of an agent.
type TraceExecution struct {
	ExecutionID     string           `json:"execution_id"`
	AgentName       string           `json:"agent_name"`
	LLMInteractions []LLMInteraction `json:"llm_interactions"`
	MCPInteractions []MCPInteraction `json:"mcp_interactions"`
}

// LLMInteraction is one call of a model. The duration is null while it is under way.
type LLMInteraction struct {
	ID               string   `json:"id"`
	InteractionType  string   `json:"interaction_type"`
	ModelName        string   `json:"model_name"`
	LLMProvider      string   `json:"llm_provider"`
	InputTokens      int      `json:"input_tokens"`
	OutputTokens     int      `json:"output_tokens"`
	CachedTokens     int      `json:"cached_tokens"`
	ThinkingTokens   int      `json:"thinking_tokens"`
	EstimatedCostUSD *float64 `json:"estimated_cost_usd"`
	DurationMS       *int64   `json:"duration_ms"`
	ErrorMessage     *string  `json:"error_message"`
	CreatedAt        Time     `json:"created_at"`
}

// maxErrorMessage bounds the error_message of a tool call whose result is an error, in bytes.
const maxErrorMessage = 4 << 10

// MCPInteraction is one call of a server. The error_message of a call that failed is the head of
// its result.
type MCPInteraction struct {
	ID              string  `json:"id"`
	InteractionType string  `json:"interaction_type"`
	ServerName      string  `json:"server_name"`
	ToolName        *string `json:"tool_name"`
	DurationMS      *int64  `json:"duration_ms"`
	ErrorMessage    *string `json:"error_message"`
	CreatedAt       Time    `json:"created_at"`
}

// Trace returns every interaction of the session.
func Trace(s *Session) TraceView {
	v := TraceView{Stages: []TraceStage{}, SessionInteractions: []LLMInteraction{}}
	at := map[*execution]*TraceExecution{}
	for _, st := range s.stages {
		ts := TraceStage{StageID: st.ID, StageName: st.Name, Executions: make([]TraceExecution, len(st.execs))}
		for i, e := range st.execs {
			ts.Executions[i] = TraceExecution{ExecutionID: e.id, AgentName: e.agent.Name, LLMInteractions: []LLMInteraction{}, MCPInteractions: []MCPInteraction{}}
			at[e] = &ts.Executions[i]
		}
		v.Stages = append(v.Stages, ts)
	}
	for _, it := range s.models {
		if it.exec == nil {
			v.SessionInteractions = append(v.SessionInteractions, it.view())
			continue
		}
		x := at[it.exec]
		x.LLMInteractions = append(x.LLMInteractions, it.view())
	}
	for _, u := range s.tools {
		x := at[u.exec]
		x.MCPInteractions = append(x.MCPInteractions, u.view())
	}
	return v
}

func (it *interaction) view() LLMInteraction {
	kind := string(it.purpose)
	if it.final {
		kind = "final_analysis"
	}
	v := LLMInteraction{
		ID: it.id, InteractionType: kind, ModelName: it.provider.Model, LLMProvider: it.provider.Name,
		InputTokens: it.usage.Input, OutputTokens: it.usage.Output, CachedTokens: it.usage.Cached, ThinkingTokens: it.usage.Thinking,
		ErrorMessage: orNull(it.err), CreatedAt: Time(it.at),
	}
	if it.provider.Price != nil {
		v.EstimatedCostUSD = costOrNull(it.provider.Price.Cost(it.usage), false)
	}
	if it.done {
		ms := it.duration.Milliseconds()
		v.DurationMS = &ms
	}
	return v
}

func (u *toolUse) view() MCPInteraction {
	v := MCPInteraction{ID: u.id, InteractionType: "tool_call", ServerName: u.server, ToolName: orNull(u.tool), ErrorMessage: orNull(u.err), CreatedAt: Time(u.at)}
	if u.list {
		v.InteractionType = "tool_list"
	}
	if u.done {
		ms := u.duration.Milliseconds()
		v.DurationMS = &ms
	}
	if u.call != nil && u.call.isError && u.err == "" { // the text of the failure is the result
		v.ErrorMessage = orNull(Head(u.call.result.Shown(), maxErrorMessage))
	}
	return v
}

// Turn is one message of a conversation as people see it.
type Turn struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []TurnCall `json:"tool_calls"`
	ToolCallID *string    `json:"tool_call_id"`
	ToolName   *string    `json:"tool_name"`
}

// TurnCall is a tool call of a message.
type TurnCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// LLMDetail is one call of a model with its conversation. The answer is its last message.
type LLMDetail struct {
	LLMInteraction
	Conversation []Turn `json:"conversation"`
}

// LLMInteractionOf returns the call of a model with the id, and reports whether the session has
// it.
func LLMInteractionOf(s *Session, id string) (LLMDetail, bool) {
	it := s.interactions[id]
	if it == nil {
		return LLMDetail{}, false
	}
	var r model.Request
	switch {
	case it.exec == nil:
		r = s.executiveRequest(it.provider)
	case it.call != nil:
		r = it.summary(it.call.result.Shown())
	default:
		r = model.Request{System: it.system, Messages: it.messages}
	}
	d := LLMDetail{LLMInteraction: it.view(), Conversation: []Turn{turnOf(model.Message{Role: "system", Text: r.System})}}
	for _, m := range r.Messages {
		d.Conversation = append(d.Conversation, turnOf(m))
	}
	if it.done && it.err == "" {
		d.Conversation = append(d.Conversation, turnOf(model.Message{Role: model.RoleAssistant, Text: it.text, Calls: it.calls}))
	}
	return d, true
}

func turnOf(m model.Message) Turn {
	t := Turn{Role: string(m.Role), Content: m.Text, ToolCalls: []TurnCall{}, ToolCallID: orNull(m.CallID), ToolName: orNull(m.ToolName)}
	for _, c := range m.Calls {
		t.ToolCalls = append(t.ToolCalls, TurnCall{ID: c.ID, Name: c.Name, Arguments: c.Arguments})
	}
	return t
}

// MCPDetail is one call of a server with its arguments and its result. A tool_list has neither, and
// a tool_call has no tools.
type MCPDetail struct {
	MCPInteraction
	ToolArguments  json.RawMessage `json:"tool_arguments"`
	ToolResult     *string         `json:"tool_result"`
	AvailableTools []ToolView      `json:"available_tools"`
}

// ToolView is a tool that a server offered.
type ToolView struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// MCPInteractionOf returns the call of a server with the id, and reports whether the session has
// it.
func MCPInteractionOf(s *Session, id string, load Load) (MCPDetail, bool) {
	u := s.toolsByID[id]
	if u == nil {
		return MCPDetail{}, false
	}
	d := MCPDetail{MCPInteraction: u.view(), ToolArguments: rawOrNull(u.arguments), AvailableTools: []ToolView{}}
	if u.list {
		for _, t := range u.tools {
			d.AvailableTools = append(d.AvailableTools, ToolView{Name: t.Name, Description: t.Tool.Description})
		}
	} else if u.call.answered {
		text := load.text(u.call.result)
		d.ToolResult = &text
	}
	return d, true
}

// Progress is where the session stands, for people who watch it.
type Progress struct {
	CurrentStageName  string `json:"current_stage_name"`
	CurrentStageIndex int    `json:"current_stage_index"`
	TotalStages       int    `json:"total_stages"`
	StatusText        string `json:"status_text"`
}

// ProgressOf returns where the session stands.
func ProgressOf(s *Session) Progress {
	p := Progress{TotalStages: len(s.slots), StatusText: string(s.status)}
	if n := len(s.stages); n > 0 {
		p.CurrentStageName, p.CurrentStageIndex = s.stages[n-1].Name, s.stages[n-1].Index
	}
	if s.status == StatusInProgress {
		p.StatusText = fmt.Sprintf("%d of %d: %s", p.CurrentStageIndex, p.TotalStages, s.step())
	}
	return p
}
