package mcpevents

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
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
	info := func(name string) *alert.Alert { a := testAlert(name); a.Severity = alert.Info; return a }
	shop := func(name string) *alert.Alert { a := testAlert(name); a.App = "shop"; return a }
	onlyWeb := everything()
	onlyWeb.app = "web"
	warnings := everything()
	warnings.config.SeverityMin = alert.Warning
	five := func(m *fakeSource) { m.add(testAlerts(5)...) } // they arrive at 1 to 5 s

	for _, c := range []struct {
		name   string
		fill   func(*fakeSource)
		params subscription
		filter filter
		want   string
		seq    uint64
		flags  string
	}{
		{name: "from now there is nothing", fill: five, seq: 5},
		{name: "from now the age is ignored", fill: five, params: subscription{MaxAgeMs: number(1)}, seq: 5},
		{name: "all since the cursor, oldest first", fill: five, params: subscription{Cursor: cursor(2)}, want: "a003 a004 a005", seq: 5},
		{name: "nothing new", fill: five, params: subscription{Cursor: cursor(5)}, seq: 5},
		{name: "as many as asked for", fill: five, params: subscription{Cursor: cursor(0), MaxEvents: number(2)}, want: "a001 a002", seq: 2, flags: "more"},
		{name: "just as many as there are", fill: five, params: subscription{Cursor: cursor(3), MaxEvents: number(2)}, want: "a004 a005", seq: 5},
		{name: "the filter moves the cursor on", fill: func(m *fakeSource) { m.add(info("i"), testAlert("w"), info("j")) }, params: subscription{Cursor: cursor(0)}, filter: warnings, want: "w", seq: 3},
		{name: "one app", fill: func(m *fakeSource) { m.add(shop("s"), testAlert("w")) }, params: subscription{Cursor: cursor(0)}, filter: onlyWeb, want: "w", seq: 2},
		{name: "messages that are no alerts are skipped", fill: func(m *fakeSource) { m.add(testAlert("a"), nil, testAlert("b"), nil) }, params: subscription{Cursor: cursor(0)}, want: "a b", seq: 4},
		{name: "a maximum age", fill: five, params: subscription{Cursor: cursor(1), MaxAgeMs: number(6000)}, want: "a004 a005", seq: 5, flags: "truncated"},
		{name: "the age reaches further back than the cursor", fill: five, params: subscription{Cursor: cursor(3), MaxAgeMs: number(60_000)}, want: "a004 a005", seq: 5},
		{name: "all alerts are too old", fill: five, params: subscription{Cursor: cursor(1), MaxAgeMs: number(0)}, seq: 5, flags: "truncated"},
		{name: "some alerts were dropped", fill: func(m *fakeSource) { five(m); m.drop(3) }, params: subscription{Cursor: cursor(1)}, want: "a004 a005", seq: 5, flags: "truncated"},
		{name: "all alerts were dropped", fill: func(m *fakeSource) { five(m); m.drop(5) }, params: subscription{Cursor: cursor(1)}, seq: 5, flags: "truncated"},
		{name: "a recreated stream", fill: func(m *fakeSource) { five(m); m.recreate(); m.add(testAlert("n")) }, params: subscription{Cursor: cursor(5)}, want: "n", seq: 1, flags: "truncated"},
		{name: "few pass: the rest is for the next poll", fill: func(m *fakeSource) {
			list := testAlerts(maxScan + 5)
			for _, a := range list {
				a.Severity = alert.Info
			}
			m.add(list...)
		}, params: subscription{Cursor: cursor(0)}, filter: warnings, seq: maxScan, flags: "more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newFakeSource()
			c.fill(m)
			if c.filter.config.Events == nil {
				c.filter = everything()
			}
			r, err := poll(t.Context(), m, &c.params, c.filter, start.Add(10*time.Second))
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
			want := encodeCursor(bus.Position{Seq: c.seq, Created: m.created})
			if got := ids(r.Events); got != c.want {
				t.Errorf("events = %q, want %q", got, c.want)
			}
			if got, _ := decodeCursor(r.Cursor); r.Cursor != want {
				t.Errorf("cursor at %d of %s, want %d of %s", got.Seq, got.Created, c.seq, m.created)
			}
			if got := strings.Join(flags, " "); got != c.flags {
				t.Errorf("flags = %q, want %q", got, c.flags)
			}
		})
	}
}

