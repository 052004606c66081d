package rule_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// ends writes what an end would resolve as "first: the others".
func ends(open *rule.Open) string {
	var a alert.Alert
	open.End(&a)
	return a.Resolves + ": " + strings.Join(a.AlsoResolves, " ")
}

func TestOpen(t *testing.T) {
	var open rule.Open
	reported := func(f rule.Finding, id, want string) {
		t.Helper()
		if id != "" {
			f.MarkPublished(id)
		}
		var restored rule.Open
		snapshottest.Copy(t, &open, &restored)
		open = restored
		if got := ends(&open); got != want {
			t.Errorf("open alerts = %s, want %s", got, want)
		}
		if got := open.Any(); got != (want != ": ") {
			t.Errorf("Any() = %v with %s open", got, want)
		}
	}
	of := func(s alert.Severity) alert.Alert { return alert.Alert{Severity: s} }
	reported(rule.New(of(alert.Warning), &open), "", ": ") // suppressed
	reported(rule.End(of(alert.Info), &open), "n", ": ")
	reported(rule.New(of(alert.Warning), &open), "a", "a: ")
	reported(rule.New(of(alert.Error), &open), "b", "b: a")
	reported(rule.New(of(alert.Warning), &open), "c", "b: a c")
	reported(rule.New(of(alert.Error), &open), "d", "d: a b c")
	reported(rule.End(of(alert.Info), &open), "", "d: a b c") // suppressed
	reported(rule.Renewed(of(alert.Warning), &open), "e", "e: ")
	end := rule.End(of(alert.Info), &open)
	if end.Alert.Resolves != "e" {
		t.Errorf("resolves %q", end.Alert.Resolves)
	}
	reported(end, "f", ": ")
}

func TestNoting(t *testing.T) {
	var open rule.Open
	var note uint8
	f := rule.Renewed(alert.Alert{Severity: alert.Warning}, &open).Noting(&note, 3)
	if note != 0 {
		t.Error("noted before it was reported")
	}
	if f.MarkPublished("a"); note != 3 || ends(&open) != "a: " {
		t.Errorf("noted %d, %s is open", note, ends(&open))
	}
}

// TestWithheld checks that a finding that another rule has reported is noted and not open.
func TestWithheld(t *testing.T) {
	var open rule.Open
	var note uint8
	f := rule.Renewed(alert.Alert{Severity: alert.Warning}, &open).Noting(&note, 3)
	if f.Withhold(); note != 3 || open.Any() || f.Ends() {
		t.Errorf("noted %d, open %v, ends %v", note, open.Any(), f.Ends())
	}
	if rule.New(alert.Alert{}, &open).Withhold(); open.Any() { // without a note nothing happens
		t.Error("it is open")
	}
	if !rule.End(alert.Alert{}, &open).Ends() {
		t.Error("an end does not end")
	}
}

// TestApart checks that what a snapshot of version 7 has under another dedup key stays
// open beside what is reported again, and that older ones can't have it.
func TestApart(t *testing.T) {
	var open rule.Open
	snapshottest.Read(t, openState(
		openAlert{"a", alert.Warning.Rank(), false},
		openAlert{"b", alert.Error.Rank(), true},
	), &open)
	for range 2 {
		rule.Renewed(alert.Alert{Severity: alert.Warning}, &open).MarkPublished("d")
		rule.Renewed(alert.Alert{Severity: alert.Warning}, &open).MarkPublished("e")
		if ends(&open) != "b: e" {
			t.Errorf("got %s, want b: e", ends(&open))
		}
		var again rule.Open
		snapshottest.Copy(t, &open, &again)
		open = again
	}
}

// openAlert has the fields of an alert that is open.
type openAlert struct {
	id    string
	rank  int
	apart bool
}

// openState is the state of an Open with some alerts.
func openState(alerts ...openAlert) []byte {
	return snapshot.Append(nil, func(s *snapshot.State) {
		snapshot.List(s, 1, &alerts, 0, func(a *openAlert, s *snapshot.State) {
			s.String(1, &a.id, 0)
			snapshot.Uint(s, 2, &a.rank, 0)
			s.Bool(3, &a.apart)
		})
	})
}

// TestOpenIsBounded: the oldest is forgotten first, but not what the end names.
func TestOpenIsBounded(t *testing.T) {
	var open rule.Open
	open.Add("worst", alert.Error)
	for i := range 20 {
		open.Add(fmt.Sprint(i), alert.Warning)
	}
	if got, want := ends(&open), "worst: 11 12 13 14 15 16 17 18 19"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	before := open
	open.Add("worse", alert.Error)
	if got, want := ends(&open), "worse: 11 12 13 14 15 16 17 18 19"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := ends(&before), "worst: 11 12 13 14 15 16 17 18 19"; got != want {
		t.Errorf("the copy: %s, want %s", got, want)
	}
}

func TestRestoreRefuses(t *testing.T) {
	for _, tt := range []struct {
		id   string
		rank int
	}{{"id", 0}, {"id", 7}, {"", 1}} {
		var open rule.Open
		if err := snapshot.Read(openState(openAlert{tt.id, tt.rank, false}), open.State); !errors.Is(err, snapshot.ErrDamaged) {
			t.Errorf("id %q, rank %d: error = %v, want %v", tt.id, tt.rank, err, snapshot.ErrDamaged)
		}
	}
}

func TestBounded(t *testing.T) {
	short := []byte("ci:custom:abc:build:failure:1")
	if got := rule.Bounded(short); !bytes.Equal(got, short) {
		t.Errorf("%s", got)
	}
	a, b := rule.Bounded([]byte(strings.Repeat("ä", 1000)+"a")), rule.Bounded([]byte(strings.Repeat("ä", 1000)+"b"))
	if bytes.Equal(a, b) || len(a) > rule.MaxKey || !bytes.Equal(a, bytes.ToValidUTF8(a, nil)) {
		t.Errorf("%d bytes: %s, %s", len(a), a, b)
	}
	if again := rule.Bounded(bytes.Clone(a)); !bytes.Equal(again, a) {
		t.Errorf("bounded again: %s", again)
	}
}
