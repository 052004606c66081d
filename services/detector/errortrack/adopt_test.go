package errortrack_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/errortrack"
	"github.com/tocsin-bus/tocsin/services/detector/lru"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/services/detector/template"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// version6 returns what is known of a snapshot of version 6 (package oldsnapshot) with
// errors of these messages, last seen at the start.
func version6(t *testing.T, messages ...string) *errortrack.Errors {
	t.Helper()
	known := lru.New[uint64, struct{}](errortrack.MaxErrors)
	for _, m := range messages {
		a, _ := see(errortrack.New(), telemetry.Log{Message: m}, 0) // by its template, as it was then
		var fingerprint uint64
		if _, err := fmt.Sscanf(a.Context["fingerprint"].(string), "%x", &fingerprint); err != nil {
			t.Fatal(err)
		}
		known.Add(fingerprint, struct{}{})
	}
	e := errortrack.New()
	snapshottest.Read(t, snapshot.Append(nil, func(s *snapshot.Codec) {
		snapshot.Entries(s, 1, known, func(s *snapshot.Codec, fingerprint *uint64, _ *struct{}) {
			putRecord(s, *fingerprint, start.UnixMilli(), 1, start.UnixMilli())
		}, nil)
	}), e)
	return e
}

// TestAdoption checks that an error that an older version knew by its template, and that is
// now known by its stack, is not reported once more and keeps its name.
func TestAdoption(t *testing.T) {
	cart, menu, list := thrown("TypeError", "x is undefined", "renderCart"), thrown("TypeError", "x is undefined", "renderMenu"), thrown("TypeError", "x is undefined", "renderList")
	plain := telemetry.Log{Message: cart.Message}
	former, _ := see(errortrack.New(), plain, 0)
	for _, tt := range []struct {
		name  string
		known []string
		logs  []telemetry.Log
		after []time.Duration
		want  []string
	}{
		{"nothing was known", nil, []telemetry.Log{cart, menu}, []time.Duration{0, 0}, []string{"New error", "New error"}},
		{"another message was known", []string{"y"}, []telemetry.Log{cart}, []time.Duration{0}, []string{"New error"}},
		{"the message was known", []string{cart.Message}, []telemetry.Log{cart, cart}, []time.Duration{time.Minute, 2 * time.Minute}, []string{"", ""}},
		{"all with this message, within half an hour", []string{cart.Message}, []telemetry.Log{cart, menu, list}, []time.Duration{0, time.Minute, 30*time.Minute - time.Millisecond}, []string{"", "", ""}},
		{"later the first is back and others are new", []string{cart.Message}, []telemetry.Log{cart, menu, list}, []time.Duration{30 * time.Minute, 31 * time.Minute, 32 * time.Minute}, []string{"Error is back, former name", "New error", "New error"}},
		{"one that was adopted is back", []string{cart.Message}, []telemetry.Log{cart, cart}, []time.Duration{time.Minute, time.Hour}, []string{"", "Error is back, former name"}},
		{"without a stack it is the same error", []string{cart.Message}, []telemetry.Log{plain, plain}, []time.Duration{time.Minute, time.Hour}, []string{"", "Error is back, former name"}},
		{"with a sender's fingerprint", []string{cart.Message}, []telemetry.Log{withFingerprint(plain, "cart")}, []time.Duration{time.Minute}, []string{""}},
		{"an error that this version saw without a stack is another one with a stack", nil, []telemetry.Log{plain, cart}, []time.Duration{0, 0}, []string{"New error, former name", "New error"}},
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, ", restarts ", restarts), func(t *testing.T) {
				e := version6(t, tt.known...)
				var got []string
				for i, l := range tt.logs {
					if restarts {
						e = restored(t, e)
					}
					a, _ := see(e, l, tt.after[i])
					outcome := ""
					if a.Title != "" {
						outcome, _, _ = strings.Cut(a.Title, ":")
						if a.DedupKey == former.DedupKey && a.Context["fingerprint"] == former.Context["fingerprint"] && a.Context["fingerprint_version"] == 1 {
							outcome += ", former name"
						}
					}
					got = append(got, outcome)
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("alerts = %q, want %q", got, tt.want)
				}
			})
		}
	}
}

