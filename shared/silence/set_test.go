package silence_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

var start = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

// at is a time so many minutes after the start.
func at(minutes int) time.Time { return start.Add(time.Duration(minutes) * time.Minute) }

// raised is an error of the app web, raised so many minutes after the start.
func raised(key string, minutes int) alert.Alert {
	return alert.Alert{
		ID: fmt.Sprint(key, "@", minutes), App: "web", Category: alert.Errors, Severity: alert.Error,
		DedupKey: key, Title: "title of " + key, Timestamp: at(minutes),
	}
}

func with(a alert.Alert, change func(*alert.Alert)) alert.Alert { change(&a); return a }

// silenced is a set with one silence of an hour.
func silenced(t *testing.T, s silence.Silence) silence.Set {
	t.Helper()
	s.ID, s.Created, s.Until = "s1", start, at(60)
	list, _, err := silence.Silences(nil).Add(s, start)
	if err != nil {
		t.Fatal(err)
	}
	return silence.Set{Silences: list}
}

func TestSilenceMatches(t *testing.T) {
	a := raised("k", 1)
	for _, tt := range []struct {
		name string
		s    silence.Silence
		a    alert.Alert
		want bool
	}{
		{"its key", silence.Silence{DedupKey: "k"}, a, true},
		{"its key in any app", silence.Silence{DedupKey: "k"}, with(a, func(a *alert.Alert) { a.App = "x" }), true},
		{"another key", silence.Silence{DedupKey: "k"}, raised("other", 1), false},
		{"a part of a key", silence.Silence{DedupKey: "k"}, raised("kk", 1), false},
		{"its category", silence.Silence{Category: alert.Errors}, a, true},
		{"another category", silence.Silence{Category: alert.CI}, a, false},
		{"its app", silence.Silence{App: "web"}, a, true},
		{"another app", silence.Silence{App: "checkout"}, a, false},
		{"all of several", silence.Silence{App: "web", Category: alert.Errors, DedupKey: "k"}, a, true},
		{"not all of several", silence.Silence{App: "web", Category: alert.CI}, a, false},
		{"what it resolves", silence.Silence{App: "web"}, with(a, func(a *alert.Alert) { a.Resolves = "b" }), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			why, suppressed := silenced(t, tt.s).Suppresses(tt.a, at(1))
			if suppressed != tt.want || suppressed != (why == silence.Cause{Silence: "s1"}) {
				t.Errorf("Suppresses = %+v, %t, want %t", why, suppressed, tt.want)
			}
		})
	}
}

// TestSilenceDuration: an alert that was raised within the hour of the silence is suppressed for later
// readers as well; one that was raised before is not suppressed meanwhile either.
func TestSilenceDuration(t *testing.T) {
	set := silenced(t, silence.Silence{App: "web"})
	for _, tt := range []struct {
		raised, now int
		want        bool
	}{
		{-5, 0, false}, {-3 * 24 * 60, 1, false}, {0, 0, true}, {59, 59, true}, {60, 60, false}, {61, 61, false},
		{30, 90, true}, {-5, 90, false}, {60, 59, false},
	} {
		if _, suppressed := set.Suppresses(raised("k", tt.raised), at(tt.now)); suppressed != tt.want {
			t.Errorf("raised at %d, read at %d: suppressed = %t, want %t", tt.raised, tt.now, suppressed, tt.want)
		}
	}
}

// TestSilencedAgain: the same matcher again changes the end and keeps the beginning, so suppressed
// alerts stay suppressed.
func TestSilencedAgain(t *testing.T) {
	set := silenced(t, silence.Silence{App: "web"})
	again := silence.Silence{ID: "s2", App: "web", Reason: "still", Created: at(30), Until: at(40)}
	list, s, err := set.Silences.Add(again, at(30))
	if err != nil || len(list) != 1 || s.ID != "s1" || s.Reason != "still" || !s.Created.Equal(start) || !s.Until.Equal(at(40)) {
		t.Fatalf("Add = %+v, %v, want silence s1 from its first beginning until minute 40", s, err)
	}
	set.Silences = list
	for minutes, want := range map[int]bool{-1: false, 10: true, 35: true, 45: false} {
		if suppresses(set, raised("k", minutes), at(50)) != want {
			t.Errorf("raised at %d: suppressed = %t, want %t", minutes, !want, want)
		}
	}
	// An ended silence is not continued.
	list, s, err = list.Add(silence.Silence{ID: "s3", App: "web", Created: at(70), Until: at(80)}, at(70))
	if err != nil || len(list) != 2 || s.ID != "s3" || suppresses(silence.Set{Silences: list}, raised("k", 60), at(71)) {
		t.Errorf("Add = %+v, %v, want a second silence that does not suppress earlier alerts", list, err)
	}
}

