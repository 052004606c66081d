package ingest

import (
	"net/http"

	"github.com/tocsin-bus/tocsin/services/ingest/alertmanager"
)

const pathAlertmanager = "/webhooks/alertmanager"

// alertmanagerRoute takes the webhooks of Prometheus Alertmanager, which can send
// a bearer token.
func (h *handler) alertmanagerRoute() route {
	return route{path: pathAlertmanager, method: http.MethodPost, serve: h.alertmanager, phrase: phraseAlertmanager}
}

func (h *handler) alertmanager(r *http.Request) reply {
	return h.takeAlerts(r, dialect{media: []string{typeJSON}}, alertmanager.Decode)
}

// phraseAlertmanager says 503 where we would say 429: Alertmanager tries again
// after a while for 5xx alone, and takes any other refusal for good until the
// group's next interval.
func phraseAlertmanager(_ *http.Request, refused reply) reply {
	if refused.status == http.StatusTooManyRequests {
		refused.status = http.StatusServiceUnavailable
	}
	return refused
}
