package ingest

import (
	"maps"
	"net/http"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// takeAlerts serves another monitoring system: it reads the body, has it
// decoded into valid alerts and how many were left out, and answers once they
// are stored. Whether they are news is the detector's to say.
func (h *handler) takeAlerts(r *http.Request, d dialect, decode func(data []byte) ([]external.Alert, int, error)) reply {
	batch, release, refused, ok := decoded(h, r, d, func(_ string, data []byte) (alertBatch, error) {
		alerts, leftOut, err := decode(data)
		if err != nil {
			return alertBatch{}, err
		}
		return h.prepareAlerts(alerts, leftOut)
	})
	if !ok {
		return refused
	}
	defer release()
	if len(batch.messages) > 0 {
		if err := h.publish(r.Context(), batch.messages...); err != nil {
			return refusePublish(err)
		}
		h.accepted()
	}
	for state, n := range batch.states {
		h.metrics.alerts.WithLabelValues(state).Add(float64(n))
	}
	h.leftOut(r, batch.leftOut)
	return acceptedReply(batch.size)
}

// alertBatch is what one request of alerts becomes on the bus.
type alertBatch struct {
	messages      []*nats.Msg
	size, leftOut int
	states        map[string]int
}

// prepareAlerts cleans and encodes.
func (h *handler) prepareAlerts(alerts []external.Alert, leftOut int) (alertBatch, error) {
	states := map[string]int{}
	for i := range alerts {
		cleanAlert(&alerts[i], h.masker)
		states[alerts[i].State]++
	}
	msgs, err := alertMessages(alerts)
	if err != nil {
		// Unreachable for valid alerts, as the fuzzer says; not a panic all the same.
		return alertBatch{}, refusal{refuse(http.StatusInternalServerError, err.Error())}
	}
	return alertBatch{msgs, len(alerts), leftOut, states}, nil
}

// cleanAlert makes an alert fit to be stored: visible, masked, bounded. It is 140
// KB of JSON at most then, and more than one fits into maxMessage.
func cleanAlert(a *external.Alert, m Masker) {
	strip := func(s *string, _ int) { *s = sanitize.Strip(*s) }
	cut := func(s *string, limit int) { *s = sanitize.Cut(*s, limit) }
	a.EachText(strip)
	a.EachLink(strip)
	a.Labels = stripHeaders(a.Labels)
	for i := range a.GroupBy {
		a.GroupBy[i] = sanitize.Strip(a.GroupBy[i])
	}
	m.External(a)
	a.EachText(cut)
	a.EachLink(cut)
	a.App = telemetry.SenderApp(a.App)
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) { // of two that are cut to one, always the same stays
		value := a.Labels[name]
		short := sanitize.Cut(name, external.MaxName)
		if short != name {
			delete(a.Labels, name)
		}
		a.Labels[short] = sanitize.Cut(value, external.MaxLabel)
	}
	for i := range a.GroupBy {
		a.GroupBy[i] = sanitize.Cut(a.GroupBy[i], external.MaxName)
	}
}

// alertMessages encodes alerts in their order, as arrays that don't pass
// maxMessage.
func alertMessages(alerts []external.Alert) ([]*nats.Msg, error) {
	var msgs []*nats.Msg
	var open []byte
	flush := func() {
		if len(open) > 0 {
			msgs = append(msgs, &nats.Msg{Subject: bus.SubjectIntakeAlerts, Data: append(open, ']')})
		}
	}
	for i := range alerts {
		before := len(open)
		separator := byte(',')
		if before == 0 {
			separator = '['
		}
		data, err := external.Append(append(open, separator), &alerts[i])
		if err != nil {
			return nil, err
		}
		if before == 0 || len(data) < maxMessage { // the closing bracket is to come
			open = data
			continue
		}
		next := append([]byte{'['}, data[before+1:]...)
		open = data[:before]
		flush()
		open = next
	}
	flush()
	return msgs, nil
}
