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

// Declare adds the extension to a server's capabilities. Its settings are empty, because
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
	notificationActive    = "notifications/events/active"
	notificationEvent     = "notifications/events/event"
	notificationHeartbeat = "notifications/events/heartbeat"
	notificationError     = "notifications/events/error"
)

// complete is the resultType of every result.
const complete = "complete"

type listParams struct {
	mcp.ParamsBase
	// Cursor asks for a further page. There is only one.
	Cursor *string `json:"cursor"`
}

type listResult struct {
	mcp.ResultBase
	ResultType string      `json:"resultType"`
	Events     []eventType `json:"events"`
}

// subscription are the parameters of events/poll, events/stream and events/subscribe.
type subscription struct {
	mcp.ParamsBase
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	// Cursor is where to begin; nil means from now.
	Cursor *string `json:"cursor"`
	// MaxAgeMs is the greatest age of alerts, in milliseconds.
	MaxAgeMs *int64 `json:"maxAgeMs"`
	// MaxEvents bounds the events of a poll.
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

// streamResult ends a stream.
type streamResult struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
}

// occurrence is one event, as the extension calls it.
type occurrence struct {
	EventID   string      `json:"eventId"`
	Name      string      `json:"name"`
	Timestamp string      `json:"timestamp"`
	Data      alert.Alert `json:"data"`
	// Cursor and Meta are set on a stream only.
	Cursor string `json:"cursor,omitempty"`
	Meta   *meta  `json:"_meta,omitempty"`
}

// meta names the stream that a notification belongs to.
type meta struct {
	ID json.RawMessage `json:"io.modelcontextprotocol/subscriptionId"`
}

// progress are the parameters of active and heartbeat. A heartbeat has no truncated.
type progress struct {
	Cursor    string `json:"cursor"`
	Truncated *bool  `json:"truncated,omitempty"`
	Meta      meta   `json:"_meta"`
}

// failure are the parameters of an error after which the stream continues.
type failure struct {
	Error struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	Meta meta `json:"_meta"`
}

// occurrenceOf returns the event of an alert. It has the alert's id, by which a client
// recognizes an event that it receives twice, or by two delivery channels. The end of an
// investigation is another event than its alert.
func occurrenceOf(a alert.Alert) occurrence {
	id := a.ID
	if a.OnlyInvestigation {
		id = a.Investigation.RevisionID(a.ID)
	}
	if id == "" { // not raised by a Tocsin detector
		id = "seq-" + strconv.FormatUint(a.Seq, 10)
	}
	return occurrence{EventID: id, Name: EventName, Timestamp: alert.FormatTime(a.Timestamp), Data: a}
}

// notificationLine returns a notification as JSON with a newline. It does not escape <, >
// and &.
func notificationLine[P progress | occurrence | failure](method string, params P) ([]byte, error) {
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
