package delivery

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// documentsOf returns a set as documents of the bucket's revision n.
func documentsOf(t interface{ Fatal(...any) }, set silence.Set, n uint64) []silence.Record {
	list, err := set.Silences.Encode()
	if err != nil {
		t.Fatal(err)
	}
	acks, err := set.Acks.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return []silence.Record{{Key: bus.KeySilences, Revision: n, Data: list}, {Key: bus.KeyAcks, Revision: n + 1, Data: acks}}
}

func silenceOf(app string, now time.Time, period time.Duration) silence.Silence {
	return silence.Silence{ID: "of " + app, App: app, Created: now, Until: now.Add(period)}
}

// raise hands over an alert that is raised now.
func (l *loop) raise(key, app string, severity alert.Severity, now time.Time, n int) alert.Alert {
	a := alert.Alert{
		ID: fmt.Sprint(key, n), Severity: severity, Category: alert.Errors, Title: key, DedupKey: key, App: app, Timestamp: now,
	}
	l.receive(arrival{position: bus.Position{Seq: uint64(n + 1)}, alert: a}, now)
	return a
}

// active returns how many silences and acknowledgements are in force.
func (s *State) active(now time.Time) [2]int {
	set := s.Silences.Active(now)
	return [2]int{len(set.Silences), len(set.Acks)}
}

// TestASilenceExpiresByItself: what was pending when it began stays pending.
func TestASilenceExpiresByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := runClient(t)
		n := 0
		raised := func(wait time.Duration) (pending int) {
			time.Sleep(wait)
			c.do(t, func(s *State, now time.Time) {
				n++
				c.loop.raise(fmt.Sprint("key", n), "web", alert.Error, now, n)
				pending = s.Inbox.Len()
			})
			return pending
		}
		got := []int{raised(0)}
		time.Sleep(time.Millisecond)
		list, _, err := silence.Silences(nil).Add(silenceOf("web", time.Now(), time.Minute), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		c.do(t, func(s *State, now time.Time) { s.Apply(now, documentsOf(t, silence.Set{Silences: list}, 1)...) })
		got = append(got, raised(0), raised(time.Minute-time.Millisecond), raised(time.Millisecond), raised(time.Hour))
		if diff := cmp.Diff([]int{1, 1, 1, 2, 3}, got); diff != "" {
			t.Errorf("pending alerts (-want +got):\n%s", diff)
		}
		c.do(t, func(s *State, _ time.Time) {
			if got := s.Inbox.Stats().Silenced; got != 2 {
				t.Errorf("Silenced = %d, want 2", got)
			}
			if got := s.Silences.Suppressed(silence.Cause{Silence: "of web"}); got != 2 {
				t.Errorf("Suppressed = %d, want 2", got)
			}
			if s.Received != 5 {
				t.Errorf("Received = %d, want 5", s.Received)
			}
		})
	})
}

// TestAnOlderDocumentChangesNothing: neither does one that can't be read, and an end that
// the bus has not stored yet is not undone.
func TestAnOlderDocumentChangesNothing(t *testing.T) {
	now := time.Now()
	l := newClient(t).loop
	s := &l.state
	acked := alert.Alert{ID: "a", App: "web", DedupKey: "k", Severity: alert.Warning, Timestamp: now}
	acks := silence.Acks(nil).Add(silence.Acknowledge(acked, "me", now), now)
	list, _, err := silence.Silences(nil).Add(silenceOf("api", now, time.Hour), now)
	if err != nil {
		t.Fatal(err)
	}
	set := silence.Set{Silences: list, Acks: acks}
	s.Apply(now, documentsOf(t, set, 10)...)
	s.Apply(now, documentsOf(t, silence.Set{}, 3)...)
	s.Apply(now, silence.Record{Key: bus.KeySilences, Revision: 12, Data: []byte("nonsense")}, silence.Record{Key: "other", Revision: 13})
	if got, want := s.active(now), [2]int{1, 1}; got != want {
		t.Fatalf("silences and acks in force = %v, want %v", got, want)
	}
	later := now.Add(time.Second)
	l.raise("k", "web", alert.Error, later, 1) // worse
	s.Apply(later, documentsOf(t, set, 20)...) // as it was
	l.raise("k", "web", alert.Warning, later.Add(time.Second), 2)
	if got := s.Inbox.Len(); got != 1 {
		t.Errorf("%d alerts are pending, want 1", got)
	}
	if got := s.Inbox.Stats().Silenced; got != 0 {
		t.Errorf("Silenced = %d, want 0", got)
	}
	// A silence deleted with another tool is no longer in force.
	deleted := bus.Message{Subject: "$KV." + bus.BucketSilences + "." + bus.KeySilences, Seq: 30, Header: nats.Header{"KV-Operation": {"DEL"}}}
	s.Apply(later, silence.RecordOf(deleted))
	if got, want := len(s.Silences.Active(later).Silences), 0; got != want {
		t.Errorf("%d silences in force after the deletion, want %d", got, want)
	}
	// Another bucket starts again, and lacks what was never written to it.
	s.Silences.ForgetRevisions()
	s.Apply(later, documentsOf(t, silence.Set{Silences: list}, 1)[0])
	s.Silences.DropMissing()
	if got, want := s.active(later), [2]int{1, 0}; got != want {
		t.Errorf("silences and acks in force with another bucket = %v, want %v", got, want)
	}
}

