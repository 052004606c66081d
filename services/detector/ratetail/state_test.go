package ratetail

import (
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

// saveTrust writes a Counter as version 7 did, which had one level and held apart what
// came in a spike.
func saveTrust(c *Counter, w *snapshot.Writer) {
	c.save(w)
	if c.state != calm {
		w.Uint(uint64(c.episode.peak))
		w.Float(c.episode.usual)
		saveLevel(w, c.incident.all)
		w.Uint(uint64(c.episode.most))
		w.Uint(uint64(c.episode.longest))
	}
	w.Float(c.scales.spreads[0].squares)
	w.Float(c.scales.spreads[0].expected)
	w.Uint(uint64(c.block.seconds))
	w.Uint(uint64(c.block.errors))
	w.Bool(c.block.void)
	saveLevel(w, c.block.usual[0])
	c.recurring.save(w)
	d := &c.drift
	saveLevel(w, d.reference)
	w.Float(d.sum)
	w.Int(d.calm)
	w.Float(d.risen.errors)
	w.Float(d.risen.seconds)
	w.Bool(d.open)
	w.Bool(d.news)
	w.Bool(d.stayed)
	w.Int(d.since)
	w.Float(d.from)
	w.Float(d.back)
}

// TestAdopt: a spike that goes on in a snapshot of version 7 is an open incident with
// what was usual before it, raises nothing again, and ends 120 s after it has calmed.
func TestAdopt(t *testing.T) {
	at := func(ms int64) time.Time { return time.UnixMilli(1_770_000_000_000 + ms) }
	c := New(at(0))
	for ms := int64(0); ms < 600_000; ms += 5000 {
		c.Add(at(ms), false)
	}
	found := 0
	for ms := int64(600_000); ms < 630_000; ms += 100 {
		if _, ok := c.Add(at(ms), false); ok {
			found++
		}
	}
	if found != 1 || c.state != spiking {
		t.Fatalf("%d findings, state %d: want a spike that goes on", found, c.state)
	}
	var w snapshot.Writer
	saveTrust(c, &w)
	r := snapshot.NewReaderOf(snapshot.Trust, w.Bytes())
	c = Restore(r)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if rate := c.usual.rate(); rate < 0.1 || rate > 0.4 {
		t.Errorf("usual are %.2f/s, want the 0.2/s of before the spike", rate)
	}
	for ms := int64(630_000); ms < 690_000; ms += 100 {
		if found, ok := c.Add(at(ms), false); ok {
			t.Errorf("at %d s the spike is found again: %+v", ms/1000, found)
		}
	}
	ended := int64(0)
	for ms := int64(690_000); ended == 0 && ms < 900_000; ms += 1000 {
		if ms%5000 == 0 {
			c.Add(at(ms), false)
		}
		if end, over, _ := c.Over(at(ms)); over {
			if ended = ms / 1000; end.Kind != SpikeOver {
				t.Errorf("got the end %+v, want that it is over", end)
			}
		}
	}
	if ended < 815 || ended > 825 {
		t.Errorf("it ended at %d s, want about 820 s", ended)
	}
}
