package detector

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

// second returns a second of a fixed minute.
func second(s int) time.Time { return time.Date(2026, 1, 28, 14, 30, s, 0, time.UTC) }

func storedLog(s int, message string) query.StoredEvent {
	return query.StoredEvent{Received: second(s), Event: telemetry.Event{Kind: telemetry.KindLog, Log: &telemetry.Log{Message: message}}}
}

// messages joins the messages of log events.
func messages(events []query.StoredEvent) (text string) {
	for _, e := range events {
		text += e.Log.Message
	}
	return text
}

func TestMergeEvents(t *testing.T) {
	one := query.EventsReply{Events: []query.StoredEvent{storedLog(9, "a"), storedLog(5, "b"), storedLog(1, "c")}}
	two := query.EventsReply{Events: []query.StoredEvent{storedLog(7, "d"), storedLog(5, "e")}}
	big := query.EventsReply{Events: []query.StoredEvent{storedLog(8, "f"), storedLog(2, strings.Repeat("x", query.MaxReply))}}
	tests := []struct {
		name      string
		replies   []query.EventsReply
		limit     int
		want      string
		truncated bool
	}{
		{"no partition", nil, 5, "", false},
		{"one partition", []query.EventsReply{one}, 5, "abc", false},
		{"newest first, at equal times the first partition first", []query.EventsReply{one, two}, 9, "adbec", false},
		{"limit", []query.EventsReply{one, two}, 3, "adb", false},
		{"truncated by a partition", []query.EventsReply{one, {Truncated: true}}, 9, "abc", true},
		{"too large", []query.EventsReply{big, one}, 9, "afb", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := mergeEvents(tt.replies, tt.limit)
			if err != nil {
				t.Fatal(err)
			}
			if text := messages(got.Events); text != tt.want || got.Truncated != tt.truncated {
				t.Errorf("events = %q, truncated %v, want %q, truncated %v", text, got.Truncated, tt.want, tt.truncated)
			}
			if got.Events == nil {
				t.Error("events = nil, want a list: nil is null in JSON")
			}
		})
	}
}

// TestMergePagedEvents checks that positions order events, and that events without room
// count as older.
func TestMergePagedEvents(t *testing.T) {
	paged := func(seq uint64, index int) query.StoredEvent {
		e := storedLog(1, fmt.Sprint(seq, ".", index, " "))
		e.Position = query.EventPosition{Seq: seq, Index: index}
		return e
	}
	got, err := mergeEvents([]query.EventsReply{
		{Events: []query.StoredEvent{paged(5, 1), paged(5, 0), paged(2, 0)}, Older: 3},
		{Events: []query.StoredEvent{paged(4, 0), paged(1, 0)}},
	}, 4)
	if err != nil {
		t.Fatal(err)
	}
	if text, want := messages(got.Events), "5.1 5.0 4.0 2.0 "; text != want || got.Older != 4 {
		t.Errorf("events = %q and %d older, want %q and 4 older", text, got.Older, want)
	}
}

