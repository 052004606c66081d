package truncate_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/gateway/truncate"
)

func TestObject(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	numbers := func(n int) string { return strings.TrimSuffix(strings.Repeat("1,", n), ",") }
	for _, tt := range []struct {
		name, in string
		size     int
		want     string
	}{
		{"it fits", `{"a":"` + x(5000) + `"}`, 6000, `{"a":"` + x(5000) + `"}`},
		{"a long text", `{"a":"` + x(5000) + `","b":1}`, 1100, `{"a":"` + x(999) + `…","b":1}`},
		{"longer texts", `{"a":"` + x(5000) + `","b":"` + x(400) + `"}`, 800, `{"a":"` + x(299) + `…","b":"` + x(299) + `…"}`},
		{"escapes are not cut through", `{"a":"` + strings.Repeat(`\n`, 600) + `"}`, 1000, `{"a":"` + strings.Repeat(`\n`, 299) + `…"}`},
		{"characters of several bytes", `{"a":"` + strings.Repeat("é😀", 600) + `"}`, 3200, `{"a":"` + strings.Repeat("é😀", 499) + `é…"}`},
		{"bytes are not characters", `{"a":"` + strings.Repeat("é", 900) + `","b":"` + x(5000) + `"}`, 3000, `{"a":"` + strings.Repeat("é", 900) + `","b":"` + x(999) + `…"}`},
		{"quotes within texts", `{"a":"\"}]\\","b":"` + x(2000) + `"}`, 1100, `{"a":"\"}]\\","b":"` + x(999) + `…"}`},
		{"an identifier is whole or empty", `{"dedup_key":"` + x(2000) + `","id":"i"}`, 1000, `{"dedup_key":"","id":"i"}`},
		{"a long list", `{"n":[` + numbers(3000) + `],"z":null}`, 300, `{"n":[` + numbers(50) + `],"n_left_out":2950,"z":null}`},
		{"a map with many names", `{"h":{` + names(100) + `}}`, 700, `{"h":{` + names(50) + `,"…":"50 more"}}`},
		{"deep", strings.Repeat(`{"a":`, 20) + `"` + x(500) + `"` + strings.Repeat(`}`, 20), 200, strings.Repeat(`{"a":`, 8) + `"…"` + strings.Repeat(`}`, 8)},
		{"nothing fits", `{"a":"` + x(100) + `","b":"c"}`, 5, `null`},
		{"little fits", `{"a":"` + x(100) + `"}`, 40, `{"a":"` + x(29) + `…"}`},
	} {
		got := string(truncate.Object(json.RawMessage(tt.in), tt.size))
		if got != tt.want || len(got) > tt.size {
			t.Errorf("%s:\n got %s (%d bytes of %d)\nwant %s", tt.name, got, len(got), tt.size, tt.want)
		}
	}
}

func names(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"n%d":%d`, i, i))
	}
	return strings.Join(all, ",")
}

func TestList(t *testing.T) {
	object := func(text int) string { return `{"a":"` + strings.Repeat("x", text) + `"}` }
	for _, tt := range []struct {
		name  string
		texts []int
		size  int
		want  []int // lengths of the objects
	}{
		{"nothing", nil, 10, nil},
		{"all fit as they are", []int{100, 200}, 319, []int{108, 208}},
		{"all fit once they are cut", []int{2000, 10}, 1100, []int{1010, 18}},
		{"all are cut to one length", []int{2000, 2000, 10}, 700, []int{310, 310, 18}},
		{"the last are left out", []int{2000, 2000, 2000, 10}, 280, []int{130, 130}},
		{"the first stays", []int{2000, 10}, 60, []int{40}},
	} {
		var objects []json.RawMessage
		for _, n := range tt.texts {
			objects = append(objects, json.RawMessage(object(n)))
		}
		var got []int
		for _, o := range truncate.List(objects, tt.size) {
			got = append(got, len(o))
		}
		if fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: got objects of %v bytes, want %v", tt.name, got, tt.want)
		}
	}
}

// FuzzObject: any JSON is cut to JSON that fits.
func FuzzObject(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"\"\u2028"}],"c":-1.5e3,"":""}`), 20)
	f.Add([]byte(`[[[["x"]]],true,null]`), 4)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		var v any
		if json.Unmarshal(data, &v) != nil || size < 6 {
			return
		}
		in, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		got := truncate.Object(in, size)
		if !json.Valid(got) || len(got) > size {
			t.Errorf("Object = %s (%d bytes), want valid JSON of at most %d bytes, from %s", got, len(got), size, in)
		}
		list := truncate.List([]json.RawMessage{in, in}, size)
		if len(list) == 0 || !json.Valid(truncate.Join(list)) || len(truncate.Join(list)) > size {
			t.Errorf("got %s of two of %s, want at most %d bytes", truncate.Join(list), in, size)
		}
	})
}