// TestAcknowledge plays timelines: an error is acknowledged at 10.
func TestAcknowledge(t *testing.T) {
	warning := func(a *alert.Alert) { a.Severity = alert.Warning }
	resolving := func(id string) func(*alert.Alert) {
		return func(a *alert.Alert) { a.Severity, a.Resolves = alert.Info, id }
	}
	acked := with(raised("k", 5), warning)
	for _, tt := range []struct {
		name string
		came []alert.Alert
		want string
	}{
		{"repetitions", []alert.Alert{with(raised("k", 11), warning), with(raised("k", 12), warning)}, "suppressed suppressed"},
		{"earlier alerts", []alert.Alert{raised("k", 3), with(raised("k", 5), warning), with(raised("k", 11), warning)}, "suppressed suppressed suppressed"},
		{"other keys and apps", []alert.Alert{raised("other", 11), with(raised("k", 11), func(a *alert.Alert) { a.App = "x"; a.Severity = alert.Info })}, "not not"},
		{"a higher severity, and everything after it", []alert.Alert{raised("k", 11), with(raised("k", 12), warning), raised("k", 13)}, "not not not"},
		{"raised before the more severe one, read after it", []alert.Alert{raised("k", 11), with(raised("k", 10), warning)}, "not suppressed"},
		{"resolved by its id", []alert.Alert{with(raised("other", 11), resolving(acked.ID)), with(raised("k", 12), warning)}, "not not"},
		{"resolved together with another", []alert.Alert{
			with(raised("other", 11), func(a *alert.Alert) { a.Resolves, a.AlsoResolves = "newer", []string{acked.ID} }), with(raised("k", 12), warning),
		}, "not not"},
		{"resolved by its key", []alert.Alert{with(raised("k", 11), resolving("repetition")), with(raised("k", 12), warning)}, "not not"},
		{"an earlier resolution", []alert.Alert{with(raised("k", 4), resolving("earlier")), with(raised("k", 12), warning)}, "not suppressed"},
		{"the resolution of another alert", []alert.Alert{with(raised("other", 11), resolving("x")), with(raised("k", 12), warning)}, "not suppressed"},
		{"a day", []alert.Alert{with(raised("k", 10+24*60-1), warning), with(raised("k", 10+24*60), warning)}, "suppressed not"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			set := silence.Set{Acks: silence.Acks(nil).Add(silence.Acknowledge(acked, "me", at(10)), at(10))}
			var got []string
			for _, a := range tt.came {
				now := a.Timestamp
				if now.Before(at(10)) {
					now = at(10)
				}
				before := set.Acks
				after, ended := before.Apply(a)
				set.Acks = after
				if _, again := after.Apply(a); len(again) > 0 {
					t.Errorf("the same alert ended %+v a second time, want none", again)
				}
				why, suppressed := set.Suppresses(a, now)
				if suppressed && (len(ended) > 0 || why.Ack != acked.ID) {
					t.Errorf("suppressed by %+v and ended %v, want suppressed by the acknowledgement of %s or ended", why, ended, acked.ID)
				}
				if other, changed := before.MarkEnded(ended...); changed != (len(ended) > 0) || !reflect.DeepEqual(other, after) {
					t.Errorf("MarkEnded = %+v, want %+v", other, after)
				}
				got = append(got, map[bool]string{true: "suppressed", false: "not"}[suppressed])
			}
			if s := strings.Join(got, " "); s != tt.want {
				t.Errorf("suppressed: %s, want %s", s, tt.want)
			}
		})
	}
}

