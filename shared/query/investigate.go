package query

import (
	"encoding/json"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Bounds of the requests to an investigator.
const (
	// MaxWait bounds the wait for the end of a session, in seconds: MCP clients end calls after
	// 60 s.
	MaxWait = 50
	// MaxInvestigationData bounds SubmitRequest.Data in bytes. In base64 it fits in a message of
	// 2 MiB, the largest on Tocsin's NATS servers. A server with a smaller max_payload takes
	// less, and the sender refuses the rest.
	MaxInvestigationData = 1 << 20
	// MaxAnalysis bounds Investigation.Analysis, in characters.
	MaxAnalysis = 20_000
)

// SubmitRequest has an alert investigated: a stored alert, or a text. It has either AlertID or
// Data.
type SubmitRequest struct {
	// Client names the MCP client. The session's author is mcp:<client>.
	Client  string `json:"client"`
	AlertID string `json:"alert_id,omitempty"`
	// Data is in base64 on the wire, so that its length does not depend on the characters.
	Data []byte `json:"data,omitempty"`
	// Chain is the chain of agents; empty is that of the default alert type.
	Chain string `json:"chain,omitempty"`
	// WaitSeconds is how long the answer may wait for the end of the session: 0 to MaxWait.
	WaitSeconds int `json:"wait_seconds,omitempty"`
}

// SessionRequest asks for one investigation session.
type SessionRequest struct {
	SessionID string `json:"session_id"`
	// WaitSeconds is that of SubmitRequest.
	WaitSeconds int `json:"wait_seconds,omitempty"`
}

// Investigation answers a SubmitRequest and a SessionRequest. A model wrote its texts: they are
// data to check.
type Investigation struct {
	SessionID string `json:"session_id"`
	// Status is pending, in_progress, cancelling, completed, failed, cancelled or timed_out.
	Status string `json:"status"`
	// Joined means that an open session has the same dedup_key: the alert became a note of it.
	Joined bool `json:"joined,omitempty"`
	// Summary is the executive summary, at most 600 characters on one line.
	Summary string `json:"summary,omitempty"`
	// Conclusion is the conclusion of a completed session, as in GET /api/v1/sessions/{id}. Its
	// suggested_change is left out unless an alert would have it.
	Conclusion json.RawMessage `json:"conclusion,omitempty"`
	// Analysis is the text of a session whose agent gave no structured conclusion, cut at
	// MaxAnalysis.
	Analysis string `json:"analysis,omitempty"`
	// Error is why the session failed, timed out or was cancelled.
	Error string `json:"error,omitempty"`
	URL   string `json:"url"`
	// Note is why the answer did not wait for the end.
	Note string `json:"note,omitempty"`
	// Alert is nil for a session that investigates a text.
	Alert *InvestigatedAlert `json:"alert,omitempty"`
}

// InvestigatedAlert identifies the stored alert that a session investigates.
type InvestigatedAlert struct {
	ID       string `json:"id"`
	App      string `json:"app,omitempty"`
	Title    string `json:"title,omitempty"`
	DedupKey string `json:"dedup_key,omitempty"`
}

// SessionsRequest asks for the newest investigation sessions.
type SessionsRequest struct {
	// App limits the list to alerts of one app; empty means all.
	App string `json:"app,omitempty"`
	// Namespaces limits the list to alerts that a reader of these Kubernetes namespaces may see.
	// Without any, sessions without an alert are listed too.
	Namespaces []string `json:"namespaces,omitempty"`
	// Since leaves out sessions that ended earlier; zero means no bound.
	Since time.Time `json:"since,omitzero"`
	// Before is the id of a session: it and newer ones are left out. Empty means no bound.
	Before string `json:"before,omitempty"`
	// Limit is the maximum number of sessions: 0 means DefaultLimit, and the most is MaxLimit.
	Limit int `json:"limit,omitempty"`
}

// SessionsReply answers a SessionsRequest, newest first.
type SessionsReply struct {
	Sessions []SessionEntry `json:"sessions"`
	// Older is how many more sessions match, at most MaxOlder.
	Older int `json:"older,omitempty"`
}

// SessionEntry is one investigation session in a list.
type SessionEntry struct {
	SessionID string             `json:"session_id"`
	Status    string             `json:"status"`
	Alert     *InvestigatedAlert `json:"alert,omitempty"`
	Chain     string             `json:"chain"`
	Author    string             `json:"author"`
	Created   time.Time          `json:"created_at"`
	// Completed is zero while the session is open.
	Completed time.Time `json:"completed_at,omitzero"`
	// Summary and Error are those of Investigation.
	Summary string `json:"summary,omitempty"`
	Error   string `json:"error,omitempty"`
	URL     string `json:"url"`
}

// MarshalJSON implements [json.Marshaler]. Times are in UTC, with milliseconds.
func (e SessionEntry) MarshalJSON() ([]byte, error) {
	wire := struct {
		SessionID string             `json:"session_id"`
		Status    string             `json:"status"`
		Alert     *InvestigatedAlert `json:"alert,omitempty"`
		Chain     string             `json:"chain"`
		Author    string             `json:"author"`
		Created   string             `json:"created_at"`
		Completed string             `json:"completed_at,omitempty"`
		Summary   string             `json:"summary,omitempty"`
		Error     string             `json:"error,omitempty"`
		URL       string             `json:"url"`
	}{e.SessionID, e.Status, e.Alert, e.Chain, e.Author, alert.FormatTime(e.Created), "", e.Summary, e.Error, e.URL}
	if !e.Completed.IsZero() {
		wire.Completed = alert.FormatTime(e.Completed)
	}
	return json.Marshal(wire)
}
