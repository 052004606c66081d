package snapshot_test

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
)

func TestRoundTripIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u := rapid.Uint64().Draw(t, "uint")
		i := rapid.Int64().Draw(t, "int")
		f := rapid.Float64().Draw(t, "float")
		s := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		yes := rapid.Bool().Draw(t, "bool")

		var w snapshot.Writer
		w.String("gone with Reset")
		w.Reset()
		w.Uint(u)
		w.Int(i)
		w.Float(f)
		w.String(s)
		w.Bool(yes)
		w.Raw([]byte(s))

		r := snapshot.NewReader(w.Bytes())
		if got := r.Uint(); got != u {
			t.Errorf("uint %d", got)
		}
		if got := r.Int(); got != i {
			t.Errorf("int %d", got)
		}
		if got := r.Float(); math.Float64bits(got) != math.Float64bits(f) {
			t.Errorf("float %v", got)
		}
		if got := r.String(len(s)); got != s {
			t.Errorf("text %q", got)
		}
		if got := r.Bool(); got != yes {
			t.Errorf("bool %v", got)
		}
		if got := r.Raw(len(s)); string(got) != s {
			t.Errorf("raw %q", got)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestHas(t *testing.T) {
	for _, tt := range []struct {
		r    *snapshot.Reader
		want bool
	}{
		{snapshot.NewReader(nil), true}, {snapshot.NewReaderOf(5, nil), false}, {snapshot.NewReaderOf(6, nil), true}, {snapshot.NewReaderOf(7, nil), true},
	} {
		if got := tt.r.Has(6); got != tt.want {
			t.Errorf("%+v: %v", tt.r, got)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	tests := []struct {
		name string
		data string
		read func(*snapshot.Reader)
	}{
		{"no number", "", func(r *snapshot.Reader) { r.Uint() }},
		{"a number without end", "\xff\xff", func(r *snapshot.Reader) { r.Int() }},
		{"a number over 64 bits", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", func(r *snapshot.Reader) { r.Uint() }},
		{"half a float", "1234", func(r *snapshot.Reader) { r.Float() }},
		{"a truth value of 2", "\x02", func(r *snapshot.Reader) { r.Bool() }},
		{"more values than allowed", "\x05.....", func(r *snapshot.Reader) { r.Len(4) }},
		{"more values than bytes", "\x05....", func(r *snapshot.Reader) { r.Len(1 << 40) }},
		{"a count over its bound", "\x05", func(r *snapshot.Reader) { r.UpTo(4) }},
		{"a negative bound", "\x01.", func(r *snapshot.Reader) { r.Len(-1) }},
		{"text cut off", "\x05abc", func(r *snapshot.Reader) { r.String(100) }},
		{"something left over", "\x00\x00", func(r *snapshot.Reader) { r.Uint() }},
		{"what the decoder refuses", "", func(r *snapshot.Reader) { r.Fail("no such state: %d", 7) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := snapshot.NewReader([]byte(tt.data))
			tt.read(r)
			err := r.Close()
			if !errors.Is(err, snapshot.ErrDamaged) {
				t.Fatalf("got %v", err)
			}
			r.Fail("another")
			if !errors.Is(r.Err(), err) {
				t.Errorf("the first error was replaced by %v", r.Err())
			}
			if r.Uint() != 0 || r.Int() != 0 || r.Float() != 0 || r.Bool() || r.String(9) != "" || r.Len(9) != 0 || r.UpTo(9) != 0 {
				t.Error("a reader that failed must give zero values")
			}
		})
	}
}
