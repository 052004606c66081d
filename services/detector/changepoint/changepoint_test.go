package changepoint_test

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/changepoint"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
)

// describe formats a verdict in a few words: what is found or how it ended, with the level and
// the usual one in whole units.
func describe(v changepoint.Verdict) string {
	what := map[changepoint.Transition]string{changepoint.Withdrawn: "withdrawn ", changepoint.Recovered: "recovered ", changepoint.Settled: "settled ", changepoint.Improved: "improved "}[v.Transition]
	if v.Transition == changepoint.Risen {
		what = v.Confidence.String() + " "
	}
	return fmt.Sprintf("%s%g, usual %g of %d", what, float64(v.Level)/2, float64(v.Usual)/2, v.Values)
}

// TestTimelines plays series in which 12*100 is 12 values of 100. want has the verdicts by
// the number of the value, counted from 1 after the bar. Without spread a Single is more
// than 1.05^9 = 1.55 times the usual level, a Probable 1.05^4 = 1.22 times.
func TestTimelines(t *testing.T) {
	for _, tt := range []struct {
		name, series, want string
	}{
		{"nothing changes", "25*100 | 25*100", ""},
		{"a value alone is withdrawn", "25*100 | 300 100 100", "1: single 300, usual 100 of 20; 3: withdrawn 100, usual 100 of 20"},
		{"not before two follow that are as usual", "25*100 | 300 130 100 100 100", "1: single 300, usual 100 of 20; 4: withdrawn 100, usual 100 of 20"},
		{
			"nor later than four", "25*100 | 300 100 130 100 130",
			"1: single 300, usual 100 of 20; 5: withdrawn 115, usual 100 of 20",
		},
		{"a value that is not far out is nothing", "25*100 | 155 25*100", ""},
		{
			"single, probable, confirmed, settled", "25*100 | 30*300",
			"1: single 300, usual 100 of 20; 3: probable 300, usual 100 of 20; 5: confirmed 300, usual 100 of 20; 20: settled 300, usual 100 of 20",
		},
		{
			"a step that is not far out is found by three", "25*100 | 20*140",
			"3: probable 140, usual 100 of 20; 5: confirmed 140, usual 100 of 20; 20: settled 140, usual 100 of 20",
		},
		{"a small one by five", "25*100 | 20*121", "5: confirmed 121, usual 100 of 20; 20: settled 121, usual 100 of 20"},
		{"one that is too small is the usual some day", "25*100 | 40*120 3*160", "43: probable 160, usual 120 of 20"},
		{
			"one of five may be nearly as before", "25*100 | 140 140 101 140 140",
			"5: confirmed 140, usual 100 of 20",
		},
		{
			"not two: the ranks are too likely", "25*100 | 140 100 140 100 140 140",
			"",
		},
		{
			"confirmed, and back", "25*100 | 5*300 100 100 100 100 100",
			"1: single 300, usual 100 of 20; 3: probable 300, usual 100 of 20; 5: confirmed 300, usual 100 of 20; 8: recovered 100, usual 100 of 20",
		},
		{
			"what is over is not in the reference", "25*100 | 7*300 5*100 6*140",
			"1: single 300, usual 100 of 20; 3: probable 300, usual 100 of 20; 5: confirmed 300, usual 100 of 20; 10: recovered 100, usual 100 of 20; " +
				"17: confirmed 140, usual 100 of 20",
		},
		{
			"probable, and back", "25*100 | 3*300 2*100",
			"1: single 300, usual 100 of 20; 3: probable 300, usual 100 of 20; 5: withdrawn 100, usual 100 of 20",
		},
		{
			"half as much again is news, and then it has to stay as long", "25*100 | 12*300 90 2*500 900 300 500 900 300 500 900",
			"1: single 300, usual 100 of 20; 3: probable 300, usual 100 of 20; 5: confirmed 300, usual 100 of 20; 16: confirmed 500, usual 100 of 20",
		},
		{
			"values need not agree", "25*100 | 5*300 300 900 300 900 300 900 300 900 300 900 300 900 300 900 300 900 300 900 300 900",
			"1: single 300, usual 100 of 20; 3: probable 300, usual 100 of 20; 5: confirmed 300, usual 100 of 20; 20: settled 300, usual 100 of 20",
		},
		{"a new level is soon the usual", "25*100 | 20*300 7*450", "1: single 300, usual 100 of 20; 3: probable 300, usual 100 of 20; 5: confirmed 300, usual 100 of 20; " +
			"20: settled 300, usual 100 of 20; 23: probable 450, usual 300 of 10; 25: confirmed 450, usual 300 of 10"},
		{"lower is good", "25*300 | 5*100 5*300", "5: improved 100, usual 300 of 20; 9: probable 300, usual 100 of 6; 10: confirmed 300, usual 100 of 5"},
		{"two that are alone and alike are reported once", "25*100 | 300 30*100 320 3*100 440 451 3*100", "1: single 300, usual 100 of 20; 3: withdrawn 100, usual 100 of 20; " +
			"37: single 451, usual 100 of 20; 39: withdrawn 100, usual 100 of 20"},
		{"a little over the higher of two levels", "30*100 15*160 15*100 | 15*178", ""},
		{"twice the lower of two levels", "30*100 15*160 15*100 15*160 | 5*200", "2: probable 200, usual 100 of 20; 4: confirmed 200, usual 100 of 20"},
		{"none without values before", "| 300 100 900 100", ""},
		{"a single of twenty", "20*100 | 300", "1: single 300, usual 100 of 20"},
		{"nineteen are too few", "19*100 | 300", ""},
		{"three of six must be far out", "6*100 | 140 140 140", ""},
		{"and are found", "6*100 | 150 150 150", "3: probable 150, usual 100 of 6"},
		{"three are found where one before was as large", "10*100 300 14*100 | 3*300 100", "3: probable 300, usual 100 of 20"},
		{"and are usual where one in eight was", "10*100 2*300 5*100 2*300 8*100 | 3*300 100", ""},
		{"an alike one before is usual, however long ago", "10*100 300 50*100 | 350 100 100", ""},
		{
			"two levels by turns: after the first time neither is news", "30*100 15*160 15*100 | 15*160 15*100 15*160 15*100 15*160", "",
		},
		{
			"but what is over both is", "30*100 15*160 15*100 15*160 15*100 | 5*220", "1: single 220, usual 100 of 20; 3: probable 220, usual 100 of 20; 5: confirmed 220, usual 100 of 20",
		},
		{
			"two levels by chance", "100 220 220 100 220 100 100 100 220 100 220 220 100 220 100 220 220 100 100 220 100 220 100 100 220 220 100 220 100 100 220 100 | " +
				"220 220 220 100 220 220 220", "",
		},
		{
			"a value over both is", "100 220 220 100 220 100 100 100 220 100 220 220 100 220 100 220 220 100 100 220 100 220 100 100 220 220 100 220 100 100 220 100 | " +
				"440", "1: single 440, usual 220 of 20",
		},

		{"five of five are sure", "5*100 | 5*125", "5: confirmed 125, usual 100 of 5"},
		{"four are too few", "4*100 | 4*300", ""},
		{"values of nothing", "25*0 | 10*0 60 0 0", "11: single 60, usual 0 of 20; 13: withdrawn 0, usual 0 of 20"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s changepoint.Series
			got := play(t, &s, &changepoint.Scale{Factors: true, Percent: 20, Least: 2 * 20, Calm: 5}, tt.series)
			if got != tt.want {
				t.Errorf("%s\n got %s\nwant %s", tt.series, got, tt.want)
			}
		})
	}
}

