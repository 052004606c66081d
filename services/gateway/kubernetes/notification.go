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

// The logger names of the notifications.
const (
	loggerEvents = "kubernetes/events"
	loggerFaults = "kubernetes/faults"
	loggerErrors = "kubernetes/subscription_error"
)

// Notification is a notifications/message to a subscriber.
type Notification struct {
	// Level is an MCP level; our severities are a subset of those.
	Level  alert.Severity
	logger string
	data   any
}

// The data of a notification, in the documented order of fields.
type eventData struct {
	SubscriptionID string `json:"subscriptionId"`
	Cluster        string `json:"cluster"`
	Event          event  `json:"event"`
}

type faultData struct {
	eventData
	// FaultID connects a fault with later messages about it, such as its logs, and with its
	// alert.
	FaultID string `json:"faultId"`
	// LogsFollow reports that the fault will be delivered again, with the logs.
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
	// Error is why there is no sample.
	Error string `json:"error,omitempty"`
}

type errorData struct {
	SubscriptionID string `json:"subscriptionId"`
	Cluster        string `json:"cluster"`
	Error          string `json:"error,omitempty"`
	Degraded       bool   `json:"degraded"`
}

// Notification returns the notification of a message for which Matches is true.
func (f Filter) Notification(id string, m *kube.Message) Notification {
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

// Level returns the level of the notifications of a mode.
func (m Mode) Level() alert.Severity {
	if m == Faults {
		return alert.Warning
	}
	return alert.Info
}

// DegradedNotification reports that a subscription receives nothing for now, with the
// reason.
func (f Filter) DegradedNotification(id, reason string) Notification {
	return Notification{alert.Error, loggerErrors, errorData{id, sanitize.Visible(f.cluster), reason, true}}
}

// RecoveredNotification reports that a subscription receives everything again. Events from
// the interruption follow if the cluster still has them. It has the mode's level, so that
// every client that accepts the mode's notifications accepts this one.
func (f Filter) RecoveredNotification(id string) Notification {
	return Notification{f.mode.Level(), loggerErrors, errorData{id, sanitize.Visible(f.cluster), "", false}}
}

// DroppedNotification reports that the bus dropped up to maxDropped messages before they
// were delivered.
func (f Filter) DroppedNotification(id string, maxDropped uint64, degraded bool) Notification {
	text := fmt.Sprintf("the client read too slowly, and the bus dropped up to %d messages: some may have been for this subscription", maxDropped)
	return Notification{alert.Error, loggerErrors, errorData{id, sanitize.Visible(f.cluster), text, degraded}}
}

// Line returns the notification as one line without a line feed. It does not escape <, >
// and &.
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
		return nil, fmt.Errorf("encode the Kubernetes notification: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
