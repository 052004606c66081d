package mcpevents

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
)

// sent is a decoded line of a stream.
type sent struct {
	Method string `json:"method"`
	Params struct {
		EventID   string                     `json:"eventId"`
		Cursor    string                     `json:"cursor"`
		Truncated *bool                      `json:"truncated"`
		Data      struct{ Count int }        `json:"data"`
		Error     *struct{ Message string }  `json:"error"`
		Meta      map[string]json.RawMessage `json:"_meta"`
	} `json:"params"`
}

// String writes a line as "A*2@5": the event, its count, and the sequence of the cursor.
func (s sent) String() string {
	text := s.Params.EventID
	if s.Params.Data.Count > 1 {
		text += fmt.Sprint("*", s.Params.Data.Count)
	}
	switch s.Method {
	case notificationActive:
		text = "active"
		if *s.Params.Truncated {
			text = "gap"
		}
	case notificationHeartbeat:
		text = "beat"
	case notificationError:
		return "error"
	}
	p, _ := decodeCursor(s.Params.Cursor)
	return fmt.Sprintf("%s@%d", text, p.Seq)
}

func parse(l []byte) sent {
	var s sent
	if err := json.Unmarshal(l, &s); err != nil || string(s.Params.Meta["io.modelcontextprotocol/subscriptionId"]) != `"s1"` || !strings.HasSuffix(string(l), "}\n") {
		panic(fmt.Sprintf("decode the line %s: %v", l, err))
	}
	return s
}

// player runs the timer of a push.
type player struct {
	*push
	t   testing.TB
	out []string
}

func (p *player) put(now time.Time, lines [][]byte, err error) {
	if err != nil {
		p.t.Fatal(err)
	}
	var all []string
	for _, l := range lines {
		all = append(all, parse(l).String())
	}
	if len(all) > 0 {
		p.out = append(p.out, fmt.Sprintf("%v: %s", now.Sub(start).Seconds(), strings.Join(all, " ")))
	}
}

func (p *player) until(now time.Time) {
	for {
		at, ok := p.next()
		if !ok || !at.Before(now) {
			return
		}
		lines, err := p.due(at, notSuppressed)
		p.put(at, lines, err)
	}
}

func (p *player) arrive(a Arrival, now time.Time) {
	p.until(now)
	lines, err := p.process(a, now)
	p.put(now, lines, err)
}

// TestPush plays alerts "time sequence name" to a stream that begins at 0. A name that ends
// with - is an info alert, a sequence after + belongs to a recreated stream.
func TestPush(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"slow alerts are sent at once", "0 1 A, 6 2 B", "0: A@1; 6: B@2"},
		{"a batch is several events; only the last one advances the cursor", "0 1 A, 1 2 B, 2 3 C", "0: A@1; 5: B@1 C@3"},
		{"in the order of arrival, not of severity", "0 1 A, 1 2 B-, 2 3 C, 3 4 D-", "0: A@1; 5: B@1 C@1 D@4"},
		{"repetitions are merged", "0 1 A, 1 2 B, 2 3 C, 3 4 B", "0: A@1; 5: C@1 B*2@4"},
		{"a duplicate advances the cursor", "0 1 A, 6 2 A, 7 3 B", "0: A@1; 7: B@3"},
		{"a gap is reported before the next alert", "0 1 A, 6 4 B", "0: A@1; 6: gap@3 B@4"},
		{"the cursor does not pass a pending alert", "0 1 A, 1 2 B, 2 5 C", "0: A@1; 2: gap@1; 5: B@1 C@5"},
		{"a recreated stream", "0 7 A, 6 +1 B", "0: gap@6 A@7; 6: gap@0 B@1"},
		{"a stream recreated while an alert is pending", "0 1 A, 1 2 B, 2 +1 C", "0: A@1; 2: gap@0; 5: C@0 B@1"},
		{"a message that is no alert advances the cursor", "0 1 A, 6 2 ., 7 3 B", "0: A@1; 7: B@3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &player{t: t, push: newPush(json.RawMessage(`"s1"`), everything(), position(0))}
			for _, step := range strings.Split(c.in, ", ") {
				var seconds float64
				var number, name string
				if _, err := fmt.Sscan(step, &seconds, &number, &name); err != nil {
					t.Fatal(err)
				}
				a := Arrival{Position: bus.Position{Created: created}}
				if strings.HasPrefix(number, "+") {
					a.Position.Created = created.Add(time.Minute)
				}
				if _, err := fmt.Sscan(strings.TrimPrefix(number, "+"), &a.Position.Seq); err != nil {
					t.Fatal(err)
				}
				if name != "." {
					a.Alert = testAlert(strings.TrimSuffix(name, "-"))
					a.Alert.Seq = a.Position.Seq
					if strings.HasSuffix(name, "-") {
						a.Alert.Severity = alert.Info
					}
				}
				p.arrive(a, start.Add(time.Duration(seconds*1000)*time.Millisecond))
			}
			p.until(start.Add(time.Hour))
			if got := strings.Join(p.out, "; "); got != c.want {
				t.Errorf("lines of %s:\n got %s\nwant %s", c.in, got, c.want)
			}
		})
	}
}

