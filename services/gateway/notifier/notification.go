package notifier

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/services/gateway/truncate"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// Logger is the logger name in the notifications.
const Logger = "tocsin"

// batchCategory is the category of a notification of several alerts.
const batchCategory = "batch"

const (
	// MaxLine bounds a notification, in bytes.
	MaxLine = 24 << 10
	// MaxData bounds the data in it.
	MaxData = MaxLine - 128
	// maxLeftOutNote bounds the fields that count the alerts left out.
	maxLeftOutNote = 100
)

// Notification is one message to the client, with one alert or a batch.
type Notification struct {
	// At is when it was emitted.
	At time.Time
	// Alerts is not empty and sorted: the most severe first, then the newest; symptoms
	// follow their cause.
	Alerts []alert.Alert
}

// data is params.data of a notification, in the documented order of fields. A model reads
// it, so it is short: it has no app and no URL of its own.
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
	// Count is how many findings an alert stands for, if more than one, and the number of
	// alerts of a batch.
	Count  int               `json:"count,omitempty"`
	Alerts []json.RawMessage `json:"alerts,omitempty"`
	// LeftOut is how many alerts of a batch did not fit. They are in the inbox.
	LeftOut int `json:"left_out,omitempty"`
	// Resolved reports that the alert was resolved before it was sent.
	Resolved bool `json:"resolved,omitempty"`
	// ID is set only if the alert has symptoms, which name it in InhibitedBy.
	ID          string `json:"id,omitempty"`
	InhibitedBy string `json:"inhibited_by,omitempty"`
	Symptoms    int    `json:"symptoms,omitempty"`
	Reason      string `json:"reason,omitempty"`
	// Investigation is what is known of the alert's investigation.
	Investigation *alert.Investigation `json:"investigation,omitempty"`
}

type message struct {
	Version string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  params `json:"params"`
}

type params struct {
	Level  alert.Severity  `json:"level"`
	Logger string          `json:"logger"`
	Data   json.RawMessage `json:"data"`
}

// Level returns the severity of the alert, or the highest severity of a batch.
func (n Notification) Level() alert.Severity { return alert.Highest(n.Alerts) }

// Data returns the JSON of params.data in at most MaxData bytes. It cuts long fields
// first; then it leaves out alerts at the end of a batch.
func (n Notification) Data() (json.RawMessage, error) {
	if len(n.Alerts) > 1 {
		return n.batch()
	}
	single, err := encode(dataOf(n.Alerts[0]))
	if err != nil {
		return nil, err
	}
	return truncate.Object(single, MaxData), nil
}

// Line returns the JSON-RPC notification as one line without a line feed. It does not
// escape <, > and &, as json.Marshal does. It fails only for a context that has no JSON
// encoding.
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

// batch returns the data of several alerts. A batch has every field of an alert, so that
// one parser reads both; fields without a meaning are empty.
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
		InhibitedBy: a.InhibitedBy, Symptoms: a.Symptoms, Reason: a.Reason, Investigation: a.Investigation,
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
