package ingest

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sony/gobreaker/v2"

	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/ci"
)

// TestSeveralIngestServicesOnOneBus checks two ingest services behind a load balancer. The
// view has one result of a pipeline that reports through both, and the log has all in the
// order of the answers. A delivery that is repeated through the other is a duplicate.
func TestSeveralIngestServicesOnOneBus(t *testing.T) {
	dir := bustest.Start(t).Dir
	var urls []string
	for _, name := range []string{"a", "b"} {
		url, _ := start(t, Config{Bus: bus.Config{Dir: dir}, Instance: name})
		bustest.Eventually(t, "readiness", func() bool { status, _, _ := send(t, "GET", url+"/readyz", ""); return status == 200 })
		urls = append(urls, url)
	}
	post := func(i int, status, commit, summary string) {
		t.Helper()
		body := fmt.Sprintf(`{"status":%q,"commit":%q,"summary":%q}`, status, commit, summary)
		if code, _, answer := send(t, "POST", urls[i%2]+"/ci-result", body); code != 200 {
			t.Errorf("got %d %s, want 200", code, answer)
		}
	}
	// One after the other, through both in turn: failure, success, failure.
	for i, status := range []string{"failure", "failure", "success", "success", "failure"} {
		post(i, status, "one", fmt.Sprint(i))
	}
	// At the same time, the same result of each of four pipelines.
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() { post(i, "failure", fmt.Sprintf("many%d", i/2%4), "") })
	}
	all.Wait()
	for i, want := range []string{`{"ok":true}`, `{"ok":true,"duplicate":true}`} {
		if code, said := deliver(t, urls[i]); code != 200 || said != want {
			t.Errorf("delivery through ingest service %d: got %d %s, want 200 %s", i, code, said, want)
		}
	}
	post(0, "failure", "last", "") // what a race left behind, the next takes away

	var seen []string
	stored(t, dir, bus.RoleGateway, bus.StreamCI, func(msgs []bus.Message) bool {
		var results []ci.Result
		for _, m := range msgs {
			r, err := ci.Decode(m.Data)
			if err != nil {
				t.Fatal(err)
			}
			results = append(results, r)
		}
		newest, _ := ci.Newest(results, func(r ci.Result) ci.Result { return r })
		seen = seen[:0]
		for _, r := range newest {
			seen = append(seen, r.Commit+" "+r.Status+" "+r.Summary)
		}
		return slices.Contains(seen, "last failure ")
	})
	one := slices.DeleteFunc(slices.Clone(seen), func(s string) bool { return !strings.HasPrefix(s, "one ") })
	if len(seen) != 3+4+1+1 || !slices.Equal(one, []string{"one failure 1", "one success 3", "one failure 4"}) {
		t.Errorf("readers see %q, want 9 results, and those of \"one\" to be failure 1, success 3, failure 4", seen)
	}
	log := stored(t, dir, bus.RoleDetector, bus.StreamTelemetry, func(m []bus.Message) bool { return len(m) == 5+40+1+1 })
	for i, m := range log[:5] {
		if r, err := ci.Decode(m.Data); err != nil || r.Summary != fmt.Sprint(i) {
			t.Errorf("message %d of the log is %+v, error %v, want summary %d", i, r, err, i)
		}
	}
}

// deliver sends the same delivery of a webhook.
func deliver(t *testing.T, url string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+pathGitHub, strings.NewReader(runFailed))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "X-Github-Event": {"workflow_run"}, "X-Github-Delivery": {"one"}}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// TestSeveralIngestServicesReportSeparately checks that a healthy ingest service does not
// resolve the alerts of another.
func TestSeveralIngestServicesReportSeparately(t *testing.T) {
	var subjects []string
	for instance, want := range map[string]string{"": "tocsin", "a": "tocsin-a", "Web-1.example": "tocsin-web-1_example"} {
		r := &reporter{inFlight: newInFlight(1000), app: ownAppOf(instance)}
		r.addCircuit(circuitChange{state: gobreaker.StateOpen})
		r.addPressure(pressureReading{pressureHard, 950})
		msgs, err := eventMessages(r.pending, r.app)
		if err != nil || len(msgs) != 2 {
			t.Fatalf("messages = %v, %v, want two", msgs, err)
		}
		for i, kind := range []string{"circuit", "memory"} {
			if got := msgs[i].Subject; got != "telemetry."+want+"."+kind || r.pending[i].App != want {
				t.Errorf("%q reports on %s, app %s, want telemetry.%s.%s and app %s", instance, got, r.pending[i].App, want, kind, want)
			}
			subjects = append(subjects, msgs[i].Subject)
		}
	}
	if slices.Sort(subjects); len(slices.Compact(subjects)) != 6 {
		t.Errorf("subjects = %q, want six different ones", subjects)
	}
}
