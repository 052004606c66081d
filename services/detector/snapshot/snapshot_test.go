package snapshot_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
)

// everything has a field of each kind.
type everything struct {
	Uint   uint64
	Small  uint8
	Int    int64
	Bool   bool
	Float  float64
	Hash   uint64
	Time   time.Time
	Text   string
	Fixed  [4]byte
	Raw    []byte
	Packed []uint32
	Times  []int64
	Hashes []uint64
	Part   part
	Maybe  *part
	List   []part
	Texts  []string
	Map    map[string]part // in a map of package lru
}

type part struct{ A, B int }

func (p *part) state(s *snapshot.Codec) {
	snapshot.Int(s, 1, &p.A, snapshot.AnyInt)
	snapshot.Int(s, 2, &p.B, snapshot.AnyInt)
}

const most = 50

func (e *everything) State(s *snapshot.Codec) {
	snapshot.Uint(s, 1, &e.Uint, math.MaxUint64)
	snapshot.Uint(s, 2, &e.Small, math.MaxUint8)
	snapshot.Int(s, 3, &e.Int, snapshot.AnyInt)
	s.Bool(4, &e.Bool)
	s.Float(5, &e.Float, -math.MaxFloat64, math.MaxFloat64)
	s.Hash(6, &e.Hash)
	s.Time(7, &e.Time)
	s.String(8, &e.Text, most)
	s.Fixed(9, e.Fixed[:])
	s.Raw(10, &e.Raw)
	e.Packed = snapshot.Packed(s, 11, e.Packed, most, math.MaxUint32)
	e.Times = s.PackedTimes(12, e.Times, most)
	e.Hashes = s.Hashes(13, e.Hashes, most)
	snapshot.Message(s, 14, &e.Part, (*part).state)
	snapshot.Optional(s, 15, &e.Maybe, (*part).state)
	snapshot.List(s, 16, &e.List, most, (*part).state)
	snapshot.Strings(s, 17, &e.Texts, most, most)
	m := lru.New[string, part](most)
	if !s.Reading() {
		for _, name := range slices.Sorted(mapKeys(e.Map)) {
			m.Add(name, e.Map[name])
		}
	}
	snapshot.Entries(s, 18, m, func(s *snapshot.Codec, name *string, p *part) {
		s.String(1, name, most)
		snapshot.Message(s, 2, p, (*part).state)
	}, func(name string, p part) {
		if e.Map == nil {
			e.Map = map[string]part{}
		}
		e.Map[name] = p
	})
}

func mapKeys(m map[string]part) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range m {
			if !yield(name) {
				return
			}
		}
	}
}

func draw(t *rapid.T) (e everything) {
	parts := rapid.Custom(func(t *rapid.T) part { return part{rapid.Int().Draw(t, "a"), rapid.IntRange(-3, 3).Draw(t, "b")} })
	texts := rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.Byte(), 0, most).Draw(t, "bytes"))
	})
	e.Uint, e.Small, e.Int = rapid.Uint64().Draw(t, "uint"), rapid.Uint8().Draw(t, "small"), rapid.Int64Min(-math.MaxInt64).Draw(t, "int")
	e.Bool, e.Hash, e.Text = rapid.Bool().Draw(t, "bool"), rapid.Uint64().Draw(t, "hash"), texts.Draw(t, "text")
	e.Float = rapid.Float64().Draw(t, "float") + 0 // without negative zero
	if ms := rapid.Int64Range(-1<<50, 1<<50).Draw(t, "ms"); ms%7 > 0 {
		e.Time = time.UnixMilli(ms).UTC()
	}
	copy(e.Fixed[:], rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "fixed"))
	e.Raw = snapshot.Append(nil, (&part{A: 7}).state)
	e.Packed = rapid.SliceOfN(rapid.Uint32(), 0, most).Draw(t, "packed")
	e.Times = rapid.SliceOfN(rapid.Int64(), 0, most).Draw(t, "times")
	e.Hashes = rapid.SliceOfN(rapid.Uint64(), 0, most).Draw(t, "hashes")
	e.Part = parts.Draw(t, "part")
	if rapid.Bool().Draw(t, "has maybe") {
		p := parts.Draw(t, "maybe")
		e.Maybe = &p
	}
	e.List = rapid.SliceOfN(parts, 0, most).Draw(t, "list")
	e.Texts = rapid.SliceOfN(texts, 0, most).Draw(t, "texts")
	e.Map = rapid.MapOfN(texts, parts, 0, most).Draw(t, "map")
	return e
}