type fataler interface{ Fatal(...any) }

func restored(t fataler, e *errortrack.Errors) *errortrack.Errors {
	again := errortrack.New()
	snapshottest.Copy(t, e, again)
	if again.Len() != e.Len() || again.Size() != e.Size() {
		t.Fatal("restored", again.Len(), "errors in", again.Size(), "bytes, want", e.Len(), "in", e.Size())
	}
	return again
}

// TestRestarts checks that a detector that is restarted at any time raises the same alerts.
func TestRestarts(t *testing.T) {
	functions := []string{"renderCart", "renderMenu", "t", "<anonymous>"}
	messages := []string{"x is undefined", "order 17 not found", ""}
	rapid.Check(t, func(t *rapid.T) {
		steady, again := errortrack.New(), errortrack.New()
		now := start
		for range rapid.IntRange(1, 60).Draw(t, "errors") {
			l := telemetry.Log{Level: telemetry.LevelError, Message: rapid.SampledFrom(messages).Draw(t, "message")}
			if rapid.Bool().Draw(t, "stack") {
				l = thrown(rapid.SampledFrom([]string{"TypeError", "CartError"}).Draw(t, "type"), l.Message, rapid.SampledFrom(functions).Draw(t, "function"))
			}
			l.Fingerprint = rapid.SampledFrom([]telemetry.Fingerprint{nil, nil, {"a"}, {"{{ default }}", "a"}}).Draw(t, "fingerprint")
			now = now.Add(rapid.SampledFrom([]time.Duration{-time.Minute, 0, time.Millisecond, time.Second, time.Minute, time.Hour}).Draw(t, "gap"))
			tool := rapid.Bool().Draw(t, "tool")
			if rapid.Bool().Draw(t, "restart") {
				again = restored(t, again)
			}
			event := &telemetry.Event{Log: &l}
			want, wantRaised := steady.Log("web", event, tool, template.Append(nil, l.Message), now)
			got, raised := again.Log("web", event, tool, template.Append(nil, l.Message), now)
			if raised != wantRaised {
				t.Fatalf("raised = %v after restarts, want %v", raised, wantRaised)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("alert after restarts (-want +got):\n%s", diff)
			}
		}
	})
}

// putRecord writes the fields of an error that is known by the template of its message.
func putRecord(s *snapshot.Codec, fingerprint uint64, last, seen, adopts int64) {
	version := uint8(1)
	s.Hash(1, &fingerprint)
	snapshot.Int(s, 2, &last, snapshot.AnyInt)
	snapshot.Uint(s, 4, &seen, math.MaxInt64)
	snapshot.Uint(s, 6, &version, 1)
	snapshot.Int(s, 7, &adopts, snapshot.AnyInt)
}

func TestRestoreRefuses(t *testing.T) {
	for name, seen := range map[string]int64{"never seen": 0, "less than never": -1} {
		data := snapshot.Append(nil, func(s *snapshot.Codec) {
			records := []int64{seen}
			snapshot.List(s, 1, &records, 1, func(seen *int64, s *snapshot.Codec) { putRecord(s, 1, 1, *seen, 0) })
		})
		if err := snapshot.Read(data, errortrack.New().State); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
}

func BenchmarkKnownWithStack(b *testing.B) {
	var frames string
	for i := 0; len(frames) < 4000; i++ {
		frames += fmt.Sprintf("\n    at step%c%c (https://shop.example/assets/cart-8f3c2a1b.js:%d:1523)", 'a'+i/26, 'a'+i%26, i)
	}
	for name, l := range map[string]telemetry.Log{
		"4KB":      {Message: "Uncaught TypeError: x is undefined", Stack: "TypeError: x is undefined" + frames},
		"short":    thrown("TypeError", "x is undefined", "renderCart"),
		"sender's": withFingerprint(telemetry.Log{Message: "x"}, "cart", "timeout"),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			e := errortrack.New()
			event := &telemetry.Event{Log: &l}
			known := template.Append(nil, l.Message)
			for b.Loop() {
				e.Log("web", event, false, known, start)
			}
		})
	}
}
