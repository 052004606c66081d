package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tocsin-bus/tocsin/e2e/harness"
	"github.com/tocsin-bus/tocsin/e2e/harness/containers"
	"github.com/tocsin-bus/tocsin/e2e/harness/traffic"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/ci"
)

// maxShown is how many wrong alerts a failure names.
const maxShown = 10

// The readers of alerts.
const (
	inStream = "the stream of alerts"
	atReader = "the dashboard's reader"
	atAgent  = "the agent"
)

func readers() []string { return []string{inStream, atReader, atAgent} }

// notableDelay is the delay from which an alert gets a line in the test's log.
const notableDelay = 2 * time.Second

// nameOf returns the word of traffic that an alert is about, or "".
func nameOf(a *alert.Alert) string {
	name := ""
	switch a.Category {
	case alert.Errors:
		name = strings.TrimPrefix(a.Detail, "cannot settle ")
	case alert.NetworkErrors:
		name = strings.TrimSuffix(strings.TrimPrefix(a.DedupKey, "POST:/settle/"), ":503")
	case alert.CI:
		name, _ = a.Context["commit"].(string)
	default:
	}
	if !traffic.IsWord(name) {
		return ""
	}
	return name
}

// awaited returns what was accepted before a moment and has not arrived, by reader.
func (r *rig) awaited(before time.Time) map[string][]string {
	all, _ := r.alerts.list()
	raised, heard, delivered := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range all {
		raised[nameOf(&all[i].Alert)] = true
	}
	for _, h := range r.reader.Heard() {
		heard[nameOf(&h.Alert)] = true
	}
	list, _ := r.agent.list()
	for i := range list {
		delivered[nameOf(&list[i])] = true
	}
	missing := map[string][]string{}
	for _, s := range r.traffic.Sent() {
		if s.Kind == traffic.Quiet || s.Accepted.After(before) {
			continue
		}
		what := fmt.Sprintf("%s of %s, accepted at %s", s.Name, s.App, s.Accepted.Format(time.TimeOnly))
		for reader, got := range map[string]map[string]bool{inStream: raised, atReader: heard, atAgent: delivered} {
			if !got[s.Name] && (s.App != silencedApp || reader != atAgent) {
				missing[reader] = append(missing[reader], what)
			}
		}
	}
	return missing
}

// settled waits until all services are ready, and what was accepted by then has
// arrived.
func (r *rig) settled(t *testing.T) {
	t.Helper()
	r.ready(t)
	begin, since := time.Now(), map[string]time.Time{}
	var missing map[string][]string
	if !poll(t, settledIn, func() bool {
		missing = r.awaited(begin)
		for _, reader := range readers() {
			if _, seen := since[reader]; !seen && len(missing[reader]) == 0 {
				since[reader] = time.Now()
			}
		}
		return len(missing) == 0
	}) {
		t.Fatalf("alerts are missing %s after everything is ready again, want none: %s", time.Since(begin), show(missing))
	}
	for _, reader := range readers() {
		if late := since[reader].Sub(begin); late > notableDelay {
			t.Logf("%s had everything %.1f s after everything was ready", reader, late.Seconds())
		}
	}
}

// show lists what each reader lacks.
func show(missing map[string][]string) string {
	var b strings.Builder
	for reader, list := range missing {
		fmt.Fprintf(&b, "\n%s lacks %d:\n\t%s", reader, len(list), strings.Join(list[:min(len(list), maxShown)], "\n\t"))
	}
	return b.String()
}

// showCounts lists the wrong counts of each kind.
func showCounts(wrong map[string][]string) string {
	var b strings.Builder
	for kind, list := range wrong {
		fmt.Fprintf(&b, "\n%s: %d:\n\t%s", kind, len(list), strings.Join(list[:min(len(list), maxShown)], "\n\t"))
	}
	return b.String()
}

// kept is what the bus has of telemetry.
type kept struct {
	// copies is the number of stored copies of each word of traffic.
	copies     map[string]int
	partitions map[string]int
	messages   int
}

