package notifier

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/truncate"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Logger is the name under which the notifications are logged at the client.
const Logger = "tocsin"

// batchCategory is the category of a notification of several alerts.
const batchCategory = "batch"

const (
	// MaxLine bounds a notification, in bytes.
	MaxLine = 24 << 10
	// MaxData bounds the data in it.
	MaxData = MaxLine - 128
	// maxLeftOutNote is what it takes to say how many alerts are left out.
	maxLeftOutNote = 100
)

// Notification is one message to the client: an alert, or a batch of several.
type Notification struct {
	// At is when it was sent.
	At time.Time
	// Alerts is not empty and sorted: error, warning, info; newest first; and what
	// has one cause under that.
	Alerts []alert.Alert
}

// data is what the contract puts into params.data. The order is the contract's.
// The text is short and for a model to read: no id, no app, no URL of its own.
type data struct {
	Category      alert.Category `json:"category"`
	Severity      alert.Severity `json:"severity"`
	Title         string         `json:"title"`
	Detail        string         `json:"detail"`
	Timestamp     string         `json:"timestamp"`
	Source        string         `json:"source"`
	Context       map[string]any `json:"context"`
	CorrelationID string         `json:"correlation_id"`
	DedupKey      string         `json:"dedup_key"`
	// Count is how many findings an alert stands for, where that is over one,
	// and in a batch how many alerts are in it.
	Count  int               `json:"count,omitempty"`
	Alerts []json.RawMessage `json:"alerts,omitempty"`
	// LeftOut is how many alerts of a batch have no room in it. The inbox has them.
	LeftOut int `json:"left_out,omitempty"`
	// Resolved says that the alert was over before it was sent.
	Resolved bool `json:"resolved,omitempty"`
	// ID is there only where others are told under the alert: it is what they name.
	ID          string `json:"id,omitempty"`
	InhibitedBy string `json:"inhibited_by,omitempty"`
	Symptoms    int    `json:"symptoms,omitempty"`
	Reason      string `json:"reason,omitempty"`
}

type message struct {
	Version string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  params `json:"params"`
}

type params struct {
	Level  alert.Severity `json:"level"`
	Logger string         `json:"logger"`
	// Data is a data.
	Data json.RawMessage `json:"data"`
}

// Level is the severity of the alert, in a batch the highest one.
func (n Notification) Level() alert.Severity { return alert.Highest(n.Alerts) }

// Data returns the JSON of params.data, for a transport that writes the rest, in at
// most MaxData bytes. Long fields are cut first; then a batch leaves out alerts at its
// end.
func (n Notification) Data() (json.RawMessage, error) {
	if len(n.Alerts) > 1 {
		return n.batch()
	}
	alone, err := encode(dataOf(n.Alerts[0]))
	if err != nil {
		return nil, err
	}
	return truncate.Object(alone, MaxData), nil
}

// Line returns the whole JSON-RPC notification as one line without a line feed.
// <, > and & stand as they are; json.Marshal would escape them. It fails only
// when a context holds what JSON can't say.
func (n Notification) Line() ([]byte, error) {
	data, err := n.Data()
	if err != nil {
		return nil, err
	}
	return encode(message{
		Version: "2.0", Method: "notifications/message",
		Params: params{Level: n.Level(), Logger: Logger, Data: data},
	})
}

// MarshalJSON is Line.
func (n Notification) MarshalJSON() ([]byte, error) { return n.Line() }

// batch describes several alerts. A batch has every field that an alert has, so that
// one reader does for both; those that mean nothing are empty.
func (n Notification) batch() (json.RawMessage, error) {
	batch := data{
		Category: batchCategory, Severity: n.Level(), Title: alert.Summary(n.Alerts),
		Source: Logger, Context: map[string]any{}, Count: len(n.Alerts),
	}
	var newest time.Time
	each := make([]data, len(n.Alerts))
	for i, a := range n.Alerts {
		each[i] = dataOf(a)
		if a.Timestamp.After(newest) {
			newest = a.Timestamp
		}
	}
	batch.Timestamp = alert.FormatTime(newest)
	objects, err := truncate.Encode(each)
	if err != nil {
		return nil, err
	}
	around, err := encode(batch)
	if err != nil {
		return nil, err
	}
	batch.Alerts = truncate.List(objects, MaxData-len(around)-maxLeftOutNote)
	if batch.LeftOut = len(objects) - len(batch.Alerts); batch.LeftOut > 0 {
		batch.Title += fmt.Sprintf("; %d left out here: call observe", batch.LeftOut)
	}
	return encode(batch)
}

func dataOf(a alert.Alert) data {
	d := data{
		Category: a.Category, Severity: a.Severity, Title: a.Title, Detail: a.Detail,
		Timestamp: alert.FormatTime(a.Timestamp), Source: a.Source, Context: a.Context,
		CorrelationID: a.CorrelationID, DedupKey: a.DedupKey, Resolved: a.Resolved,
		InhibitedBy: a.InhibitedBy, Symptoms: a.Symptoms, Reason: a.Reason,
	}
	if a.Symptoms > 0 {
		d.ID = a.ID
	}
	if d.Context == nil {
		d.Context = map[string]any{}
	}
	if a.Count > 1 {
		d.Count = a.Count
	}
	return d
}

func encode(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode notification: %w", err)
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}
