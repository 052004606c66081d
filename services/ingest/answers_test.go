package ingest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// TestFieldsAreChecked has one line for each rule about fields, with a text that the answer
// must contain.
func TestFieldsAreChecked(t *testing.T) {
	const (
		kinds   = "log, network, vitals, action, memory, circuit, security"
		metrics = "fcp_ms, lcp_ms, inp_ms, ttfb_ms, load_ms, cls"
	)
	for _, c := range []struct{ path, body, want string }{
		{pathEvents, `{}`, "kind must be one of " + kinds},
		{pathEvents, `{"kind":"trace"}`, "kind must be one of " + kinds},
		{pathEvents, `{"kind":7}`, "kind must be a string"},
		{pathEvents, `{"kind":"log"}`, "log is required for an event of kind log"},
		{pathEvents, `{"kind":"log","network":{"method":"GET","url":"/","status":200}}`, "log is required for an event of kind log"},
		{pathEvents, `{"kind":"log","log":"x"}`, "log must be an object"},
		{pathEvents, `{"kind":"log","log":{"message":"x"}}`, "log.level must be one of debug, info, warn, error"},
		{pathEvents, `{"kind":"log","log":{"level":"ERROR","message":"x"}}`, "log.level must be one of debug, info, warn, error"},
		{pathEvents, `{"kind":"log","log":{"level":"info"}}`, "log.message is required"},
		{pathEvents, `{"kind":"log","log":{"level":"info","message":"x","args":{}}}`, "log.args must be an array"},
		{pathEvents, `{"kind":"log","time":"yesterday","log":{"level":"info","message":"x"}}`, "time must be an RFC 3339 time"},
		{pathEvents, `{"kind":"log","app":["a"],"log":{"level":"info","message":"x"}}`, "app must be a string"},
		{pathEvents, `{"kind":"network","network":{"url":"/","status":200}}`, "network.method is required"},
		{pathEvents, `{"kind":"network","network":{"method":"GET","status":200}}`, "network.url is required"},
		{pathEvents, `{"kind":"network","network":{"method":"GET","url":"/"}}`, "network.status is required: a whole number from 0 to 999"},
		{pathEvents, `{"kind":"network","network":{"method":"GET","url":"/","status":1000}}`, "network.status must be a whole number from 0 to 999"},
		{pathEvents, `{"kind":"network","network":{"method":"GET","url":"/","status":-1}}`, "network.status must be a whole number from 0 to 999"},
		{pathEvents, `{"kind":"network","network":{"method":"GET","url":"/","status":"500"}}`, "network.status must be a whole number from 0 to 999"},
		{pathEvents, `{"kind":"vitals","vitals":{}}`, "vitals must have at least one of " + metrics},
		{pathEvents, `{"kind":"vitals","vitals":{"lcp_ms":-1}}`, "vitals.lcp_ms must not be negative"},
		{pathEvents, `{"kind":"vitals","vitals":{"cls":-0.1}}`, "vitals.cls must not be negative"},
		{pathEvents, `{"kind":"vitals","vitals":{"lcp_ms":1e999}}`, "vitals.lcp_ms must be a number of milliseconds"},
		{pathEvents, `{"kind":"action","action":{"type":"hover","target":"#a"}}`, "action.type must be one of click, input, submit, navigate"},
		{pathEvents, `{"kind":"action","action":{"type":"click"}}`, "action.target is required"},
		{pathEvents, `{"kind":"memory","memory":{"limit_bytes":1}}`, "memory.used_bytes must be a positive number of bytes"},
		{pathEvents, `{"kind":"memory","memory":{"used_bytes":1}}`, "memory.limit_bytes must be a positive number of bytes"},
		{pathEvents, `{"kind":"memory","memory":{"used_bytes":1,"limit_bytes":-1}}`, "memory.limit_bytes must be a positive number of bytes"},
		{pathEvents, `{"kind":"circuit","circuit":{"state":"open"}}`, "circuit.name is required"},
		{pathEvents, `{"kind":"circuit","circuit":{"name":"db","state":"ajar"}}`, "circuit.state must be one of closed, half_open, open"},
		{pathEvents, `{"kind":"security","security":{"message":"x"}}`, "security.type is required"},

		{pathCIResult, `{}`, "status must be one of success, failure, error"},
		{pathCIResult, `{"status":"cancelled"}`, "status must be one of success, failure, error"},
		{pathCIResult, `{"status":true}`, "status must be a string"},
		{pathCIResult, `{"status":"success","source":"jenkins"}`, "source must be one of github-actions, gitlab-ci, custom"},
		{pathCIResult, `{"status":"success","duration_ms":-1}`, "duration_ms must not be negative"},
		{pathCIResult, `{"status":"success","duration_ms":"45s"}`, "duration_ms must be a number of milliseconds"},
		{pathCIResult, `{"status":"success","failures":{}}`, "failures must be an array of objects with name and message"},
	} {
		bodies := map[string]int{c.body: -1}
		if c.path == pathEvents {
			bodies["["+logEvent+","+c.body+","+logEvent+"]"] = 1
		}
		for body, index := range bodies {
			s := &fakeSink{}
			w := httptest.NewRecorder()
			testHandler(s).ServeHTTP(w, ask("POST", c.path, strings.NewReader(body), "Content-Type", typeJSON))
			var answer struct {
				OK    *bool
				Error string
				Index *int
			}
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
			if w.Code != http.StatusBadRequest || answer.OK == nil || *answer.OK || !strings.HasPrefix(answer.Error, c.want) {
				t.Errorf("%.200s:\ngot  %d %s\nwant %s", body, w.Code, w.Body, c.want)
			}
			if (answer.Index != nil) != (index >= 0) || answer.Index != nil && *answer.Index != index {
				t.Errorf("%.200s: index in %s, want %d", body, w.Body, index)
			}
			if len(s.msgs) != 0 {
				t.Errorf("%.200s: %d messages are stored, want none", body, len(s.msgs))
			}
		}
	}
}

