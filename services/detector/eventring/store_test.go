package eventring_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/tocsin-bus/tocsin/services/detector/eventring"
	"github.com/tocsin-bus/tocsin/shared/query"
	"github.com/tocsin-bus/tocsin/shared/telemetry"
)

var start = time.Date(2026, 1, 28, 14, 30, 0, 0, time.UTC)

func at(s int) time.Time { return start.Add(time.Duration(s) * time.Second) }

func line(app string, level telemetry.Level, message string) *telemetry.Event {
	return &telemetry.Event{Kind: telemetry.KindLog, App: app, Log: &telemetry.Log{Level: level, Message: message}}
}

func request(app, url string, status int) *telemetry.Event {
	return &telemetry.Event{Kind: telemetry.KindNetwork, App: app, Network: &telemetry.Network{URL: url, Status: status}}
}

// name distinguishes events in the tables.
func name(e query.StoredEvent) string {
	switch {
	case e.Log != nil:
		return e.Log.Message
	case e.Network != nil:
		return e.Network.URL
	default:
		return string(e.Kind)
	}
}

func names(events []query.StoredEvent) string {
	var out []string
	for _, e := range events {
		out = append(out, name(e))
	}
	return strings.Join(out, " ")
}

func TestQuery(t *testing.T) {
	s := eventring.New(eventring.Config{})
	for i, e := range []*telemetry.Event{
		line("web", telemetry.LevelInfo, "a"),
		line("web", telemetry.LevelError, "b"),
		request("web", "/api/c", 200),
		request("web", "/api/d", 404),
		request("shop", "/api/e", 500),
		request("shop", "/f", 0),
		{Kind: telemetry.KindMemory, App: "shop", Memory: &telemetry.Memory{UsedBytes: 80, LimitBytes: 100}},
		{Kind: telemetry.KindCircuit, App: "shop", Circuit: &telemetry.Circuit{Name: "db", State: "open"}},
		{Kind: telemetry.KindSecurity, App: "shop", Security: &telemetry.Security{Type: "csp", BlockedURL: "http://cdn/api/x"}},
		{Kind: telemetry.KindVitals, App: "shop", URL: "http://localhost/api", Vitals: &telemetry.Vitals{}},
		line("shop", telemetry.LevelWarn, "g"),
	} {
		s.Add(e, at(i), "")
	}
	tests := []struct {
		name string
		r    query.EventsRequest
		want string
	}{
		{"all, newest first", query.EventsRequest{}, "g vitals security circuit memory /f /api/e /api/d /api/c b a"},
		{"of an app", query.EventsRequest{App: "web"}, "/api/d /api/c b a"},
		{"of another", query.EventsRequest{App: "we"}, ""},
		{"of kinds", query.EventsRequest{Kinds: []telemetry.Kind{telemetry.KindLog, telemetry.KindNetwork}}, "g /f /api/e /api/d /api/c b a"},
		{"about a URL", query.EventsRequest{URL: "/api"}, "vitals security /api/e /api/d /api/c"},
		{"errors", query.EventsRequest{MinRank: 3}, "circuit /f /api/e b"},
		{"warnings", query.EventsRequest{MinRank: 2}, "g security circuit memory /f /api/e /api/d b"},
		{"info", query.EventsRequest{MinRank: 1, App: "web"}, "/api/d /api/c b a"},
		{"since", query.EventsRequest{Since: at(8)}, "g vitals security"},
		{"until", query.EventsRequest{Since: at(6), Until: at(8)}, "security circuit memory"},
		{"limit", query.EventsRequest{Limit: 2}, "g vitals"},
		{"all together", query.EventsRequest{App: "shop", Kinds: []telemetry.Kind{telemetry.KindNetwork}, URL: "/", MinRank: 3, Since: at(1), Limit: 1}, "/f"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := names(s.Query(tt.r)); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	if got := s.Query(query.EventsRequest{Limit: 1})[0].Received; !got.Equal(at(10)) {
		t.Errorf("newest event received at %v, want %v", got, at(10))
	}
}

func TestLimits(t *testing.T) {
	s := eventring.New(eventring.Config{})
	for i := range eventring.MaxEvents + 10 {
		s.Add(line("web", telemetry.LevelInfo, fmt.Sprint(i)), at(i), "")
	}
	if n := len(s.Query(query.EventsRequest{})); n != query.DefaultLimit {
		t.Errorf("%d events without a limit, want %d", n, query.DefaultLimit)
	}
	if n := len(s.Query(query.EventsRequest{Limit: 100_000})); n != query.MaxLimit {
		t.Errorf("%d events with a large limit, want %d", n, query.MaxLimit)
	}
}

func TestNewestOfEachAppAndKind(t *testing.T) {
	s := eventring.New(eventring.Config{})
	s.Add(request("web", "/kept", 200), at(0), "")
	s.Add(line("shop", telemetry.LevelInfo, "kept"), at(0), "")
	for i := range eventring.MaxEvents + 3 {
		s.Add(line("web", telemetry.LevelInfo, fmt.Sprint("m", i)), at(0), "")
	}
	// Left are m3 to m1002, and the two others.
	if want := 512*(eventring.MaxEvents+2) + 7*2 + 90*3 + 900*4 + 3*5 + len("/kept") + len("kept"); s.Bytes() != want {
		t.Errorf("%d bytes, want %d", s.Bytes(), want)
	}
	for want, r := range map[string]query.EventsRequest{
		"/kept": {Kinds: []telemetry.Kind{telemetry.KindNetwork}}, "kept": {App: "shop"},
	} {
		if got := names(s.Query(r)); got != want {
			t.Errorf("events of %+v = %q, want %q", r, got, want)
		}
	}
}

func TestBudget(t *testing.T) {
	const each = 512 + 1000
	s := eventring.New(eventring.Config{MaxBytes: 4 * each})
	text := func(c string) string { return strings.Repeat(c, 1000) }
	first := func() string {
		out := ""
		for _, e := range s.Query(query.EventsRequest{}) {
			out += name(e)[:1]
		}
		return out
	}
	steps := []struct {
		app, message, want string
	}{
		{"web", "a", "a"}, {"web", "b", "ba"}, {"shop", "c", "cba"}, {"shop", "d", "dcba"},
		{"shop", "e", "edcb"}, // web was silent for longer: its oldest goes
		{"shop", "f", "fedc"},
		{"shop", "g", "gfed"}, // web has nothing left
	}
	for i, st := range steps {
		s.Add(line(st.app, telemetry.LevelInfo, text(st.message)), at(i), "")
		if got := first(); got != st.want || s.Bytes() > 4*each {
			t.Errorf("step %d: events %q in %d bytes, want %q in at most %d", i, got, s.Bytes(), st.want, 4*each)
		}
	}
	s.Add(line("web", telemetry.LevelInfo, strings.Repeat("h", 10*each)), at(9), "")
	if got := first(); got != "" || s.Bytes() != 0 {
		t.Errorf("after an event over the limit: events %q in %d bytes, want none", got, s.Bytes())
	}
}

func TestStatus(t *testing.T) {
	s := eventring.New(eventring.Config{})
	if got := s.Status(at(0)); got == nil || len(got) != 0 {
		t.Errorf("status of an empty store = %#v, want an empty list that is not nil", got)
	}
	e := line("web", telemetry.LevelInfo, "x")
	s.Add(e, at(0), "curl")
	s.Add(e, at(30), "chrome")
	s.Add(e, at(30), "curl")
	s.Add(e, at(59), "")
	s.Add(line("shop", telemetry.LevelInfo, "y"), at(10), "")
	for _, tt := range []struct{ now, web, shop int }{{59, 4, 1}, {60, 3, 1}, {69, 3, 1}, {70, 3, 0}, {89, 3, 0}, {90, 1, 0}, {118, 1, 0}, {119, 0, 0}} {
		want := []query.AppStatus{
			{App: "shop", Senders: []string{}, LastMinute: tt.shop, LastEventSeconds: float64(tt.now - 10)},
			{App: "web", Senders: []string{"chrome", "curl"}, LastMinute: tt.web, LastEventSeconds: float64(tt.now - 59)},
		}
		if diff := cmp.Diff(want, s.Status(at(tt.now))); diff != "" {
			t.Errorf("status at second %d (-want +got):\n%s", tt.now, diff)
		}
	}
	for i := range 10 {
		s.Add(e, at(60), fmt.Sprint("sender", i))
	}
	if got := s.Status(at(60))[1].Senders; len(got) != eventring.MaxSenders || got[0] != "sender2" {
		t.Errorf("senders = %v, want the last %d of 10", got, eventring.MaxSenders)
	}
	if got := s.Status(at(0))[1].LastEventSeconds; got != 0 {
		t.Errorf("age of an event from the future = %v s, want 0", got)
	}
}

func TestAppsAreBounded(t *testing.T) {
	s := eventring.New(eventring.Config{})
	for i := range eventring.MaxApps + 1 {
		s.Add(line(fmt.Sprint("app", i), telemetry.LevelInfo, "x"), at(i), "")
	}
	if n := len(s.Status(at(0))); n != eventring.MaxApps {
		t.Errorf("%d apps, want %d", n, eventring.MaxApps)
	}
	if got := s.Query(query.EventsRequest{App: "app0"}); len(got) != 0 {
		t.Errorf("%d events of the evicted app, want none", len(got))
	}
	if got, want := s.Bytes(), 513*eventring.MaxApps; got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}

// TestQueryAgainstModel checks that a query returns the same events as a filter over all of
// them.
func TestQueryAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := eventring.New(eventring.Config{})
		var all []query.StoredEvent
		for i := range rapid.IntRange(0, 80).Draw(t, "events") {
			app := rapid.SampledFrom([]string{"web", "shop"}).Draw(t, "app")
			e := line(app, rapid.SampledFrom([]telemetry.Level{"info", "error"}).Draw(t, "level"), fmt.Sprint("m", i))
			if rapid.Bool().Draw(t, "network") {
				e = request(app, fmt.Sprint("/", i), 500)
			}
			s.Add(e, at(i/3), "")
			all = append([]query.StoredEvent{{Event: *e, Received: at(i / 3)}}, all...)
		}
		r := query.EventsRequest{
			App:   rapid.SampledFrom([]string{"", "web"}).Draw(t, "of"),
			Limit: rapid.IntRange(1, 100).Draw(t, "limit"),
			Since: at(rapid.IntRange(0, 20).Draw(t, "since")), MinRank: rapid.SampledFrom([]int{0, 3}).Draw(t, "rank"),
		}
		if rapid.Bool().Draw(t, "logs") {
			r.Kinds = []telemetry.Kind{telemetry.KindLog}
		}
		if rapid.Bool().Draw(t, "bounded") {
			r.Until = at(rapid.IntRange(0, 30).Draw(t, "until"))
		}
		var want []query.StoredEvent
		for _, e := range all {
			if (r.App == "" || e.App == r.App) && (r.Kinds == nil || e.Kind == telemetry.KindLog) && !e.Received.Before(r.Since) &&
				(r.Until.IsZero() || !e.Received.After(r.Until)) &&
				(r.MinRank == 0 || e.Network != nil || e.Log.Level == "error") && len(want) < r.Limit {
				want = append(want, e)
			}
		}
		if got := names(s.Query(r)); got != names(want) {
			t.Fatalf("got  %s\nwant %s", got, names(want))
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	b.ReportAllocs()
	s := eventring.New(eventring.Config{})
	e := line("web", telemetry.LevelInfo, "GET /api/users/42 took 1234 ms")
	now := at(0)
	for b.Loop() {
		now = now.Add(time.Millisecond)
		s.Add(e, now, "Mozilla/5.0")
	}
}

func BenchmarkQueryWithoutHit(b *testing.B) {
	b.ReportAllocs()
	s := eventring.New(eventring.Config{})
	for i := range 100_000 {
		s.Add(line(fmt.Sprint("app", i%100), telemetry.LevelInfo, "GET /api/users/42 took 1234 ms"), at(i), "")
	}
	for b.Loop() {
		s.Query(query.EventsRequest{URL: "/nowhere"})
	}
}

func TestLoads(t *testing.T) {
	s := eventring.New(eventring.Config{})
	load := func(app string, second int) {
		s.Add(&telemetry.Event{Kind: telemetry.KindVitals, App: app, URL: fmt.Sprint("/", second), Vitals: &telemetry.Vitals{}}, at(second), "")
	}
	load("web", 1)
	s.Add(line("web", telemetry.LevelInfo, "no load"), at(2), "")
	load("shop", 3)
	load("web", 4)
	for app, want := range map[string]string{"": "/4 /3 /1", "web": "/4 /1", "none": ""} {
		var got []string
		for _, e := range s.Loads(app) {
			got = append(got, e.URL)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("loads of app %q = %q, want %q", app, text, want)
		}
	}
	for i := range 11 { // 1,000 of each app are stored
		for range eventring.MaxEvents {
			load(fmt.Sprint("many", i), 5)
		}
	}
	if n := len(s.Loads("")); n != eventring.MaxLoads {
		t.Errorf("%d loads, want %d", n, eventring.MaxLoads)
	}
}

// TestForget checks that an app is gone with its events, and others are not.
func TestForget(t *testing.T) {
	s := eventring.New(eventring.Config{})
	s.Add(line("web", telemetry.LevelInfo, "a"), at(0), "")
	before := s.Bytes()
	s.Add(line("shop", telemetry.LevelInfo, "b"), at(1), "")
	s.Add(request("shop", "/c", 200), at(2), "")
	s.Forget("shop")
	s.Forget("unknown")
	if got := names(s.Query(query.EventsRequest{})); got != "a" || s.Bytes() != before {
		t.Errorf("got %q in %d bytes, want a in %d", got, s.Bytes(), before)
	}
	if apps := s.Status(at(3)); len(apps) != 1 || apps[0].App != "web" {
		t.Errorf("got %+v, want web alone", apps)
	}
}
