package mcpevents

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

func number(n int64) *int64 { return &n }

func everything() filter {
	c := notifier.DefaultConfig()
	c.SeverityMin = alert.Info
	return filter{config: c}
}

func ids(list []occurrence) string {
	var all []string
	for _, o := range list {
		all = append(all, o.EventID)
	}
	return strings.Join(all, " ")
}

func TestPoll(t *testing.T) {
	info := func(name string) *alert.Alert { a := made(name); a.Severity = alert.Info; return a }
	shop := func(name string) *alert.Alert { a := made(name); a.App = "shop"; return a }
	onlyWeb := everything()
	onlyWeb.app = "web"
	warnings := everything()
	warnings.config.SeverityMin = alert.Warning
	five := func(m *memory) { m.add(many(5)...) } // they came at 1 to 5 s

	for _, c := range []struct {
		name   string
		past   func(*memory)
		ask    subscription
		filter filter
		want   string
		at     uint64
		flags  string
	}{
		{name: "from now there is nothing", past: five, at: 5},
		{name: "from now the age means nothing", past: five, ask: subscription{MaxAgeMs: number(1)}, at: 5},
		{name: "all since the cursor, oldest first", past: five, ask: subscription{Cursor: cursor(2)}, want: "a003 a004 a005", at: 5},
		{name: "nothing new", past: five, ask: subscription{Cursor: cursor(5)}, at: 5},
		{name: "as many as asked for", past: five, ask: subscription{Cursor: cursor(0), MaxEvents: number(2)}, want: "a001 a002", at: 2, flags: "more"},
		{name: "just as many as there are", past: five, ask: subscription{Cursor: cursor(3), MaxEvents: number(2)}, want: "a004 a005", at: 5},
		{name: "the filter moves the cursor on", past: func(m *memory) { m.add(info("i"), made("w"), info("j")) }, ask: subscription{Cursor: cursor(0)}, filter: warnings, want: "w", at: 3},
		{name: "of one app", past: func(m *memory) { m.add(shop("s"), made("w")) }, ask: subscription{Cursor: cursor(0)}, filter: onlyWeb, want: "w", at: 2},
		{name: "what is no alert is passed over", past: func(m *memory) { m.add(made("a"), nil, made("b"), nil) }, ask: subscription{Cursor: cursor(0)}, want: "a b", at: 4},
		{name: "no older than", past: five, ask: subscription{Cursor: cursor(1), MaxAgeMs: number(6000)}, want: "a004 a005", at: 5, flags: "truncated"},
		{name: "the age reaches further back than the cursor", past: five, ask: subscription{Cursor: cursor(3), MaxAgeMs: number(60_000)}, want: "a004 a005", at: 5},
		{name: "all is too old", past: five, ask: subscription{Cursor: cursor(1), MaxAgeMs: number(0)}, at: 5, flags: "truncated"},
		{name: "some have gone", past: func(m *memory) { five(m); m.drop(3) }, ask: subscription{Cursor: cursor(1)}, want: "a004 a005", at: 5, flags: "truncated"},
		{name: "all have gone", past: func(m *memory) { five(m); m.drop(5) }, ask: subscription{Cursor: cursor(1)}, at: 5, flags: "truncated"},
		{name: "a stream made anew", past: func(m *memory) { five(m); m.renew(); m.add(made("n")) }, ask: subscription{Cursor: cursor(5)}, want: "n", at: 1, flags: "truncated"},
		{name: "few pass: the rest is for the next poll", past: func(m *memory) {
			list := many(maxScan + 5)
			for _, a := range list {
				a.Severity = alert.Info
			}
			m.add(list...)
		}, ask: subscription{Cursor: cursor(0)}, filter: warnings, at: maxScan, flags: "more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMemory()
			c.past(m)
			if c.filter.config.Events == nil {
				c.filter = everything()
			}
			r, err := poll(t.Context(), m, &c.ask, c.filter, start.Add(10*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			var flags []string
			if r.Truncated {
				flags = append(flags, "truncated")
			}
			if r.HasMore {
				flags = append(flags, "more")
			}
			want := Position{Seq: c.at, Created: m.created}.Cursor()
			if ids(r.Events) != c.want || r.Cursor != want || strings.Join(flags, " ") != c.flags {
				got, _ := parseCursor(r.Cursor)
				t.Errorf("%q up to %d, %v", ids(r.Events), got.Seq, flags)
			}
		})
	}
}

// TestPollsMeetEveryAlertOnce follows the cursors through a backlog.
func TestPollsMeetEveryAlertOnce(t *testing.T) {
	m := newMemory()
	m.add(many(1000)...)
	ask := &subscription{Cursor: cursor(0), MaxEvents: number(1_000_000)}
	var got []occurrence
	for range 6 {
		r, err := poll(t.Context(), m, ask, everything(), start)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Events) > maxEvents {
			t.Fatalf("%d events at once", len(r.Events))
		}
		got, ask.Cursor = append(got, r.Events...), &r.Cursor
		if !r.HasMore {
			break
		}
	}
	var want []string
	for _, a := range many(1000) {
		want = append(want, a.ID)
	}
	if ids(got) != strings.Join(want, " ") {
		t.Errorf("%d events", len(got))
	}
}

// TestAged compares with a look at every alert.
func TestAged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMemory()
		m.add(many(rapid.IntRange(0, 40).Draw(t, "alerts"))...)
		m.drop(rapid.IntRange(0, len(m.kept)).Draw(t, "dropped"))
		last := m.first + uint64(len(m.kept)) - 1
		after := rapid.Uint64Range(0, last).Draw(t, "after")
		age, now := rapid.Int64Range(0, 50_000).Draw(t, "age"), start.Add(45*time.Second)
		got, err := aged(t.Context(), m, at(after), last, &age, now)
		if err != nil || got.Seq < after || got.Seq > last {
			t.Fatalf("%+v, %v", got, err)
		}
		for _, a := range m.kept {
			young := now.Sub(a.Time) <= time.Duration(age)*time.Millisecond
			if a.At.Seq > after && young != (a.At.Seq > got.Seq) {
				t.Errorf("from %d on: %d is young: %t", got.Seq, a.At.Seq, young)
			}
		}
	})
}

func TestPollSaysThatTheBusIsAway(t *testing.T) {
	m := newMemory()
	m.fail(errors.New("the bus is away"))
	if _, err := poll(t.Context(), m, &subscription{}, everything(), start); err == nil {
		t.Error("an answer")
	}
}

func BenchmarkPoll(b *testing.B) {
	m := newMemory()
	m.add(many(maxEvents)...)
	ask := &subscription{Cursor: cursor(0), MaxEvents: number(maxEvents)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := poll(b.Context(), m, ask, everything(), start); err != nil {
			b.Fatal(err)
		}
	}
}
