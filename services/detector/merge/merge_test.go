package merge_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/services/detector/merge"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

func at(s int) time.Time { return time.Date(2026, 1, 28, 14, 30, s, 0, time.UTC) }

func event(s int, message string) query.StoredEvent {
	return query.StoredEvent{Received: at(s), Event: telemetry.Event{Kind: telemetry.KindLog, Log: &telemetry.Log{Message: message}}}
}

func TestEvents(t *testing.T) {
	one := query.EventsReply{Events: []query.StoredEvent{event(9, "a"), event(5, "b"), event(1, "c")}}
	two := query.EventsReply{Events: []query.StoredEvent{event(7, "d"), event(5, "e")}}
	big := query.EventsReply{Events: []query.StoredEvent{event(8, "f"), event(2, strings.Repeat("x", query.MaxReply))}}
	tests := []struct {
		name      string
		replies   []query.EventsReply
		limit     int
		want      string
		truncated bool
	}{
		{"none", nil, 5, "", false},
		{"one", []query.EventsReply{one}, 5, "abc", false},
		{"the newest first, of two at one time the first partition's", []query.EventsReply{one, two}, 9, "adbec", false},
		{"limit", []query.EventsReply{one, two}, 3, "adb", false},
		{"cut by a partition", []query.EventsReply{one, {Truncated: true}}, 9, "abc", true},
		{"too large", []query.EventsReply{big, one}, 9, "afb", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := merge.Events(tt.replies, tt.limit)
			if err != nil {
				t.Fatal(err)
			}
			var text string
			for _, e := range got.Events {
				text += e.Log.Message
			}
			if text != tt.want || got.Truncated != tt.truncated || got.Events == nil {
				t.Errorf("%s, truncated %v", text, got.Truncated)
			}
		})
	}
}

// TestPagedEvents: positions say which event is newer, and what has no room is
// counted as older.
func TestPagedEvents(t *testing.T) {
	paged := func(seq uint64, index int) query.StoredEvent {
		e := event(1, fmt.Sprint(seq, ".", index, " "))
		e.Position = query.EventPosition{Seq: seq, Index: index}
		return e
	}
	got, err := merge.Events([]query.EventsReply{
		{Events: []query.StoredEvent{paged(5, 1), paged(5, 0), paged(2, 0)}, Older: 3},
		{Events: []query.StoredEvent{paged(4, 0), paged(1, 0)}},
	}, 4)
	if err != nil {
		t.Fatal(err)
	}
	var text string
	for _, e := range got.Events {
		text += e.Log.Message
	}
	if want := "5.1 5.0 4.0 2.0 "; text != want || got.Older != 4 {
		t.Errorf("got %s and %d older, want %s and 4", text, got.Older, want)
	}
}

func TestStatus(t *testing.T) {
	got := merge.Status([]query.StatusReply{
		{Apps: []query.AppStatus{{App: "web"}, {App: "zoo"}}, Detector: query.DetectorStatus{Ready: true, Behind: 2, Lost: 1, AppsNotTracked: 4, Rules: []string{"a"}}},
		{Apps: []query.AppStatus{{App: "shop"}}, Detector: query.DetectorStatus{Ready: true, Behind: 5, Lost: 3, AppsNotTracked: 5, Rules: []string{"b"}}},
		{Detector: query.DetectorStatus{Ready: true, Rules: []string{"a"}}},
	})
	if len(got.Apps) != 3 || got.Apps[0].App != "shop" || got.Apps[2].App != "zoo" || !got.Detector.Ready || got.Detector.Behind != 7 || got.Detector.Lost != 4 || got.Detector.AppsNotTracked != 9 || !slices.Equal(got.Detector.Rules, []string{"a", "b"}) {
		t.Errorf("%+v", got)
	}
	if got := merge.Status([]query.StatusReply{{Detector: query.DetectorStatus{Ready: true}}, {}}); got.Detector.Ready || got.Apps == nil {
		t.Errorf("one is not ready: %+v", got)
	}
}