// TestPushLosesNothing ends a stream after any line and resumes it from the last cursor:
// every alert is sent.
func TestPushLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "alerts")
		names := rapid.SampledFrom([]int{3, 40, 1000}).Draw(t, "names")
		sent := map[string]bool{}
		wanted := map[string]bool{}
		var all []*alert.Alert
		for i := range n {
			a := testAlert(fmt.Sprint("k", rapid.IntRange(1, names).Draw(t, "name")))
			a.Seq = uint64(i + 1)
			all, wanted[a.DedupKey] = append(all, a), true
		}
		now, from := start, uint64(0)
		for round := 0; from < uint64(n); round++ {
			if round > 2*n+10 {
				t.Fatalf("no progress past sequence %d", from)
			}
			p := newPush(json.RawMessage(`"s1"`), everything(), position(from))
			// Each stream lives longer than the one before, so that there is progress.
			left := rapid.IntRange(0, 4*(round+1)).Draw(t, "lines read")
			last := from
			read := func(lines [][]byte, err error) {
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range lines {
					s := parse(l)
					p, _ := decodeCursor(s.Params.Cursor)
					if p.Seq < last {
						t.Fatalf("the cursor went from %d back to %d, want it to advance", last, p.Seq)
					}
					last = p.Seq
					if left--; left >= 0 {
						sent[strings.TrimSpace(s.Params.EventID)] = true
						from = p.Seq
					}
				}
			}
			for _, a := range all[from:] {
				for p.isFull() {
					due, _ := p.next()
					now = due
					read(p.due(now, notSuppressed))
				}
				now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "pause")) * time.Millisecond)
				if due, ok := p.next(); ok && !due.After(now) {
					read(p.due(now, notSuppressed))
				}
				read(p.process(Arrival{Position: position(a.Seq), Alert: a}, now))
			}
			if due, ok := p.next(); ok {
				now = due
				read(p.due(now, notSuppressed))
			}
			beat, err := p.heartbeat()
			read([][]byte{beat}, err)
			if stats := p.notifier.Stats(); stats.Dropped > 0 {
				t.Fatalf("Dropped = %d, want 0", stats.Dropped)
			}
			now = now.Add(time.Minute)
		}
		for name := range wanted {
			if !sent[name] {
				t.Errorf("alert %s was never sent, want it sent", name)
			}
		}
	})
}

func BenchmarkTake(b *testing.B) {
	p := newPush(json.RawMessage(`"s1"`), everything(), position(0))
	alerts := testAlerts(300)
	now := start
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now = now.Add(10 * time.Second)
		a := alerts[i%len(alerts)]
		a.Seq = uint64(i + 1)
		if lines, err := p.process(Arrival{Position: position(a.Seq), Alert: a}, now); err != nil || len(lines) != 1 {
			b.Fatalf("take = %d lines, %v, want one line", len(lines), err)
		}
	}
}
