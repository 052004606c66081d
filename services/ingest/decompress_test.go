package ingest

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"

	"github.com/tocsin-bus/tocsin/shared/httpserve"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func packed(t testing.TB, encoding string, data []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip":
		w = gzip.NewWriter(&out)
	case "deflate":
		w = zlib.NewWriter(&out)
	case "br":
		w = brotli.NewWriter(&out)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// withLines returns a handler with an additional sender, whose bodies may be compressed:
// each line is the level of a log event.
func withLines(s sink, change ...func(*Config)) *handler {
	h := testHandler(s, change...)
	h.Front = h.front(append(h.routes(), h.route(sender{
		path: "/lines", bodies: bodyFormat{allowCompressed: true}, fromPages: true,
		events: func(_ *http.Request, b *body) (decodedEvents, error) {
			var d decodedEvents
			for line := range strings.Lines(string(b.data)) {
				d.events = append(d.events, telemetry.Event{Kind: telemetry.KindLog, Log: &telemetry.Log{Level: telemetry.Level(strings.TrimSpace(line))}})
			}
			return d, nil
		},
	})), "")
	return h
}

func TestDecompress(t *testing.T) {
	text := []byte(strings.Repeat("info\n", 50_000)) // more than there is room for at first
	bomb := bytes.Repeat([]byte("info\n"), maxDecompressed/5+1)
	for _, encoding := range []string{"gzip", "deflate", "br"} {
		whole := packed(t, encoding, text)
		for _, c := range []struct {
			name, encoding string
			body           []byte
			limit          int64
			status         int
			says           string
		}{
			{"whole", encoding, whole, 0, 200, `"accepted":50000`},
			{"in capitals", strings.ToUpper(encoding), whole, 0, 200, `"accepted":50000`},
			{"nothing in it", encoding, packed(t, encoding, nil), 0, 200, `"accepted":0`},
			{"broken off", encoding, whole[:len(whole)-3], 0, 400, "not " + encoding},
			{"only begun", encoding, whole[:1], 0, 400, "not " + encoding},
			{"garbage", encoding, []byte("\xff\xffhello, this is something else altogether"), 0, 400, "not " + encoding},
			{"a bomb", encoding, packed(t, encoding, bomb), 0, 413, "over 8388608 bytes once it is decompressed"},
			{"more than may be in flight", encoding, whole, 100_000, 429, "bytes are in flight"},
			{"packed twice", encoding + ", " + encoding, whole, 0, 415, "one of br, deflate, gzip"},
		} {
			h := withLines(&fakeSink{}, func(cfg *Config) {
				if c.limit > 0 {
					cfg.MaxInFlight = c.limit
				}
			})
			w := httptest.NewRecorder()
			h.ServeHTTP(w, ask("POST", "/lines", bytes.NewReader(c.body), "Content-Encoding", c.encoding))
			if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
				t.Errorf("%s, %s: got %d %s, want %d with %q", encoding, c.name, w.Code, w.Body, c.status, c.says)
			}
			if h.inFlight.used.Load() != 0 || h.inFlight.requests.Load() != 0 {
				t.Errorf("%s, %s: %d bytes and %d requests are still in flight, want 0", encoding, c.name, h.inFlight.used.Load(), h.inFlight.requests.Load())
			}
		}
	}
}

// TestDecompressedBytesAreInFlight checks that bodies in flight count with their
// decompressed size.
func TestDecompressedBytesAreInFlight(t *testing.T) {
	s := &fakeSink{}
	h := withLines(s)
	text := bytes.Repeat([]byte("info\n"), 100_000)
	s.during = func() {
		if used := h.inFlight.used.Load(); used < int64(len(text)) {
			t.Errorf("%d bytes are in flight, want at least %d", used, len(text))
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, ask("POST", "/lines", bytes.NewReader(packed(t, "gzip", text)), "Content-Encoding", "gzip"))
	if w.Code != 200 {
		t.Errorf("got %d %s, want 200", w.Code, w.Body)
	}
}

func FuzzDecompress(f *testing.F) {
	for _, encoding := range []string{"gzip", "deflate", "br"} {
		f.Add(encoding, packed(f, encoding, []byte("info\nwarn\n")))
	}
	f.Fuzz(func(t *testing.T, encoding string, data []byte) {
		h := testHandler(&fakeSink{})
		b := &body{data: data, encoding: encoding}
		if err := h.decompress(b); err != nil && httpserve.AsRefusal(err) == nil {
			t.Errorf("decompress = %v, want a refusal", err)
		}
		if most := max(maxDecompressed, len(data)); len(b.data) > most {
			t.Errorf("%d bytes, want at most %d", len(b.data), most)
		}
		if used := h.inFlight.used.Load(); used != b.reserved {
			t.Errorf("%d bytes are in flight, want the %d that are reserved", used, b.reserved)
		}
	})
}
