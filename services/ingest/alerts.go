package ingest

import (
	"maps"
	"net/http"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// receiveAlerts decodes, cleans and stores the alerts of another monitoring system. It
// answers once they are stored. The detector decides which of them are new.
func (h *handler) receiveAlerts(r *http.Request, s *sender) (httpserve.Answer, error) {
	batch, release, err := receive(h, r, s.bodies, func(b *body) (alertBatch, error) {
		alerts, leftOut, err := s.alerts(b)
		if err != nil {
			return alertBatch{}, err
		}
		return h.prepareAlerts(alerts, leftOut)
	})
	if err != nil {
		return httpserve.Answer{}, err
	}
	defer release()
	if len(batch.messages) > 0 {
		if err := h.publish(r.Context(), batch.messages...); err != nil {
			return httpserve.Answer{}, refusePublish(err)
		}
		h.accepted()
	}
	for state, n := range batch.states {
		h.metrics.alerts.WithLabelValues(state).Add(float64(n))
	}
	h.countSkipped(r, batch.skipped)
	return answerAccepted(batch.size), nil
}

// alertBatch has the messages for the bus of one request with alerts.
type alertBatch struct {
	messages      []*nats.Msg
	size, skipped int
	states        map[string]int
}

// prepareAlerts cleans and encodes alerts.
func (h *handler) prepareAlerts(alerts []external.Alert, leftOut int) (alertBatch, error) {
	states := map[string]int{}
	for i := range alerts {
		cleanAlert(&alerts[i], h.masker)
		states[alerts[i].State]++
	}
	msgs, err := alertMessages(alerts)
	if err != nil { // unreachable for valid alerts, as the fuzzer shows
		return alertBatch{}, httpserve.Refuse(http.StatusInternalServerError, err.Error())
	}
	return alertBatch{msgs, len(alerts), leftOut, states}, nil
}

// cleanAlert removes hidden characters, masks secrets and cuts texts. The alert is then
// 140 KB of JSON at most, and more than one fits into maxMessage.
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
	for _, name := range slices.Sorted(maps.Keys(a.Labels)) { // of two names that are cut to one, always the same is kept
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

// alertMessages encodes alerts in their order, as arrays of up to maxMessage bytes.
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
		if before == 0 || len(data) < maxMessage { // room for the closing bracket
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
