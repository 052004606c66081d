package finding_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tocsin-bus/tocsin/services/detector/finding"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// ends writes what an end would resolve as "first: the others".
func ends(open *finding.Open) string {
	var a alert.Alert
	open.End(&a)
	return a.Resolves + ": " + strings.Join(a.AlsoResolves, " ")
}

func TestOpen(t *testing.T) {
	var open finding.Open
	told := func(f finding.Finding, id, want string) {
		t.Helper()
		if id != "" {
			f.Told(id)
		}
		var restored finding.Open
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
	told(finding.New(of(alert.Warning), &open), "", ": ") // held back
	told(finding.End(of(alert.Info), &open), "n", ": ")
	told(finding.New(of(alert.Warning), &open), "a", "a: ")
	told(finding.New(of(alert.Error), &open), "b", "b: a")
	told(finding.New(of(alert.Warning), &open), "c", "b: a c")
	told(finding.New(of(alert.Error), &open), "d", "d: a b c")
	told(finding.End(of(alert.Info), &open), "", "d: a b c") // held back
	told(finding.Renewed(of(alert.Warning), &open), "e", "e: ")
	end := finding.End(of(alert.Info), &open)
	if end.Alert.Resolves != "e" {
		t.Errorf("resolves %q", end.Alert.Resolves)
	}
	told(end, "f", ": ")
}

func TestNoting(t *testing.T) {
	var open finding.Open
	var note uint8
	f := finding.Renewed(alert.Alert{Severity: alert.Warning}, &open).Noting(&note, 3)
	if note != 0 {
		t.Error("noted before it was told")
	}
	if f.Told("a"); note != 3 || ends(&open) != "a: " {
		t.Errorf("noted %d, %s is open", note, ends(&open))
	}
}

// TestWithheld checks that a finding that another rule has told is noted and not open.
func TestWithheld(t *testing.T) {
	var open finding.Open
	var note uint8
	f := finding.Renewed(alert.Alert{Severity: alert.Warning}, &open).Noting(&note, 3)
	if f.Withheld(); note != 3 || open.Any() || f.Ends() {
		t.Errorf("noted %d, open %v, ends %v", note, open.Any(), f.Ends())
	}
	if finding.New(alert.Alert{}, &open).Withheld(); open.Any() { // without a note nothing happens
		t.Error("it is open")
	}
	if !finding.End(alert.Alert{}, &open).Ends() {
		t.Error("an end does not end")
	}
}

// TestApart checks that what a snapshot of version 7 has under another dedup key stays
// open beside what is told again, and that older ones can't have it.
func TestApart(t *testing.T) {
	var open finding.Open
	snapshottest.Read(t, openState(
		openAlert{"a", alert.Warning.Rank(), false},
		openAlert{"b", alert.Error.Rank(), true},
	), &open)
	for range 2 {
		finding.Renewed(alert.Alert{Severity: alert.Warning}, &open).Told("d")
		finding.Renewed(alert.Alert{Severity: alert.Warning}, &open).Told("e")
		if ends(&open) != "b: e" {
			t.Errorf("got %s, want b: e", ends(&open))
		}
		var again finding.Open
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
	var open finding.Open
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
		var open finding.Open
		if err := snapshot.Read(openState(openAlert{tt.id, tt.rank, false}), open.State); !errors.Is(err, snapshot.ErrDamaged) {
			t.Errorf("id %q, rank %d: error = %v, want %v", tt.id, tt.rank, err, snapshot.ErrDamaged)
		}
	}
}

func TestBounded(t *testing.T) {
	short := []byte("ci:custom:abc:build:failure:1")
	if got := finding.Bounded(short); !bytes.Equal(got, short) {
		t.Errorf("%s", got)
	}
	a, b := finding.Bounded([]byte(strings.Repeat("ä", 1000)+"a")), finding.Bounded([]byte(strings.Repeat("ä", 1000)+"b"))
	if bytes.Equal(a, b) || len(a) > finding.MaxKey || !bytes.Equal(a, bytes.ToValidUTF8(a, nil)) {
		t.Errorf("%d bytes: %s, %s", len(a), a, b)
	}
	if again := finding.Bounded(bytes.Clone(a)); !bytes.Equal(again, a) {
		t.Errorf("bounded again: %s", again)
	}
}
