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
		owner, ok, err := j.reserve(t.Context(), "k", tt.session, tt.age)
		if owner != tt.owner || ok != tt.ok || err != nil {
			t.Errorf("reserve for %s from an age of %s = %s, %t, %v, want %s, %t", tt.session, tt.age, owner, ok, err, tt.owner, tt.ok)
		}
	}
	if _, err := j.Append(t.Context(), next, 0, []byte("[]")); err != nil {
		t.Fatal(err)
	}
	if owner, ok, err := j.reserve(t.Context(), "k", dead, 0); owner != next || ok || err != nil {
		t.Errorf("reserve of an old key whose session has facts = %s, %t, %v, want %s, false", owner, ok, err, next)
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