// play adds the values and collects the verdicts after the bar. After each value the series
// is written and read back.
func play(t *testing.T, s *changepoint.Series, sc *changepoint.Scale, series string) string {
	t.Helper()
	var all []string
	n := 0
	for word := range strings.FieldsSeq(series) {
		if word == "|" {
			n, all = 0, nil
			continue
		}
		times, text := "1", word
		if before, after, ok := strings.Cut(word, "*"); ok {
			times, text = before, after
		}
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		many, err := strconv.Atoi(times)
		if err != nil {
			t.Fatal(err)
		}
		for range many {
			n++
			*s = restored(t, s)
			if verdict := s.Add(sc, v, changepoint.DefaultSettling); verdict.Transition != changepoint.NoChange {
				all = append(all, fmt.Sprintf("%d: %s", n, describe(verdict)))
			}
		}
	}
	return strings.Join(all, "; ")
}

type fataler interface{ Fatal(...any) }

// same reports whether two series have the same state.
func same(a, b *changepoint.Series) bool {
	return bytes.Equal(snapshottest.Write(a), snapshottest.Write(b))
}

func restored(t fataler, s *changepoint.Series) changepoint.Series {
	var again changepoint.Series
	snapshottest.Copy(t, s, &again)
	return again
}

// TestDifferences checks values that vary by differences, as CLS does.
func TestDifferences(t *testing.T) {
	for _, tt := range []struct{ name, series, want string }{
		{"0.1 over is not over 0.1", "25*500 | 10*1500", ""},
		{"a little more is", "25*500 | 5*1501", "3: probable 1501, usual 500 of 20; 5: confirmed 1501, usual 500 of 20"},
		{"from nothing", "25*0 | 2000 0 0", "1: single 2000, usual 0 of 20; 3: withdrawn 0, usual 0 of 20"},
		{"far out is 9 times 0.02 at least", "25*0 | 1800 0 0", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s changepoint.Series
			if got := play(t, &s, &shifts, tt.series); got != tt.want {
				t.Errorf("%s\n got %s\nwant %s", tt.series, got, tt.want)
			}
		})
	}
}

