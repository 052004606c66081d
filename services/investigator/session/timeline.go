package session

import (
	"slices"
	"strconv"
	"time"
)

// EventType is the kind of a timeline event.
type EventType string

// The kinds of timeline events.
const (
	EventThinking         EventType = "llm_thinking"
	EventResponse         EventType = "llm_response"
	EventToolCall         EventType = "llm_tool_call"
	EventToolSummary      EventType = "mcp_tool_summary"
	EventError            EventType = "error"
	EventExecutiveSummary EventType = "executive_summary"
	EventFinalAnalysis    EventType = "final_analysis"
	EventFallback         EventType = "provider_fallback"
	EventNote             EventType = "note"
)

// StatusStreaming is that of a timeline event which is not complete.
const StatusStreaming Status = "streaming"

// maxEventResult is how many bytes of a tool's result its timeline event shows.
const maxEventResult = 32 << 10

// event is a timeline event. created and updated number the changes of the whole timeline from
// 1: each change has a number, and none has two.
type event struct {
	id               string
	stage, execution string
	kind             EventType
	status           Status
	content          string
	metadata         map[string]any
	created, updated int64
	at, changed      time.Time
}

func (s *Session) addEvent(t time.Time, e *event) *event {
	if old := s.events[e.id]; old != nil {
		return old
	}
	if e.status == "" {
		e.status = StatusCompleted
	}
	if e.status == StatusStreaming {
		s.open = append(s.open, e)
	}
	s.events[e.id] = e
	s.changes = append(s.changes, e)
	e.created = int64(len(s.changes))
	e.updated, e.at, e.changed = e.created, t, t
	return e
}

func (s *Session) changeEvent(t time.Time, e *event) {
	if i := slices.Index(s.open, e); i >= 0 && e.status != StatusStreaming {
		s.open = slices.Delete(s.open, i, i+1)
	}
	s.changes = append(s.changes, e)
	e.updated, e.changed = int64(len(s.changes)), t
}

// note adds a note, with an id by its number.
func (s *Session) note(t time.Time, text string, metadata map[string]any) {
	s.ordinals++
	s.addEvent(t, &event{id: DeriveID(s.ID(), "note", strconv.Itoa(s.ordinals)), kind: EventNote, content: text, metadata: metadata})
}

func (s *Session) applyNoted(f *Noted, t time.Time) {
	var metadata map[string]any
	if f.Count > 1 {
		metadata = map[string]any{"count": f.Count}
	}
	s.note(t, f.Text, metadata)
}

// closeEvents ends the events of an execution, or of the session where e is nil, that are still
// open.
func (s *Session) closeEvents(e *execution, status Status, t time.Time) {
	if status == StatusCompleted {
		status = StatusFailed
	}
	for _, ev := range slices.Clone(s.open) {
		if e == nil || ev.execution == e.id {
			ev.status = status
			s.changeEvent(t, ev)
		}
	}
}

// Event is a timeline event as people see it.
type Event struct {
	ID              string         `json:"id"`
	SessionID       string         `json:"session_id"`
	StageID         *string        `json:"stage_id"`
	ExecutionID     *string        `json:"execution_id"`
	SequenceNumber  int64          `json:"sequence_number"`
	UpdatedSequence int64          `json:"updated_sequence"`
	EventType       EventType      `json:"event_type"`
	Status          Status         `json:"status"`
	Content         string         `json:"content"`
	Metadata        map[string]any `json:"metadata"`
	CreatedAt       Time           `json:"created_at"`
	UpdatedAt       Time           `json:"updated_at"`
}

// Events is a part of a timeline. Next is what to ask after for what is newer.
type Events struct {
	Events []Event `json:"events"`
	Next   int64   `json:"next"`
}

// Timeline returns the events that changed after the given number, in the order of their last
// changes, at most limit. An event that changed again is returned again.
func Timeline(s *Session, after int64, limit int) Events {
	out := Events{Events: []Event{}, Next: after}
	for i := max(after, 0); i < int64(len(s.changes)) && len(out.Events) < limit; i++ {
		e := s.changes[i]
		if e.updated != i+1 {
			continue // changed again, and shown there
		}
		out.Events = append(out.Events, s.view(e))
		out.Next = e.updated
	}
	return out
}

func (s *Session) view(e *event) Event {
	v := Event{
		ID: e.id, SessionID: s.ID(), StageID: orNull(e.stage), ExecutionID: orNull(e.execution),
		SequenceNumber: e.created, UpdatedSequence: e.updated, EventType: e.kind, Status: e.status,
		Content: e.content, Metadata: e.metadata, CreatedAt: Time(e.at), UpdatedAt: Time(e.changed),
	}
	if v.Metadata == nil {
		v.Metadata = map[string]any{}
	}
	return v
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
