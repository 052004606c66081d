package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tocsin-bus/tocsin/services/gateway/internal/testrig"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/ci"
	"github.com/tocsin-bus/tocsin/shared/query"
)

// pages reads a list to its end, and returns the text of each entry. between is called
// after each page.
func (c *client) pages(t *testing.T, what, key string, args map[string]any, between func(page int)) (entries []string) {
	t.Helper()
	args["what"] = what
	for n := 1; ; n++ {
		asked, err := json.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		r := c.call(t, "observe", string(asked))
		if r.isError {
			t.Fatalf("got %v, want no error", r.blocks)
		}
		if got := len(r.blocks[0]); got > 40<<10 {
			t.Errorf("%s: got a first block of %d bytes, want at most %d", what, got, 40<<10)
		}
		if len(r.blocks) > 1 && len(r.blocks[1]) > 24<<10 {
			t.Errorf("%s: got an alerts block of %d bytes, want at most %d", what, len(r.blocks[1]), 24<<10)
		}
		var list map[string]json.RawMessage
		if err := json.Unmarshal([]byte(r.blocks[0]), &list); err != nil {
			t.Fatalf("decode the first block: %v: %s", err, r.blocks[0])
		}
		var page []json.RawMessage
		if err := json.Unmarshal(list[key], &page); err != nil {
			t.Fatalf("decode the list %s: %v: %s", key, err, r.blocks[0])
		}
		for _, e := range page {
			entries = append(entries, string(e))
		}
		var cut struct {
			LeftOut int `json:"left_out"`
			Before  string
		}
		if list["truncated"] == nil {
			return entries
		}
		if err := json.Unmarshal(list["truncated"], &cut); err != nil || cut.LeftOut == 0 || cut.Before == "" || len(page) == 0 {
			t.Fatalf("%s: got truncated %s after %d entries, want how many and a cursor", what, list["truncated"], len(page))
		}
		args["before"] = cut.Before
		between(n)
	}
}

// each checks that every name is in exactly one of the entries, and that there are no
// others.
func each(t *testing.T, what string, entries, names []string) {
	t.Helper()
	for _, name := range names {
		n := 0
		for _, e := range entries {
			if strings.Contains(e, name) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s: got %s %d times, want it once", what, name, n)
		}
	}
	if len(entries) != len(names) {
		t.Errorf("%s: got %d entries, want %d", what, len(entries), len(names))
	}
}

// TestAnswersAreBounded reads more of everything than fits in an answer, through a
// gateway on a bus: every block is bounded, and every entry is on exactly one page, also
// when others come meanwhile.
func TestAnswersAreBounded(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("long ", 400)
	var alerts, results, said, rules, apps []string
	add := func() {
		a := r.Alert(alert.Warning)
		a.Detail, a.URL, a.Context = long, "http://localhost/"+long, map[string]any{"method": "GET", "url": long}
		r.Publish(t, a)
		alerts = append(alerts, `"dedup_key":"`+a.DedupKey+`"`)
	}
	for range 130 {
		add()
	}
	ingest := r.Join(t, bus.RoleIngest)
	for i := range 9 {
		result := ci.Result{Status: "failure", Source: "custom", Commit: fmt.Sprintf("commit%d", i), Summary: long}
		for j := range 200 {
			result.Failures = append(result.Failures, ci.Failure{Name: fmt.Sprint("test", j), Message: long[:300]})
		}
		data, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ingest.JS.Publish(t.Context(), bus.CIResultSubject(result.Source, result.Commit, result.Name, result.Status), data); err != nil {
			t.Fatal(err)
		}
		results = append(results, `"commit":"`+result.Commit+`"`)
	}
	k := r.startKubewatch(t, "dev")
	k.keepRenewing(t, "dev")
	for i := range 90 {
		m := k.event("dev", "shop")
		if i%3 == 0 { // a fault, which replaces this entry later
			m = k.fault("dev", "shop")
		}
		m.Event.Message += " " + long
		k.publish(t, "", m)
		if m.Fault == nil {
			said = append(said, `"uid":"`+m.Event.UID+`"`)
			continue
		}
		said = append(said, `"`+m.Fault.ID+`"`)
		if i > 60 {
			k.publish(t, "", m)
		}
	}
	detector := r.Join(t, bus.RoleDetector)
	var noise query.NoiseReply
	var status query.StatusReply
	for i := range 300 {
		name := fmt.Sprintf("n%03d-", (i*7)%300)
		noise.Rules = append(noise.Rules, query.NoiseRule{ID: name, App: "web", State: "proposed", Pattern: long, Example: long})
		status.Apps = append(status.Apps, query.AppStatus{App: name + long[:200], Senders: []string{long[:100], long[:99]}})
		rules, apps = append(rules, `"rule_id":"`+name), append(apps, `"app":"`+name)
	}
	for subject, reply := range map[string]any{query.SubjectNoise: noise, query.SubjectStatus: status} {
		data, err := json.Marshal(reply)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := detector.NC.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond(data) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := detector.NC.Flush(); err != nil {
		t.Fatal(err)
	}
	c := r.open(t, "reader")
	quiet := func(int) {}
	for _, limit := range []int{13, 50, 200} {
		each(t, "alerts", c.pages(t, "alerts", "alerts", map[string]any{"limit": limit}, quiet), alerts)
		each(t, "ci", c.pages(t, "ci", "ci", map[string]any{"limit": limit}, quiet), results)
		each(t, "kubernetes", c.pages(t, "kubernetes", "kubernetes", map[string]any{"limit": limit}, quiet), said)
		each(t, "noise", c.pages(t, "noise", "noise", map[string]any{"limit": limit}, quiet), rules)
		each(t, "status", c.pages(t, "status", "apps", map[string]any{"limit": limit}, quiet), apps)
	}
	known := slices.Clone(alerts)
	each(t, "alerts while others come", c.pages(t, "alerts", "alerts", map[string]any{"limit": 200}, func(int) { add() }), known)
	known = slices.Clone(said)
	each(t, "kubernetes while others come", c.pages(t, "kubernetes", "kubernetes", map[string]any{"limit": 200}, func(page int) {
		if page == 1 { // an entry of the second page gets a newer message
			m := k.event("dev", "shop")
			m.Fault = k.fault("dev", "shop").Fault
			m.Fault.ID = strings.Trim(known[0], `"`)
			k.publish(t, "", m)
		}
		k.publishEvent(t, "dev", "shop")
	}), known)
}

// TestFailureSurvivesWarnings: a CI failure is delivered, though 60 warnings of different
// apps came after it, and the block counts the evicted alerts.
func TestFailureSurvivesWarnings(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "crowd")
	failure := r.Alert(alert.Error)
	r.Publish(t, failure)
	for i := range 60 {
		a := r.Alert(alert.Warning)
		a.App, a.Category = fmt.Sprint("app", i), alert.NetworkErrors
		r.Publish(t, a)
	}
	if !testrig.Poll(func() bool { received, _ := c.health(t); return received == 61 }) {
		t.Fatal("timed out: the gateway has not received 61 alerts")
	}
	block := c.call(t, "observe", `{"what":"noise"}`).blocks[1]
	lines := strings.Split(block, "\n")
	if !strings.Contains(lines[len(lines)-1], `"id":"`+failure.ID+`"`) || !strings.Contains(lines[1], "11 evicted") {
		t.Errorf("got %s\n%s\nwant the CI failure and 11 evicted", lines[1], lines[2][:200])
	}
	// With nothing evicted since, the line is gone.
	r.Publish(t, r.Alert(alert.Error))
	c.pending(t, 1)
	if got := c.call(t, "observe", `{}`).blocks[1]; strings.Contains(got, "evicted") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %s, want no summary", got)
	}
}

