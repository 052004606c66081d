package rule_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/tocsin-bus/tocsin/services/detector/rule"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot"
	"github.com/tocsin-bus/tocsin/services/detector/snapshot/snapshottest"
	"github.com/tocsin-bus/tocsin/shared/alert"
)

// ends returns what an end would resolve, as "first: the others".
func ends(open *rule.Open) string {
	var a alert.Alert
	open.End(&a)
	return a.Resolves + ": " + strings.Join(a.AlsoResolves, " ")
}

func TestOpen(t *testing.T) {
	var open rule.Open
	// publish publishes a finding, unless the id is empty, and checks which alerts are open.
	publish := func(f rule.Finding, id, want string) {
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
	withSeverity := func(s alert.Severity) alert.Alert { return alert.Alert{Severity: s} }
	publish(rule.NewFinding(withSeverity(alert.Warning), &open), "", ": ") // suppressed
	publish(rule.EndFinding(withSeverity(alert.Info), &open), "n", ": ")
	publish(rule.NewFinding(withSeverity(alert.Warning), &open), "a", "a: ")
	publish(rule.NewFinding(withSeverity(alert.Error), &open), "b", "b: a")
	publish(rule.NewFinding(withSeverity(alert.Warning), &open), "c", "b: a c")
	publish(rule.NewFinding(withSeverity(alert.Error), &open), "d", "d: a b c")
	publish(rule.EndFinding(withSeverity(alert.Info), &open), "", "d: a b c") // suppressed
	publish(rule.RenewedFinding(withSeverity(alert.Warning), &open), "e", "e: ")
	end := rule.EndFinding(withSeverity(alert.Info), &open)
	if end.Alert.Resolves != "e" {
		t.Errorf("Resolves = %q, want %q", end.Alert.Resolves, "e")
	}
	publish(end, "f", ": ")
}

func TestWithNote(t *testing.T) {
	var open rule.Open
	var note uint8
	f := rule.RenewedFinding(alert.Alert{Severity: alert.Warning}, &open).WithNote(&note, 3)
	if note != 0 {
		t.Errorf("note = %d before the finding is published, want 0", note)
	}
	if f.MarkPublished("a"); note != 3 {
		t.Errorf("note = %d, want 3", note)
	}
	if got, want := ends(&open), "a: "; got != want {
		t.Errorf("open alerts = %s, want %s", got, want)
	}
}

// TestWithheld checks that a withheld finding writes its note and is not open.
func TestWithheld(t *testing.T) {
	var open rule.Open
	var note uint8
	f := rule.RenewedFinding(alert.Alert{Severity: alert.Warning}, &open).WithNote(&note, 3)
	f.SkipPublish()
	if note != 3 {
		t.Errorf("note = %d, want 3", note)
	}
	if f.Ends() {
		t.Error("Ends() = true, want false")
	}
	rule.NewFinding(alert.Alert{}, &open).SkipPublish() // without a note nothing happens
	if got, want := ends(&open), ": "; got != want {
		t.Errorf("open alerts = %s, want %s", got, want)
	}
	if !rule.EndFinding(alert.Alert{}, &open).Ends() {
		t.Error("Ends() = false of an end, want true")
	}
}

// TestOwnKey checks that an alert of a snapshot of version 7 with another dedup key stays open
// when later ones are replaced.
func TestOwnKey(t *testing.T) {
	var open rule.Open
	snapshottest.Read(t, openState(
		openAlert{"a", alert.Warning.Rank(), false},
		openAlert{"b", alert.Error.Rank(), true},
	), &open)
	for range 2 {
		rule.RenewedFinding(alert.Alert{Severity: alert.Warning}, &open).MarkPublished("d")
		rule.RenewedFinding(alert.Alert{Severity: alert.Warning}, &open).MarkPublished("e")
		if ends(&open) != "b: e" {
			t.Errorf("open alerts = %s, want b: e", ends(&open))
		}
		var again rule.Open
		snapshottest.Copy(t, &open, &again)
		open = again
	}
}

// openAlert has the fields of an open alert in a snapshot.
type openAlert struct {
	id     string
	rank   int
	ownKey bool
}

// openState returns the state of an Open with some alerts.
func openState(alerts ...openAlert) []byte {
	return snapshot.Append(nil, func(s *snapshot.Codec) {
		snapshot.List(s, 1, &alerts, 0, func(a *openAlert, s *snapshot.Codec) {
			s.String(1, &a.id, 0)
			snapshot.Uint(s, 2, &a.rank, 0)
			s.Bool(3, &a.ownKey)
		})
	})
}

// TestOpenIsBounded checks that the oldest alert is forgotten first, but not the most severe.
func TestOpenIsBounded(t *testing.T) {
	var open rule.Open
	open.Add("worst", alert.Error)
	for i := range 20 {
		open.Add(fmt.Sprint(i), alert.Warning)
	}
	if got, want := ends(&open), "worst: 11 12 13 14 15 16 17 18 19"; got != want {
		t.Errorf("open alerts = %s, want %s", got, want)
	}
	before := open
	open.Add("worse", alert.Error)
	if got, want := ends(&open), "worse: 11 12 13 14 15 16 17 18 19"; got != want {
		t.Errorf("open alerts = %s, want %s", got, want)
	}
	if got, want := ends(&before), "worst: 11 12 13 14 15 16 17 18 19"; got != want {
		t.Errorf("open alerts of the copy = %s, want %s", got, want)
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
		t.Errorf("Bounded(%s) = %s, want it unchanged", short, got)
	}
	a, b := rule.Bounded([]byte(strings.Repeat("ä", 1000)+"a")), rule.Bounded([]byte(strings.Repeat("ä", 1000)+"b"))
	if bytes.Equal(a, b) {
		t.Errorf("got %s for two keys, want different ones", a)
	}
	if len(a) > rule.MaxKey {
		t.Errorf("got %d bytes, want at most %d", len(a), rule.MaxKey)
	}
	if !utf8.Valid(a) {
		t.Errorf("got %q, want valid UTF-8", a)
	}
	if again := rule.Bounded(bytes.Clone(a)); !bytes.Equal(again, a) {
		t.Errorf("Bounded(%s) = %s, want it unchanged", a, again)
	}
}
