package silence_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/silence"
)

func TestDocuments(t *testing.T) {
	const silences = `{"silences":[{"id":"s1","dedup_key":"k","category":"ci","app":"web","reason":"a <deploy>","by":"me","created":"2026-01-28T14:30:00Z","until":"2026-01-28T15:30:00Z"}]}`
	list, err := silence.DecodeSilences([]byte(silences))
	if err != nil {
		t.Fatal(err)
	}
	want := silence.Silences{{ID: "s1", DedupKey: "k", Category: alert.CI, App: "web", Reason: "a <deploy>", By: "me", Created: start, Until: at(60)}}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("DecodeSilences (-want +got):\n%s", diff)
	}
	if data, err := list.Encode(); err != nil || string(data) != silences {
		t.Errorf("Encode = %s, %v, want %s", data, err, silences)
	}
	const acks = `{"acks":[{"alert_id":"a1","app":"web","dedup_key":"k","severity":"error","since":"2026-01-28T14:30:00Z","by":"me","created":"2026-01-28T14:31:00Z","until":"2026-01-29T14:31:00Z"}]}`
	known, err := silence.DecodeAcks([]byte(acks))
	if err != nil || len(known) != 1 || known[0] != (silence.Ack{AlertID: "a1", App: "web", DedupKey: "k", Severity: alert.Error, Since: start, By: "me", Created: at(1), Until: at(24*60 + 1)}) {
		t.Errorf("DecodeAcks = %+v, %v, want the acknowledgement of a1", known, err)
	}
	if data, err := known.Encode(); err != nil || string(data) != acks {
		t.Errorf("Encode = %s, %v, want %s", data, err, acks)
	}
	for got, want := range map[string]string{must(t, silence.Silences(nil).Encode): `{"silences":[]}`, must(t, silence.Acks(nil).Encode): `{"acks":[]}`} {
		if got != want {
			t.Errorf("Encode of an empty list = %s, want %s", got, want)
		}
	}
}