// TestRoundTrip checks that values survive, also into a value that held others before.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, got := draw(t), draw(t)
		got.Map = nil
		snapshottest.Copy(t, &want, &got)
		empty := func(e *everything) { // nil or empty is the same
			for _, p := range []*[]uint64{&e.Hashes} {
				*p = append([]uint64{}, *p...)
			}
			e.Packed, e.Times = append([]uint32{}, e.Packed...), append([]int64{}, e.Times...)
			e.List, e.Texts = append([]part{}, e.List...), append([]string{}, e.Texts...)
			if len(e.Map) == 0 {
				e.Map = nil
			}
		}
		empty(&want)
		empty(&got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("restored value (-want +got):\n%s", diff)
		}
	})
}

// TestOtherVersions checks that unknown fields are skipped and missing ones are zero.
func TestOtherVersions(t *testing.T) {
	newer := snapshot.Append(nil, func(s *snapshot.Codec) {
		one, two, text, size := 1, 2, "later", 2.5
		snapshot.Int(s, 1, &one, 0)
		snapshot.Int(s, 2, &two, 0)
		s.String(3, &text, 0)
		s.Float(4, &size, 0, 0)
	})
	older := snapshot.Append(nil, func(s *snapshot.Codec) {
		two := 2
		snapshot.Int(s, 2, &two, 0)
	})
	for _, tt := range []struct {
		name string
		data []byte
		want part
	}{
		{"newer", newer, part{1, 2}},
		{"older", older, part{0, 2}},
		{"empty", nil, part{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := part{5, 6}
			if err := snapshot.Read(tt.data, got.state); err != nil || got != tt.want {
				t.Errorf("got %+v and error %v, want %+v", got, err, tt.want)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	tag := func(number protowire.Number, kind protowire.Type, value string) string {
		return string(protowire.AppendTag(nil, number, kind)) + value
	}
	read := func(v any) func(*snapshot.Codec) {
		return func(s *snapshot.Codec) {
			switch v := v.(type) {
			case *int:
				snapshot.Uint(s, 1, v, 4)
			case *int64:
				snapshot.Int(s, 1, v, 4)
			case *bool:
				s.Bool(1, v)
			case *float64:
				s.Float(1, v, 0, 4)
			case *uint64:
				s.Hash(1, v)
			case *string:
				s.String(1, v, 4)
			case *[4]byte:
				s.Fixed(1, v[:])
			case *[]int:
				*v = snapshot.Packed(s, 1, *v, 2, 4)
			case *[]int64:
				*v = s.PackedTimes(1, *v, 2)
			case *[]part:
				snapshot.List(s, 1, v, 1, (*part).state)
			case *[]string:
				snapshot.Strings(s, 1, v, 1, 4)
			}
		}
	}
	for _, tt := range []struct {
		name, data string
		into       any
	}{
		{"a tag that ends early", "\xff", new(int)},
		{"a number without end", tag(1, protowire.VarintType, "\xff\xff"), new(int)},
		{"a number over 64 bits", tag(1, protowire.VarintType, strings.Repeat("\xff", 10)+"\x01"), new(int)},
		{"a number over its bound", tag(1, protowire.VarintType, "\x05"), new(int)},
		{"a signed number over its bound", tag(1, protowire.VarintType, "\x0a"), new(int64)},
		{"a signed number under its bound", tag(1, protowire.VarintType, "\x09"), new(int64)},
		{"a truth value of 2", tag(1, protowire.VarintType, "\x02"), new(bool)},
		{"half a floating point number", tag(1, protowire.Fixed64Type, "1234"), new(float64)},
		{"not a number", tag(1, protowire.Fixed64Type, "\xff\xff\xff\xff\xff\xff\xff\xff"), new(float64)},
		{"a floating point number over its bound", tag(1, protowire.Fixed64Type, string(protowire.AppendFixed64(nil, math.Float64bits(4.5)))), new(float64)},
		{"half a hash", tag(1, protowire.Fixed64Type, "1234"), new(uint64)},
		{"text that ends early", tag(1, protowire.BytesType, "\x04abc"), new(string)},
		{"text over its bound", tag(1, protowire.BytesType, "\x05abcde"), new(string)},
		{"a length beyond all", tag(1, protowire.BytesType, "\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), new(string)},
		{"too few fixed bytes", tag(1, protowire.BytesType, "\x03abc"), new([4]byte)},
		{"no fixed bytes", "", new([4]byte)},
		{"too many values", tag(1, protowire.BytesType, "\x03\x01\x01\x01"), new([]int)},
		{"a value over its bound", tag(1, protowire.BytesType, "\x01\x05"), new([]int)},
		{"too many times", tag(1, protowire.BytesType, "\x03\x01\x01\x01"), new([]int64)},
		{"too many messages", tag(1, protowire.BytesType, "\x00") + tag(1, protowire.BytesType, "\x00"), new([]part)},
		{"a message that is damaged", tag(1, protowire.BytesType, "\x01\xff"), new([]part)},
		{"too many texts", tag(1, protowire.BytesType, "\x01a") + tag(1, protowire.BytesType, "\x01a"), new([]string)},
		{"another type", tag(1, protowire.BytesType, "\x00"), new(int)},
		{"an unknown field that ends early", tag(2, protowire.BytesType, "\x05a"), new(int)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := snapshot.Read([]byte(tt.data), read(tt.into)); !errors.Is(err, snapshot.ErrDamaged) {
				t.Errorf("error = %v, want %v", err, snapshot.ErrDamaged)
			}
		})
	}
}

// TestFirstErrorCounts checks that after an error everything is zero and the error stays.
func TestFirstErrorCounts(t *testing.T) {
	whole := everything{Uint: 1, Int: -1, Bool: true, Float: 1, Hash: 1, Text: "x", Packed: []uint32{1}, List: []part{{1, 1}}}
	var got everything
	err := snapshot.Read(snapshottest.Write(&whole), func(s *snapshot.Codec) {
		s.Fail("no such state: %d", 7)
		s.Fail("another")
		got.State(s)
		if s.OK() {
			t.Error("OK() = true after an error, want false")
		}
	})
	if err == nil || !errors.Is(err, snapshot.ErrDamaged) || !strings.Contains(err.Error(), "no such state: 7") {
		t.Errorf("error = %v, want the first one", err)
	}
	if diff := cmp.Diff(everything{}, got); diff != "" {
		t.Errorf("values read after an error (-want +got):\n%s", diff)
	}
}

// FuzzRead checks that damaged input neither panics nor is believed.
func FuzzRead(f *testing.F) {
	f.Add(snapshottest.Write(&everything{Uint: 300, Int: -1, Text: "x", Packed: []uint32{1}, List: []part{{1, 1}}, Map: map[string]part{"a": {1, 2}}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		var e, again everything
		if err := snapshot.Read(data, e.State); err == nil {
			snapshottest.Copy(t, &e, &again)
		} else if !errors.Is(err, snapshot.ErrDamaged) {
			t.Errorf("error = %v, want %v", err, snapshot.ErrDamaged)
		}
	})
}