// TestLeftOutAlertsStayInTheInbox fills an inbox with long alerts: each observe has some
// of them, the most severe first, and each alert is delivered once.
func TestLeftOutAlertsStayInTheInbox(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "small")
	var want []string
	for i := range 50 {
		a := r.Alert([]alert.Severity{alert.Info, alert.Error, alert.Warning}[i%3])
		a.Detail, a.Title, a.URL = strings.Repeat("d", 2000), strings.Repeat("t", 200), strings.Repeat("u", 3000)
		a.Context = map[string]any{"a": strings.Repeat("a", 500), "b": strings.Repeat("b", 500)}
		want = append(want, a.ID)
		r.Publish(t, a)
	}
	c.pending(t, 50)
	var got []string
	var ranks []int
	for len(got) < 50 {
		r := c.call(t, "observe", `{"what":"noise"}`)
		if len(r.blocks) != 2 || len(r.blocks[1]) > 24<<10 {
			t.Fatalf("got %d blocks after %d alerts, want an alerts block of at most %d bytes", len(r.blocks), len(got), 24<<10)
		}
		lines := strings.Split(r.blocks[1], "\n")
		var alerts []alert.Alert
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &alerts); err != nil {
			t.Fatal(err)
		}
		for _, a := range alerts {
			got, ranks = append(got, a.ID), append(ranks, a.Severity.Rank())
		}
		if want := fmt.Sprintf("; %d more pending: call observe again", 50-len(got)); len(got) < 50 && !strings.HasSuffix(lines[1], want) {
			t.Errorf("got the summary %q, want it to end with %q", lines[1], want)
		}
		_, pending := c.health(t)
		if pending != 50-len(got) {
			t.Errorf("%d alerts are pending after %d were delivered, want %d", pending, len(got), 50-len(got))
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || !slices.IsSortedFunc(ranks, func(a, b int) int { return b - a }) {
		t.Errorf("got %v with ranks %v, want each of %v once and the most severe first", got, ranks, want)
	}
}

// TestHistoryUnderAStorm: history is answered while alerts keep coming.
func TestHistoryUnderAStorm(t *testing.T) {
	r := newRig(t)
	c := r.open(t, "storm")
	data, err := json.Marshal(r.Alert(alert.Error))
	if err != nil {
		t.Fatal(err)
	}
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			for range 20 { // without waiting for any of them
				_, _ = r.Conn.JS.PublishAsync("alerts.web.ci.error", data)
			}
			<-r.Conn.JS.PublishAsyncComplete()
		}
	}()
	defer func() { close(stop); <-done }()
	if !testrig.Poll(func() bool { received, _ := c.health(t); return received > 2000 }) {
		t.Fatal("timed out: the gateway has not received over 2000 alerts")
	}
	for range 3 {
		start := time.Now()
		text := c.call(t, "observe", `{"what":"alerts"}`).blocks[0]
		if !strings.HasPrefix(text, `{"what":"alerts","alerts":[{`) {
			t.Errorf("got %.200s after %s, want alerts", text, time.Since(start))
		}
	}
}
