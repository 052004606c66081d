package anomaly_test

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/anomaly"
)

// TestCount checks that errors that were counted only are no spike, and that the counter
// judges the next ones by them.
func TestCount(t *testing.T) {
	c, start := &anomaly.Counter{}, time.UnixMilli(1_770_000_000_000)
	for second := range 70 {
		at := start.Add(time.Duration(second) * time.Second)
		c.Count(at, 10)
		c.Count(at, 10)
	}
	now := start.Add(69 * time.Second)
	if counted, over, _ := c.Over(now); !over || counted.Count != 200 || counted.Average != 0 && counted.Average != 200 {
		t.Errorf("got %+v, over %v; want 200 and no spike", counted, over)
	}
	total, cells := int64(0), 0
	for _, n := range c.Errors() {
		total, cells = total+n, cells+1
	}
	if total != 1400 || cells != 70 {
		t.Errorf("got %d errors at %d times, want 1400 at 70", total, cells)
	}
	c = restored(t, c)
	added := 0
	for ; added < 1000; added++ {
		if _, found := c.Add(now); found {
			break
		}
	}
	if added != 400 { // with one more it is over 3 times 200
		t.Errorf("got a spike with %d errors more, want it with the 401st", added+1)
	}
}
