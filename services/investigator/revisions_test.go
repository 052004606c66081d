package investigator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tocsin-bus/tocsin/services/investigator/journal"
	"github.com/tocsin-bus/tocsin/services/investigator/model"
	"github.com/tocsin-bus/tocsin/services/investigator/session"
	"github.com/tocsin-bus/tocsin/shared/alert"
	"github.com/tocsin-bus/tocsin/shared/bus"
	"github.com/tocsin-bus/tocsin/shared/bus/bustest"
	"github.com/tocsin-bus/tocsin/shared/redact"
)

const sessionID = "01KABCDEFGHJKMNPQRSTVWXYZ0"

// submittedFact is the first fact of a session of one agent without tools.
func submittedFact(id string, a *alert.Alert, key string) session.Fact {
	p := session.Provider{Name: "p", Model: "m", ContextWindow: 100_000, MaxOutput: 1000}
	return session.Fact{Time: noon, Submitted: &session.Submitted{ID: id, AlertType: "errors", Author: "trigger", Data: session.Text{Inline: "the quick brown fox"}, Alert: a, DedupKey: key, Plan: session.Plan{
		Chain: "default", Stages: []session.Stage{{Name: "investigation", Agents: []session.Agent{{Name: "a", Agent: "a", Provider: p, MaxIterations: 5}}, Policy: session.Any}},
		Summary: p, Timeout: time.Hour, IterationTimeout: time.Minute, ToolTimeout: time.Minute,
	}}}
}