// TestAcknowledgedAgain: the later one covers what the earlier one did.
func TestAcknowledgedAgain(t *testing.T) {
	worse := raised("k", 20)
	first := with(raised("k", 5), func(a *alert.Alert) { a.Severity = alert.Warning })
	acks := silence.Acks(nil).Add(silence.Acknowledge(first, "me", at(10)), at(10))
	acks, _ = acks.Apply(worse)
	acks = acks.Add(silence.Acknowledge(worse, "me", at(21)), at(21))
	if set := (silence.Set{Acks: acks}); len(acks) != 1 || !suppresses(set, first, at(22)) || !suppresses(set, worse, at(22)) || !suppresses(set, raised("k", 22), at(22)) {
		t.Errorf("acknowledgements = %+v, want one that suppresses both alerts and repetitions", acks)
	}
	// One that was seen before does not weaken it.
	acks = acks.Add(silence.Acknowledge(first, "me", at(30)), at(30))
	if set := (silence.Set{Acks: acks}); len(acks) != 1 || !suppresses(set, raised("k", 31), at(31)) {
		t.Errorf("acknowledgements = %+v, want one that still suppresses repetitions", acks)
	}
	ended, k, err := acks.End(first.ID, at(40))
	if err != nil || k.AlertID != first.ID || len(ended.Active(at(40))) != 0 || len(acks.Active(at(40))) != 1 {
		t.Errorf("End = %+v, %+v, %v, want the acknowledgement of %s ended in a new list", ended, k, err, first.ID)
	}
	if _, _, err := ended.End(first.ID, at(41)); !errors.Is(err, silence.ErrUnknown) {
		t.Errorf("End of an ended acknowledgement = %v, want ErrUnknown", err)
	}
	if set := (silence.Set{Acks: ended}); suppresses(set, raised("k", 41), at(41)) || !suppresses(set, raised("k", 39), at(41)) {
		t.Error("want alerts suppressed that were raised while it was active, and no later ones")
	}
}

func suppresses(s silence.Set, a alert.Alert, now time.Time) bool {
	_, suppressed := s.Suppresses(a, now)
	return suppressed
}

