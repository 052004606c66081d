package endpoint

import (
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		name, ms, value string
		want            time.Duration
	}{
		{"none", "", "", 0},
		{"seconds", "", "7", 7 * time.Second},
		{"a part of a second", "", " 0.25 ", 250 * time.Millisecond},
		{"milliseconds first", "1500", "9", 1500 * time.Millisecond},
		{"broken milliseconds", "soon", "9", 9 * time.Second},
		{"negative milliseconds", "-1", "9", 9 * time.Second},
		{"a date", "", now.Add(90 * time.Second).Format(http.TimeFormat), 90 * time.Second},
		{"a date in the form of RFC 850", "", now.Add(90 * time.Second).Format(time.RFC850), 90 * time.Second},
		{"a date that has passed", "", now.Add(-time.Hour).Format(http.TimeFormat), 0},
		{"a far date", "", now.AddDate(50, 0, 0).Format(http.TimeFormat), maxRetryAfter},
		{"too long", "", "1e300", maxRetryAfter},
		{"endless", "", "Inf", maxRetryAfter},
		{"no number", "", "NaN", 0},
		{"negative", "", "-5", 0},
		{"words", "", "in a while", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			if tt.ms != "" {
				h.Set("Retry-After-Ms", tt.ms)
			}
			h.Set("Retry-After", tt.value)
			if got := RetryAfter(h, now); got != tt.want {
				t.Errorf("RetryAfter(%q, %q) = %s, want %s", tt.ms, tt.value, got, tt.want)
			}
		})
	}
}

func FuzzRetryAfter(f *testing.F) {
	f.Add("1500", "9")
	f.Add("", now.Add(time.Minute).Format(http.TimeFormat))
	f.Add("NaN", "-Inf")
	f.Fuzz(func(t *testing.T, ms, value string) {
		h := http.Header{"Retry-After-Ms": {ms}, "Retry-After": {value}}
		if got := RetryAfter(h, now); got < 0 || got > maxRetryAfter {
			t.Errorf("RetryAfter(%q, %q) = %s, want 0 to %s", ms, value, got, maxRetryAfter)
		}
	})
}

// endless is a stream that repeats a part for ever.
type endless struct {
	part string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		k := copy(p[n:], e.part[e.at:])
		n += k
		e.at = (e.at + k) % len(e.part)
	}
	return n, nil
}

func (e *endless) Close() error { return nil }

func TestStreamIsBounded(t *testing.T) {
	const read = 1 << 20
	for _, tt := range []struct {
		name, part string
		bound      int
		want       error
	}{
		{"an endless line", strings.Repeat("x", 4096), MaxLine, errLongLine},
		{"a line after others", strings.Repeat("\n", 512<<10) + strings.Repeat("x", MaxLine+2*read), MaxLine + 512<<10, errLongLine},
		{"no end", strings.Repeat(strings.Repeat("x", 1023)+"\n", 1024), MaxBody, errLongStream},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := &body{ReadCloser: &endless{part: tt.part}}
			total, buffer := 0, make([]byte, read)
			for {
				n, err := b.Read(buffer)
				total += n
				if err != nil {
					if !errors.Is(err, tt.want) {
						t.Fatalf("got %v, want %v", err, tt.want)
					}
					break
				}
				if total > MaxBody+read {
					t.Fatalf("read %d bytes without an error, want at most %d", total, tt.bound+read)
				}
			}
			if total <= tt.bound || total > tt.bound+read {
				t.Errorf("the error came after %d bytes, want over %d, in the same read", total, tt.bound)
			}
		})
	}
}

// TestStreamWithinBounds: lines of the longest length pass, and so does the end of the stream.
func TestStreamWithinBounds(t *testing.T) {
	line := strings.Repeat("x", MaxLine) + "\n"
	got, err := io.Copy(io.Discard, &body{ReadCloser: io.NopCloser(strings.NewReader(line + line + line))})
	if want := int64(3 * len(line)); err != nil || got != want {
		t.Errorf("read %d bytes, %v, want %d and no error", got, err, want)
	}
}

func TestBounded(t *testing.T) {
	for _, tt := range []struct {
		seconds float64
		want    time.Duration
	}{{math.NaN(), 0}, {math.Inf(-1), 0}, {0, 0}, {1.5, 1500 * time.Millisecond}, {86400, maxRetryAfter}, {math.Inf(1), maxRetryAfter}} {
		if got := bounded(tt.seconds); got != tt.want {
			t.Errorf("bounded(%v) = %s, want %s", tt.seconds, got, tt.want)
		}
	}
}