func TestNoise(t *testing.T) {
	manual := func(id string, hidden uint64) query.NoiseRule {
		return query.NoiseRule{ID: id, State: "manual", Hidden: hidden}
	}
	found := func(app, pattern string) query.NoiseRule {
		return query.NoiseRule{ID: app + pattern, App: app, Pattern: pattern, State: "applied", Hidden: 1}
	}
	got, err := merge.Noise([]query.NoiseReply{
		{Rules: []query.NoiseRule{manual("a", 1), manual("b", 0), found("web", "x"), found("web", "y")}, Found: 2, Added: "a"},
		{Rules: []query.NoiseRule{manual("a", 4), manual("b", 2), found("shop", "z")}, Found: 1, Added: "a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var text []string
	for _, r := range got.Rules {
		text = append(text, fmt.Sprint(r.ID, r.Hidden))
	}
	if s := strings.Join(text, " "); s != "a5 b2 shopz1 webx1 weby1" || got.Found != 3 || got.Added != "a" || got.Truncated {
		t.Errorf("%s %+v", s, got)
	}
	many := make([]query.RemovedRule, query.MaxRemoved)
	one, two := manual("a", 1), manual("a", 4)
	one.HiddenLast10Min, one.AlertsHeld, one.Examples, one.Since, one.LastSeen = 1, 1, []string{"old"}, at(2), at(7)
	one.ByLevel = map[telemetry.Level]uint64{telemetry.LevelWarn: 1}
	two.HiddenLast10Min, two.AlertsHeld, two.Examples, two.Since, two.LastSeen = 3, 2, []string{"new"}, at(1), at(9)
	two.ByLevel = map[telemetry.Level]uint64{telemetry.LevelWarn: 2, telemetry.LevelError: 2}
	for range 2 {
		got, err = merge.Noise([]query.NoiseReply{
			{Rules: []query.NoiseRule{one}, HiddenTotal: 1, Removed: many},
			{Rules: []query.NoiseRule{two}, HiddenTotal: 4, Removed: []query.RemovedRule{{App: "a"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		want := query.NoiseRule{
			ID: "a", State: "manual", Hidden: 5, HiddenLast10Min: 4, AlertsHeld: 3, Examples: []string{"new"}, Since: at(1), LastSeen: at(9),
			ByLevel: map[telemetry.Level]uint64{telemetry.LevelWarn: 3, telemetry.LevelError: 2},
		}
		if len(got.Rules) != 1 || !reflect.DeepEqual(got.Rules[0], want) || got.HiddenTotal != 5 || len(got.Removed) != query.MaxRemoved {
			t.Errorf("%+v", got)
		}
		one, two = two, one
		one.Hidden, two.Hidden = 4, 1
	}
	if got, err := merge.Noise(nil); err != nil || got.Rules == nil {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestVitals(t *testing.T) {
	page := func(name string, loads ...int) query.PageVitals {
		p := query.PageVitals{App: "web", Page: name, Loads: []query.Load{}}
		for _, s := range loads {
			p.Loads = append(p.Loads, query.Load{Received: at(s)})
		}
		return p
	}
	names := func(r query.VitalsReply) (s string) {
		for _, p := range r.Pages {
			s += p.Page
		}
		return s
	}
	got, err := merge.Vitals([]query.VitalsReply{
		{Pages: []query.PageVitals{page("a", 1, 8), page("b", 3), page("c")}},
		{Pages: []query.PageVitals{page("d", 5)}, Truncated: true},
	})
	if err != nil || names(got) != "adbc" || !got.Truncated {
		t.Errorf("%s %+v %v", names(got), got, err)
	}
	var many query.VitalsReply
	for i := range 2 * query.MaxVitalsPages {
		many.Pages = append(many.Pages, page("p", i%60))
	}
	if got, err := merge.Vitals([]query.VitalsReply{many}); err != nil || len(got.Pages) != query.MaxVitalsPages || !got.Truncated {
		t.Errorf("%d pages, %v", len(got.Pages), err)
	}
}

// TestVitalsFit: of pages with more loads than fit, the newest loads of each are kept.
func TestVitalsFit(t *testing.T) {
	var r query.VitalsReply
	for i := range query.MaxVitalsPages {
		p := query.PageVitals{App: "web", Page: fmt.Sprint("/", i)}
		for n := range 1000 {
			p.Loads = append(p.Loads, query.Load{Received: at(0).Add(time.Duration(n) * time.Second), Values: map[string]float64{"lcp_ms": 1234.5, "cls": 0.1234}})
		}
		r.Pages = append(r.Pages, p)
	}
	got, err := merge.Vitals([]query.VitalsReply{r})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(got)
	if err != nil || len(data) > query.MaxReply || len(data) < query.MaxReply/3 || !got.Truncated || len(got.Pages) != query.MaxVitalsPages {
		t.Errorf("%d bytes, %d pages, %v", len(data), len(got.Pages), err)
	}
	for _, p := range got.Pages {
		if last := p.Loads[len(p.Loads)-1].Received; !last.Equal(at(0).Add(999 * time.Second)) {
			t.Fatalf("the newest load is of %v", last)
		}
	}
	long := query.VitalsReply{Pages: slices.Repeat([]query.PageVitals{{Page: strings.Repeat("x", query.MaxReply/3)}}, 4)}
	if got, err := merge.Vitals([]query.VitalsReply{long}); err != nil || len(got.Pages) != 2 {
		t.Errorf("%d pages, %v", len(got.Pages), err)
	}
}
