package gateway

import (
	"fmt"
	"testing"
	"time"
)

func TestLongestIdle(t *testing.T) {
	now := time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)
	ago := func(d time.Duration, open int) *guest { return &guest{used: now.Add(-d), open: open} }
	for _, tt := range []struct {
		guests map[string]*guest
		want   string
	}{
		{nil, ""},
		{map[string]*guest{"a": ago(time.Second, 0), "b": ago(roomIdle-1, 0)}, ""},
		{map[string]*guest{"a": ago(roomIdle, 0), "b": ago(time.Second, 0)}, "a"},
		{map[string]*guest{"a": ago(roomIdle, 0), "b": ago(2*roomIdle, 0), "c": ago(3*roomIdle, 0)}, "c"},
		{map[string]*guest{"a": ago(roomIdle, 0), "listens": ago(time.Hour, 1)}, "a"},
	} {
		if key, g := longestIdle(tt.guests, now); key != tt.want || (g != nil) != (key != "") {
			t.Errorf("%s, want %s", key, tt.want)
		}
	}
}

// TestRoomIsMade: the guest that makes room is ended, and its place is taken.
func TestRoomIsMade(t *testing.T) {
	f := newFront(t.Context(), Config{Logger: quietLog()}, HTTPConfig{})
	for i := range maxGuests {
		g := f.newGuest("", func(string) string { return "x" }, nil)
		g.sessionless = true
		if !f.add(fmt.Sprint(i), g) {
			t.Fatal("no room for", i)
		}
	}
	if f.add("late", &guest{}) || !f.full() {
		t.Error("there is room for one more, though all have asked a moment ago")
	}
	idle := f.guests["7"]
	idle.used = time.Now().Add(-roomIdle)
	if f.full() || !f.add("late", f.newGuest("", func(string) string { return "y" }, nil)) {
		t.Error("no room was made")
	}
	f.leaving.Wait()
	if idle.life.Err() == nil || f.guests["7"] != nil || len(f.guests) != maxGuests {
		t.Error("nobody was ended for it")
	}
	for _, g := range f.guests {
		g.stop()
	}
}
