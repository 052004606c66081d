package session

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/investigator/model"
)

// drawRequest draws a well-formed conversation with long texts, calls and states.
func drawRequest(t *rapid.T) model.Request {
	long := func(name string) string {
		return strings.Repeat("text ", rapid.SampledFrom([]int{0, 1, 30, 400}).Draw(t, name))
	}
	r := model.Request{System: long("system"), Messages: []model.Message{{Role: model.RoleUser, Text: long("first")}}}
	for i := range rapid.IntRange(0, 4).Draw(t, "tools") {
		r.Tools = append(r.Tools, model.Tool{Name: "tool" + strconv.Itoa(i), Description: long("description"), Schema: json.RawMessage(`{"type":"object"}`)})
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "turns") {
		m := model.Message{Role: model.RoleAssistant, Text: long("answer"), State: json.RawMessage(`"` + long("state") + `"`)}
		var results []model.Message
		for j := range rapid.IntRange(0, 8).Draw(t, "calls") {
			id := "call_" + strconv.Itoa(10*i+j)
			m.Calls = append(m.Calls, model.Call{ID: id, Name: "kubernetes__pods_log", Arguments: `{"a":"` + long("arguments") + `"}`})
			results = append(results, model.Message{Role: model.RoleTool, Text: long("result"), CallID: id, ToolName: "kubernetes__pods_log"})
		}
		r.Messages = append(append(r.Messages, m), results...)
		if rapid.Bool().Draw(t, "said") {
			r.Messages = append(r.Messages, model.Message{Role: model.RoleUser, Text: long("said")})
		}
	}
	return r
}

func TestFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRequest(t)
		before, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		limit := rapid.IntRange(0, 12_000).Draw(t, "limit")
		got := fit(r, limit)
		if n := requestBytes(got); n > limit {
			t.Fatalf("a request of %d bytes has %d after fit, want at most %d", requestBytes(r), n, limit)
		}
		if err := wellFormed(got.Messages); err != nil {
			t.Fatalf("after fit: %v", err)
		}
		after, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if string(before) != string(after) {
			t.Fatalf("fit changed its argument:\n%s\nwas\n%s", after, before)
		}
		if requestBytes(r) <= limit && requestBytes(got) != requestBytes(r) {
			t.Fatalf("fit shortened a request of %d bytes for %d", requestBytes(r), limit)
		}
		for i, m := range got.Messages {
			for j, c := range m.Calls {
				if c.Arguments == "{}" && len(m.State) > 0 {
					t.Fatalf("message %d has a state with other arguments of its call %d", i, j)
				}
			}
		}
	})
}

// A provider that counts more tokens than the estimate is asked less after its first answer, and
// one that counts absurdly much is not starved.
func TestDensity(t *testing.T) {
	p := Provider{ContextWindow: 10_000, MaxOutput: 2_000}
	for _, c := range []struct {
		bytes, tokens int
		want          int
	}{
		{bytes: 0, tokens: 0, want: 32_000},
		{bytes: 4_000, tokens: 100, want: 32_000},
		{bytes: 4_000, tokens: 1_000, want: 32_000},
		{bytes: 4_000, tokens: 2_000, want: 16_000},
		{bytes: 4_000, tokens: 1_000_000, want: 8_000},
	} {
		e := &execution{}
		e.count(c.bytes, model.Usage{Input: c.tokens})
		if got := room(p, e.density); got != c.want {
			t.Errorf("%d tokens for %d bytes: room for %d bytes, want %d", c.tokens, c.bytes, got, c.want)
		}
	}
}