// TestSilenceProperties plays alerts and changes of the silences at random. What is
// suppressed is never delivered, neither by inbox nor by notifier; everything else is,
// also what was pending before a silence; and every alert is accounted for.
func TestSilenceProperties(t *testing.T) {
	log := newClient(t).log
	rapid.Check(t, func(t *rapid.T) {
		l := newLoop(nil, log)
		s := &l.state
		s.Enable(notifier.DefaultConfig(), []Channel{ChannelMessage})
		now := time.Now()
		var set silence.Set
		var taken, came uint64
		reasons := map[silence.Cause]bool{}
		suppressed := func(a alert.Alert) bool { _, yes := set.Suppresses(a, now); return yes }
		apps := rapid.SampledFrom([]string{"web", "api", "shop"})
		for i := range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "pause")) * time.Millisecond)
			app := apps.Draw(t, "app")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				before := s.Inbox.Pending()
				list, added, err := set.Silences.Add(silenceOf(app, now, time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds"))*time.Second), now)
				if err != nil {
					t.Fatal(err)
				}
				set.Silences, reasons[silence.Cause{Silence: added.ID}] = list, true
				s.Apply(now, documentsOf(t, set, uint64(2*i+1))...)
				for _, a := range before {
					if _, pending := s.Inbox.Find(a.ID); !pending && a.Timestamp.Before(now.Truncate(time.Millisecond)) {
						t.Fatalf("an alert that was pending before the silence is not any more, want it pending: %+v", a)
					}
				}
			case 1:
				if pending := s.Inbox.Pending(); len(pending) > 0 {
					k := silence.Acknowledge(pending[0], "me", now)
					set.Acks, reasons[silence.Cause{Ack: k.AlertID}] = set.Acks.Add(k, now), true
					s.Apply(now, documentsOf(t, set, uint64(2*i+1))...)
				}
			case 2:
				for _, a := range s.Inbox.Take(uint64(i + 1)) {
					taken += uint64(a.Occurrences())
				}
			case 3:
				s.Notifier.Due(now)
			default:
				came++
				severity := rapid.SampledFrom(alert.Severities()).Draw(t, "severity")
				a := l.raise(rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key"), app, severity, now, i)
				set.Acks, _ = set.Acks.Apply(a)
				if _, pending := s.Inbox.Find(a.ID); pending == suppressed(a) {
					t.Fatalf("pending = %v and suppressed = %v, want one of them: %+v", pending, suppressed(a), a)
				}
			}
			var pending uint64
			for _, a := range s.Inbox.Pending() {
				pending += uint64(a.Occurrences())
				if suppressed(a) {
					t.Fatalf("a pending alert is suppressed, want it removed: %+v", a)
				}
			}
			stats := s.Inbox.Stats()
			var counted uint64
			for why := range reasons {
				counted += s.Silences.Suppressed(why)
			}
			if stats.Offered != came || s.Received != came || came != taken+pending+stats.Silenced || counted != stats.Silenced {
				t.Fatalf("of %d alerts %d were taken, %d are pending and %d suppressed, with %+v; want them to add up", came, taken, pending, counted, stats)
			}
			if st := s.Notifier.Stats(); uint64(st.Emitted+st.PendingOffers+st.Suppressed+st.Dropped+st.Filtered+st.Silenced) > came {
				t.Fatalf("the notifier counts %+v, want at most %d alerts in all", st, came)
			}
		}
	})
}
