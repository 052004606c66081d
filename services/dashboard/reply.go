package dashboard

import (
	"context"
	"errors"
	"net/http"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

// explain returns the refusal that an error becomes.
func explain(err error) *httpserve.Refusal {
	if refusal := httpserve.AsRefusal(err); refusal != nil {
		return refusal
	}
	message := err.Error()
	switch {
	case errors.Is(err, context.Canceled):
		message = "the dashboard is stopping: try again"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		message = "the bus does not answer: run tocsin doctor to see why"
	case errors.Is(err, bus.ErrUnreachable):
		message = "the bus is unreachable: run tocsin doctor to see why"
	}
	return httpserve.Refuse(http.StatusServiceUnavailable, message).Retry(httpserve.RetryAfter)
}

// okReply is the answer to a request that has nothing more to report.
type okReply struct {
	OK bool `json:"ok"`
}

// answerJSON makes a handler of a function that returns a value to encode as JSON.
func answerJSON(serve func(*http.Request) (any, error)) func(*http.Request) (httpserve.Answer, error) {
	return func(r *http.Request) (httpserve.Answer, error) {
		v, err := serve(r)
		if err != nil {
			return httpserve.Answer{}, err
		}
		return httpserve.JSON(http.StatusOK, v)
	}
}
