package fold_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/services/detector/fold"
	"github.com/tocsin-bus/tocsin/services/detector/ruleset"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// FuzzApply checks that no valid event can crash the detector, by all rules, and that a restored
// snapshot gives the same outcome. A message that crashes the detector would crash it again at
// each start, because it is in the log. Run it with -fuzzminimizetime 5x: a run has many
// messages, and minimizing one takes long.
func FuzzApply(f *testing.F) {
	for _, text := range []string{"", "at  {", "boom\nat 12", "user 'x' took 3 ms", "\x00\xff", "POST /a/:id failed: https://h/p", "{{ default }}"} {
		f.Add(text, stack(1), text, "http://h"+text, text, 1000.0, uint32(900), uint8(12))
		f.Add("boom", text, "", "/", "web@2", -1.5, uint32(70_000), uint8(30))
	}
	f.Fuzz(func(t *testing.T, message, trace, fingerprint, url, release string, value float64, gap uint32, times uint8) {
		for _, table := range []ruleset.Table{{}, everything, {Default: ruleset.Set{Anomaly: ruleset.RateTail, Regression: ruleset.Confirmed}}} {
			one, other := fold.New(fold.Config{Rules: table}), fold.New(fold.Config{Rules: table})
			for i := range int(times)%40 + 1 {
				m := events(hostile(i, message, trace, fingerprint, url, release, value)...)
				m.Seq, m.Time = uint64(i+1), start.Add(time.Duration(i)*time.Duration(gap)*time.Millisecond)
				out := one.Apply(m)
				if diff := cmp.Diff(out, other.Apply(m)); diff != "" {
					t.Fatalf("outcome of message %d (-without +with a restart):\n%s", i, diff)
				}
				for _, a := range out.Alerts {
					if _, err := a.MarshalJSON(); err != nil {
						t.Fatalf("marshal %+v: %v, want no error", a, err)
					}
				}
				if i%7 == 6 {
					data, err := one.Snapshot()
					if err == nil {
						other = fold.New(fold.Config{Rules: table})
						err = other.Restore(data)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	})
}

// hostile returns events of each kind with given texts.
func hostile(n int, message, trace, fingerprint, url, release string, value float64) []telemetry.Event {
	level := []telemetry.Level{telemetry.LevelError, telemetry.LevelInfo}[n%2]
	load, used := value*float64(n%5), value
	all := []telemetry.Event{
		{Kind: telemetry.KindLog, Log: &telemetry.Log{Level: level, Message: message, Stack: trace, Source: url}},
		{Kind: telemetry.KindLog, Log: &telemetry.Log{Level: telemetry.LevelError, Message: trace, Fingerprint: telemetry.NewFingerprint(fingerprint, message)}},
		{Kind: telemetry.KindNetwork, Network: &telemetry.Network{Method: message, URL: url, Status: []int{0, 200, 401, 503}[n%4], Error: trace}},
		{Kind: telemetry.KindVitals, Vitals: &telemetry.Vitals{LCP: &load, CLS: &used, Device: telemetry.DeviceOf(fingerprint)}},
		{Kind: telemetry.KindAction, Action: &telemetry.Action{Type: telemetry.ActionClick, Target: message}},
		{Kind: telemetry.KindSecurity, Security: &telemetry.Security{Type: fingerprint, Message: message, BlockedURL: url}},
	}
	valid := all[:0]
	for i := range all {
		all[i].App, all[i].URL, all[i].Release = message, url, release
		if all[i].Validate() == nil {
			valid = append(valid, all[i])
		}
	}
	return valid
}
