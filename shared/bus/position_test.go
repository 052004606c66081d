package bus_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

func TestPosition(t *testing.T) {
	created, recreated := time.Unix(1000, 5).UTC(), time.Unix(2000, 0).UTC()
	at := func(seq uint64) bus.Position { return bus.Position{Seq: seq, Created: created} }
	// A stream with messages 3 to 7.
	end := bus.State{Created: created, First: 3, Last: 7}.End()
	for name, tt := range map[string]struct {
		p, q              bus.Position
		sameStream, after bool
	}{
		"the same message":                        {at(7), end, true, false},
		"a later message":                         {at(7), at(6), true, true},
		"an earlier message":                      {at(6), end, true, false},
		"beyond the end":                          {at(8), end, true, true},
		"the end, from beyond it":                 {end, at(8), true, false},
		"before the first message":                {at(0), at(3), true, false},
		"the beginning twice":                     {at(0), at(0), true, false},
		"an earlier sequence of a recreated one":  {bus.Position{Seq: 1, Created: recreated}, end, false, true},
		"the same sequence of a recreated one":    {bus.Position{Seq: 7, Created: recreated}, end, false, true},
		"a later sequence of a recreated one":     {bus.Position{Seq: 9, Created: recreated}, end, false, true},
		"a position in the deleted stream":        {end, bus.Position{Seq: 9, Created: recreated}, false, true},
		"the same creation in another time zone":  {bus.Position{Seq: 7, Created: created.In(time.FixedZone("x", 3600))}, end, true, false},
		"creations that differ by one nanosecond": {bus.Position{Seq: 7, Created: created.Add(1)}, end, false, true},
		"a known stream, after zero":              {end, bus.Position{}, false, true},
		"zero, after a known stream":              {bus.Position{}, end, false, true},
		"zero twice":                              {bus.Position{}, bus.Position{}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.p.SameStream(tt.q); got != tt.sameStream {
				t.Errorf("%+v.SameStream(%+v) = %t, want %t", tt.p, tt.q, got, tt.sameStream)
			}
			if got := tt.p.After(tt.q); got != tt.after {
				t.Errorf("%+v.After(%+v) = %t, want %t", tt.p, tt.q, got, tt.after)
			}
		})
	}
	for name, tt := range map[string]struct {
		p    bus.Position
		in   time.Time
		want bus.Position
	}{
		"its own stream":      {at(7), created, at(7)},
		"beyond its end":      {at(8), created, at(8)},
		"a recreated stream":  {at(7), recreated, bus.Position{Created: recreated}},
		"zero":                {bus.Position{}, created, at(0)},
		"another time zone":   {at(7), created.In(time.FixedZone("x", 3600)), at(7)},
		"an unknown creation": {at(7), time.Time{}, bus.Position{}},
	} {
		if got := tt.p.InStream(tt.in); got != tt.want {
			t.Errorf("%s: %+v.InStream(%s) = %+v, want %+v", name, tt.p, tt.in, got, tt.want)
		}
	}
	for p, want := range map[bus.Position]bool{{}: true, at(0): false, {Seq: 1}: false} {
		if got := p.IsZero(); got != want {
			t.Errorf("%+v.IsZero() = %t, want %t", p, got, want)
		}
	}
}

// TestPositionJSON checks that a stored position is in the same stream when it is read.
func TestPositionJSON(t *testing.T) {
	want := bus.Position{Seq: 7, Created: time.Now()}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got bus.Position
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Seq != want.Seq || !got.SameStream(want) {
		t.Errorf("read %s as %+v, want %+v", data, got, want)
	}
}