// TestPollOfAnInvestigation: after a client received an alert, the end of its investigation is one
// more event, with an id of its own; the start is none.
func TestPollOfAnInvestigation(t *testing.T) {
	m := newFakeSource()
	found := testAlert("a")
	end := alert.Investigation{SessionID: "s", Status: alert.InvestigationCompleted, Summary: "The pool is small.", Confidence: alert.Likely}
	started := alert.RevisionFor(*found, alert.Investigation{SessionID: "s", Status: alert.InvestigationInProgress})
	ended := alert.RevisionFor(*found, end)
	m.add(found, &started, &ended)
	first, err := poll(t.Context(), m, &subscription{Cursor: cursor(0), MaxEvents: number(1)}, everything(), start)
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(first.Events); got != "a" || !first.HasMore {
		t.Fatalf("the first poll has the events %q, more: %t, want the alert alone, and more", got, first.HasMore)
	}
	second, err := poll(t.Context(), m, &subscription{Cursor: &first.Cursor}, everything(), start)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ids(second.Events), end.RevisionID("a"); got != want {
		t.Fatalf("the second poll has the events %q, want %q", got, want)
	}
	if got := second.Events[0].Data; got.ID != "a" || got.Title != "Investigation completed: title of a" || got.Detail != "" || got.Investigation.Summary != end.Summary {
		t.Errorf("the event is %+v, want one line with the summary", got)
	}
	third, err := poll(t.Context(), m, &subscription{Cursor: &second.Cursor}, everything(), start)
	if err != nil || len(third.Events) != 0 {
		t.Errorf("the third poll has the events %q, %v, want none", ids(third.Events), err)
	}
}

// TestPollsReturnEveryAlertOnce follows the cursors through a backlog.
func TestPollsReturnEveryAlertOnce(t *testing.T) {
	m := newFakeSource()
	m.add(testAlerts(1000)...)
	params := &subscription{Cursor: cursor(0), MaxEvents: number(1_000_000)}
	var got []occurrence
	for range 6 {
		r, err := poll(t.Context(), m, params, everything(), start)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Events) > maxEvents {
			t.Fatalf("%d events in one poll, want at most %d", len(r.Events), maxEvents)
		}
		got, params.Cursor = append(got, r.Events...), &r.Cursor
		if !r.HasMore {
			break
		}
	}
	var want []string
	for _, a := range testAlerts(1000) {
		want = append(want, a.ID)
	}
	if diff := cmp.Diff(strings.Join(want, " "), ids(got)); diff != "" {
		t.Errorf("%d events (-want +got):\n%s", len(got), diff)
	}
}

// TestSkipOlder compares the binary search with a check of every alert.
func TestSkipOlder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newFakeSource()
		m.add(testAlerts(rapid.IntRange(0, 40).Draw(t, "alerts"))...)
		m.drop(rapid.IntRange(0, len(m.kept)).Draw(t, "dropped"))
		last := m.first + uint64(len(m.kept)) - 1
		after := rapid.Uint64Range(0, last).Draw(t, "after")
		age, now := rapid.Int64Range(0, 50_000).Draw(t, "age"), start.Add(45*time.Second)
		got, err := skipOlder(t.Context(), m, position(after), last, &age, now)
		if err != nil || got.Seq < after || got.Seq > last {
			t.Fatalf("skipOlder = %+v, %v, want a sequence from %d to %d", got, err, after, last)
		}
		for _, a := range m.kept {
			recent := now.Sub(a.Time) <= time.Duration(age)*time.Millisecond
			if a.Position.Seq > after && recent != (a.Position.Seq > got.Seq) {
				t.Errorf("skipOlder = %d, but alert %d is recent enough: %t; want delivery to begin at the first recent one", got.Seq, a.Position.Seq, recent)
			}
		}
	})
}

func TestPollFailsWithoutTheBus(t *testing.T) {
	m := newFakeSource()
	m.fail(errors.New("the bus is unreachable"))
	if _, err := poll(t.Context(), m, &subscription{}, everything(), start); err == nil {
		t.Error("poll without the bus: no error, want one")
	}
}

func BenchmarkPoll(b *testing.B) {
	m := newFakeSource()
	m.add(testAlerts(maxEvents)...)
	params := &subscription{Cursor: cursor(0), MaxEvents: number(maxEvents)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := poll(b.Context(), m, params, everything(), start); err != nil {
			b.Fatal(err)
		}
	}
}
