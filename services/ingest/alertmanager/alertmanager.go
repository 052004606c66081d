// Package alertmanager decodes the webhooks of Prometheus Alertmanager: version 4 of the
// message, one group of alerts.
//
// Every alert of the group becomes one of ours, firing and resolved ones. The labels
// decide its severity, its app and where it is. The package knows no HTTP, and not whether
// an alert was delivered before.
package alertmanager

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/external"
)

// maxReceiver is the longest name of a receiver that is kept, in bytes: it is masked for
// each alert.
const maxReceiver = 1 << 10

// Decode reads a message. Invalid alerts are left out and counted: those without anything
// that identifies them, and those neither firing nor resolved. An error names what is wrong
// with the message, or wraps decoding.ErrTooMany.
func Decode(data []byte) (alerts []external.Alert, leftOut int, err error) {
	m, err := read(data)
	if err != nil {
		return nil, 0, err
	}
	receiver := ""
	if len(m.Receiver) <= maxReceiver { // it is not cut, because half a secret would not be recognised
		receiver = unquoteMeta(m.Receiver)
	}
	alerts = make([]external.Alert, 0, len(m.Alerts))
	for i := range m.Alerts {
		a := m.Alerts[i].convert(m.GroupLabels)
		a.Receiver, a.Omitted = receiver, m.omitted()
		if a.Validate() != nil {
			leftOut++
			continue
		}
		alerts = append(alerts, a)
	}
	return alerts, leftOut, nil
}

// omitted is how many alerts the sender left out because of max_alerts.
func (m *message) omitted() int {
	const most = 1 << 30
	return int(min(m.TruncatedAlerts, most))
}

func (in *raised) convert(group labels) external.Alert {
	starts, ends := moment(in.StartsAt), moment(in.EndsAt)
	a := external.Alert{
		Source: alert.SourceAlertmanager, Key: in.key(), State: in.Status,
		Severity: severity(in.Labels["severity"]), Level: in.Labels["severity"],
		App: first(in.Labels, appLabels), Name: in.Labels["alertname"], Place: first(in.Labels, placeLabels),
		Summary: first(in.Annotations, summaries), Detail: in.Annotations["description"],
		URL: in.GeneratorURL, Dashboard: first(in.Annotations, dashboards), Runbook: first(in.Annotations, runbooks),
		StartsAt: starts, EndsAt: ends,
	}
	if !starts.IsZero() {
		a.Episode = starts.Format(time.RFC3339Nano)
	}
	// Labels are bounded before they are copied; all other texts together are at most as
	// long as the message.
	for _, name := range slices.Sorted(maps.Keys(in.Labels)) {
		if len(a.Labels) == external.MaxLabels {
			break
		}
		if a.Labels == nil {
			a.Labels = make(map[string]string, min(len(in.Labels), external.MaxLabels))
		}
		a.Labels[name] = in.Labels[name]
		if value, ok := group[name]; ok && value == in.Labels[name] {
			a.GroupBy = append(a.GroupBy, name)
		}
	}
	return a
}

// Labels and annotations by meaning, the most specific first: the first present counts. The
// address of an exporter is less specific than what it monitors.
var (
	appLabels   = []string{"app", "app_kubernetes_io_name", "service", "job"}
	placeLabels = []string{"pod", "node", "instance", "service"}
	summaries   = []string{"summary", "message"}
	dashboards  = []string{"dashboard_url", "dashboard"}
	runbooks    = []string{"runbook_url", "runbook"}
)

func first(from labels, names []string) string {
	for _, name := range names {
		if value := from[name]; value != "" {
			return value
		}
	}
	return ""
}

// severity goes by the label, whose values are up to the authors of the rules.
func severity(label string) alert.Severity {
	switch strings.ToLower(label) {
	case "critical", "page", "error", "emergency", "high":
		return alert.Error
	case "info", "none", "low", "debug":
		return alert.Info
	default:
		return alert.Warning
	}
}

// moment reads a time. It is zero for a malformed one, and one that cannot be written.
func moment(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if y := t.UTC().Year(); err != nil || y < 1 || y > 9999 {
		return time.Time{}
	}
	return t.UTC()
}

// key identifies the alert: Alertmanager's fingerprint, which is made of the labels, or
// without one a hash of these.
func (in *raised) key() string {
	if in.Fingerprint != "" && external.IsKey(in.Fingerprint) {
		return in.Fingerprint
	}
	if len(in.Labels) == 0 {
		return ""
	}
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(in.Labels)) {
		_, _ = io.WriteString(h, name+"\x00"+in.Labels[name]+"\x00") // a hash does not fail
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// unquoteMeta undoes regexp.QuoteMeta, which Alertmanager applies to the names of
// receivers.
func unquoteMeta(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) && strings.IndexByte(`\.+*?()|[]{}^$`, s[i+1]) >= 0 {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
