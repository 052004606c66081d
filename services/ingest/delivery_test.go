package ingest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
)

func answerOf(h *handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// TestDeliveries: what a sender delivers again, however late, is taken once.
func TestDeliveries(t *testing.T) {
	s := &fakeSink{}
	h := testHandler(s)
	deliver := func(id, status string) int {
		t.Helper()
		return h.takeResult(ask("POST", "/", strings.NewReader("x")), dialect{}, func(string, []byte) (outcome, error) {
			return outcome{result: ci.Result{Status: status, Source: ci.SourceGitHub}, deliveries: []string{bus.DeliverySubject("github", id)}}, nil
		}).status
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
			t.Errorf("delivery %d: %d, %d results are stored", i, got, logged())
		}
	}

	// A delivery is noted last, so that one that could not be stored can come
	// again, and where it is not known whether it came before it has to.
	s.showErr = errCrowded
	if got := deliver("4", "failure"); got != 503 || has(s.msgs, bus.DeliverySubject("github", "4")) {
		t.Errorf("%d, noted though it was refused", got)
	}
	s.showErr, s.deliveredErr = nil, bus.ErrAway
	before := logged()
	if got := deliver("5", "failure"); got != 503 || logged() != before {
		t.Errorf("%d, %d stored", got, logged()-before)
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