func TestMergeStatus(t *testing.T) {
	got := mergeStatus([]query.StatusReply{
		{Apps: []query.AppStatus{{App: "web"}, {App: "zoo"}}, Detector: query.DetectorStatus{Ready: true, Behind: 2, Lost: 1, AppsNotTracked: 4, Rules: []string{"a"}}},
		{Apps: []query.AppStatus{{App: "shop"}}, Detector: query.DetectorStatus{Ready: true, Behind: 5, Lost: 3, AppsNotTracked: 5, Rules: []string{"b"}}},
		{Detector: query.DetectorStatus{Ready: true, Rules: []string{"a"}}},
	})
	want := query.StatusReply{
		Apps:     []query.AppStatus{{App: "shop"}, {App: "web"}, {App: "zoo"}},
		Detector: query.DetectorStatus{Ready: true, Behind: 7, Lost: 4, AppsNotTracked: 9, Rules: []string{"a", "b"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	got = mergeStatus([]query.StatusReply{{Detector: query.DetectorStatus{Ready: true}}, {}})
	if diff := cmp.Diff(query.StatusReply{Apps: []query.AppStatus{}}, got); diff != "" {
		t.Errorf("status with one partition that is not ready (-want +got):\n%s", diff)
	}
}

func TestMergeNoise(t *testing.T) {
	manual := func(id string, hidden uint64) query.NoiseRule {
		return query.NoiseRule{ID: id, State: "manual", Hidden: hidden}
	}
	found := func(app, pattern string) query.NoiseRule {
		return query.NoiseRule{ID: app + pattern, App: app, Pattern: pattern, State: "applied", Hidden: 1}
	}
	got, err := mergeNoise([]query.NoiseReply{
		{Rules: []query.NoiseRule{manual("a", 1), manual("b", 0), found("web", "x"), found("web", "y")}, Found: 2, Added: "a"},
		{Rules: []query.NoiseRule{manual("a", 4), manual("b", 2), found("shop", "z")}, Found: 1, Added: "a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := query.NoiseReply{
		Rules: []query.NoiseRule{manual("a", 5), manual("b", 2), found("shop", "z"), found("web", "x"), found("web", "y")},
		Found: 3, Added: "a",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("noise rules (-want +got):\n%s", diff)
	}
	if got, err := mergeNoise(nil); err != nil || got.Rules == nil {
		t.Errorf("mergeNoise(nil) = %+v, %v, want an empty list", got, err)
	}
}

// TestMergeNoiseCounts checks that the counts of a rule that was added by hand are added
// up, in either order of the partitions.
func TestMergeNoiseCounts(t *testing.T) {
	one := query.NoiseRule{
		ID: "a", State: "manual", Hidden: 1, HiddenLast10Min: 1, AlertsHeld: 1, Examples: []string{"old"}, Since: second(2), LastSeen: second(7),
		ByLevel: map[telemetry.Level]uint64{telemetry.LevelWarn: 1},
	}
	two := query.NoiseRule{
		ID: "a", State: "manual", Hidden: 4, HiddenLast10Min: 3, AlertsHeld: 2, Examples: []string{"new"}, Since: second(1), LastSeen: second(9),
		ByLevel: map[telemetry.Level]uint64{telemetry.LevelWarn: 2, telemetry.LevelError: 2},
	}
	want := query.NoiseReply{
		Rules: []query.NoiseRule{{
			ID: "a", State: "manual", Hidden: 5, HiddenLast10Min: 4, AlertsHeld: 3, Examples: []string{"new"}, Since: second(1), LastSeen: second(9),
			ByLevel: map[telemetry.Level]uint64{telemetry.LevelWarn: 3, telemetry.LevelError: 2},
		}},
		HiddenTotal: 5, Removed: make([]query.RemovedRule, query.MaxRemoved),
	}
	for _, order := range [][]query.NoiseRule{{one, two}, {two, one}} {
		got, err := mergeNoise([]query.NoiseReply{
			{Rules: order[:1], HiddenTotal: 1, Removed: make([]query.RemovedRule, query.MaxRemoved)},
			{Rules: order[1:], HiddenTotal: 4, Removed: []query.RemovedRule{{App: "a"}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("noise rules (-want +got):\n%s", diff)
		}
	}
}

func TestMergeVitals(t *testing.T) {
	page := func(name string, loads ...int) query.PageVitals {
		p := query.PageVitals{App: "web", Page: name, Loads: []query.Load{}}
		for _, s := range loads {
			p.Loads = append(p.Loads, query.Load{Received: second(s)})
		}
		return p
	}
	got, err := mergeVitals([]query.VitalsReply{
		{Pages: []query.PageVitals{page("a", 1, 8), page("b", 3), page("c")}},
		{Pages: []query.PageVitals{page("d", 5)}, Truncated: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := query.VitalsReply{Pages: []query.PageVitals{page("a", 1, 8), page("d", 5), page("b", 3), page("c")}, Truncated: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	var many query.VitalsReply
	for i := range 2 * query.MaxVitalsPages {
		many.Pages = append(many.Pages, page("p", i%60))
	}
	if got, err := mergeVitals([]query.VitalsReply{many}); err != nil || len(got.Pages) != query.MaxVitalsPages || !got.Truncated {
		t.Errorf("%d pages, truncated %v, error %v, want %d pages, truncated", len(got.Pages), got.Truncated, err, query.MaxVitalsPages)
	}
}

// TestMergeVitalsDropsOldLoads checks that the newest loads of each page are kept where
// not all fit into a reply.
func TestMergeVitalsDropsOldLoads(t *testing.T) {
	var r query.VitalsReply
	for i := range query.MaxVitalsPages {
		p := query.PageVitals{App: "web", Page: fmt.Sprint("/", i)}
		for n := range 1000 {
			p.Loads = append(p.Loads, query.Load{Received: second(n), Values: map[string]float64{"lcp_ms": 1234.5, "cls": 0.1234}})
		}
		r.Pages = append(r.Pages, p)
	}
	got, err := mergeVitals([]query.VitalsReply{r})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > query.MaxReply || len(data) < query.MaxReply/3 {
		t.Errorf("reply has %d bytes, want %d to %d", len(data), query.MaxReply/3, query.MaxReply)
	}
	if len(got.Pages) != query.MaxVitalsPages || !got.Truncated {
		t.Errorf("%d pages, truncated %v, want %d, truncated", len(got.Pages), got.Truncated, query.MaxVitalsPages)
	}
	for _, p := range got.Pages {
		if last := p.Loads[len(p.Loads)-1].Received; !last.Equal(second(999)) {
			t.Fatalf("newest load of %s = %v, want %v", p.Page, last, second(999))
		}
	}
	long := query.VitalsReply{Pages: slices.Repeat([]query.PageVitals{{Page: strings.Repeat("x", query.MaxReply/3)}}, 4)}
	if got, err := mergeVitals([]query.VitalsReply{long}); err != nil || len(got.Pages) != 2 {
		t.Errorf("of 4 pages with long names %d are left, error %v, want 2", len(got.Pages), err)
	}
}

func TestLastLoad(t *testing.T) {
	p := query.PageVitals{Loads: []query.Load{{Received: time.UnixMilli(1)}, {Received: time.UnixMilli(2)}}}
	if got := lastLoad(p); !got.Equal(time.UnixMilli(2)) {
		t.Errorf("last load = %v, want %v", got, time.UnixMilli(2))
	}
	if got := lastLoad(query.PageVitals{}); !got.IsZero() {
		t.Errorf("last load of a page without loads = %v, want the zero time", got)
	}
}
