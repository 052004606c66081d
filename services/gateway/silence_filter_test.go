package gateway

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/gateway/inbox"
	"github.com/tocsin-bus/tocsin/services/gateway/notifier"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

// setOf is a set as documents of the bucket's revision n.
func setOf(t interface{ Fatal(...any) }, set silence.Set, n uint64) []silence.Record {
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

func of(app string, now time.Time, lasts time.Duration) silence.Silence {
	return silence.Silence{ID: "of " + app, App: app, Created: now, Until: now.Add(lasts)}
}

// raise is an alert that comes now.
func (s *session) raise(key, app string, severity alert.Severity, now time.Time, n int) alert.Alert {
	a := alert.Alert{
		ID: fmt.Sprint(key, n), Severity: severity, Category: alert.Errors, Title: key, DedupKey: key, App: app, Timestamp: now,
	}
	s.take(arrival{at: inbox.Position{Seq: uint64(n + 1)}, alert: a}, now)
	return a
}

// TestASilenceExpiresByItself: nobody has to look after it. What pends when it
// begins goes on to pend.
func TestASilenceExpiresByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := runSession(t)
		n := 0
		raised := func(wait time.Duration) (pending int) {
			time.Sleep(wait)
			err := s.do(t.Context(), func(s *session, now time.Time) {
				n++
				s.raise(fmt.Sprint("key", n), "web", alert.Error, now, n)
				pending = s.inbox.Len()
			})
			if err != nil {
				t.Fatal(err)
			}
			return pending
		}
		got := []int{raised(0)}
		time.Sleep(time.Millisecond)
		silences, _, err := silence.Silences(nil).Add(of("web", time.Now(), time.Minute), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.do(t.Context(), func(s *session, now time.Time) { s.learn(now, setOf(t, silence.Set{Silences: silences}, 1)...) }); err != nil {
			t.Fatal(err)
		}
		got = append(got, raised(0), raised(time.Minute-time.Millisecond), raised(time.Millisecond), raised(time.Hour))
		if want := "[1 1 1 2 3]"; fmt.Sprint(got) != want {
			t.Errorf("pending: %v, want %s", got, want)
		}
		if stats := s.inbox.Stats(); stats.Silenced != 2 || s.hush.held[silence.Cause{Silence: "of web"}] != 2 || s.received != 5 {
			t.Errorf("%+v, %v of %d", stats, s.hush.held, s.received)
		}
	})
}

// TestAnOlderDocumentChangesNothing: nor does one that can't be read, and an end
// that the bus does not know of yet is not taken back.
func TestAnOlderDocumentChangesNothing(t *testing.T) {
	now := time.Now()
	s := newSession(slog.New(slog.DiscardHandler))
	acked := alert.Alert{ID: "a", App: "web", DedupKey: "k", Severity: alert.Warning, Timestamp: now}
	acks := silence.Acks(nil).Add(silence.Acknowledge(acked, "me", now), now)
	list, _, err := silence.Silences(nil).Add(of("api", now, time.Hour), now)
	if err != nil {
		t.Fatal(err)
	}
	set := silence.Set{Silences: list, Acks: acks}
	s.learn(now, setOf(t, set, 10)...)
	s.learn(now, setOf(t, silence.Set{}, 3)...)
	s.learn(now, silence.Record{Key: bus.KeySilences, Revision: 12, Data: []byte("nonsense")}, silence.Record{Key: "other", Revision: 13})
	if len(s.hush.set.Silences) != 1 || len(s.hush.set.Acks) != 1 {
		t.Fatalf("%+v", s.hush.set)
	}
	later := now.Add(time.Second)
	s.raise("k", "web", alert.Error, later, 1) // worse
	s.learn(later, setOf(t, set, 20)...)       // as it was
	s.raise("k", "web", alert.Warning, later.Add(time.Second), 2)
	if s.inbox.Len() != 1 || s.inbox.Stats().Silenced != 0 {
		t.Errorf("%d pending, %+v", s.inbox.Len(), s.inbox.Stats())
	}
	// What was deleted with another tool is over.
	deleted := bus.Message{Subject: "$KV." + bus.BucketSilences + "." + bus.KeySilences, Seq: 30, Header: nats.Header{"KV-Operation": {"DEL"}}}
	s.learn(later, silence.RecordOf(deleted))
	if len(s.hush.set.Silences) != 0 || len(s.hush.set.Acks) != 1 {
		t.Errorf("%+v", s.hush.set)
	}
	// Another bucket begins again, and lacks what nobody has written.
	s.hush.doubt()
	s.learn(later, setOf(t, silence.Set{Silences: list}, 1)[0])
	s.hush.complete()
	if len(s.hush.set.Silences) != 1 || len(s.hush.set.Acks) != 0 {
		t.Errorf("%+v", s.hush.set)
	}
}

