package ratetail_test

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/ratetail"
)

// TestCount checks that errors that were counted only are no spike, that the counter
// judges the next ones by them, and that it yields them.
func TestCount(t *testing.T) {
	start := time.Unix(1_770_000_000, 0)
	c := ratetail.New(start)
	for second := 1; second <= 70; second++ {
		c.Count(start.Add(time.Duration(second)*time.Second), 20)
	}
	now := start.Add(70 * time.Second)
	if end, over, _ := c.Over(now); !over || end.Count != 200 {
		t.Errorf("got %+v, over %v; want 200 and no spike", end, over)
	}
	total, seconds := int64(0), 0
	for _, n := range c.Errors(70) {
		total, seconds = total+n, seconds+1
	}
	if total < 1300 || total > 1400 || seconds != 70 {
		t.Errorf("got %d errors in %d s, want about 1400 in 70", total, seconds)
	}
}
