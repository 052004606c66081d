package journal

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
)

// TestForgottenReservation: the key of a process that died before it submitted its session is
// taken over once the reservation is old, that of a session with facts is not.
func TestForgottenReservation(t *testing.T) {
	j := New(bustest.Start(t).Connect(bus.RoleInvestigator), bustest.Quiet())
	dead, next := NewSession(), NewSession()
	for _, tt := range []struct {
		session string
		age     time.Duration
		owner   string
		ok      bool
	}{
		{dead, reservationAge, dead, true},
		{next, reservationAge, dead, false}, // it may be submitted any moment
		{next, 0, next, true},
		{dead, reservationAge, next, false},
	} {
		owner, ok, err := j.reserve(t.Context(), "k", tt.session, 1, tt.age)
		if owner != tt.owner || ok != tt.ok || err != nil {
			t.Errorf("reserve for %s from an age of %s = %s, %t, %v, want %s, %t", tt.session, tt.age, owner, ok, err, tt.owner, tt.ok)
		}
	}
	if _, err := j.Append(t.Context(), next, 0, []byte("[]")); err != nil {
		t.Fatal(err)
	}
	if owner, ok, err := j.reserve(t.Context(), "k", dead, 1, 0); owner != next || ok || err != nil {
		t.Errorf("reserve of an old key whose session has facts = %s, %t, %v, want %s, false", owner, ok, err, next)
	}
}

// TestReservationOfAnAttempt: the end of an attempt frees its own key and none of a later attempt;
// one whose retry did not come is freed once it is old.
func TestReservationOfAnAttempt(t *testing.T) {
	j := New(bustest.Start(t).Connect(bus.RoleInvestigator), bustest.Quiet())
	id := NewSession()
	reserve := func(attempt int) {
		t.Helper()
		if owner, ok, err := j.Reserve(t.Context(), "k", id, attempt); owner != id || !ok || err != nil {
			t.Fatalf("Reserve for attempt %d = %s, %t, %v, want %s, true", attempt, owner, ok, err, id)
		}
	}
	owned := func(when string, want bool) {
		t.Helper()
		if owner, err := j.Owner(t.Context(), "k"); (owner == id) != want || err != nil {
			t.Errorf("%s the owner is %q, %v, want the session: %t", when, owner, err, want)
		}
	}
	free := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	reserve(1)
	reserve(2)
	free(j.Free(t.Context(), "k", id, 1))
	owned("after the end of attempt 1, with attempt 2 reserved,", true)
	free(j.FreeEnded(t.Context(), "k", id, 1))
	owned("while the retry may be under way", true)
	reserve(1)
	free(j.Free(t.Context(), "k", id, 1))
	owned("after a late reservation for attempt 1", true)
	free(j.free(t.Context(), "k", id, func(attempt int, at time.Time) bool { return attempt == 2 && !at.IsZero() }))
	owned("after the reservation was found old", false)
	reserve(2)
	free(j.Free(t.Context(), "k", id, 2))
	owned("after the end of attempt 2", false)
}

// TestReservationIsRenewed: a session that reserves again has the key for the whole time again.
func TestReservationIsRenewed(t *testing.T) {
	j := New(bustest.Start(t).Connect(bus.RoleInvestigator), bustest.Quiet())
	slow, next := NewSession(), NewSession()
	for range 2 {
		if owner, ok, err := j.reserve(t.Context(), "k", slow, 1, 0); owner != slow || !ok || err != nil {
			t.Fatalf("reserve = %s, %t, %v, want %s, true", owner, ok, err, slow)
		}
	}
	entry, err := j.reservation(t.Context(), "k")
	if err != nil || entry.Seq != 2 {
		t.Errorf("the reservation is message %d, %v, want 2: it was written again", entry.Seq, err)
	}
	if owner, ok, err := j.reserve(t.Context(), "k", next, 1, 0); owner != next || !ok || err != nil {
		t.Fatalf("reserve of an old key = %s, %t, %v, want %s, true", owner, ok, err, next)
	}
	if owner, ok, err := j.Reserve(t.Context(), "k", slow, 1); owner != next || ok || err != nil {
		t.Errorf("Reserve after another session took the key = %s, %t, %v, want %s, false", owner, ok, err, next)
	}
}

func TestDeliveries(t *testing.T) {
	for reply, want := range map[string]int{
		"$JS.ACK.S.workers.3.10.12.1700000000.0":             3,
		"$JS.ACK.domain.hash.S.workers.4.10.12.1700000000.0": 4,
		"$JS.ACK": 1, "": 1, "$JS.ACK.S.workers.x.10.12.1.0": 1,
	} {
		if got := deliveries(reply); got != want {
			t.Errorf("deliveries(%q) = %d, want %d", reply, got, want)
		}
	}
}
