package mcpevents

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/shared/alert"
)

// sent is a line on a stream.
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

// String tells a line as "A*2@5": what, how many, and the cursor.
func (s sent) String() string {
	what := s.Params.EventID
	if s.Params.Data.Count > 1 {
		what += fmt.Sprint("*", s.Params.Data.Count)
	}
	switch s.Method {
	case noteActive:
		what = "active"
		if *s.Params.Truncated {
			what = "gap"
		}
	case noteHeartbeat:
		what = "beat"
	case noteError:
		return "error"
	}
	p, _ := parseCursor(s.Params.Cursor)
	return fmt.Sprintf("%s@%d", what, p.Seq)
}

func parse(l []byte) sent {
	var s sent
	if err := json.Unmarshal(l, &s); err != nil || string(s.Params.Meta["io.modelcontextprotocol/subscriptionId"]) != `"s1"` || !strings.HasSuffix(string(l), "}\n") {
		panic(fmt.Sprintf("%v: %s", err, l))
	}
	return s
}

// player keeps the timer of a push.
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
		lines, err := p.due(at, audible)
		p.put(at, lines, err)
	}
}

func (p *player) arrive(a Arrival, now time.Time) {
	p.until(now)
	lines, err := p.take(a, now)
	p.put(now, lines, err)
}

// TestPush plays alerts "time number name" to a stream that begins at 0. A
// severity of info is marked by -, a number after + belongs to a stream made
// anew.
func TestPush(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"each at once, when they come slowly", "0 1 A, 6 2 B", "0: A@1; 6: B@2"},
		{"a batch is several events; before its last one the cursor stays", "0 1 A, 1 2 B, 2 3 C", "0: A@1; 5: B@1 C@3"},
		{"in the order in which they came, whatever the severity", "0 1 A, 1 2 B-, 2 3 C, 3 4 D-", "0: A@1; 5: B@1 C@1 D@4"},
		{"repetitions become one", "0 1 A, 1 2 B, 2 3 C, 3 4 B", "0: A@1; 5: C@1 B*2@4"},
		{"a duplicate moves the cursor on", "0 1 A, 6 2 A, 7 3 B", "0: A@1; 7: B@3"},
		{"a gap is told before what comes after it", "0 1 A, 6 4 B", "0: A@1; 6: gap@3 B@4"},
		{"held back, the cursor does not pass what is held", "0 1 A, 1 2 B, 2 5 C", "0: A@1; 2: gap@1; 5: B@1 C@5"},
		{"a stream made anew", "0 7 A, 6 +1 B", "0: gap@6 A@7; 6: gap@0 B@1"},
		{"made anew while one is held back", "0 1 A, 1 2 B, 2 +1 C", "0: A@1; 2: gap@0; 5: C@0 B@1"},
		{"what is none counts as a place", "0 1 A, 6 2 ., 7 3 B", "0: A@1; 7: B@3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &player{t: t, push: newPush(json.RawMessage(`"s1"`), everything(), at(0))}
			for _, step := range strings.Split(c.in, ", ") {
				var seconds float64
				var number, name string
				if _, err := fmt.Sscan(step, &seconds, &number, &name); err != nil {
					t.Fatal(err)
				}
				a := Arrival{At: Position{Created: born}}
				if strings.HasPrefix(number, "+") {
					a.At.Created = born.Add(time.Minute)
				}
				if _, err := fmt.Sscan(strings.TrimPrefix(number, "+"), &a.At.Seq); err != nil {
					t.Fatal(err)
				}
				if name != "." {
					a.Alert = made(strings.TrimSuffix(name, "-"))
					a.Alert.Seq = a.At.Seq
					if strings.HasSuffix(name, "-") {
						a.Alert.Severity = alert.Info
					}
				}
				p.arrive(a, start.Add(time.Duration(seconds*1000)*time.Millisecond))
			}
			p.until(start.Add(time.Hour))
			if got := strings.Join(p.out, "; "); got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestPushLosesNothing ends a stream after any line, resumes it from the last
// cursor, and finds every alert told.
func TestPushLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "alerts")
		names := rapid.SampledFrom([]int{3, 40, 1000}).Draw(t, "names")
		told := map[string]bool{}
		wanted := map[string]bool{}
		var all []*alert.Alert
		for i := range n {
			a := made(fmt.Sprint("k", rapid.IntRange(1, names).Draw(t, "name")))
			a.Seq = uint64(i + 1)
			all, wanted[a.DedupKey] = append(all, a), true
		}
		now, from := start, uint64(0)
		for round := 0; from < uint64(n); round++ {
			if round > 2*n+10 {
				t.Fatalf("no progress past %d", from)
			}
			p := newPush(json.RawMessage(`"s1"`), everything(), at(from))
			// Each stream lives a while longer, so that it gets somewhere.
			left := rapid.IntRange(0, 4*(round+1)).Draw(t, "lines read")
			last := from
			read := func(lines [][]byte, err error) {
				if err != nil {
					t.Fatal(err)
				}
				for _, l := range lines {
					s := parse(l)
					at, _ := parseCursor(s.Params.Cursor)
					if at.Seq < last {
						t.Fatalf("the cursor went back from %d to %d", last, at.Seq)
					}
					last = at.Seq
					if left--; left >= 0 {
						told[strings.TrimSpace(s.Params.EventID)] = true
						from = at.Seq
					}
				}
			}
			for _, a := range all[from:] {
				for p.full() {
					due, _ := p.next()
					now = due
					read(p.due(now, audible))
				}
				now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "pause")) * time.Millisecond)
				if due, ok := p.next(); ok && !due.After(now) {
					read(p.due(now, audible))
				}
				read(p.take(Arrival{At: at(a.Seq), Alert: a}, now))
			}
			if due, ok := p.next(); ok {
				now = due
				read(p.due(now, audible))
			}
			beat, err := p.heartbeat()
			read([][]byte{beat}, err)
			if stats := p.stream.Stats(); stats.Dropped > 0 {
				t.Fatalf("%d dropped", stats.Dropped)
			}
			now = now.Add(time.Minute)
		}
		for name := range wanted {
			if !told[name] {
				t.Errorf("%s was never told", name)
			}
		}
	})
}

func BenchmarkTake(b *testing.B) {
	p := newPush(json.RawMessage(`"s1"`), everything(), at(0))
	alerts := many(300)
	now := start
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now = now.Add(10 * time.Second)
		a := alerts[i%len(alerts)]
		a.Seq = uint64(i + 1)
		if lines, err := p.take(Arrival{At: at(a.Seq), Alert: a}, now); err != nil || len(lines) != 1 {
			b.Fatal(len(lines), err)
		}
	}
}
