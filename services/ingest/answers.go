package ingest

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/sanitize"
)

// maxIgnored is the longest reason in an answer, in characters.
const maxIgnored = 1000

// answerAccepted returns the answer with the number of stored events or alerts.
func answerAccepted(n int) httpserve.Answer {
	return httpserve.Answer{Status: http.StatusOK, Body: append(strconv.AppendInt([]byte(`{"ok":true,"accepted":`), int64(n), 10), '}')}
}

// answerDuplicate returns the answer to a delivery that was stored before.
func answerDuplicate() httpserve.Answer {
	return httpserve.Answer{Status: http.StatusOK, Body: []byte(`{"ok":true,"duplicate":true}`)}
}

// answerIgnored returns the answer to a request that was understood and has no effect.
func answerIgnored(reason string) httpserve.Answer {
	body, _ := jsontext.AppendQuote([]byte(`{"ok":true,"ignored":`), sanitize.Cut(sanitize.Visible(reason), maxIgnored))
	return httpserve.Answer{Status: http.StatusAccepted, Body: append(body, '}')}
}

// refusePublish returns the refusal for an error of the bus.
func refusePublish(err error) *httpserve.Refusal {
	status, message := http.StatusServiceUnavailable, err.Error() // ErrUnreachable, ErrUnacknowledged, ErrStore, ErrRefused
	switch {
	case errors.Is(err, bus.ErrBusy):
		status = http.StatusTooManyRequests
	case errors.Is(err, context.Canceled):
		message = "the request ended before the bus had stored it"
	}
	return httpserve.Refuse(status, message).Retry(httpserve.RetryAfter)
}
