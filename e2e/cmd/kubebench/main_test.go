package main

import (
	"os"
	"testing"
	"time"
)

func TestNumber(t *testing.T) {
	c := &batch{run: 3}
	for text, want := range map[string]int{
		"Container started: app-1 bench 3/41":                    41,
		`{"message":"Container started: app-1 bench 3/0","l":1}`: 0,
		"Container started: app-1 bench 31/4":                    -1,
		"bench 3/":                                               -1,
		"Container started: app-1 bench 3/":                      -1,
		"":                                                       -1,
	} {
		if got := number(c.marker(), text); got != want {
			t.Errorf("%q is of event %d; want %d", text, got, want)
		}
	}
}

func TestPassage(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p, before := newArrivals(4), newArrivals(4)
	for i := range 4 {
		before.record(i, began)
		p.record(3-i, began.Add(time.Duration(i-1)*time.Second))
		p.record(3-i, began.Add(time.Hour)) // again
	}
	p.record(4, began)
	p.record(-1, began)
	if err := p.wait(t.Context(), "here"); err != nil {
		t.Fatal(err)
	}
	if want := began.Add(-time.Second); !p.first().Equal(want) {
		t.Errorf("first = %s, want %s", p.first(), want)
	}
	if want := began.Add(2 * time.Second); !p.last().Equal(want) {
		t.Errorf("last = %s, want %s", p.last(), want)
	}
	if got := p.rate(began); got != 2 {
		t.Errorf("rate = %v a second, want 2", got)
	}
	if got := p.since(&before); got[0] != 2*time.Second || got[3] != 0 {
		t.Errorf("since: %v, want got[0] %v and got[3] 0", got, 2*time.Second)
	}
}

func TestChoose(t *testing.T) {
	for only, want := range map[string]int{"": 4, "memory": 1, "memory,events": 2} {
		if got, err := choose(parts(sizes{}), only); err != nil || len(got) != want {
			t.Errorf("%q: %d parts, %v; want %d", only, len(got), err, want)
		}
	}
	for _, only := range []string{"pods", "memory,pods", "memory,"} {
		if _, err := choose(parts(sizes{}), only); err == nil {
			t.Errorf("choose(%q) = nil, want an error", only)
		}
	}
}

func TestFaultOf(t *testing.T) {
	now := time.Now()
	line := `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"kubernetes/faults","data":{"event":{"involvedObject":{"name":"web-1"}},"logs":[{"hasPanic":false},{"hasPanic":true}]}}}`
	if f, is := faultOf(now, []byte(line)); !is || f != (fault{now, "web-1", 2, true}) {
		t.Errorf("got %+v, %t, want %v", f, is, (fault{now, "web-1", 2, true}))
	}
	if _, is := faultOf(now, []byte(`{"params":{"logger":"kubernetes/events"}}`)); is {
		t.Error("faultOf takes an event for a fault, want it refused")
	}
}

func TestResident(t *testing.T) {
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Skip("this is no Linux")
	}
	r, err := residentOf(os.Getpid())
	if err != nil || r.now < 1<<20 || r.peak < r.now {
		t.Errorf("got %+v, %v, want now of at least %v and peak of at least %v", r, err, 1<<20, r.now)
	}
}
