package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/kube"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// The loggers of what is delivered.
const (
	loggerEvents = "kubernetes/events"
	loggerFaults = "kubernetes/faults"
	loggerErrors = "kubernetes/subscription_error"
)

// Notification is what is written to a client: a notifications/message.
type Notification struct {
	// Level is that of MCP, in which info, warning and error are our severities.
	Level  alert.Severity
	logger string
	data   any
}

// The data of a notification. Names and order are the specification's.
type eventData struct {
	SubscriptionID string `json:"subscriptionId"`
	Cluster        string `json:"cluster"`
	Event          event  `json:"event"`
}

type faultData struct {
	eventData
	// FaultID joins a fault with what is said of it later: its logs, and its alert.
	FaultID string `json:"faultId"`
	// LogsFollow says that it will be told again, with the logs.
	LogsFollow bool   `json:"logsFollow,omitempty"`
	Logs       []logs `json:"logs,omitempty"`
}

type event struct {
	Namespace string            `json:"namespace"`
	Timestamp time.Time         `json:"timestamp"`
	Type      string            `json:"type"`
	Reason    string            `json:"reason"`
	Message   string            `json:"message"`
	Labels    map[string]string `json:"labels"`
	Involved  object            `json:"involvedObject"`
}

type object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	Namespace  string `json:"namespace"`
}

type logs struct {
	Container string `json:"container"`
	Previous  bool   `json:"previous"`
	HasPanic  bool   `json:"hasPanic"`
	Sample    string `json:"sample"`
	// Error says why there is no sample.
	Error string `json:"error,omitempty"`
}

type errorData struct {
	SubscriptionID string `json:"subscriptionId"`
	Cluster        string `json:"cluster"`
	Error          string `json:"error,omitempty"`
	Degraded       bool   `json:"degraded"`
}

// Deliver is the notification of a message that Matches let through.
func (f Filter) Deliver(id string, m *kube.Message) Notification {
	e := m.Event
	data := eventData{id, m.Cluster, event{
		Namespace: e.Namespace, Timestamp: e.Timestamp.UTC(), Type: e.Type, Reason: e.Reason, Message: e.Message, Labels: e.Labels,
		Involved: object{e.InvolvedObject.APIVersion, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.InvolvedObject.Namespace},
	}}
	if data.Event.Labels == nil {
		data.Event.Labels = map[string]string{} // {} on the wire
	}
	if f.mode == Events {
		return Notification{alert.Info, loggerEvents, data}
	}
	fault := faultData{eventData: data, FaultID: m.Fault.ID, LogsFollow: m.Fault.LogsFollow && len(m.Logs) == 0}
	for _, l := range m.Logs {
		fault.Logs = append(fault.Logs, logs{l.Container, l.Previous, l.HasPanic, l.Sample, l.Error})
	}
	return Notification{alert.Warning, loggerFaults, fault}
}

// Level is that of what a subscription of the mode delivers.
func (m Mode) Level() alert.Severity {
	if m == Faults {
		return alert.Warning
	}
	return alert.Info
}

// Degraded says that a subscription gets nothing for now, and why.
func (f Filter) Degraded(id, why string) Notification {
	return Notification{alert.Error, loggerErrors, errorData{id, sanitize.Visible(f.cluster), why, true}}
}

// Recovered says that it gets everything again. What came meanwhile comes after it,
// as far as the cluster still has it. Who hears of what the mode delivers hears of
// that: it has the same level.
func (f Filter) Recovered(id string) Notification {
	return Notification{f.mode.Level(), loggerErrors, errorData{id, sanitize.Visible(f.cluster), "", false}}
}

// Lost says that the bus forgot some before they could be delivered: at most so many.
func (f Filter) Lost(id string, most uint64, degraded bool) Notification {
	why := fmt.Sprintf("the client did not read for so long that the bus forgot up to %d messages of its clusters: some of them may have been for this subscription", most)
	return Notification{alert.Error, loggerErrors, errorData{id, sanitize.Visible(f.cluster), why, degraded}}
}

// Line is the notification as one line without a line feed. <, > and & stand as they
// are.
func (n Notification) Line() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	type params struct {
		Level  alert.Severity `json:"level"`
		Logger string         `json:"logger"`
		Data   any            `json:"data"`
	}
	err := enc.Encode(struct {
		Version string `json:"jsonrpc"`
		Method  string `json:"method"`
		Params  params `json:"params"`
	}{"2.0", "notifications/message", params{n.Level, n.logger, n.data}})
	if err != nil {
		return nil, fmt.Errorf("encode what Kubernetes says: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