// TestEndingsAreBounded, and what was held back is not counted for ever.
func TestEndingsAreBounded(t *testing.T) {
	now := time.Now()
	s := newSession(slog.New(slog.DiscardHandler))
	s.hush.over = make(chan silence.Ack, 1) // nobody takes it
	for i := range 2 * maxEnding {
		key := fmt.Sprint("key", i)
		a := alert.Alert{ID: key, App: "web", DedupKey: key, Severity: alert.Warning, Timestamp: now}
		s.learn(now, setOf(t, silence.Set{Acks: silence.Acks(nil).Add(silence.Acknowledge(a, "me", now), now)}, uint64(2*i+1))...)
		s.raise(key, "web", alert.Error, now.Add(time.Second), i)
	}
	if len(s.hush.ending) != maxEnding {
		t.Errorf("%d are remembered", len(s.hush.ending))
	}
	for i := range 2 * maxHeld {
		s.hush.count(silence.Cause{Silence: fmt.Sprint(i)}, 1)
	}
	if len(s.hush.held) > maxHeld {
		t.Errorf("%d are counted", len(s.hush.held))
	}
}

// TestHushProperties plays alerts and changes of the set at random. What is hushed
// is never told, neither by inbox nor by stream, all else is, also what pended
// before a silence, and every alert is accounted for.
func TestHushProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSession(slog.New(slog.DiscardHandler))
		s.stream.Enable(notifier.DefaultConfig())
		now := time.Now()
		var set silence.Set
		var handed, came uint64
		hushed := func(a alert.Alert) bool { _, yes := set.Suppresses(a, now); return yes }
		apps := rapid.SampledFrom([]string{"web", "api", "shop"})
		for i := range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "pause")) * time.Millisecond)
			app := apps.Draw(t, "app")
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				before := s.inbox.Pending()
				list, _, err := set.Silences.Add(of(app, now, time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds"))*time.Second), now)
				if err != nil {
					t.Fatal(err)
				}
				set.Silences = list
				s.learn(now, setOf(t, set, uint64(2*i+1))...)
				for _, a := range before {
					if _, pends := s.inbox.Find(a.ID); !pends && a.Timestamp.Before(now.Truncate(time.Millisecond)) {
						t.Fatalf("it pended before the silence: %+v", a)
					}
				}
			case 1:
				if pending := s.inbox.Pending(); len(pending) > 0 {
					set.Acks = set.Acks.Add(silence.Acknowledge(pending[0], "me", now), now)
					s.learn(now, setOf(t, set, uint64(2*i+1))...)
				}
			case 2:
				for _, a := range s.inbox.Take(uint64(i + 1)) {
					handed += uint64(a.Occurrences())
				}
			case 3:
				s.stream.Due(now)
			default:
				came++
				severity := rapid.SampledFrom(alert.Severities()).Draw(t, "severity")
				a := s.raise(rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key"), app, severity, now, i)
				set.Acks, _ = set.Acks.Apply(a)
				if _, pends := s.inbox.Find(a.ID); pends == hushed(a) {
					t.Fatalf("pends: %v, hushed: %v: %+v", pends, hushed(a), a)
				}
			}
			var pends uint64
			for _, a := range s.inbox.Pending() {
				pends += uint64(a.Occurrences())
				if hushed(a) {
					t.Fatalf("hushed and pending: %+v", a)
				}
			}
			stats := s.inbox.Stats()
			var held uint64
			for _, n := range s.hush.held {
				held += n
			}
			if stats.Offered != came || s.received != came || came != handed+pends+stats.Silenced || held != stats.Silenced {
				t.Fatalf("%d came, %d handed over, %d pend, %d held: %+v", came, handed, pends, held, stats)
			}
			if st := s.stream.Stats(); uint64(st.Emitted+st.PendingOffers+st.Suppressed+st.Dropped+st.Filtered+st.Silenced) > came {
				t.Fatalf("%+v", st)
			}
		}
	})
}
