// Package alertmanager decodes the webhooks of Prometheus Alertmanager: version 4 of the
// message, which holds one group of alerts.
//
// Every alert of the group, firing or resolved, becomes an [external.Alert]. Its labels
// determine the severity, the app and the place. The package does not recognize repeated
// deliveries.
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

// maxReceiver is the longest name of a receiver that is kept, in bytes: ingest masks it
// again for each alert.
const maxReceiver = 1 << 10

// Decode reads a message. It leaves out and counts invalid alerts: those without a
// fingerprint and labels, and those neither firing nor resolved. Errors describe the
// mistake in the message; they wrap [decoding.ErrTooMany] if it is too large.
func Decode(data []byte) (alerts []external.Alert, leftOut int, err error) {
	m, err := read(data)
	if err != nil {
		return nil, 0, err
	}
	receiver := ""
	if len(m.Receiver) <= maxReceiver { // not cut, because the masker would not recognize half a secret
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

// omitted returns how many alerts the sender left out because of max_alerts.
func (m *message) omitted() int {
	const limit = 1 << 30 // fits an int on every machine
	return int(min(m.TruncatedAlerts, limit))
}

// convert returns the alert in our form.
func (in *promAlert) convert(group labels) external.Alert {
	starts, ends := parseTime(in.StartsAt), parseTime(in.EndsAt)
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
	// Only the first labels are copied. All other texts together are at most as long as the
	// message.
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

// Names of labels and annotations by meaning, in order of preference. The address of an
// exporter (instance) is less specific than what it monitors.
var (
	appLabels   = []string{"app", "app_kubernetes_io_name", "service", "job"}
	placeLabels = []string{"pod", "node", "instance", "service"}
	summaries   = []string{"summary", "message"}
	dashboards  = []string{"dashboard_url", "dashboard"}
	runbooks    = []string{"runbook_url", "runbook"}
)

// first returns the first of the named labels that is not empty.
func first(from labels, names []string) string {
	for _, name := range names {
		if value := from[name]; value != "" {
			return value
		}
	}
	return ""
}

// severity returns the severity by the label, whose values the authors of rules choose.
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

// parseTime parses a time. It returns the zero time for a malformed one, and for one whose
// year JSON cannot express.
func parseTime(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if y := t.UTC().Year(); err != nil || y < 1 || y > 9999 {
		return time.Time{}
	}
	return t.UTC()
}

// key identifies the alert. It is Alertmanager's fingerprint, which it computes from the
// labels, or without one a hash of the labels.
func (in *promAlert) key() string {
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

// unquoteMeta reverses [regexp.QuoteMeta], which Alertmanager applies to the names of
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
