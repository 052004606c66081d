package bus_test

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/bus"
)

func TestPosition(t *testing.T) {
	old, later := time.Unix(1000, 5).UTC(), time.Unix(2000, 0).UTC()
	p := bus.Position{Seq: 7, Created: old}
	for name, tt := range map[string]struct {
		q                 bus.Position
		sameStream, after bool
	}{
		"itself":               {p, true, false},
		"an earlier message":   {p.At(6), true, true},
		"a later message":      {p.At(8), true, false},
		"another stream":       {bus.Position{Seq: 9, Created: later}, false, true},
		"in another time zone": {bus.Position{Seq: 7, Created: old.In(time.FixedZone("x", 3600))}, true, false},
		"zero":                 {bus.Position{}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := p.SameStream(tt.q); got != tt.sameStream {
				t.Errorf("SameStream = %t, want %t", got, tt.sameStream)
			}
			if got := p.After(tt.q); got != tt.after {
				t.Errorf("After = %t, want %t", got, tt.after)
			}
		})
	}
	if got := p.InStream(old); got != p {
		t.Errorf("In its own stream = %+v, want %+v", got, p)
	}
	if got, want := p.InStream(later), (bus.Position{Created: later}); got != want {
		t.Errorf("In a recreated stream = %+v, want its beginning %+v", got, want)
	}
	if !(bus.Position{}).IsZero() || p.IsZero() {
		t.Errorf("IsZero: zero %t, other %t, want true, false", bus.Position{}.IsZero(), p.IsZero())
	}
}
