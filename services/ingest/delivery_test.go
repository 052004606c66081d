package ingest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/httpserve"
)

func answerOf(h *handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestDeliveries checks that a repeated delivery is stored once.
func TestDeliveries(t *testing.T) {
	s := &fakeSink{}
	h := testHandler(s)
	deliver := func(id, status string) int {
		t.Helper()
		_, err := h.receiveResult(ask("POST", "/", strings.NewReader("x")), &sender{result: func(*http.Request, *body) (decodedResult, error) {
			return decodedResult{result: ci.Result{Status: status, Source: ci.SourceGitHub}, deliveries: []string{bus.DeliverySubject("github", id)}}, nil
		}})
		if refusal := httpserve.AsRefusal(err); refusal != nil {
			return refusal.Status
		}
		return http.StatusOK
	}
	logged := func() (n int) {
		for _, m := range s.msgs {
			if m.Subject == bus.SubjectIntakeCI {
				n++
			}
		}
		return n
	}
	for i, c := range []struct {
		id, status string
		stored     int
	}{
		{"1", "failure", 1}, {"2", "success", 2}, {"1", "failure", 2}, {"3", "failure", 3}, {"2", "success", 3},
	} {
		if got := deliver(c.id, c.status); got != 200 || logged() != c.stored {
			t.Errorf("delivery %d: status %d, %d results stored, want 200 and %d", i, got, logged(), c.stored)
		}
	}

	// The subjects of a delivery are stored last, so that a delivery that could not be
	// stored can be repeated. After an unacknowledged write the sender has to repeat it.
	s.showErr = errResultsBusy
	if got := deliver("4", "failure"); got != 503 || has(s.msgs, bus.DeliverySubject("github", "4")) {
		t.Errorf("delivery that could not be stored: status %d, noted: %t, want 503 and false", got, has(s.msgs, bus.DeliverySubject("github", "4")))
	}
	s.showErr, s.deliveredErr = nil, bus.ErrUnreachable
	before := logged()
	if got := deliver("5", "failure"); got != 503 || logged() != before {
		t.Errorf("delivery that could not be looked up: status %d, %d stored, want 503 and none", got, logged()-before)
	}
}

func has(msgs []*nats.Msg, subject string) bool {
	for _, m := range msgs {
		if m.Subject == subject {
			return true
		}
	}
	return false
}