func TestPayloadOfAnotherKindIsDropped(t *testing.T) {
	msgs := post(t, pathEvents, `{"kind":"network","network":{"method":"GET","url":"/\u202ea","status":500},"log":{"level":"shout","message":"\u202ehidden"},"memory":{"used_bytes":-1}}`)
	const want = `[{"kind":"network","app":"default","time":"2026-01-28T14:30:00.123Z","network":{"method":"GET","url":"/a","status":500}}]`
	if len(msgs) != 1 || string(msgs[0].Data) != want {
		t.Errorf("got  %s\nwant %s", msgs[0].Data, want)
	}
}

// TestUnknownFieldsAndLongTextsAreAccepted checks that long texts are cut, and that the
// payload of another kind counts as an unknown field.
func TestUnknownFieldsAndLongTextsAreAccepted(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`{"kind":"log","log":{"level":"info","message":"x"},"memory":123,"action":"clicked","network":{"status":"x"}}`, `"log":{"level":"info","message":"x"}`},
		{`{"kind":"log","log":{"level":"info","message":""}}`, `"log":{"level":"info","message":""}`},
		{`{"kind":"network","network":{"method":"GET","url":"/","status":200.0,"request_headers":{"a":1,"b":true}}}`, `"status":200,"request_headers":{`},
		{`{"kind":"network","network":{"method":"GET","url":"/","status":999}}`, `"status":999`},
		{`{"kind":"log","app":"` + strings.Repeat("\u00e9", 200) + `","session":"` + strings.Repeat("\u00e9", 256) + `","log":{"level":"info","message":"x"}}`,
			`"app":"` + strings.Repeat("\u00e9", 200) + `","session":"` + strings.Repeat("\u00e9", 256) + `"`},
		{`{"kind":"log","app":"` + strings.Repeat("a", 9999) + `","session":"` + strings.Repeat("s", 9999) + `","log":{"level":"info","message":"x"}}`,
			`"app":"` + strings.Repeat("a", maxName-1) + ellipsis + `","session":"` + strings.Repeat("s", maxName-1) + ellipsis + `"`},
		{`{"kind":"log","release":{"a":1},"log":{"level":"info","message":"x"}}`, `"log":{"level":"info","message":"x"}`},
		{`{"kind":"log","session":"s","release":"` + strings.Repeat("r", 9999) + `","log":{"level":"info","message":"x"}}`,
			`"session":"s","release":"` + strings.Repeat("r", maxName-1) + ellipsis + `"`},
	} {
		msgs := post(t, pathEvents, c.body)
		if len(msgs) != 1 || !strings.Contains(string(msgs[0].Data), c.want) {
			t.Errorf("%.200s\ngot  %.900s\nwant %s", c.body, msgs[0].Data, c.want)
		}
		for token := range strings.SplitSeq(msgs[0].Subject, ".") {
			if len(token) > 64 {
				t.Errorf("subject %s has a token of %d bytes, want at most 64", msgs[0].Subject, len(token))
			}
		}
	}
}

// TestLargestBatch checks that only the size of the body bounds a batch.
func TestLargestBatch(t *testing.T) {
	const smallest = `{"kind":"vitals","vitals":{"cls":0}}`
	n := (maxBody - 1) / (len(smallest) + 1)
	total := 0
	for _, m := range post(t, pathEvents, "["+strings.Repeat(smallest+",", n-1)+smallest+"]") {
		events, err := telemetry.DecodeMessage(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		total += len(events)
	}
	if total != n || n < 28_000 {
		t.Errorf("%d of %d events are stored, want all, and at least 28,000", total, n)
	}
}
