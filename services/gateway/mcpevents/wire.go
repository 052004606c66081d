package mcpevents

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Extension is the identifier under which a server declares the extension.
const Extension = "io.modelcontextprotocol/events"

// Declare adds the extension to a server's capabilities. Its settings are empty:
// the event types don't change.
func Declare(c *mcp.ServerCapabilities) { c.AddExtension(Extension, nil) }

// The methods of the extension.
const (
	methodList        = "events/list"
	methodPoll        = "events/poll"
	methodStream      = "events/stream"
	methodSubscribe   = "events/subscribe"
	methodUnsubscribe = "events/unsubscribe"
)

// The notifications on a stream.
const (
	noteActive    = "notifications/events/active"
	noteEvent     = "notifications/events/event"
	noteHeartbeat = "notifications/events/heartbeat"
	noteError     = "notifications/events/error"
)

// complete is the resultType of every result.
const complete = "complete"

type listParams struct {
	mcp.ParamsBase
	// Cursor asks for a further page, of which there is none.
	Cursor *string `json:"cursor"`
}

type listResult struct {
	mcp.ResultBase
	ResultType string       `json:"resultType"`
	Events     []descriptor `json:"events"`
}

// subscription is what every way of delivery is asked with.
type subscription struct {
	mcp.ParamsBase
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	// Cursor is nil for from now.
	Cursor *string `json:"cursor"`
	// MaxAgeMs is the age in milliseconds beyond which alerts are left out.
	MaxAgeMs *int64 `json:"maxAgeMs"`
	// MaxEvents is how many events a poll may return.
	MaxEvents *int64 `json:"maxEvents"`
}

type pollResult struct {
	mcp.ResultBase
	ResultType string       `json:"resultType"`
	Events     []occurrence `json:"events"`
	Cursor     string       `json:"cursor"`
	Truncated  bool         `json:"truncated"`
	HasMore    bool         `json:"hasMore"`
	NextPollMs int64        `json:"nextPollMs"`
}

// streamResult ends a stream. All of it was said before.
type streamResult struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
}

// occurrence is one event.
type occurrence struct {
	EventID   string      `json:"eventId"`
	Name      string      `json:"name"`
	Timestamp string      `json:"timestamp"`
	Data      alert.Alert `json:"data"`
	// Cursor and Meta are on a stream only.
	Cursor string `json:"cursor,omitempty"`
	Meta   *meta  `json:"_meta,omitempty"`
}

// meta names the stream that a notification belongs to.
type meta struct {
	ID json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
}

// place is what active and heartbeat say; a heartbeat says nothing of truncated.
type place struct {
	Cursor    string `json:"cursor"`
	Truncated *bool  `json:"truncated,omitempty"`
	Meta      meta   `json:"_meta"`
}

// trouble is a failure that the stream outlives.
type trouble struct {
	Error struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Meta meta `json:"_meta"`
}

// occurrenceOf is the event of an alert. Its id is the alert's, so that a client
// that gets it twice, or by two ways, can tell.
func occurrenceOf(a alert.Alert) occurrence {
	id := a.ID
	if id == "" { // not from one of our detectors
		id = "seq-" + strconv.FormatUint(a.Seq, 10)
	}
	return occurrence{EventID: id, Name: EventName, Timestamp: alert.FormatTime(a.Timestamp), Data: a}
}

// line is a notification as JSON, with a newline. <, > and & stand as they are.
func line[P place | occurrence | trouble](method string, params P) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(struct {
		Version string `json:"jsonrpc"`
		Method  string `json:"method"`
		Params  P      `json:"params"`
	}{"2.0", method, params})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", method, err)
	}
	return []byte(b.String()), nil
}