// TestVerdicts checks what holds for every verdict on any series, and that a restart makes
// no difference.
func TestVerdicts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sc := rapid.SampledFrom([]*changepoint.Scale{&times, &shifts}).Draw(t, "scale")
		var one, other changepoint.Series
		before := changepoint.None
		usual := rapid.SampledFrom([]int64{0, 1000, 100_000, 2_000_000, changepoint.Max}).Draw(t, "usual")
		for range rapid.IntRange(1, 120).Draw(t, "values") {
			if rapid.IntRange(0, 15).Draw(t, "shift") == 0 {
				usual = min(usual*rapid.Int64Range(1, 30).Draw(t, "tenths")/10, changepoint.Max)
			}
			v := min(usual*rapid.SampledFrom([]int64{9, 10, 10, 10, 11, 30}).Draw(t, "factor")/10, changepoint.Max)
			got := one.Add(sc, v, changepoint.DefaultSettling)
			if rapid.Bool().Draw(t, "restart") {
				other = restored(t, &other)
			}
			if again := other.Add(sc, v, changepoint.DefaultSettling); again != got || !same(&one, &other) {
				t.Fatalf("verdict of the restarted series = %+v, want that of the other, %+v", again, got)
			}
			now := one.Confidence()
			switch got.Transition {
			case changepoint.NoChange, changepoint.Improved:
				if now != before {
					t.Fatalf("confidence = %v after %v with %+v, want no change", now, before, got)
				}
				if got.Transition == changepoint.Improved && (now != changepoint.None || got.Level >= got.Usual) {
					t.Fatalf("improved with confidence %v and %+v, want no finding and a lower level", now, got)
				}
			case changepoint.Risen:
				if now <= before && !got.Worse || now != got.Confidence || got.Began != (before == changepoint.None) {
					t.Fatalf("confidence = %v after %v with %+v, want a rise to the verdict's confidence, begun only from none", now, before, got)
				}
				if got.Level <= got.Usual || got.Values < 5 || got.Sample != now.SampleSize() && !got.Worse {
					t.Fatalf("verdict = %+v, want a level over the usual one, compared with 5 values or more, of %d values", got, now.SampleSize())
				}
				if (got.Chance > 0) != (now == changepoint.Confirmed) || got.Chance >= 0.05 {
					t.Fatalf("chance = %v with confidence %v, want one under 0.05 if confirmed, else 0", got.Chance, now)
				}
				if again := one.Current(); again.Level != got.Level || again.Confidence != now || again.Usual != got.Usual {
					t.Fatalf("current = %+v, want the figures of %+v", again, got)
				}
			default:
				if before == changepoint.None || now != changepoint.None || got.Confidence != before || (got.Transition == changepoint.Withdrawn) != (before < changepoint.Confirmed) {
					t.Fatalf("confidence = %v after %v with %+v, want none after a finding, withdrawn only if it was not confirmed", now, before, got)
				}
			}
			if median, n := one.Usual(); n > changepoint.MaxReference || n == 0 && median != 0 {
				t.Fatalf("usual = %d of %d values, want at most %d, and 0 without values", median, n, changepoint.MaxReference)
			}
			before = now
		}
	})
}

// TestFromValues checks that a series that was made from values continues like one that has
// added them.
func TestFromValues(t *testing.T) {
	values := func(n int, v int64) (all []int64) {
		for range n {
			all = append(all, v)
		}
		return all
	}
	sc := &changepoint.Scale{Factors: true, Percent: 20, Least: 40, Calm: 5}
	for _, tt := range []struct {
		name   string
		values []int64
		series string
		want   string
	}{
		{"nothing reported", values(20, 100), "| 5*140", "3: probable 140, usual 100 of 20; 5: confirmed 140, usual 100 of 20"},
		{"no values", nil, "| 100 100", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := changepoint.FromValues(tt.values)
			if n := len(s.Values()); n != min(len(tt.values), changepoint.MaxReference) {
				t.Errorf("%d values, want %d", n, min(len(tt.values), changepoint.MaxReference))
			}
			if got := play(t, &s, sc, tt.series); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// FuzzRestore checks that a series continues from any state that is accepted.
func FuzzRestore(f *testing.F) {
	for _, values := range []string{"", "7*100", "25*100 300", "25*100 3*300", "25*100 6*300", "25*100 300 2*100 300"} {
		var s changepoint.Series
		for word := range strings.FieldsSeq(values) {
			var n int
			var v int64 = 100
			if _, err := fmt.Sscanf(word, "%d*%d", &n, &v); err != nil {
				n = 1
			}
			for range n {
				s.Add(&times, 1000*v, changepoint.DefaultSettling)
			}
		}
		f.Add(snapshottest.Write(&s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s changepoint.Series
		if err := snapshot.Read(data, s.State); err != nil {
			if !errors.Is(err, snapshot.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		if again := restored(t, &s); !same(&again, &s) {
			t.Fatalf("restored series:\n%+v\nwant\n%+v", again, s)
		}
		s.Current()
		s.Usual()
		s.Values()
		for i := range 60 {
			s.Add(&times, int64(i%7)*100_000, changepoint.DefaultSettling)
			if i%9 == 0 {
				if again := restored(t, &s); !same(&again, &s) {
					t.Fatalf("restored series:\n%+v\nwant\n%+v", again, s)
				}
			}
		}
	})
}
