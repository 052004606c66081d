package ingest

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// FuzzBody checks that the answer to every body is JSON with a documented status, and that
// every stored message can be decoded and is not too large.
func FuzzBody(f *testing.F) {
	f.Add(true, typeJSON, logEvent)
	f.Add(true, typeNDJSON, logEvent+"\n"+logEvent)
	f.Add(true, typeText, `[{"kind":"network","network":{"method":"GET","url":"/","status":500,"request_headers":{"a":"b"}}}]`)
	f.Add(true, typeJSON, `{"kind":"log","time":"0000-01-01T00:00:00+10:00","log":{"level":"info","message":"\ud800","args":[{"a":[1,null]}]}}`)
	f.Add(false, typeJSON, failure)
	s := &fakeSink{}
	h := testHandler(s)
	f.Fuzz(func(t *testing.T, events bool, media, body string) {
		s.msgs = nil
		path := pathCIResult
		if events {
			path = pathEvents
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, ask("POST", path, strings.NewReader(body), "Content-Type", media))
		var answer struct {
			OK       bool
			Error    string
			Accepted int
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.OK != (w.Code == 200) || answer.OK == (answer.Error != "") {
			t.Fatalf("got %d %s (%v), want JSON that agrees with the status", w.Code, w.Body, err)
		}
		switch w.Code {
		case 200, 400, 413, 415:
		default:
			t.Fatalf("got %d %s, want 200, 400, 413 or 415", w.Code, w.Body)
		}
		n := 0
		for _, m := range s.msgs {
			if len(m.Data) > ci.MaxEncoded {
				t.Errorf("a message of %d bytes, want at most %d", len(m.Data), ci.MaxEncoded)
			}
			if events {
				got, err := telemetry.DecodeMessage(m.Data)
				if err != nil {
					t.Errorf("decode message %s: %v, want no error", m.Data, err)
				}
				n += len(got)
			}
		}
		if n != answer.Accepted || h.inFlight.used.Load() != 0 {
			t.Errorf("%d events stored, %d bytes in flight, want %d and 0", n, h.inFlight.used.Load(), answer.Accepted)
		}
	})
}

func BenchmarkBatchOf100(b *testing.B) {
	benchmark(b, pathEvents, hundred())
}

func BenchmarkCIResult(b *testing.B) {
	benchmark(b, pathCIResult, `{"status":"failure","source":"github-actions","commit":"abc123","name":"build","summary":"12 tests passed, 2 failed",`+
		`"failures":[{"name":"test_login","message":"Expected 200, got 401"}],"url":"https://ci.example/run/123","duration_ms":45000}`)
}

func benchmark(b *testing.B, path, body string) {
	s := &fakeSink{}
	h := testHandler(s)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, ask("POST", path, strings.NewReader(body), "Content-Type", typeJSON))
		if w.Code != 200 {
			b.Fatal(w.Code)
		}
		s.msgs = s.msgs[:0]
	}
}