// startedSession returns a claimed session.
func startedSession(t *testing.T, a *alert.Alert, key string) *session.Session {
	t.Helper()
	s, err := session.Fold([][]session.Fact{{submittedFact(sessionID, a, key)}, {{Time: noon, Claimed: &session.Claimed{Worker: "w", Epoch: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// endedSession returns a claimed session that ended with a status other than completed.
func endedSession(t *testing.T, a *alert.Alert, status session.Status, text string) *session.Session {
	t.Helper()
	s := startedSession(t, a, "")
	if err := s.Apply([]session.Fact{{Time: noon, Ended: &session.Ended{Status: status, Error: text}}}, s.Sequence()+1); err != nil {
		t.Fatal(err)
	}
	return s
}

// completedSession returns a session whose agent concluded with the given arguments, and whose
// executive summary is the given text, or failed where it is empty.
func completedSession(t *testing.T, a *alert.Alert, key, arguments, summary string) *session.Session {
	t.Helper()
	s := startedSession(t, a, key)
	apply := func(facts ...session.Fact) {
		t.Helper()
		if err := s.Apply(facts, s.Sequence()+1); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		due := session.Next(s, noon)
		switch {
		case s.Ended():
			return s
		case len(due.Facts) > 0:
			for i := range due.Facts {
				due.Facts[i].Time = noon
			}
			apply(due.Facts...)
			continue
		case len(due.Effects) == 0:
			t.Fatal("nothing is due, and the session has not ended")
		}
		e := due.Effects[0]
		for _, f := range e.Before {
			f.Time = noon
			apply(f)
		}
		switch {
		case e.Gather != nil:
			apply(session.Fact{Time: noon, Gathered: &session.Gathered{Known: []session.Known{{ID: knownCI, Title: "CI", Text: "the deploy of v2 failed"}}}})
		case e.Ask != nil && e.Ask.Purpose == session.PurposeExecutiveSummary && summary == "":
			apply(session.Fact{Time: noon, ModelFailed: &session.ModelFailed{ID: e.Ask.ID, Error: "overloaded"}})
		case e.Ask != nil && e.Ask.Purpose == session.PurposeExecutiveSummary:
			apply(session.Fact{Time: noon, ModelAnswered: &session.ModelAnswered{ID: e.Ask.ID, Text: session.Text{Inline: summary}}})
		case e.Ask != nil && arguments == "":
			apply(session.Fact{Time: noon, ModelAnswered: &session.ModelAnswered{ID: e.Ask.ID, Text: session.Text{Inline: "It was the deploy."}}})
		case e.Ask != nil:
			apply(session.Fact{Time: noon, ModelAnswered: &session.ModelAnswered{ID: e.Ask.ID, Calls: []model.Call{{ID: "c1", Name: "conclude", Arguments: arguments}}}})
		case e.Check != nil:
			apply(e.Check.Check(nil, noon))
		default:
			t.Fatalf("effect %s is not expected", e.Key)
		}
	}
	t.Fatal("the session did not end")
	return nil
}

const provenConclusion = `{"cause":"the deploy of v2","confidence":"proven","evidence":[{"claim":"it failed","call_id":"known-ci","quote":"deploy of v2 failed"}],"suggested_change":{"file":"deploy/web.yaml","description":"Roll back to v1, see https://evil.example/x"}}`

// TestInvestigationOf: what an alert shows of a session, by how it ended.
func TestInvestigationOf(t *testing.T) {
	a := shopAlerts()[2]
	tests := []struct {
		name    string
		session func(t *testing.T) *session.Session
		want    alert.Investigation
	}{
		{"in progress", func(t *testing.T) *session.Session { return startedSession(t, &a, "") }, alert.Investigation{Status: alert.InvestigationInProgress}},
		{"proven", func(t *testing.T) *session.Session {
			return completedSession(t, &a, "", provenConclusion, "The deploy\nfailed, token=ghp_0123456789abcdefghijABCDEFGHIJ012345")
		}, alert.Investigation{
			Status: alert.InvestigationCompleted, Summary: "The deploy failed, token=[REDACTED]", Confidence: alert.Proven,
			SuggestedChange: &alert.SuggestedChange{File: "deploy/web.yaml", Description: "Roll back to v1, see"},
		}},
		{"not proven", func(t *testing.T) *session.Session {
			return completedSession(t, &a, "", strings.Replace(provenConclusion, "deploy of v2 failed", "deploy of v3 failed", 1), "The deploy failed")
		}, alert.Investigation{Status: alert.InvestigationCompleted, Summary: "The deploy failed", Confidence: alert.Unproven}},
		{"no summary", func(t *testing.T) *session.Session { return completedSession(t, &a, "", provenConclusion, "") }, alert.Investigation{
			Status: alert.InvestigationCompleted, Summary: "the deploy of v2", Confidence: alert.Proven,
			SuggestedChange: &alert.SuggestedChange{File: "deploy/web.yaml", Description: "Roll back to v1, see"},
		}},
		{"prose", func(t *testing.T) *session.Session { return completedSession(t, &a, "", "", "The deploy failed") }, alert.Investigation{
			Status: alert.InvestigationCompleted, Summary: "The deploy failed", Confidence: alert.Unproven,
		}},
		{"failed", func(t *testing.T) *session.Session {
			return endedSession(t, &a, session.StatusFailed, "the model failed: password=hunter2hunter2")
		}, alert.Investigation{
			Status: alert.InvestigationFailed, Reason: "the model failed: password=[REDACTED]",
		}},
		{"timed out", func(t *testing.T) *session.Session { return endedSession(t, &a, session.StatusTimedOut, "after 40m") }, alert.Investigation{
			Status: alert.InvestigationTimedOut, Reason: "after 40m",
		}},
		{"cancelled", func(t *testing.T) *session.Session {
			return endedSession(t, &a, session.StatusCancelled, "cancelled by ann")
		}, alert.Investigation{
			Status: alert.InvestigationCancelled, Reason: "cancelled by ann",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := investigationOf(test.session(t), redact.New())
			test.want.SessionID = sessionID
			if got.SuggestedChange != nil { // package conclusion's tests have its form
				got.SuggestedChange.Description, _, _ = strings.Cut(got.SuggestedChange.Description, " [")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("investigation (-want +got):\n%s", diff)
			}
			if _, err := json.Marshal(alert.RevisionFor(a, got)); err != nil {
				t.Errorf("the revision can't be encoded: %v", err)
			}
		})
	}
}

// stored returns all alerts on the bus.
func stored(t *testing.T, s *bus.Session) (all []alert.Alert) {
	t.Helper()
	err := s.ReadToEnd(t.Context(), bus.FollowConfig{Stream: bus.StreamAlerts, Logger: bustest.Quiet()}, func(m bus.Message) error {
		var a alert.Alert
		if err := json.Unmarshal(m.Data, &a); err != nil {
			return err
		}
		if want := bus.AlertSubject(a); m.Subject != want || m.Header.Get("Nats-Msg-Id") != a.ID {
			return fmt.Errorf("alert %s is on %s with id %s, want %s and its own", a.ID, m.Subject, m.Header.Get("Nats-Msg-Id"), want)
		}
		all = append(all, a)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func newRevisions(t *testing.T, s *bus.Session) *revisions {
	t.Helper()
	store, err := newAlertStore(s)
	if err != nil {
		t.Fatal(err)
	}
	return &revisions{
		alerts: store, mask: redact.New(), free: journal.New(s, bustest.Quiet()).Free,
		sessionURL: func(id string) string { return "http://127.0.0.1:7490/api/v1/sessions/" + id },
		runs:       func(context.Context, string, int) (bool, error) { return true, nil },
	}
}

// TestRevisions: start and end are published once each, however often the hooks run, as revisions of
// the alert as it was stored last; the dedup_key is free afterwards.
func TestRevisions(t *testing.T) {
	b := bustest.Start(t)
	c := b.Connect(bus.RoleInvestigator)
	ctx := t.Context()
	first := shopAlerts()[2]
	publishAlert(t, b, shopAlerts()[1])
	publishAlert(t, b, first)
	r, j := newRevisions(t, c), journal.New(c, bustest.Quiet())
	if _, ok, err := j.Reserve(ctx, "e", sessionID, 1); !ok || err != nil {
		t.Fatalf("Reserve = %v, %v, want true", ok, err)
	}
	began := startedSession(t, &first, "e")
	for range 2 {
		if err := r.Started(ctx, began); err != nil {
			t.Fatal(err)
		}
	}
	counted := first
	counted.ID, counted.Revises, counted.Count, counted.Title = "symptom2", first.ID, 7, "TypeError: no order (7 times)"
	publishAlert(t, b, counted)
	done := completedSession(t, &first, "e", provenConclusion, "The deploy failed")
	for range 2 {
		if err := r.Ended(ctx, done); err != nil {
			t.Fatal(err)
		}
	}
	all := stored(t, c)
	if len(all) != 5 {
		t.Fatalf("%d alerts are stored, want 5: two, the start, a count, the end", len(all))
	}
	start, end := all[2], all[4]
	if start.Revises != first.ID || start.Title != first.Title || start.Investigation == nil || start.Investigation.Status != alert.InvestigationInProgress {
		t.Errorf("the start = %+v, want a revision of %s in progress", start, first.ID)
	}
	if end.Revises != first.ID || end.Count != 7 || end.Title != counted.Title || !end.EndsInvestigation() || end.Investigation.Summary != "The deploy failed" {
		t.Errorf("the end = %+v, want the end of the investigation, and title and count of the newest revision", end)
	}
	if want := "http://127.0.0.1:7490/api/v1/sessions/" + sessionID; end.Investigation.URL != want {
		t.Errorf("url = %q, want %q", end.Investigation.URL, want)
	}
	if owner, err := j.Owner(ctx, "e"); owner != "" || err != nil {
		t.Errorf("owner of the dedup_key = %q, %v, want none", owner, err)
	}
	// A session that was started late, after the end was stored, says nothing.
	if err := r.Started(ctx, done); err != nil {
		t.Fatal(err)
	}
	if err := r.Ended(ctx, began); err != nil {
		t.Fatal(err)
	}
	if n := len(stored(t, c)); n != 5 {
		t.Errorf("%d alerts are stored, want still 5", n)
	}
}

// TestStartAfterTheEnd: a worker that was held up announces the start of a session when another one
// has announced its end, in the middle of it or before.
func TestStartAfterTheEnd(t *testing.T) {
	b := bustest.Start(t)
	c := b.Connect(bus.RoleInvestigator)
	first := shopAlerts()[2]
	publishAlert(t, b, first)
	r := newRevisions(t, c)
	began, done := startedSession(t, &first, ""), endedSession(t, &first, session.StatusFailed, "x")
	asked := 0
	r.runs = func(_ context.Context, id string, attempt int) (bool, error) {
		if asked++; asked > 1 {
			return false, nil
		}
		if id != began.ID() || attempt != 1 {
			t.Errorf("asked for attempt %d of %s, want 1 of %s", attempt, id, began.ID())
		}
		return true, r.Ended(t.Context(), done) // right after it was asked
	}
	for range 2 {
		if err := r.Started(t.Context(), began); err != nil {
			t.Fatal(err)
		}
	}
	all := stored(t, c)
	if len(all) != 2 || all[1].Investigation == nil || all[1].Investigation.Status != alert.InvestigationFailed || asked != 3 {
		t.Errorf("stored %+v after %d questions, want the alert and its end alone after 3", all, asked)
	}
}

// TestRevisionsOfARetry: a session that was started again announces its start and its end again.
func TestRevisionsOfARetry(t *testing.T) {
	b := bustest.Start(t)
	c := b.Connect(bus.RoleInvestigator)
	first := shopAlerts()[2]
	publishAlert(t, b, first)
	r := newRevisions(t, c)
	s := startedSession(t, &first, "")
	assume := func(facts ...session.Fact) {
		t.Helper()
		if err := s.Assume(facts); err != nil {
			t.Fatal(err)
		}
	}
	for epoch := 2; epoch <= 3; epoch++ {
		for range 2 {
			if err := r.Started(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		assume(session.Fact{Time: time.Now(), Ended: &session.Ended{Status: session.StatusFailed, Error: "x"}})
		for range 2 {
			if err := r.Ended(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		assume(session.Fact{Time: time.Now(), Retried: &session.Retried{By: "me"}}, session.Fact{Time: time.Now(), Claimed: &session.Claimed{Worker: "w", Epoch: epoch}})
	}
	var got []string
	for _, a := range stored(t, c)[1:] {
		got = append(got, fmt.Sprint(a.Investigation.Status, " ", a.Investigation.Attempt))
	}
	if diff := cmp.Diff([]string{"in_progress 0", "failed 0", "in_progress 2", "failed 2"}, got); diff != "" {
		t.Errorf("revisions (-want +got):\n%s", diff)
	}
}

// TestRevisionsWithoutStoredAlert: without an alert nothing is published; an alert that is no longer
// stored is published as the session has it.
func TestRevisionsWithoutStoredAlert(t *testing.T) {
	c := bustest.Start(t).Connect(bus.RoleInvestigator)
	r := newRevisions(t, c)
	if err := r.Ended(t.Context(), completedSession(t, nil, "", provenConclusion, "x")); err != nil {
		t.Fatal(err)
	}
	if all := stored(t, c); len(all) != 0 {
		t.Fatalf("%d alerts are stored, want none for a session without one", len(all))
	}
	a := shopAlerts()[2]
	a.ID, a.Revises = "symptom2", "symptom"
	for range 2 {
		if err := r.Ended(t.Context(), endedSession(t, &a, session.StatusFailed, "x")); err != nil {
			t.Fatal(err)
		}
	}
	all := stored(t, c)
	if len(all) != 1 || all[0].Revises != "symptom" || all[0].Investigation.Status != alert.InvestigationFailed {
		t.Errorf("stored = %+v, want one revision of symptom that failed", all)
	}
}

func TestSkippedOnce(t *testing.T) {
	b := bustest.Start(t)
	c := b.Connect(bus.RoleInvestigator)
	r := newRevisions(t, c)
	for _, a := range shopAlerts()[:2] {
		publishAlert(t, b, a)
	}
	for range 2 {
		for _, a := range shopAlerts()[:2] {
			if err := r.Skipped(t.Context(), a, "over max_per_hour (60)"); err != nil {
				t.Fatal(err)
			}
		}
	}
	all := stored(t, c)
	if len(all) != 4 || all[2].Revises != "other" || all[3].Revises != "cause" || all[3].Investigation.Status != alert.InvestigationSkipped || all[3].Investigation.Reason != "over max_per_hour (60)" {
		t.Errorf("stored = %+v, want each alert skipped once", all)
	}
}

// TestRevisionAfterANewerCount: a count that was stored after the alert was read is not overwritten.
func TestRevisionAfterANewerCount(t *testing.T) {
	b := bustest.Start(t)
	store, err := newAlertStore(b.Connect(bus.RoleInvestigator))
	if err != nil {
		t.Fatal(err)
	}
	first := shopAlerts()[2]
	publishAlert(t, b, first)
	inv := alert.Investigation{SessionID: "s", Status: alert.InvestigationInProgress}
	h, err := store.history(t.Context(), first.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	counted := first
	counted.ID, counted.Revises, counted.Count = "symptom2", first.ID, 2
	publishAlert(t, b, counted)
	for _, name := range []string{"before the check", "after the check"} {
		m, err := revisionMessage(alert.RevisionFor(h.newest, inv))
		if err != nil {
			t.Fatal(err)
		}
		if name == "after the check" { // as if the count was stored between the check and the publication
			m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, fmt.Sprint(h.end))
			m.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, bus.AlertSubjectOfAnySeverity(first))
			_, err = store.publisher.Publish(t.Context(), m)
		} else {
			err = store.publish(t.Context(), m, bus.AlertSubjectOfAnySeverity(first), h.end, true)
		}
		if !bus.Conflict(err) {
			t.Errorf("a count was stored %s: publish = %v, want a conflict", name, err)
		}
	}
	if err := store.Revise(t.Context(), first, inv); err != nil {
		t.Fatal(err)
	}
	if a, _, err := store.Find(t.Context(), first.ID); err != nil || a.Count != 2 || a.Investigation == nil {
		t.Errorf("the alert = %+v, %v, want it 2 times with its investigation", a, err)
	}
}

// TestRevisionAfterAHigherSeverity: a revision of another severity, which has another subject, is not
// overwritten either.
func TestRevisionAfterAHigherSeverity(t *testing.T) {
	b := bustest.Start(t)
	store, err := newAlertStore(b.Connect(bus.RoleInvestigator))
	if err != nil {
		t.Fatal(err)
	}
	first := shopAlerts()[2]
	first.Severity = alert.Warning
	publishAlert(t, b, first)
	h, err := store.history(t.Context(), first.ID, "")
	if err != nil {
		t.Fatal(err)
	}
	worse := first
	worse.ID, worse.Revises, worse.Severity, worse.Count = "symptom2", first.ID, alert.Error, 2
	publishAlert(t, b, worse)
	m, err := revisionMessage(alert.RevisionFor(h.newest, alert.Investigation{SessionID: "s", Status: alert.InvestigationInProgress}))
	if err != nil {
		t.Fatal(err)
	}
	if err := store.publish(t.Context(), m, bus.AlertSubjectOfAnySeverity(first), h.end, true); !bus.Conflict(err) {
		t.Errorf("publish after a worse revision = %v, want a conflict", err)
	}
}

// TestFromNewest: a replica that lags behind is asked again, and is believed in the end.
func TestFromNewest(t *testing.T) {
	for name, c := range map[string]struct {
		newest uint64
		reads  [][]uint64 // the last one again and again
		want   []uint64
	}{
		"up to date":           {3, [][]uint64{{3, 2, 1}}, []uint64{3, 2, 1}},
		"behind":               {3, [][]uint64{{1}, {2, 1}, {3, 2, 1}}, []uint64{3, 2, 1}},
		"empty at first":       {1, [][]uint64{{}, {1}}, []uint64{1}},
		"the newest is gone":   {3, [][]uint64{{2, 1}}, []uint64{2, 1}},
		"there are no alerts":  {0, [][]uint64{{}}, nil},
		"newer than the state": {2, [][]uint64{{3, 2, 1}}, []uint64{3, 2, 1}},
	} {
		var got []uint64
		read := func(handle func(bus.Message) error) error {
			seqs := c.reads[0]
			if len(c.reads) > 1 {
				c.reads = c.reads[1:]
			}
			for _, seq := range seqs {
				if err := handle(bus.Message{Seq: seq}); err != nil {
					return err
				}
			}
			return nil
		}
		err := fromNewest(t.Context(), c.newest, read, func(m bus.Message) error { got = append(got, m.Seq); return nil })
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, read (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestFindAlert(t *testing.T) {
	b := bustest.Start(t)
	c := b.Connect(bus.RoleInvestigator)
	store, err := newAlertStore(c)
	if err != nil {
		t.Fatal(err)
	}
	first := shopAlerts()[2]
	publishAlert(t, b, first)
	if err := store.Revise(t.Context(), first, alert.Investigation{SessionID: "s", Status: alert.InvestigationInProgress}); err != nil {
		t.Fatal(err)
	}
	for i, id := range []string{"symptom2", "symptom3"} {
		a := first
		a.ID, a.Revises, a.Count = id, first.ID, i+2
		publishAlert(t, b, a)
	}
	for _, id := range []string{"symptom", "symptom2", "symptom3"} {
		a, found, err := store.Find(t.Context(), id)
		if err != nil || !found || a.ID != "symptom" || a.Revises != "" || a.Count != 3 || a.Investigation == nil {
			t.Errorf("Find(%s) = %+v, %v, %v, want symptom, 3 times, with its investigation", id, a, found, err)
		}
	}
	if _, found, err := store.Find(t.Context(), "unknown"); found || err != nil {
		t.Errorf("Find(unknown) = %v, %v, want nothing", found, err)
	}
}

// resolutionRig follows resolutions with sessions in a journal.
type resolutionRig struct {
	t       *testing.T
	b       *bustest.Bus
	c       *bus.Session
	journal *journal.Journal
	mu      sync.Mutex
	open    []openSession
	ended   []string
}

func newResolutionRig(t *testing.T) *resolutionRig {
	b := bustest.Start(t)
	c := b.Connect(bus.RoleInvestigator)
	return &resolutionRig{t: t, b: b, c: c, journal: journal.New(c, bustest.Quiet())}
}

// submit stores a session, claimed where running is set.
func (r *resolutionRig) submit(a alert.Alert, running bool) string {
	r.t.Helper()
	id := journal.NewSession()
	fact := submittedFact(id, &a, a.DedupKey)
	fact.Time = time.Now()
	r.append(id, 0, fact)
	if running {
		s, _ := r.state(r.t.Context(), id)
		r.append(id, s.Sequence(), session.Fact{Time: time.Now(), Claimed: &session.Claimed{Worker: "w", Epoch: 1}})
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open = append(r.open, openSession{ID: id, AlertID: a.AsOriginal().ID, DedupKey: a.DedupKey, Created: fact.Time})
	return id
}

func (r *resolutionRig) append(id string, after uint64, facts ...session.Fact) {
	r.t.Helper()
	data, err := session.Encode(facts)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.journal.Append(r.t.Context(), id, after, data); err != nil {
		r.t.Fatal(err)
	}
}

func (r *resolutionRig) state(ctx context.Context, id string) (*session.Session, error) {
	messages, err := r.journal.Read(ctx, id, 0)
	if err != nil {
		return nil, err
	}
	s := &session.Session{}
	for _, m := range messages {
		facts, err := session.Decode(m.Data)
		if err != nil {
			return nil, err
		}
		if err := s.Apply(facts, m.Seq); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (r *resolutionRig) change(ctx context.Context, id string, decide func(*session.Session) ([]session.Fact, error)) error {
	for {
		s, err := r.state(ctx, id)
		if err != nil {
			return err
		}
		facts, err := decide(s)
		if err != nil || len(facts) == 0 {
			return err
		}
		data, err := session.Encode(facts)
		if err != nil {
			return err
		}
		if _, err = r.journal.Append(ctx, id, s.Sequence(), data); !errors.Is(err, journal.ErrConflict) {
			return err
		}
	}
}

// run follows until the end of the test.
func (r *resolutionRig) run() {
	follower := resolutions{
		open: func(context.Context) []openSession {
			r.mu.Lock()
			defer r.mu.Unlock()
			return append([]openSession{}, r.open...)
		},
		change: r.change,
		mask:   func(text string) (string, error) { return strings.ReplaceAll(text, "hunter2", "[MASKED]"), nil },
		key:    func(key string) string { return maskedKey(maskHunter, key) },
		ended: func(_ context.Context, s *session.Session) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ended = append(r.ended, s.ID())
			return nil
		},
		log: bustest.Quiet(),
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	var wg sync.WaitGroup
	for range 2 { // two processes
		wg.Go(func() { _ = follower.Run(ctx, r.c) })
	}
	r.t.Cleanup(func() { cancel(); wg.Wait() })
}

func (r *resolutionRig) await(id string, ok func(*session.Session) bool) *session.Session {
	r.t.Helper()
	var s *session.Session
	bustest.Eventually(r.t, "session "+id+" learns that its alert was resolved", func() bool {
		var err error
		s, err = r.state(r.t.Context(), id)
		return err == nil && ok(s)
	})
	return s
}

// TestResolutionsAfterAStart: an alert that was resolved while no investigator ran cancels its queued
// session, however long reading the stored sessions takes.
func TestResolutionsAfterAStart(t *testing.T) {
	r := newRESTRig(t, nil)
	a := shopAlerts()[2]
	publishAlert(t, r.bus, a)
	id := r.post(`{"alert_id":"symptom"}`)
	publishAlert(t, r.bus, alert.Alert{ID: "r", App: a.App, Category: a.Category, Severity: alert.Info, Title: "over", DedupKey: "r", Resolves: a.ID, Timestamp: time.Now()})
	later, err := newBackend(backendConfig{session: r.session, config: r.config.Load, mask: strings.ToLower, logger: bustest.Quiet()})
	if err != nil {
		t.Fatal(err)
	}
	later.revisions = newRevisions(t, r.session)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = later.followResolutions(ctx, r.session) })
	for range 2 { // each takes as long as a list waits for the index
		if open := later.openOfAlerts(ctx); len(open) != 0 {
			t.Errorf("%d open sessions are known before any was read, want 0", len(open))
		}
	}
	wg.Go(func() { _ = later.run(ctx) })
	defer wg.Wait()
	defer cancel()
	bustest.Eventually(t, "session "+id+" is cancelled, because its alert was resolved", func() bool {
		var s session.Outcome
		r.get("/api/v1/sessions/"+id+"/summary", &s)
		return s.Status == session.StatusCancelled
	})
}

// TestResolutions: the end of an alert cancels its queued session, with the reason, and a running one
// learns of it; also of an alert that ended before the follower started. Sessions of other alerts, and those
// that were submitted later, go on.
func TestResolutions(t *testing.T) {
	r := newResolutionRig(t)
	alerts := shopAlerts()
	queued, running, unrelated := r.submit(alerts[0], false), r.submit(alerts[1], true), r.submit(alerts[2], false)
	resolution := func(id, of string) alert.Alert {
		return alert.Alert{ID: id, App: "shop", Category: alert.Errors, Severity: alert.Info, Title: of + " hunter2 is over", DedupKey: id, Resolves: of, Timestamp: time.Now()}
	}
	publishAlert(t, r.b, resolution("r1", alerts[0].ID)) // before the follower starts
	late := r.submit(alerts[0], false)
	r.run()
	s := r.await(queued, (*session.Session).Ended)
	if reason := session.Summary(s).ErrorMessage; s.Status() != session.StatusCancelled || reason == nil || !strings.Contains(*reason, "resolved") {
		t.Errorf("the queued session is %s with error %v, want cancelled because the alert was resolved", s.Status(), reason)
	}
	publishAlert(t, r.b, resolution("r2", alerts[1].ID))
	s = r.await(running, func(s *session.Session) bool { return s.Resolved() != "" })
	if s.Status() != session.StatusInProgress || s.Resolved() != "cause [MASKED] is over" {
		t.Errorf("the running session is %s and resolved %q, want in progress and the masked title", s.Status(), s.Resolved())
	}
	if messages, err := r.journal.Read(t.Context(), running, 0); err != nil || len(messages) != 3 {
		t.Errorf("the running session has %d messages, %v, want 3: it learns once", len(messages), err)
	}
	for name, id := range map[string]string{"unrelated": unrelated, "late": late} {
		s, err := r.state(t.Context(), id)
		if err != nil || s.Status() != session.StatusPending {
			t.Errorf("the %s session is %s, %v, want pending", name, s.Status(), err)
		}
	}
	bustest.Eventually(t, "the hook of the cancelled session has run", func() bool { r.mu.Lock(); defer r.mu.Unlock(); return len(r.ended) > 0 })
	if r.ended[0] != queued {
		t.Errorf("the hook of the end ran for %q, want %s", r.ended, queued)
	}
}

func TestResolves(t *testing.T) {
	a := alert.Alert{ID: "a", App: "shop", DedupKey: "k"}
	tests := []struct {
		name string
		by   alert.Alert
		want bool
	}{
		{"by id", alert.Alert{ID: "r", Resolves: "a"}, true},
		{"with others", alert.Alert{ID: "r", Resolves: "x", AlsoResolves: []string{"b", "a"}}, true},
		{"by key", alert.Alert{ID: "r", App: "shop", DedupKey: "k", Resolves: "x"}, true},
		{"a key of another app", alert.Alert{ID: "r", App: "web", DedupKey: "k", Resolves: "x"}, false},
		{"a repetition", alert.Alert{ID: "r", App: "shop", DedupKey: "k"}, false},
		{"another alert", alert.Alert{ID: "r", App: "shop", DedupKey: "z", Resolves: "x"}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := resolves(test.by, a); got != test.want {
				t.Errorf("resolves = %v, want %v", got, test.want)
			}
			revised := a
			revised.ID, revised.Revises = "a2", "a"
			if got := resolves(test.by, revised); got != test.want {
				t.Errorf("resolves a revised alert = %v, want %v", got, test.want)
			}
			if test.want && !concerns(test.by, openSession{AlertID: "a", DedupKey: "k"}) {
				t.Error("concerns = false for an alert that resolves that of the session")
			}
		})
	}
	if concerns(alert.Alert{Resolves: "x"}, openSession{AlertID: "a"}) {
		t.Error("concerns = true for another alert without a key")
	}
}

// TestInvestigationOfAStoredAlert: start and end of a whole session come into its alert; its model
// reads what Tocsin knows, and has the tools of the built-in server.
func TestInvestigationOfAStoredAlert(t *testing.T) {
	b := bustest.Start(t)
	for _, a := range shopAlerts() {
		a.Timestamp = a.Timestamp.Add(time.Since(noon))
		publishAlert(t, b, a)
	}
	models := scripted(t, nil)
	file := configFile(t, models.URL, "")
	text, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, bytes.ReplaceAll(text, []byte("triage: { custom"), []byte("triage: { mcp_servers: [tocsin], custom")), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, b.Config(bus.RoleInvestigator), file)
	id := r.post(`{"alert_id":"symptom"}`)
	r.await(id, session.StatusCompleted)
	c := b.Connect(bus.RoleInvestigator)
	var all []alert.Alert
	bustest.Eventually(t, "the end to be in the alert", func() bool {
		all = stored(t, c)
		return all[len(all)-1].EndsInvestigation()
	})
	if len(all) != 5 {
		t.Fatalf("%d alerts are stored, want 5: three, the start and the end", len(all))
	}
	if i := all[3].Investigation; i == nil || i.Status != alert.InvestigationInProgress || i.SessionID != id {
		t.Errorf("the start is %+v, want in progress", i)
	}
	want := alert.Investigation{
		SessionID: id, Status: alert.InvestigationCompleted, Summary: "In short: the disk is full.", Confidence: alert.Likely,
		URL: "http://127.0.0.1:7480/api/v1/sessions/" + id, // the dashboard, by default
	}
	if diff := cmp.Diff(&want, all[4].Investigation); diff != "" {
		t.Errorf("the end (-want +got):\n%s", diff)
	}
	first := models.Requests()[0].Body
	for _, part := range []string{"tocsin__alerts", "tocsin__kubernetes", knownGroup, knownAlerts, "POST /api/orders fails"} {
		if !strings.Contains(first, part) {
			t.Errorf("the first request to the model lacks %q: %.3000s", part, first)
		}
	}
}

// TestOpenOfAlerts: the open sessions of stored alerts are found right after they were submitted.
func TestOpenOfAlerts(t *testing.T) {
	r := newRESTRig(t, nil)
	a := shopAlerts()[2]
	publishAlert(t, r.bus, a)
	r.post(`{"data":"x"}`)
	id := r.post(`{"alert_id":"symptom"}`)
	open := r.openOfAlerts(t.Context())
	if len(open) != 1 || open[0].ID != id || open[0].AlertID != a.ID || open[0].DedupKey != a.DedupKey || time.Since(open[0].Created) > time.Minute {
		t.Errorf("open sessions = %+v, want %s of alert %s", open, id, a.ID)
	}
	r.end(id, session.StatusCancelled)
	if open := r.openOfAlerts(t.Context()); len(open) != 0 {
		t.Errorf("open sessions after the end = %+v, want none", open)
	}
}
