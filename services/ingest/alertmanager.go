package ingest

import (
	"net/http"

	"github.com/tocsin-bus/tocsin/services/ingest/alertmanager"
	"github.com/tocsin-bus/tocsin/shared/external"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

var alertmanagerBodies = bodyFormat{media: []string{typeJSON}}

// decodeAlertmanager decodes one webhook of Prometheus Alertmanager, which can send a
// bearer token.
func decodeAlertmanager(b *body) (alerts []external.Alert, leftOut int, err error) {
	return alertmanager.Decode(b.data)
}

// refuseAlertmanager answers 503 in place of 429: Alertmanager retries only after 5xx. After
// any other refusal it drops the notification of a group until its next interval.
func refuseAlertmanager(_ *http.Request, refusal *httpserve.Refusal) httpserve.Answer {
	answer := refusal.Answer()
	if answer.Status == http.StatusTooManyRequests {
		answer.Status = http.StatusServiceUnavailable
	}
	return answer
}