func TestSilencesAreBounded(t *testing.T) {
	var list silence.Silences
	add := func(key string, minutes int) error {
		s := silence.Silence{ID: "id of " + key, DedupKey: key, By: "me", Created: at(minutes), Until: at(minutes + 10)}
		next, _, err := list.Add(s, at(minutes))
		list = next
		return err
	}
	for i := range silence.MaxSilences {
		if err := add(fmt.Sprint("k", i), 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := add("more", 1); !errors.Is(err, silence.ErrFull) || len(list) != silence.MaxSilences {
		t.Fatalf("one silence too many: error = %v and %d silences, want %v and %d", err, len(list), silence.ErrFull, silence.MaxSilences)
	}
	if err := add("k7", 1); err != nil || len(list) != silence.MaxSilences {
		t.Fatalf("the same silence again: error = %v and %d silences, want no error and %d", err, len(list), silence.MaxSilences)
	}
	next, s, err := list.End("id of k9", at(2))
	if err != nil || s.DedupKey != "k9" || !s.Until.Equal(at(2)) || !list[9].Until.Equal(at(10)) {
		t.Fatalf("Add = %+v, %v, want silence s1 from its first beginning until minute 40", s, err)
	}
	list = next
	if _, _, err := list.End("id of k9", at(3)); !errors.Is(err, silence.ErrUnknown) {
		t.Fatalf("ended twice: %v", err)
	}
	if err := add("more", 3); err != nil {
		t.Fatal(err)
	}
	// Those that are over stay for those who read later, up to 100 of them.
	for i := range 2 * silence.MaxSilences {
		if err := add(fmt.Sprint("later", i), 20+20*i); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(list); n != 101 || len(list.Active(at(20+20*199))) != 1 {
		t.Fatalf("%d silences are kept, want 101, one of them active", n)
	}
	if err := add("after a week", 20+20*200+7*24*60); err != nil || len(list) != 1 {
		t.Fatalf("after a week: error = %v and %d silences are kept, want 1", err, len(list))
	}
}

func TestASilenceNamesSomething(t *testing.T) {
	for name, s := range map[string]silence.Silence{
		"nothing":        {ID: "a", Until: at(1), Created: start},
		"no id":          {App: "web", Until: at(1), Created: start},
		"no end":         {ID: "a", App: "web", Created: start},
		"a key too long": {ID: "a", DedupKey: strings.Repeat("k", silence.MaxKey+1), Until: at(1), Created: start},
	} {
		if list, _, err := silence.Silences(nil).Add(s, start); err == nil || len(list) != 0 {
			t.Errorf("Add of %s = %+v, %v, want an error and an empty list", name, list, err)
		}
	}
}

func TestAcksAreBounded(t *testing.T) {
	var list silence.Acks
	add := func(key string, minutes int) {
		list = list.Add(silence.Acknowledge(raised(key, minutes), "me", at(minutes)), at(minutes))
	}
	for i := range silence.MaxAcks + 1 {
		add(fmt.Sprint("k", i), 0)
	}
	if len(list) != silence.MaxAcks || list[0].DedupKey != "k1" {
		t.Fatalf("%d acknowledgements from %s, want %d from k1", len(list), list[0].DedupKey, silence.MaxAcks)
	}
	var err error
	if list, _, err = list.End("k7@0", at(1)); err != nil {
		t.Fatal(err)
	}
	add("more", 2)
	if len(list) != silence.MaxAcks || list[0].DedupKey != "k1" || list[6].DedupKey != "k8" {
		t.Errorf("%d acknowledgements, first %s, seventh %s, want %d, k1 and k8: an ended one is dropped first", len(list), list[0].DedupKey, list[6].DedupKey, silence.MaxAcks)
	}
	// Keys are as long as the outside likes: the oldest make room.
	for i := range 100 {
		add(strings.Repeat("k", 100_000)+fmt.Sprint(i), 3)
	}
	data, err := list.Encode()
	if err != nil || len(data) > 1<<20 || len(list) == 0 || list[len(list)-1].DedupKey != strings.Repeat("k", 100_000)+"99" {
		t.Errorf("%d acknowledgements take %d bytes, error %v, want at most 1 MiB with the newest kept", len(list), len(data), err)
	}
	add("after a week", 4+8*24*60)
	if len(list) != 1 {
		t.Errorf("after a week %d acknowledgements are kept, want 1", len(list))
	}
}

func TestTextsAreFitToBeShown(t *testing.T) {
	set := silenced(t, silence.Silence{App: "web", Reason: "\x1b[31m" + strings.Repeat("x", 300), By: "me\n"})
	s := set.Silences[0]
	if strings.ContainsAny(s.Reason+s.By, "\x1b\n") || len([]rune(s.Reason)) != 200 {
		t.Errorf("reason = %q, by = %q, want visible characters, and 200 of the reason", s.Reason, s.By)
	}
}

// BenchmarkSuppresses checks an alert that nothing suppresses against the most silences and
// acknowledgements that a set can have.
func BenchmarkSuppresses(b *testing.B) {
	var set silence.Set
	for i := range silence.MaxSilences {
		var err error
		s := silence.Silence{ID: fmt.Sprint(i), DedupKey: fmt.Sprint("POST:/api/users/", i, ":500"), Created: start, Until: at(60)}
		if set.Silences, _, err = set.Silences.Add(s, start); err != nil {
			b.Fatal(err)
		}
	}
	for i := range silence.MaxAcks {
		set.Acks = set.Acks.Add(silence.Acknowledge(raised(fmt.Sprint("POST:/api/orders/", i, ":500"), 0), "me", start), start)
	}
	a := raised("POST:/api/orders/other:500", 1)
	b.ReportAllocs()
	for b.Loop() {
		set.Acks, _ = set.Acks.Apply(a)
		if _, suppressed := set.Suppresses(a, at(1)); suppressed {
			b.Fatal("suppressed")
		}
	}
}
