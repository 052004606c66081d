package oldsnapshot

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

func TestReaderRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.Uint64().Draw(t, "uint")
		i := rapid.Int64().Draw(t, "int")
		f := rapid.Float64().Draw(t, "float")
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		yes := rapid.Bool().Draw(t, "bool")

		var w writer
		w.uint(u)
		w.int(i)
		w.float(f)
		w.string(s)
		w.bool(yes)
		w.string(s)

		r := &reader{rest: w.buf, version: lifecycle}
		if got := r.uint(); got != u {
			t.Errorf("uint = %d, want %d", got, u)
		}
		if got := r.int(); got != i {
			t.Errorf("int = %d, want %d", got, i)
		}
		if got := r.float(); math.Float64bits(got) != math.Float64bits(f) {
			t.Errorf("float = %v, want %v", got, f)
		}
		if got := r.text(); got != s {
			t.Errorf("text = %q, want %q", got, s)
		}
		if got := r.bool(); got != yes {
			t.Errorf("bool = %v, want %v", got, yes)
		}
		if got := r.raw(len(s)); string(got) != s {
			t.Errorf("raw = %q, want %q", got, s)
		}
		if err := r.close(); err != nil {
			t.Error(err)
		}
	})
}

func TestHas(t *testing.T) {
	for version, want := range map[uint32]bool{4: false, 5: false, 6: true, 7: true, 8: true} {
		if got := (&reader{version: version}).has(resolutions); got != want {
			t.Errorf("version %d has resolutions: %v, want %v", version, got, want)
		}
	}
}

func TestReadable(t *testing.T) {
	for version, want := range map[uint32]bool{0: false, 3: false, 4: true, 5: false, 6: true, 7: true, 8: true, 9: false} {
		if got := Readable(version); got != want {
			t.Errorf("Readable(%d) = %v, want %v", version, got, want)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		data string
		read func(*reader)
	}{
		{"no number", "", func(r *reader) { r.uint() }},
		{"a negative number", "\x01", func(r *reader) { r.positive() }},
		{"a number without end", "\xff\xff", func(r *reader) { r.int() }},
		{"a number over 64 bits", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", func(r *reader) { r.uint() }},
		{"half a float", "1234", func(r *reader) { r.float() }},
		{"a boolean of 2", "\x02", func(r *reader) { r.bool() }},
		{"more values than allowed", "\x05.....", func(r *reader) { r.count(4) }},
		{"more values than bytes", "\x05....", func(r *reader) { r.count(1 << 40) }},
		{"a count over its bound", "\x05", func(r *reader) { r.upTo(4) }},
		{"a negative bound", "\x01.", func(r *reader) { r.count(-1) }},
		{"text cut off", "\x05abc", func(r *reader) { r.text() }},
		{"something left over", "\x00\x00", func(r *reader) { r.uint() }},
		{"what the decoder refuses", "", func(r *reader) { r.fail("no such state: %d", 7) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &reader{rest: []byte(tt.data)}
			tt.read(r)
			err := r.close()
			if !errors.Is(err, snapshot.ErrDamaged) {
				t.Fatalf("error = %v, want %v", err, snapshot.ErrDamaged)
			}
			r.fail("another")
			if !errors.Is(r.err, err) {
				t.Errorf("error after a second one = %v, want the first: %v", r.err, err)
			}
			type values struct {
				Uint, Positive uint64
				Int            int64
				Float          float64
				Bool           bool
				Text           string
				Count, UpTo    int
			}
			got := values{r.uint(), r.positive(), r.int(), r.float(), r.bool(), r.text(), r.count(9), r.upTo(9)}
			if diff := cmp.Diff(values{}, got); diff != "" {
				t.Errorf("values after an error (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzConvert checks that damaged snapshots are refused or converted, without a panic.
func FuzzConvert(f *testing.F) {
	for _, version := range []uint32{4, 6, 7, 8} {
		f.Add(version, []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	}
	f.Fuzz(func(t *testing.T, version uint32, data []byte) {
		if _, err := Convert(version, data); err != nil && !errors.Is(err, snapshot.ErrDamaged) {
			t.Errorf("error = %v, want %v", err, snapshot.ErrDamaged)
		}
	})
}
