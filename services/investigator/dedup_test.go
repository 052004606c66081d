package investigator

import (
	"context"
	"testing"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// A submission may lose its reservation to another session, and store its own session after all
// where that one ends meanwhile. Its session keeps the dedup_key.
func TestKeyOfASessionThatIsStoredLate(t *testing.T) {
	r := newRESTRig(t, nil)
	other := r.post(`{"data":"the first","dedup_key":"disk"}`)
	r.submitter.alerts = func(context.Context, string) (alert.Alert, bool, error) {
		r.end(other, session.StatusFailed)
		return alert.Alert{ID: "a", Title: "disk full", App: "shop"}, true, nil
	}
	id := journal.NewSession()
	answer, err := r.submitter.storeNew(t.Context(), Request{
		AlertID: "a", DedupKey: "disk", Author: AuthorAPI, IdempotencyKey: "k", BodyDigest: "d",
	}, session.Submitted{ID: id, DedupKey: "disk"})
	if err != nil || answer.SessionID != id || answer.Joined() {
		t.Fatalf("the answer is %+v (error %v), want the new session %s", answer, err, id)
	}
	if last, err := r.journal.Last(t.Context(), id); err != nil || last.Seq == 0 {
		t.Fatalf("the session has the message %d (error %v), want one", last.Seq, err)
	}
	if owner, err := r.journal.Owner(t.Context(), "disk"); err != nil || owner != id {
		t.Errorf("the dedup_key belongs to %q (error %v), want the stored session %s", owner, err, id)
	}
}