func must(t *testing.T, encode func() ([]byte, error)) string {
	t.Helper()
	data, err := encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestDocumentsOfOthers: what is unknown is left out, and what would hide
// everything is not taken.
func TestDocumentsOfOthers(t *testing.T) {
	for data, want := range map[string]int{
		`{}`: 0, `{"silences":null,"more":1}`: 0,
		`{"silences":[{"id":"s1","app":"web","until":"2026-01-28T15:30:00+01:00","created":"2026-01-28T15:30:00Z","color":"red"}]}`: 1,
		`{"silences":[{"id":"s1","url":"x","until":"2026-01-28T15:30:00Z","created":"2026-01-28T15:30:00Z"}]}`:                      0,
		`{"silences":[{"app":"web","until":"2026-01-28T15:30:00Z","created":"2026-01-28T15:30:00Z"}]}`:                              0,
		`{"silences":[{"id":"s1","app":"web"}]}`: 0,
	} {
		if list, err := silence.DecodeSilences([]byte(data)); err != nil || len(list) != want {
			t.Errorf("DecodeSilences(%s) = %+v, %v, want %d silences", data, list, err, want)
		}
	}
	many := `{"silences":[` + strings.Repeat(`{"id":"old","app":"web","until":"2026-01-28T15:30:00Z","created":"2026-01-28T15:30:00Z"},`, 500) +
		`{"id":"new","app":"web","until":"2026-01-28T15:30:00Z","created":"2026-01-28T15:30:00Z"}]}`
	if list, err := silence.DecodeSilences([]byte(many)); err != nil || len(list) != 200 || list[199].ID != "new" {
		t.Errorf("DecodeSilences of too many = %d silences, %v, want 200 with the newest", len(list), err)
	}
	for _, data := range []string{``, `[]`, `{"silences":{}}`, `{"silences":[{"until":"soon"}]}`, `{"acks":7}`} {
		_, errSilences := silence.DecodeSilences([]byte(data))
		_, errAcks := silence.DecodeAcks([]byte(data))
		if errSilences == nil && errAcks == nil {
			t.Errorf("both lists were decoded from %s, want errors", data)
		}
	}
}

func FuzzDocuments(f *testing.F) {
	for _, seed := range []string{
		`{"silences":[{"id":"s1","dedup_key":"k","category":"ci","app":"web","reason":"\u001b","by":"me","created":"2026-01-28T14:30:00Z","until":"9999-12-31T23:59:59-10:00"}]}`,
		`{"acks":[{"alert_id":"a1","app":"web","dedup_key":"k","severity":"error","since":"2026-01-28T14:30:00Z","by":"me","created":"2026-01-28T14:31:00Z","until":"2026-01-29T14:31:00Z"}]}`,
		`{}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if list, err := silence.DecodeSilences(data); err == nil {
			roundTrip(t, list.Encode, func(data []byte) (func() ([]byte, error), error) {
				again, err := silence.DecodeSilences(data)
				return again.Encode, err
			})
			for _, s := range list {
				if s.DedupKey == "" && s.Category == "" && s.App == "" {
					t.Fatalf("decoded a silence that matches everything: %+v, want it left out", s)
				}
			}
		}
		if list, err := silence.DecodeAcks(data); err == nil {
			roundTrip(t, list.Encode, func(data []byte) (func() ([]byte, error), error) {
				again, err := silence.DecodeAcks(data)
				return again.Encode, err
			})
		}
	})
}

// roundTrip: what is written is read as it was.
func roundTrip(t *testing.T, encode func() ([]byte, error), decode func([]byte) (func() ([]byte, error), error)) {
	t.Helper()
	data, err := encode()
	if err != nil {
		t.Fatal(err)
	}
	again, err := decode(data)
	if err != nil {
		t.Fatalf("decode the encoded list: %v: %s", err, data)
	}
	if other, err := again(); err != nil || !bytes.Equal(other, data) {
		t.Fatalf("encoded again = %s, %v, want %s", other, err, data)
	}
}

// TestProperties changes a set at random. What was handed out is never changed,
// the bounds hold, documents come back as they were, and whether an alert is
// suppressed never changes from yes to no as time goes by: two readers of one alert
// agree once one has held it back. A new silence changes nothing for alerts that
// were there before.
func TestProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var set silence.Set
		now := start
		apps := rapid.SampledFrom([]string{"web", "api"})
		keys := rapid.SampledFrom([]string{"k1", "k2", "k3"})
		held := map[string]alert.Alert{}
		var delivered []alert.Alert
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 100).Draw(t, "pause")) * time.Minute)
			before, beforeText := set, written(t, set)
			a := alert.Alert{
				ID: fmt.Sprint("a", i), App: apps.Draw(t, "app"), DedupKey: keys.Draw(t, "key"), Category: rapid.SampledFrom(alert.Categories()).Draw(t, "category"),
				Severity: rapid.SampledFrom(alert.Severities()).Draw(t, "severity"), Timestamp: now,
			}
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0:
				s := silence.Silence{ID: fmt.Sprint("s", i), App: a.App, Created: now, Until: now.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "minutes")) * time.Minute)}
				if rapid.Bool().Draw(t, "by category") {
					s.Category = a.Category
				}
				next, _, err := set.Silences.Add(s, now)
				if err != nil && !(len(set.Silences.Active(now)) == silence.MaxSilences) {
					t.Fatal(err)
				}
				for _, a := range delivered {
					if suppresses(silence.Set{Silences: next}, a, now) {
						t.Fatalf("a delivered alert is suppressed by a later silence, want it pending: %+v", a)
					}
				}
				set.Silences = next
			case 1:
				set.Acks = set.Acks.Add(silence.Acknowledge(a, "me", now), now)
			case 2:
				if active := set.Silences.Active(now); len(active) > 0 {
					set.Silences, _, _ = set.Silences.End(active[0].ID, now)
				}
			default:
				set.Acks, _ = set.Acks.Apply(a)
				if _, suppressed := set.Suppresses(a, now); suppressed {
					held[a.ID] = a
				} else {
					delivered = append(delivered, a)
				}
			}
			if written(t, before) != beforeText {
				t.Fatalf("a change altered the list before it: got %s, want %s", written(t, before), beforeText)
			}
			if len(set.Silences.Active(now)) > silence.MaxSilences || len(set.Acks) > silence.MaxAcks {
				t.Fatalf("%d active silences and %d acknowledgements, want at most %d and %d", len(set.Silences.Active(now)), len(set.Acks), silence.MaxSilences, silence.MaxAcks)
			}
			for _, a := range held {
				if now.Sub(a.Timestamp) < 24*time.Hour && !suppresses(set, a, now) {
					t.Fatalf("an alert that was suppressed is not any more, want it suppressed: %+v\n%s", a, written(t, set))
				}
			}
		}
	})
}

func written(t *rapid.T, s silence.Set) string {
	one, err := s.Silences.Encode()
	two, err2 := s.Acks.Encode()
	if err != nil || err2 != nil {
		t.Fatalf("encode the lists: %v, %v", err, err2)
	}
	return string(one) + string(two)
}