// telemetry reads the whole telemetry stream.
func (r *rig) telemetry(t *testing.T) kept {
	t.Helper()
	k := kept{copies: map[string]int{}, partitions: map[string]int{}}
	ctx, cancel := context.WithTimeout(t.Context(), readyIn)
	defer cancel()
	err := bustest.Follow(ctx, r.conn, bus.FollowConfig{Stream: bus.StreamTelemetry, Logger: slog.New(slog.DiscardHandler)}, func(m bus.Message) error {
		k.messages++
		for _, name := range namesIn(m) {
			k.copies[name]++
		}
		if parts := strings.Split(m.Subject, "."); parts[0] == "telemetry" {
			k.partitions[parts[len(parts)-1]]++
		}
		if m.Pending == 0 {
			cancel()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// namesIn returns the words of traffic in a message.
func namesIn(m bus.Message) []string {
	if m.Subject == bus.SubjectIntakeCI {
		var result ci.Result
		if json.Unmarshal(m.Data, &result) == nil && traffic.IsWord(result.Commit) {
			return []string{result.Commit}
		}
		return nil
	}
	var events []struct {
		Log     struct{ Message string }
		Network struct{ URL string }
		Action  struct{ Target string }
	}
	if json.Unmarshal(m.Data, &events) != nil {
		return nil // ticks, and events of the ingest services themselves
	}
	var names []string
	for _, e := range events {
		for _, name := range []string{strings.TrimPrefix(e.Log.Message, "cannot settle "), e.Network.URL[strings.LastIndexByte(e.Network.URL, '/')+1:], e.Action.Target} {
			if traffic.IsWord(name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// account compares what was accepted with what is stored and delivered, once all of it
// has arrived.
func (r *rig) account(t *testing.T) {
	t.Helper()
	refused, repeated := r.traffic.Refused()
	if len(refused) > 0 {
		t.Errorf("refused: %v, want none", refused)
	}
	k, sent := r.telemetry(t), r.traffic.Sent()
	all, bad := r.alerts.list()
	if len(bad) > 0 {
		t.Errorf("messages in the stream of alerts that are none: %v, want only alerts", bad)
	}
	t.Logf("%d accepted in %d messages, %d repeated by the sender; %d alerts", len(sent), k.messages, repeated, len(all))
	if len(k.partitions) != partitions {
		t.Errorf("telemetry is in the partitions %v, want all %d", k.partitions, partitions)
	}
	checkKept(t, sent, k)
	checkRaised(t, sent, k, all)
	r.checkReader(t, all)
	r.checkDelivered(t, sent, all)
	for _, d := range r.Detector {
		if lost, ok := r.metric(t.Context(), d, containers.PortDetector, "tocsin_detector_lost_messages_total"); !ok || lost != 0 {
			t.Errorf("%s reports %v lost messages (an answer: %t), want 0", d.Name, lost, ok)
		}
	}
}

// checkKept checks that each accepted event is in the telemetry.
func checkKept(t *testing.T, sent []traffic.Sent, k kept) {
	t.Helper()
	var lost []string
	twice := 0
	for _, s := range sent {
		switch n := k.copies[s.Name]; {
		case n == 0:
			lost = append(lost, fmt.Sprintf("%s of %s, accepted at %s", s.Name, s.App, s.Accepted.Format(time.TimeOnly)))
		case n > 1 && s.Kind != traffic.Result:
			twice++
		}
	}
	if len(lost) > 0 {
		t.Errorf("%d events were accepted and not stored, want none: %s", len(lost), strings.Join(lost[:min(len(lost), maxShown)], "\n\t"))
	}
	t.Logf("%d are stored more than once, because an answer was lost", twice)
}

// checkRaised checks that each alert is in the stream exactly once.
func checkRaised(t *testing.T, sent []traffic.Sent, k kept, all []harness.Heard) {
	t.Helper()
	ids, first, revised, others := map[string]uint64{}, map[string]int{}, map[string]int{}, map[string]int{}
	for i := range all {
		a := &all[i].Alert
		if before, known := ids[a.ID]; known {
			t.Errorf("alert %s is stored at %d and %d, want once", a.ID, before, all[i].Seq)
		}
		ids[a.ID] = all[i].Seq
		switch name := nameOf(a); {
		case name == "":
			others[string(a.Category)+" "+a.App]++
		case a.Revises != "":
			revised[name]++
			if _, known := ids[a.Revises]; !known {
				t.Errorf("alert %s revises %s, want an alert before it", a.ID, a.Revises)
			}
		default:
			first[name] += max(a.Count, 1)
		}
	}
	wrong := map[string][]string{}
	expect := func(s traffic.Sent, what string, got, want int) {
		if got != want {
			wrong[what] = append(wrong[what], fmt.Sprintf("%s of %s was raised %d times, want %d; stored %d times, accepted at %s",
				s.Name, s.App, got, want, k.copies[s.Name], s.Accepted.Format(time.TimeOnly)))
		}
		delete(first, s.Name)
	}
	for _, s := range sent {
		switch s.Kind {
		case traffic.Quiet:
		case traffic.Error: // known after the first
			expect(s, "errors", first[s.Name], 1)
		case traffic.Request: // each is one
			expect(s, "requests", first[s.Name], k.copies[s.Name])
		case traffic.Result: // all others revise the first
			expect(s, "results", first[s.Name]+revised[s.Name], k.copies[s.Name])
			if revised[s.Name] != k.copies[s.Name]-1 {
				wrong["revised results"] = append(wrong["revised results"], s.Name)
			}
		}
	}
	if len(wrong) > 0 {
		t.Errorf("alerts that were not raised exactly as often as wanted: %s", showCounts(wrong))
	}
	if len(first) > 0 {
		t.Errorf("alerts about what was never accepted = %v, want none", first)
	}
	t.Logf("alerts about the cluster itself: %v", others)
}

// checkReader checks that a reader of the dashboard got what the stream has, in order.
func (r *rig) checkReader(t *testing.T, all []harness.Heard) {
	t.Helper()
	var heard []harness.Heard
	harness.Poll(t.Context(), settledIn, func() bool {
		heard = r.reader.Heard()
		return len(heard) >= len(all)
	})
	n, trouble := r.reader.Connections()
	if len(trouble) > 0 {
		t.Errorf("errors of the dashboard's reader = %v, want none", trouble)
	}
	for i := range max(len(heard), len(all)) {
		switch {
		case i >= len(heard) || i >= len(all):
			t.Errorf("the dashboard's reader has %d alerts, want %d as in the stream", len(heard), len(all))
			return
		case heard[i].Seq != all[i].Seq || heard[i].Alert.ID != all[i].Alert.ID:
			t.Errorf("alert %d of the dashboard's reader = %d %s, want %d %s as in the stream", i, heard[i].Seq, heard[i].Alert.ID, all[i].Seq, all[i].Alert.ID)
			return
		}
	}
	t.Logf("the dashboard's reader came %d times", n)
}

// checkDelivered checks that the agent got every alert once, except the silenced ones.
func (r *rig) checkDelivered(t *testing.T, sent []traffic.Sent, all []harness.Heard) {
	t.Helper()
	list, failed := r.agent.list()
	if len(failed) > 0 {
		t.Errorf("failed calls of the agent = %v, want none", failed)
	}
	delivered, raised := map[string]int{}, map[string]int{}
	for i := range list {
		delivered[nameOf(&list[i])] += max(list[i].Count, 1)
		if list[i].App == silencedApp {
			t.Errorf("the agent got the silenced alert %q, want it suppressed", list[i].Title)
		}
	}
	for i := range all {
		if a := &all[i].Alert; a.Revises == "" {
			raised[nameOf(a)] += max(a.Count, 1)
		}
	}
	var wrong []string
	for _, s := range sent {
		if s.Kind == traffic.Quiet || s.App == silencedApp {
			continue
		}
		if delivered[s.Name] != raised[s.Name] {
			wrong = append(wrong, fmt.Sprintf("%s of %s %d times, want %d", s.Name, s.App, delivered[s.Name], raised[s.Name]))
		}
	}
	if len(wrong) > 0 {
		t.Errorf("%d alerts were not delivered to the agent as often as they were raised: %s", len(wrong), strings.Join(wrong[:min(len(wrong), maxShown)], "\n\t"))
	}
	t.Logf("the agent was delivered %d alerts", len(list))
}
